//! Reads at one version, beside the blocks that follow.

use crate::{
    TRIE,
    touches::{Noted, Touches},
    version::Version,
};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::Snapshot;
use polytrie_state::{Access, Account, Result, StateReader, hash_address, hash_slot};
use polytrie_trie::cow::Entry;
use std::sync::Arc;

/// Number of keys for which nodes are read together: what they add to a full cache is small beside it.
const PORTION: usize = 1_024;

#[derive(Debug)]
pub(crate) struct RainReader {
    pub(crate) version: Arc<Version>,
    /// The rows of nodes that the version does not have in memory, as of the same moment.
    pub(crate) rows: Snapshot,
    pub(crate) touches: Arc<Touches>,
}

impl RainReader {
    /// Returns the rows for nodes that stay in memory, which are counted.
    pub(crate) fn noted(&self) -> Noted<'_> {
        self.touches.noting(&self.rows)
    }

    /// Whether nodes that had to be read stay in memory: only while there is room. Only blocks make room, and there may
    /// never be one.
    pub(crate) fn keeps(&self) -> bool {
        !self.touches.may_be_full()
    }

    /// Does as [`StateReader::gather`] does, while there is room.
    pub(crate) fn gather_within_room(&self, accesses: &[Access]) -> Result<()> {
        let mut portions = accesses.chunks(PORTION).take_while(|_| self.keeps());
        portions.try_for_each(|some| self.gather(some))
    }

    /// Finds an account and returns what `see` makes of it. Keeps the nodes that it reads while there is room.
    fn look<T>(&self, hash: &B256, see: impl FnOnce(&Entry) -> T) -> Result<Option<T>> {
        if self.keeps() {
            return Ok(self.version.account(&self.noted(), hash)?.map(see));
        }
        self.version.look(&self.rows, hash, see)
    }
}

impl StateReader for RainReader {
    polytrie_state::code_from!(rows);

    fn account(&self, address: &Address) -> Result<Option<Account>> {
        self.look(&hash_address(address), |entry| entry.account)
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        let (hash, slot) = (hash_address(address), hash_slot(slot));
        if self.keeps() {
            return self.version.slot(&self.noted(), &hash, &slot);
        }
        let rows = TRIE.storage_rows(&self.rows, hash);
        let look = |entry: &Entry| entry.storage.look(&slot, &rows, |value| value.0);
        let found = self.version.look(&self.rows, &hash, look)?.transpose()?;
        Ok(found.flatten().unwrap_or_default())
    }

    fn has_storage(&self, address: &Address) -> Result<bool> {
        let found = self.look(&hash_address(address), |entry| !entry.storage.is_empty())?;
        Ok(found.unwrap_or_default())
    }

    fn gathers(&self) -> bool {
        self.rows.is_remote()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        self.version.gather(&self.noted(), &Access::by_hash(accesses))
    }
}
