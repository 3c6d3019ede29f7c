//! The interface of a state layer at its head.

use crate::{
    Account, Bags, CheckReport, Commitment, Fork, GenesisAccounts, LayerSession, Outcome,
    PastWitnesses, PlainRecords, Prove, Prune, Result, StateReader, Stateless, UndoRecords,
};
use alloy_primitives::{B256, U256};
use serde::Serialize;
use std::{fmt::Debug, ops::ControlFlow, sync::Arc};

/// A block, by number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct BlockRef {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
}

/// The limits of what a crash or a reorganisation may undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// The last block that is known to be durable in the chain's store: a crash does not undo it.
    pub durable: u64,
    /// The first block that may still be undone. This limit is not durable: after a crash the chain is at an
    /// earlier block, and the limit of that earlier block holds.
    pub undo_from: u64,
}

/// A state layer: keeps the state at one block, the head, and authenticates it.
///
/// All methods may be called from any thread. A layer has at most one session (or undo) in progress; a second one is
/// [`Protocol`](crate::StateError::Protocol). After a failed write or a failed worker thread, every call returns
/// [`Poisoned`](crate::StateError::Poisoned) with the reason.
///
/// Every layer must implement the methods without a body. It may replace the others, and returns the capabilities at
/// the end if it has them.
pub trait StateLayer: Debug + Send + Sync {
    /// The layer's name as on the command line: `mpt`, `raw`, …
    fn name(&self) -> &'static str;

    /// Returns the commitment to the state at the head.
    fn commitment(&self) -> Commitment;

    /// Returns a reader of the present head; later blocks do not change its answers.
    ///
    /// # Errors
    ///
    /// If the store fails; [`Poisoned`](crate::StateError::Poisoned) after an earlier failure, as in the methods
    /// below.
    fn reader(&self) -> Result<Arc<dyn StateReader>>;

    /// Fills an empty layer from accounts sorted by hash, in one pass and bounded memory, however many accounts there
    /// are and however many slots one of them has. Writes to the store directly. If interrupted, it leaves a store
    /// that must be filled again from the start; if it fails, every other call fails until then.
    ///
    /// # Errors
    ///
    /// If an account or slot comes with an error or out of order, or the store fails.
    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment>;

    /// Begins a block on top of `parent`.
    ///
    /// # Errors
    ///
    /// [`Protocol`](crate::StateError::Protocol) if a block is in progress, or more than [`Self::depth`] blocks wait.
    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>>;

    /// Takes one block back. The outcome makes commitment and reads exactly as before the block that produced
    /// `record`, which must be the last one accepted. A record of several steps ([`UndoRecords::steps`]) is taken
    /// back with one call for each ([`undo_in_steps`](crate::undo_in_steps)).
    ///
    /// # Errors
    ///
    /// [`Protocol`](crate::StateError::Protocol) if a block is in progress or waits,
    /// [`Corrupt`](crate::StateError::Corrupt) if `record` or a stored row is damaged, or if the store fails.
    fn undo(&self, record: &[u8]) -> Result<Outcome>;

    /// Opens a separate layer with the same settings, which begins with the present content of the store and does not
    /// change it. It can take blocks back, to answer what only a head can, such as a proof of an earlier block. Must
    /// not be called while a block is written or waits.
    ///
    /// # Errors
    ///
    /// [`Protocol`](crate::StateError::Protocol) if blocks wait; [`Unsupported`](crate::StateError::Unsupported) if
    /// the existing forks have to end first; or if the store cannot be read.
    fn fork(&self) -> Result<Fork>;

    /// Visits the accounts in order of their hash, beginning at `from`.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, and any error of `visit`.
    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<()>;

    /// Visits the slots of an account in order of their hash, beginning at `from`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::accounts`].
    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>) -> Result<()>;

    /// Recomputes the commitment from the leaves, and checks every stored row. `progress` receives the number of
    /// accounts done so far.
    ///
    /// # Errors
    ///
    /// If the store fails; damage goes into the report.
    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport>;

    /// Returns how many blocks may be executed on top of one whose commitment is still being computed; 0 if the
    /// commitment is known when a block ends. See [`LayerSession::finish_later`].
    fn depth(&self) -> usize {
        0
    }

    /// Notes the horizon of the chain, after every accepted block. Data that is needed only to undo blocks below
    /// `undo_from` may then be removed. A layer that was never called keeps all of it.
    fn advance(&self, horizon: Horizon) {
        let _ = horizon;
    }

    /// Whether the layer's keys are made of addresses and slots themselves, not of their hashes. Then the caller of
    /// [`Self::load`] first writes those to [`PREIMAGE_TABLE`](crate::PREIMAGE_TABLE) of the layer's store; the layer
    /// itself writes those of later blocks.
    fn needs_preimages(&self) -> bool {
        false
    }

    /// Returns the decoder of the layer's undo records.
    fn undo_records(&self) -> &dyn UndoRecords {
        &PlainRecords
    }

    /// Returns the layer's counters since it was opened, by name. They are for reports only.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns the maker of proofs, if the commitment supports proofs.
    fn proofs(&self) -> Option<&dyn Prove> {
        None
    }

    /// Returns the maker of witnesses of past blocks, if the layer has one.
    fn past_witnesses(&self) -> Option<&dyn PastWitnesses> {
        None
    }

    /// Returns the maker of witnesses of blocks in execution, and of layers on witnesses, if the layer has one.
    fn stateless(&self) -> Option<&dyn Stateless> {
        None
    }

    /// Returns the use of nodes that other processes read, if the layer has one.
    fn bags(&self) -> Option<&dyn Bags> {
        None
    }

    /// Returns the pruning of data that is no longer needed, if the layer keeps such data.
    fn pruning(&self) -> Option<&dyn Prune> {
        None
    }
}

/// A callback for values by hash.
pub type HashVisit<'a, V> = dyn FnMut(B256, V) -> Result<ControlFlow<()>> + 'a;

/// A callback for accounts by hash.
pub type AccountVisit<'a> = HashVisit<'a, Account>;

/// A callback for slots by hash; values are never zero.
pub type SlotVisit<'a> = HashVisit<'a, U256>;
