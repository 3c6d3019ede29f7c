//! A layer at its head.

use crate::{
    Account, Bags, CheckReport, Commitment, Fork, GenesisAccounts, LayerSession, Outcome,
    PastWitnesses, PlainRecords, Prove, Prune, StateError, StateReader, Stateless, UndoRecords,
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

/// Where the chain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// The last block that is durable in the store of the chain, as far as that is known: a crash does not undo it.
    pub durable: u64,
    /// The first block that may still be taken back. It is not durable: after a crash the chain is at an earlier block, and what
    /// was said before that one holds.
    pub undo_from: u64,
}

/// A state layer: keeps the state at one block, the head, and authenticates it.
///
/// All methods may be called from any thread; a layer has at most one session (or undo) under way, a second
/// one is [`StateError::Protocol`]. After a failed write or worker every call returns
/// [`StateError::Poisoned`] with the reason.
///
/// What has no body here every layer must do. What has one it may do better, and the capabilities at the end it hands out
/// if it has them.
pub trait StateLayer: Debug + Send + Sync {
    /// The layer's name as on the command line: `mpt`, `raw`, …
    fn name(&self) -> &'static str;

    /// The commitment to the state at the head.
    fn commitment(&self) -> Commitment;

    /// Reads at the head as of now; later blocks do not change what it answers.
    ///
    /// # Errors
    ///
    /// If the store fails; [`StateError::Poisoned`] after an earlier failure, here as in what follows.
    fn reader(&self) -> Result<Arc<dyn StateReader>, StateError>;

    /// Fills an empty layer from accounts sorted by hash, in one pass and bounded memory, however many accounts there
    /// are and slots of one of them, writing to the store directly. Stopped in the middle it leaves a store that must
    /// be filled again from the start.
    ///
    /// # Errors
    ///
    /// If an account or slot comes with an error or out of order, or the store fails.
    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment, StateError>;

    /// Starts a block on top of `parent`.
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if a block is under way, or more wait than [`Self::depth`] says.
    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError>;

    /// One block back: what to write so that commitment and reads are exactly as before the block that
    /// produced `record`, which must be the last one accepted. A record that has several steps
    /// ([`UndoRecords::steps`]) is taken back with one call for each ([`undo_in_steps`](crate::undo_in_steps)).
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if a block is under way or waits, [`StateError::Corrupt`] if `record` or what is stored is
    /// damaged, or if the store fails.
    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError>;

    /// A layer of its own with the same settings, that begins with what the store holds now and changes nothing of it:
    /// to go back in, for what only the head can tell, such as a proof. Not while a block is written or waits.
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if blocks wait; [`StateError::Unsupported`] if the forks there are have to end first; or if the
    /// store cannot be read.
    fn fork(&self) -> Result<Fork, StateError>;

    /// Visits the accounts in order of their hash, beginning at `from`.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or as `visit`.
    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError>;

    /// Visits the slots of an account in order of their hash, beginning at `from`.
    ///
    /// # Errors
    ///
    /// As [`Self::accounts`].
    fn slots(&self, account: B256, from: B256, visit: &mut SlotVisit<'_>)
    -> Result<(), StateError>;

    /// Recomputes the commitment from the leaves and scrubs everything stored. `progress` receives the
    /// number of accounts done so far.
    ///
    /// # Errors
    ///
    /// If the store fails; damage is what the report is for.
    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError>;

    /// How many blocks may be executed on top of one whose commitment is still being computed; 0 if the
    /// commitment is known when a block ends. See [`LayerSession::finish_later`].
    fn depth(&self) -> usize {
        0
    }

    /// The chain has moved on: after every block that is accepted. What only blocks below `undo_from` would need to be
    /// taken back may go with the next ones; a layer that has not heard of any keeps all of it.
    fn advance(&self, horizon: Horizon) {
        let _ = horizon;
    }

    /// Whether its keys are made of addresses and slots themselves, not of their hashes. Then whoever fills it writes these
    /// to [`PREIMAGE_TABLE`](crate::PREIMAGE_TABLE) of its store first; those that blocks bring it writes itself.
    fn needs_preimages(&self) -> bool {
        false
    }

    /// How its undo records are read.
    fn undo_records(&self) -> &dyn UndoRecords {
        &PlainRecords
    }

    /// What the layer counted since it was opened, by name, for reports; nothing depends on it.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Proofs, if its commitment is one that proofs can lead to.
    fn proofs(&self) -> Option<&dyn Prove> {
        None
    }

    /// Witnesses of past blocks, if it makes them.
    fn past_witnesses(&self) -> Option<&dyn PastWitnesses> {
        None
    }

    /// Witnesses of blocks as they are executed, if it makes them, and what can be done with them.
    fn stateless(&self) -> Option<&dyn Stateless> {
        None
    }

    /// Nodes that other processes read for it, if it can use them.
    fn bags(&self) -> Option<&dyn Bags> {
        None
    }

    /// Forgetting what is not needed any more, if it keeps such things.
    fn pruning(&self) -> Option<&dyn Prune> {
        None
    }
}

/// Receives accounts by hash.
pub type AccountVisit<'a> = dyn FnMut(B256, Account) -> Result<ControlFlow<()>, StateError> + 'a;

/// Receives slots by hash; values are never zero.
pub type SlotVisit<'a> = dyn FnMut(B256, U256) -> Result<ControlFlow<()>, StateError> + 'a;
