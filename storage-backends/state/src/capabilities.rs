//! What only some layers can do. A layer hands out what it can; callers say who else could where it cannot.

use crate::{
    Access, BagCounts, BagNode, BlockRef, LayerSession, Proof, StateError, StateLayer, TakeNode,
    Touched, Witness, WriteSet,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::sync::Arc;

/// Proofs of accounts and slots against [`StateLayer::commitment`].
pub trait Prove {
    /// A proof of an account and some of its slots, present or absent.
    ///
    /// # Errors
    ///
    /// [`StateError::Unsupported`] if the layer was opened without what proofs take; or if the store fails or is damaged.
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError>;
}

/// Witnesses of blocks that are part of the chain already.
pub trait PastWitnesses {
    /// What it takes, beside code and headers, to execute a block without the state and to compute its root: the state
    /// root before it and the nodes, as RLP, each once. `back` takes blocks back from the head on
    /// ([`UndoRecords::writes`](crate::UndoRecords::writes)), the last of them the block itself; `touched` is what it
    /// read, slots by account, all by hash.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn past_witness(
        &self,
        back: &[WriteSet],
        touched: &Touched,
    ) -> Result<(B256, Vec<Bytes>), StateError>;
}

/// Blocks that leave a [`Witness`] when they are executed, and layers that know nothing else.
pub trait Stateless {
    /// As [`StateLayer::begin`]; the block's outcome holds its witness, without the first `levels` levels of the account
    /// trie.
    ///
    /// # Errors
    ///
    /// As there.
    fn begin_witnessed(
        &self,
        parent: BlockRef,
        levels: u8,
    ) -> Result<Box<dyn LayerSession>, StateError>;

    /// A layer in memory that knows nothing but what a witness holds. The levels that this leaves out are taken from here:
    /// the state root is the same.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if the witness is damaged.
    fn on_witness(&self, witness: &Witness) -> Result<Arc<dyn StateLayer>, StateError>;

    /// A witness that was made against an older state root, carried over to the head, with so many levels left out if it
    /// leaves out none; `None` if a change since touches what it holds.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if the witness is damaged; or if the store fails.
    fn revise(&self, witness: &Witness, levels: u8) -> Result<Option<Witness>, StateError>;
}

/// Nodes that another process, on another machine perhaps, reads for this one ahead of blocks. Each is verified by its hash
/// where it is used, so the other one need not be trusted, nor be at the same block: nothing but time depends on it.
pub trait Bags {
    /// Levels of the account trie that it keeps in memory, so that nobody need send nodes of them.
    fn levels_kept(&self) -> u8;

    /// Reads what is stored on the way to accounts and slots for a layer that has so many levels of the account trie, each node
    /// once.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn pack(
        &self,
        accesses: &[Access],
        levels: u8,
        take: &mut TakeNode<'_>,
    ) -> Result<(), StateError>;

    /// Takes nodes that were read for the block with this number. If its turn is not over, those that are nodes are kept
    /// until it is, as far as there is room.
    fn offer(&self, block: u64, nodes: Vec<BagNode>);

    /// What became of what was offered.
    fn counts(&self) -> BagCounts;
}

/// Forgetting what newer versions have replaced.
pub trait Prune {
    /// Forgets what proofs of the state do not need, except for what undoing the blocks of `undo_records` (all whose
    /// records are kept) brings back. Reads, commitment and proofs stay as they are. Writes to the store directly, in
    /// pieces, and may be stopped at any time, by a crash too.
    ///
    /// # Errors
    ///
    /// If the store fails, or a block is under way.
    fn prune(&self, undo_records: &[Vec<u8>]) -> Result<Pruned, StateError>;
}

/// What [`Prune::prune`] did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Entries there are, those forgotten before included.
    pub entries: u64,
    /// Those that are needed.
    pub needed: u64,
    /// Bytes of their rows before.
    pub bytes_before: u64,
    /// Bytes of their rows after.
    pub bytes_after: u64,
}
