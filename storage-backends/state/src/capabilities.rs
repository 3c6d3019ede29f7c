//! The capabilities that only some layers have. A layer returns each one it has; where it lacks one, the caller names
//! the layers that have it.

use crate::{
    Access, BagCounts, BagNode, BlockRef, LayerSession, Proof, Result, StateLayer, TakeNode,
    Touched, Witness, WriteSet,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::sync::Arc;

/// Implements those methods of [`StateLayer`] that return a capability, for a layer that has it itself: the name of each
/// method, and that of its trait.
#[macro_export]
macro_rules! capabilities {
    ($($method:ident: $capability:ident),+) => {$(
        fn $method(&self) -> ::std::option::Option<&dyn $crate::$capability> {
            ::std::option::Option::Some(self)
        }
    )+};
}

/// Proofs of accounts and slots against [`StateLayer::commitment`].
pub trait Prove {
    /// Proves an account and some of its slots, present or absent.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::StateError::Unsupported) if the layer was opened without the data that proofs need; or
    /// if the store fails or is damaged.
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof>;
}

/// Witnesses of blocks that are part of the chain already.
pub trait PastWitnesses {
    /// Returns what it takes, beside code and headers, to execute a block without the state and to compute its root:
    /// the state root before the block, and the nodes as RLP, each once. `back` takes blocks back from the head on
    /// ([`UndoRecords::writes`](crate::UndoRecords::writes)); its last entry is the block itself. `touched` holds the
    /// accounts and slots that the block read, by hash.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn past_witness(&self, back: &[WriteSet], touched: &Touched) -> Result<(B256, Vec<Bytes>)>;
}

/// Execution that yields a [`Witness`] of each block, and layers that know only a witness.
pub trait Stateless {
    /// Begins a block like [`StateLayer::begin`]; its outcome holds its witness, without the first `levels` levels of
    /// the account trie.
    ///
    /// # Errors
    ///
    /// Those of [`StateLayer::begin`].
    fn begin_witnessed(&self, parent: BlockRef, levels: u8) -> Result<Box<dyn LayerSession>>;

    /// Opens a layer in memory that knows only the content of a witness. The levels that the witness leaves out are
    /// taken from this layer, whose state root must be the same.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::StateError::Corrupt) if the witness is damaged.
    fn on_witness(&self, witness: &Witness) -> Result<Arc<dyn StateLayer>>;

    /// Updates a witness that was made for an older state root to the head. If it leaves out no levels, the first
    /// `levels` are left out of the result. `None` if a later change touches what it holds.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::StateError::Corrupt) if the witness is damaged; or if the store fails.
    fn revise(&self, witness: &Witness, levels: u8) -> Result<Option<Witness>>;
}

/// Trie nodes that another process, perhaps on another machine, reads for this layer ahead of blocks. Each node is
/// verified by its hash where it is used. So the other process need be neither trusted nor at the same block: only
/// time depends on it.
pub trait Bags {
    /// Returns the levels of the account trie that this layer keeps in memory. Once it has read their nodes, these need
    /// not be sent.
    fn levels_kept(&self) -> u8;

    /// Makes room in memory for the nodes of another block, if there is none: those that were touched the longest time ago
    /// leave it. For a layer that only reads; elsewhere its own blocks do so.
    ///
    /// # Errors
    ///
    /// If the layer cannot be used.
    fn make_room(&self) -> Result<()>;

    /// Reads the nodes on the paths to accounts and slots into memory, those of many at a time, so that what is done with
    /// them next waits for no store. What finds no room is left out ([`Self::make_room`]).
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn gather(&self, accesses: &[Access]) -> Result<()>;

    /// Reads the stored nodes on the paths to accounts and slots, each once, for a layer that has so many levels of
    /// the account trie.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn pack(&self, accesses: &[Access], levels: u8, take: &mut TakeNode<'_>) -> Result<()>;

    /// Takes nodes that were read for the block with this number. They are kept until that block is executed, as far
    /// as there is room; rows that are no nodes are refused.
    fn offer(&self, block: u64, nodes: Vec<BagNode>);

    /// Says that this block and those before it are executed: their nodes are dropped, and what comes for them is late. A
    /// layer sees that by itself where each block has a session, and of a [`Group`](crate::Group) it sees the first block only.
    fn over(&self, block: u64);

    /// Returns the counts of the nodes that were offered, kept and used.
    fn counts(&self) -> BagCounts;
}

/// A walk over undo records, which calls its argument with one after the other: together they may take gigabytes.
pub type UndoWalk<'a> = dyn FnMut(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> + 'a;

/// The removal of data that newer versions have replaced.
pub trait Prune {
    /// Removes data that proofs of the state do not need, except for what undoing the blocks of `undo_records` (all
    /// kept records) brings back. Reads, commitment and proofs stay as they are. Writes to the store directly, in
    /// pieces, and may be stopped at any time, even by a crash.
    ///
    /// # Errors
    ///
    /// If the store fails, or a block is in progress, and any error of the walk.
    fn prune(&self, undo_records: &mut UndoWalk<'_>) -> Result<Pruned>;
}

/// The result of [`Prune::prune`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Number of entries that there ever were, including those removed earlier.
    pub entries: u64,
    /// Number of entries that are needed.
    pub needed: u64,
    /// Bytes of the entries' rows before pruning.
    pub bytes_before: u64,
    /// Bytes of the entries' rows after pruning.
    pub bytes_after: u64,
}
