//! The messages between the executing thread and the workers.

use alloy_primitives::B256;
use crossbeam_channel::Sender;
use polytrie_kv::Batch;
use polytrie_state::{Access, Account, AccountWrite, Result, SlotWrite};

/// A message that a worker must process, in order.
#[derive(Debug)]
pub(crate) enum Work {
    /// A block begins.
    Begin,
    /// Finalised writes, in order.
    Writes(Writes),
    /// The block ends. The first worker answers.
    Finish(Option<Sender<Result<Sealed>>>),
    /// The rows of the oldest block that ended are in the store.
    Accept,
    /// Everything since the last accepted block is void; the store is at this root.
    Reset(B256),
    /// The store holds another state altogether, with this root.
    Load(B256),
    /// The worker leaves its thread.
    Home,
}

/// The writes of some transactions that concern one worker.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) storage: Vec<StorageWrite>,
    pub(crate) leaves: Vec<LeafWrite>,
}

impl Writes {
    pub(crate) const fn len(&self) -> usize {
        self.storage.len() + self.leaves.len()
    }
}

/// The changes of an account's slots.
#[derive(Debug)]
pub(crate) struct StorageWrite {
    pub(crate) account: B256,
    /// Whether all slots are removed first.
    pub(crate) wipe: bool,
    pub(crate) slots: Vec<SlotWrite>,
}

/// The change of an account.
#[derive(Debug)]
pub(crate) struct LeafWrite {
    pub(crate) account: B256,
    pub(crate) after: Option<Account>,
    /// Whether there is a [`StorageWrite`] for it. Then its storage root is not known before the block ends.
    pub(crate) storage: bool,
}

impl LeafWrite {
    pub(crate) fn of(write: &AccountWrite) -> Self {
        let storage = write.clears_slots() || !write.slots.is_empty();
        Self { account: write.hash, after: write.after, storage }
    }
}

/// The trie after a block.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) root: B256,
    /// The changed rows.
    pub(crate) rows: Batch,
}

/// The part of a worker's result that it sends to the first one when a block (or a part of it) ends.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// The storage roots of the accounts whose slots changed.
    pub(crate) roots: Vec<(B256, B256)>,
    /// The changed rows, at the end of a block.
    pub(crate) rows: Batch,
}

/// Hints that passed the filter.
pub(crate) type Hints = Vec<Access>;
