//! Reads of the tables at one block, directly from the rows: leaves, proofs and witnesses.

use super::TrieTables;
use crate::{
    AccountLeaf, LeafValue, Nibbles, Rows, SlotValue, cow::StateTries, leaf_on_path, rows::key_of,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::{KvError, Read, Values};
use polytrie_state::{Proof, Result, SlotVisit, Touched, WriteSet};

impl TrieTables {
    /// Reads the leaf of the account with this hash.
    ///
    /// # Errors
    ///
    /// If rows are missing or damaged, or the store fails.
    pub fn account(&self, store: &dyn Read, account: &B256) -> Result<Option<AccountLeaf>> {
        leaf(account, &self.account_rows(store))
    }

    /// Reads the rows of many paths, which must be sorted. Each path has the account of its storage trie, or `None`. With
    /// `is_doubted` the rows may be wrong ([`Read::read_many`]).
    pub(crate) fn get_many(
        &self,
        store: &dyn Read,
        paths: &[(Option<B256>, Nibbles)],
        is_doubted: bool,
    ) -> Result<Values, KvError> {
        let keys: Vec<_> = paths.iter().map(|(owner, path)| key_of(owner.as_ref(), path)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let accounts = paths.partition_point(|(owner, _)| owner.is_none());
        let mut rows = store.read_many(self.accounts, &keys[..accounts], is_doubted)?;
        rows.extend(store.read_many(self.storage, &keys[accounts..], is_doubted)?);
        Ok(rows)
    }

    /// Reads a slot by the hashes of its account and of itself; zero if it is not set.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    pub fn slot(&self, store: &dyn Read, account: &B256, slot: &B256) -> Result<U256> {
        let value = leaf::<SlotValue>(slot, &self.storage_rows(store, *account))?;
        Ok(value.map_or(U256::ZERO, |value| value.0))
    }

    /// Visits the slots of an account in order of their hash, beginning at `from`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`], and any error of `visit`.
    pub fn visit_slots(
        &self,
        store: &dyn Read,
        account: &B256,
        from: &B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<()> {
        let rows = self.storage_rows(store, *account);
        Ok(rows.leaves::<SlotValue>(from, &mut |hash, value| Ok(visit(hash, value.0)?))?)
    }

    /// Proves an account and some of its slots, for a layer with this name.
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    pub fn prove(
        &self,
        layer: &str,
        store: &dyn Read,
        address: &Address,
        slots: &[U256],
    ) -> Result<Proof> {
        let tries = StateTries::stored(|owner| self.rows_of(store, owner))?;
        tries.prove(layer, address, slots)
    }

    /// Returns the state root before a past block, and the nodes that the block needs: see
    /// [`StateTries::past_witness`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::account`].
    pub fn past_witness(
        &self,
        store: &dyn Read,
        back: &[WriteSet],
        touched: &Touched,
    ) -> Result<(B256, Vec<Bytes>)> {
        let tries = StateTries::stored(|owner| self.rows_of(store, owner))?;
        Ok(tries.past_witness(back, touched)?)
    }
}

/// Reads the value of a key; `None` if the leaf at the end of its path belongs to another key.
fn leaf<V: LeafValue>(key: &B256, rows: &Rows<&dyn Read>) -> Result<Option<V>> {
    let found = leaf_on_path::<V>(key, rows)?;
    Ok(found.filter(|(found, _)| found == key).map(|(_, value)| value))
}
