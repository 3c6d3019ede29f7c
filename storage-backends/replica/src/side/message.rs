//! What is said between the executing thread and the workers.

use alloy_primitives::B256;
use crossbeam_channel::Sender;
use polytrie_kv::Batch;
use polytrie_state::{Access, Account, AccountWrite, SlotWrite, StateError};

/// What a worker must do, in order.
#[derive(Debug)]
pub(crate) enum Work {
    /// A block begins.
    Begin,
    /// Finalised writes, in order.
    Writes(Writes),
    /// The block ends. The first worker answers.
    Finish(Option<Sender<Result<Sealed, StateError>>>),
    /// The rows of the oldest block that ended are in the store.
    Accept,
    /// Everything since the last block that was accepted is void; the store is at this root.
    Reset(B256),
    /// The store holds another state altogether, with this root.
    Load(B256),
    /// The worker leaves its thread.
    Home,
}

/// The part of some transactions' writes that concerns one worker.
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

/// What happened to an account's slots.
#[derive(Debug)]
pub(crate) struct StorageWrite {
    pub(crate) account: B256,
    /// All slots are removed first.
    pub(crate) wipe: bool,
    pub(crate) slots: Vec<SlotWrite>,
}

/// What happened to an account.
#[derive(Debug)]
pub(crate) struct LeafWrite {
    pub(crate) account: B256,
    pub(crate) after: Option<Account>,
    /// There is a [`StorageWrite`] for it, so its storage root is not known before the block ends.
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
    /// The rows that change.
    pub(crate) rows: Batch,
}

/// What a worker tells the first one when a block (or a part of it) ends.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Storage roots of the accounts whose slots changed.
    pub(crate) roots: Vec<(B256, B256)>,
    /// The rows that change, at the end of a block.
    pub(crate) rows: Batch,
}

/// Hints that passed the filter.
pub(crate) type Hints = Vec<Access>;
