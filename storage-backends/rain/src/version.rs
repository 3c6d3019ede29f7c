//! The state after one block: 16 parts of the account trie, and the root that they make.

use crate::{SHARD_COUNT, TRIE, gather::gather, touches::Noted};
use alloy_primitives::{B256, U256};
use polytrie_kv::Read;
use polytrie_state::{Result, SlotVisit, Touched};
use polytrie_trie::{
    EMPTY_ROOT,
    cow::{CowTrie, Entry},
};

/// A shard: the part of the account trie below one nibble.
pub(crate) type Part = CowTrie<Entry>;

/// A version of the state.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) parts: [Part; SHARD_COUNT],
    pub(crate) root: B256,
    /// Number of the change that led to this version.
    pub(crate) seq: u64,
}

impl Version {
    /// Returns the empty state.
    pub(crate) fn empty() -> Self {
        Self { parts: std::array::from_fn(empty_part), root: EMPTY_ROOT, seq: 0 }
    }

    /// Makes the version of these parts: computes their references and the state root.
    pub(crate) fn of(parts: [Part; SHARD_COUNT], store: &dyn Read, seq: u64) -> Result<Self> {
        CowTrie::resolve_all(&parts);
        let mut version = Self { parts, root: EMPTY_ROOT, seq };
        version.root = version.whole(store)?.root();
        Ok(version)
    }

    /// Joins the parts to the whole account trie.
    pub(crate) fn whole(&self, store: &dyn Read) -> Result<CowTrie<Entry>> {
        Ok(CowTrie::join(&self.parts, &TRIE.account_rows(store), self.seq)?)
    }

    /// Finds an account. Nodes that are not in memory come from `store` and are kept.
    pub(crate) fn account(&self, store: &Noted<'_>, hash: &B256) -> Result<Option<&Entry>> {
        Ok(store.find(None, &self.parts[shard_of(hash)], hash, store.now(self.seq))?)
    }

    /// Reads the nodes on the paths to accounts and slots into memory, those of many at a time.
    pub(crate) fn gather(&self, store: &Noted<'_>, touched: &Touched) -> Result<()> {
        gather(|account| &self.parts[shard_of(account)], store, touched, store.now(self.seq))
    }

    /// Finds an account and returns what `see` makes of it. Nodes that are not in memory are read, and not kept.
    pub(crate) fn look<T>(
        &self,
        store: &dyn Read,
        hash: &B256,
        see: impl FnOnce(&Entry) -> T,
    ) -> Result<Option<T>> {
        Ok(self.parts[shard_of(hash)].look(hash, &TRIE.account_rows(store), see)?)
    }

    /// Returns the value of a slot; zero if there is none. Nodes that are not in memory are read and kept.
    pub(crate) fn slot(&self, store: &Noted<'_>, account: &B256, slot: &B256) -> Result<U256> {
        let Some(entry) = self.account(store, account)? else { return Ok(U256::ZERO) };
        let now = store.now(self.seq);
        let value = store.find(Some(*account), &*entry.storage, slot, now)?;
        Ok(value.map_or(U256::ZERO, |value| value.0))
    }

    /// Visits the slots of an account in order of their hash, beginning at `from`. Nodes that are not in memory are read,
    /// and not kept.
    pub(crate) fn visit_slots(
        &self,
        store: &dyn Read,
        account: &B256,
        from: &B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<()> {
        let storage = self.look(store, account, |entry| CowTrie::clone(&entry.storage))?;
        let Some(storage) = storage else { return Ok(()) };
        let rows = TRIE.storage_rows(store, *account);
        Ok(storage.leaves(from, &rows, &mut |hash, value| Ok(visit(*hash, value.0)?))?)
    }
}

/// Returns a shard without accounts.
pub(crate) fn empty_part(shard: usize) -> Part {
    // The RLP of an empty string is the reference to nothing.
    CowTrie::stored_part(shard as u8, &[0x80]).unwrap_or_else(|_| CowTrie::empty())
}

/// Returns the number of the shard of an account: the first nibble of its hash.
pub(crate) fn shard_of(hash: &B256) -> usize {
    usize::from(hash[0] >> 4)
}
