//! The oracle: a sorted map from which everything is computed anew.

mod layer;
mod proof;
mod rows;

pub use layer::OracleLayer;
pub use proof::verify_eip1186;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::encode;
use alloy_trie::{HashBuilder, Nibbles, TrieAccount};
use polytrie_kv::Batch;
use polytrie_state::{
    Account, AccountChange, GenesisAccount, GenesisSlots, StateError, TxWrites, WriteSet,
    hash_address, hash_slot, put_address_preimage, put_slot_preimage,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

/// A state as a sorted map.
///
/// It takes writes in the form the EVM produces, one transaction after the other, without the merging that takes
/// place between the EVM and a layer, and is therefore an independent check of that merging as well. A snapshot is a
/// clone.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Oracle {
    accounts: BTreeMap<B256, OracleAccount>,
    codes: BTreeMap<B256, Bytes>,
    /// Addresses and slots that were written, by hash.
    preimages: Arc<Preimages>,
    root: Root,
}

/// The root of a state, if it was asked for since the last change. States with equal accounts are equal with and without it.
#[derive(Debug, Default, Clone)]
struct Root(OnceLock<B256>);

impl PartialEq for Root {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Root {}

/// Addresses and slots by their hashes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Preimages {
    addresses: BTreeMap<B256, Address>,
    slots: BTreeMap<B256, U256>,
}

/// An account of an [`Oracle`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct OracleAccount {
    /// The account.
    pub account: Account,
    /// The account's slots by hash, none of them zero. States share the slots of accounts that are equal in both.
    pub slots: Arc<BTreeMap<B256, U256>>,
}

impl OracleAccount {
    /// Computes the root of the storage trie.
    pub fn storage_root(&self) -> B256 {
        let mut trie = HashBuilder::default();
        for (hash, value) in self.slots.iter() {
            trie.add_leaf(Nibbles::unpack(hash), &encode(value));
        }
        trie.root()
    }

    fn set(&mut self, slot: B256, value: U256) {
        let slots = Arc::make_mut(&mut self.slots);
        if value.is_zero() {
            slots.remove(&slot);
        } else {
            slots.insert(slot, value);
        }
    }

    /// Returns the account's leaf in the state trie.
    fn leaf(&self) -> Vec<u8> {
        let Account { nonce, balance, code_hash } = self.account;
        encode(TrieAccount { nonce, balance, storage_root: self.storage_root(), code_hash })
    }
}

impl Oracle {
    /// Applies the writes of one transaction.
    pub fn apply(&mut self, writes: &TxWrites) {
        self.root = Root::default();
        for change in &writes.accounts {
            let hash = hash_address(&change.address);
            self.remember(hash, change);
            if let Some((hash, code)) = &change.code {
                self.codes.insert(*hash, code.clone());
            }
            let Some(account) = change.account else {
                self.accounts.remove(&hash);
                continue;
            };
            let entry = self.accounts.entry(hash).or_default();
            entry.account = account;
            if change.wiped {
                entry.slots = Arc::default();
            }
            for (slot, value) in &change.slots {
                entry.set(hash_slot(slot), *value);
            }
        }
    }

    /// Stores the addresses and slots of a change that are new; most of them are known.
    fn remember(&mut self, hash: B256, change: &AccountChange) {
        let known = &self.preimages;
        let slots = change.slots.iter().map(|(slot, _)| (hash_slot(slot), *slot));
        let slots = slots.filter(|(hash, _)| !known.slots.contains_key(hash));
        let slots: Vec<_> = slots.collect();
        if slots.is_empty() && known.addresses.contains_key(&hash) {
            return;
        }
        let known = Arc::make_mut(&mut self.preimages);
        known.addresses.insert(hash, change.address);
        known.slots.extend(slots);
    }

    /// Adds all addresses and slots that were ever written, by their hashes, for a layer that is filled with
    /// [`Self::genesis`] and needs them.
    pub fn put_preimages(&self, batch: &mut Batch) {
        for (hash, address) in &self.preimages.addresses {
            put_address_preimage(batch, hash, address);
        }
        for (hash, slot) in &self.preimages.slots {
            put_slot_preimage(batch, hash, slot);
        }
    }

    /// Applies the merged writes of one block, or of an undo.
    pub fn apply_set(&mut self, writes: &WriteSet) {
        self.root = Root::default();
        self.codes.extend(writes.codes().iter().cloned());
        for write in writes.accounts() {
            let Some(account) = write.after else {
                self.accounts.remove(&write.hash);
                continue;
            };
            let entry = self.accounts.entry(write.hash).or_default();
            entry.account = account;
            if write.wipe {
                entry.slots = Arc::default();
            }
            for slot in &write.slots {
                entry.set(slot.hash, slot.after);
            }
        }
    }

    /// Adds an account of a genesis.
    ///
    /// # Errors
    ///
    /// The error of its slots, if they end in one.
    pub fn insert(&mut self, genesis: GenesisAccount<'_>) -> Result<(), StateError> {
        self.root = Root::default();
        if let Some(code) = genesis.code {
            self.codes.insert(genesis.account.code_hash, code);
        }
        let slots = Arc::new(genesis.slots.collect::<Result<_, _>>()?);
        self.accounts.insert(genesis.hash, OracleAccount { account: genesis.account, slots });
        Ok(())
    }

    /// Returns the state in the form a layer is filled with.
    pub fn genesis(&self) -> impl Iterator<Item = GenesisAccount<'_>> {
        self.accounts.iter().map(|(hash, entry)| GenesisAccount {
            hash: *hash,
            account: entry.account,
            code: self.codes.get(&entry.account.code_hash).cloned(),
            slots: GenesisSlots::new(entry.slots.iter().map(|(hash, value)| Ok((*hash, *value)))),
        })
    }

    /// Returns all accounts by hash.
    pub const fn accounts(&self) -> &BTreeMap<B256, OracleAccount> {
        &self.accounts
    }

    /// Returns all code ever stored, by hash.
    pub const fn codes(&self) -> &BTreeMap<B256, Bytes> {
        &self.codes
    }

    /// Returns an account.
    pub fn account(&self, address: &Address) -> Option<Account> {
        self.accounts.get(&hash_address(address)).map(|entry| entry.account)
    }

    /// Returns the value of a slot; zero if it does not exist.
    pub fn slot(&self, address: &Address, slot: &U256) -> U256 {
        self.slot_by_hash(&hash_address(address), &hash_slot(slot))
    }

    /// Returns the value of a slot by its hashes; zero if it does not exist.
    pub fn slot_by_hash(&self, account: &B256, slot: &B256) -> U256 {
        let entry = self.accounts.get(account);
        entry.and_then(|entry| entry.slots.get(slot)).copied().unwrap_or_default()
    }

    /// Whether an account has any slot.
    pub fn has_storage(&self, address: &Address) -> bool {
        self.accounts.get(&hash_address(address)).is_some_and(|entry| !entry.slots.is_empty())
    }

    /// Computes the state root as in the Ethereum specification, once for each state.
    pub fn state_root(&self) -> B256 {
        *self.root.0.get_or_init(|| {
            let mut trie = HashBuilder::default();
            for (hash, entry) in &self.accounts {
                trie.add_leaf(Nibbles::unpack(hash), &entry.leaf());
            }
            trie.root()
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
