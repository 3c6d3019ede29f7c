//! One state out of what the blocks touch.

use super::{
    file::{PrestateError, PrestateFile, TouchedAccount},
    nodes::{self, Names},
};
use crate::state_dump::{PartialState, Preimages};
use alloy_eips::eip4788::BEACON_ROOTS_ADDRESS;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use polytrie_chain::executor::block_rewards;
use polytrie_chainspec::{Rules, system_contracts};
use polytrie_state::{Account, hash_address, hash_slot};
use std::collections::{BTreeMap, HashMap};

/// What is known of an account before the first block.
#[derive(Debug, Default)]
struct Known {
    /// The account; `None` if it is not there.
    account: Option<Account>,
    slots: BTreeMap<B256, U256>,
}

/// A state that grows with the blocks.
#[derive(Debug)]
pub(super) struct Merged {
    accounts: BTreeMap<B256, Known>,
    codes: HashMap<B256, Bytes>,
    /// Addresses and slots that are named by themselves.
    preimages: Preimages,
    /// All that the trie nodes of any block name.
    names: Names,
    /// What blocks paid to accounts that were not named by then: where they are named later, they have it.
    paid: HashMap<B256, U256>,
}

impl Merged {
    /// An empty state, to which these files are added in their order.
    ///
    /// # Errors
    ///
    /// If the trie nodes of a file do not decode.
    pub(super) fn new(
        codes: HashMap<B256, Bytes>,
        files: &[PrestateFile],
    ) -> Result<Self, PrestateError> {
        let mut names = Names::new();
        for file in files.iter().filter(|file| !file.nodes.is_empty()) {
            let leaves =
                nodes::leaves(root(file)?, &file.nodes).map_err(|what| form(file, what))?;
            for (hash, _, slots) in leaves {
                names.entry(hash).or_default().extend(slots.into_iter().map(|(slot, _)| slot));
            }
        }
        Ok(Self {
            accounts: BTreeMap::new(),
            codes,
            preimages: Preimages::default(),
            names,
            paid: HashMap::new(),
        })
    }

    /// Adds what a block names for the first time.
    pub(super) fn add(
        &mut self,
        file: &PrestateFile,
        rules: Rules<'_>,
    ) -> Result<(), PrestateError> {
        // Before that fork an account that is empty is another thing than none.
        let keep_empty = !rules.is(EthereumHardfork::SpuriousDragon);
        for code in &file.codes {
            self.codes.insert(keccak256(code), code.clone());
        }
        for (address, touched) in file.touched.iter().flatten() {
            self.touch(address, touched, keep_empty);
        }
        if !file.nodes.is_empty() {
            let answers = nodes::answers(root(file)?, &file.nodes, &self.names);
            for (hash, answer) in answers.map_err(|what| form(file, what))? {
                let (account, slots) = answer.unzip();
                let known = self.name(hash, account);
                for (slot, value) in slots.into_iter().flatten() {
                    known.slots.entry(slot).or_insert(value);
                }
            }
        }
        self.call_contracts(rules);
        let header = file.block.header();
        let body = &file.block.0.body;
        let withdrawals = body.withdrawals.iter().flat_map(|list| list.iter());
        let paid = withdrawals
            .map(|withdrawal| (withdrawal.address, withdrawal.amount_wei()))
            .chain(block_rewards(rules, header, &body.ommers));
        for (address, amount) in paid {
            let hash = hash_address(&address);
            if !self.accounts.contains_key(&hash) {
                *self.paid.entry(hash).or_default() += amount;
            }
        }
        Ok(())
    }

    fn touch(&mut self, address: &Address, touched: &TouchedAccount, keep_empty: bool) {
        let hash = hash_address(address);
        let code_hash = match &touched.code {
            Some(code) if !code.is_empty() => {
                let code_hash = keccak256(code);
                self.codes.insert(code_hash, code.clone());
                code_hash
            }
            _ => touched.code_hash.unwrap_or(KECCAK256_EMPTY),
        };
        let nonce = touched.nonce.saturating_to();
        let account = Account { nonce, balance: touched.balance, code_hash };
        let is_there = keep_empty || !account.is_empty();
        self.preimages.addresses.insert(hash, *address);
        let slots = touched.storage.keys().map(|slot| (hash_slot(slot), *slot));
        self.preimages.slots.extend(slots);
        let known = self.name(hash, is_there.then_some(account));
        for (slot, value) in &touched.storage {
            known.slots.entry(hash_slot(slot)).or_insert(*value);
        }
    }

    /// Notes an account that a block names; only the first time counts.
    fn name(&mut self, hash: B256, account: Option<Account>) -> &mut Known {
        let Self { accounts, paid, .. } = self;
        accounts.entry(hash).or_insert_with(|| {
            let paid = paid.remove(&hash).unwrap_or_default();
            let before = |account: Account| Account {
                balance: account.balance.saturating_sub(paid),
                ..account
            };
            Known { account: account.map(before), slots: BTreeMap::new() }
        })
    }

    /// The contracts that every block calls; tracers of transactions do not name them.
    fn call_contracts(&mut self, rules: Rules<'_>) {
        if !rules.is(EthereumHardfork::Cancun) {
            return;
        }
        for contract in system_contracts() {
            let hash = hash_address(&contract.address);
            let code_hash = keccak256(&contract.code);
            let is_called =
                contract.address == BEACON_ROOTS_ADDRESS || rules.is(EthereumHardfork::Prague);
            if is_called && !self.accounts.contains_key(&hash) {
                self.preimages.addresses.insert(hash, contract.address);
                self.codes.insert(code_hash, contract.code);
                self.name(
                    hash,
                    Some(Account { nonce: contract.nonce, balance: contract.balance, code_hash }),
                );
            }
        }
    }

    /// The state.
    pub(super) fn finish(self) -> PartialState {
        let mut state = PartialState::default();
        for (hash, known) in self.accounts {
            let Some(account) = known.account else { continue };
            state.add(hash, account, known.slots.into_iter().filter(|(_, value)| !value.is_zero()));
        }
        state.add_codes(self.codes);
        state.add_preimages(self.preimages);
        state
    }
}

/// The state root that the trie nodes of a file lead from.
fn root(file: &PrestateFile) -> Result<B256, PrestateError> {
    let missing = "a witness without the header of the parent among its ancestors";
    file.parent_root().ok_or_else(|| form(file, missing.to_owned()))
}

fn form(file: &PrestateFile, what: String) -> PrestateError {
    PrestateError::Form { file: file.path.clone(), what }
}
