//! A part of a state in memory, for filling a layer.

use super::{
    StateDumpError, Step,
    gather::{Collected, Named},
    go_on,
    preimages::PreimageRows,
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use polytrie_kv::Store;
use polytrie_state::{Account, StateLayer, hash_address};
use std::{collections::HashMap, sync::atomic::AtomicBool};

/// An account by its hash, with its slots by theirs.
type HashedAccount = (B256, Account, Vec<(B256, U256)>);

/// Accounts and slots by their hashes, and codes.
#[derive(Debug, Default)]
pub struct PartialState {
    accounts: Vec<HashedAccount>,
    codes: HashMap<B256, Bytes>,
    preimages: Preimages,
}

/// Known addresses and slots, by their hashes.
#[derive(Debug, Default)]
pub struct Preimages {
    /// Addresses by hash.
    pub addresses: HashMap<B256, Address>,
    /// Slots by hash.
    pub slots: HashMap<B256, U256>,
}

impl PartialState {
    /// Adds an account. Each account may be added once.
    pub fn add(&mut self, hash: B256, account: Account, slots: impl Iterator<Item = (B256, U256)>) {
        self.accounts.push((hash, account, slots.collect()));
    }

    /// Adds codes by their hashes.
    pub fn add_codes(&mut self, codes: HashMap<B256, Bytes>) {
        self.codes.extend(codes);
    }

    /// Adds known addresses and slots, for a layer that needs them.
    pub(crate) fn add_preimages(&mut self, preimages: Preimages) {
        self.preimages.addresses.extend(preimages.addresses);
        self.preimages.slots.extend(preimages.slots);
    }

    /// Returns the number of accounts.
    pub fn accounts(&self) -> u64 {
        self.accounts.len() as u64
    }

    /// Fills a layer that holds nothing with it, and with as many other accounts as there are less than `accounts`: tries that
    /// are as deep as those of a larger state.
    ///
    /// # Errors
    ///
    /// If the store or the layer fails, or `interrupt` was set from outside.
    pub fn load(
        &self,
        store: &Store,
        layer: &dyn StateLayer,
        accounts: u64,
        interrupt: &AtomicBool,
        progress: &mut dyn FnMut(Step),
    ) -> Result<(), StateDumpError> {
        let mut preimages = PreimageRows::new(store, layer.needs_preimages());
        for (hash, address) in &self.preimages.addresses {
            preimages.add_address(hash, address)?;
        }
        for (hash, slot) in &self.preimages.slots {
            preimages.add_slot(hash, slot)?;
        }
        let mut collected = Collected::new(store.scratch().clone());
        for (hash, account, slots) in &self.accounts {
            if account.has_code()
                && let Some(code) = self.codes.get(&account.code_hash)
            {
                collected.codes.add(account.code_hash, code)?;
            }
            collected.add_account(*hash, Named::new(*account))?;
            for (slot, value) in slots {
                collected.add_slot(*hash, *slot, *value)?;
            }
        }
        for number in self.accounts()..accounts {
            go_on(interrupt)?;
            let address = Address::from_word(keccak256(number.to_be_bytes()));
            let hash = hash_address(&address);
            preimages.add_address(&hash, &address)?;
            let account = Account { balance: U256::ONE, ..Account::default() };
            collected.add_account(hash, Named::new(account))?;
        }
        preimages.finish()?;
        collected.fill(layer, interrupt, progress).map(drop)
    }
}
