//! Merges the accounts and slots that blocks touch into one state.

use super::{
    file::{PrestateError, PrestateFile, TouchedAccount},
    nodes::{self, Names},
};
use crate::state_dump::{PartialState, Preimages};
use alloy_eips::eip4788::BEACON_ROOTS_ADDRESS;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use polytrie_chain::executor::block_rewards;
use polytrie_chainspec::{Rules, builder_contracts, system_contracts};
use polytrie_state::{Account, hash_address, hash_slot};
use std::collections::{BTreeMap, HashMap};

/// State of an account before the first block, as far as it is known.
#[derive(Debug, Default)]
struct Known {
    /// Account; `None` if it does not exist.
    account: Option<Account>,
    slots: BTreeMap<B256, U256>,
}

/// A state that grows with each file.
#[derive(Debug)]
pub(super) struct Merged {
    accounts: BTreeMap<B256, Known>,
    codes: HashMap<B256, Bytes>,
    /// Addresses and slots that files have in plain form, by their hashes.
    preimages: Preimages,
    /// Accounts and slots in the trie nodes of all blocks.
    names: Names,
    /// Amounts that earlier blocks paid to accounts that no file had named yet. A file that names one
    /// later has its balance with them.
    paid: HashMap<B256, U256>,
}

impl Merged {
    /// Returns an empty state for these files, which the caller adds in their order.
    ///
    /// # Errors
    ///
    /// Fails if the trie nodes of a file do not decode.
    pub(super) fn new(
        codes: HashMap<B256, Bytes>,
        files: &[PrestateFile],
    ) -> Result<Self, PrestateError> {
        let mut names = Names::new();
        for file in files.iter().filter(|file| !file.nodes.is_empty()) {
            nodes::add_names(root(file)?, &file.nodes, &mut names)
                .map_err(|what| form(file, what))?;
        }
        Ok(Self {
            accounts: BTreeMap::new(),
            codes,
            preimages: Preimages::default(),
            names,
            paid: HashMap::new(),
        })
    }

    /// Adds the accounts and slots that a block is the first to name.
    pub(super) fn add(
        &mut self,
        file: &PrestateFile,
        rules: Rules<'_>,
    ) -> Result<(), PrestateError> {
        // Before that fork an empty account differs from none.
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

    /// Adds an account if no earlier block has named it.
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

    /// Adds the contracts that every block calls; tracers of transactions do not name them.
    fn call_contracts(&mut self, rules: Rules<'_>) {
        if !rules.is(EthereumHardfork::Cancun) {
            return;
        }
        let of_amsterdam = rules.is(EthereumHardfork::Amsterdam).then(builder_contracts);
        for contract in system_contracts().into_iter().chain(of_amsterdam.into_iter().flatten()) {
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

    /// Returns the merged state.
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

/// Returns the state root that the trie nodes of a file start from.
fn root(file: &PrestateFile) -> Result<B256, PrestateError> {
    let missing = "a witness without the header of the parent among its ancestors";
    file.parent_root().ok_or_else(|| form(file, missing.to_owned()))
}

fn form(file: &PrestateFile, what: String) -> PrestateError {
    PrestateError::Form { file: file.path.clone(), what }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::Header;
    use polytrie_chainspec::{ChainSpec, Forks};

    #[test]
    fn the_contracts_that_blocks_call_are_there_from_their_fork_on() {
        for (fork, expected) in [
            (EthereumHardfork::Shanghai, 0),
            (EthereumHardfork::Cancun, 1),
            (EthereumHardfork::Osaka, 4),
            (EthereumHardfork::Amsterdam, 6),
        ] {
            let spec = ChainSpec::with_forks("test", 1, Forks::up_to(fork), Header::default(), []);
            let mut merged = Merged::new(HashMap::new(), &[]).unwrap();
            merged.call_contracts(spec.rules(1, 1, true));
            assert_eq!(merged.accounts.len(), expected, "{fork}");
        }
    }
}
