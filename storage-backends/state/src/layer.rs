//! A layer at its head.

use crate::{
    Account, CheckReport, Commitment, Fork, GenesisAccount, LayerSession, Outcome, Proof,
    StateError, StateReader, Touched, UndoRecord, UndoSteps, Witness, WriteSet, visit_wiped,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Read;
use std::{any::Any, fmt::Debug, ops::ControlFlow, sync::Arc};

/// A block, by number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockRef {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
}

/// A state layer: keeps the state at one block, the head, and authenticates it.
///
/// All methods may be called from any thread; a layer has at most one session (or undo) under way, a second
/// one is [`StateError::Protocol`]. After a failed write or worker every call returns
/// [`StateError::Poisoned`] with the reason.
pub trait StateLayer: Any + Debug + Send + Sync {
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

    /// The same for blocks that are run ahead of their turn: it may read more than it is asked for, so that what their
    /// turn will take is in memory then.
    ///
    /// # Errors
    ///
    /// As [`Self::reader`].
    fn reader_ahead(&self) -> Result<Arc<dyn StateReader>, StateError> {
        self.reader()
    }

    /// Fills an empty layer from accounts sorted by hash, in one pass and bounded memory, however many accounts there
    /// are and slots of one of them, writing to the store directly. Stopped in the middle it leaves a store that must
    /// be filled again from the start.
    ///
    /// # Errors
    ///
    /// If an account or slot comes with an error or out of order, or the store fails.
    fn load(
        &self,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
    ) -> Result<Commitment, StateError>;

    /// How many blocks may be executed on top of one whose commitment is still being computed; 0 if the
    /// commitment is known when a block ends. See [`LayerSession::finish_later`].
    fn depth(&self) -> usize {
        0
    }

    /// Starts a block on top of `parent`.
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if a block is under way, or more wait than [`Self::depth`] says.
    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError>;

    /// One block back: what to write so that commitment and reads are exactly as before the block that
    /// produced `record`, which must be the last one accepted. A record that has several steps
    /// ([`Self::undo_steps`]) is taken back with one call for each ([`undo_in_steps`](crate::undo_in_steps)).
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if a block is under way or waits, [`StateError::Corrupt`] if `record` or what is stored is
    /// damaged, or if the store fails.
    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError>;

    /// The steps in which a block is taken back, given its undo record; `rows` is the store that it is in. More than one
    /// only if the block wiped a large contract, in a layer whose records are plain [`UndoRecord`]s; a layer
    /// with others says that there is one.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if `record` or what belongs to it is damaged, or if the store fails.
    fn undo_steps(&self, record: &[u8], rows: &dyn Read) -> Result<UndoSteps, StateError> {
        UndoSteps::of(record, rows)
    }

    /// From now on nobody takes back a block below `number`: what only that would need may go with the next blocks.
    /// Until a layer is told anything it keeps all of it. Does nothing where undo records hold everything.
    fn keep_undo_from(&self, number: u64) {
        let _ = number;
    }

    /// What taking a block back changes in accounts and slots, from the block's undo record: with it, reads at the head
    /// tell the state at earlier blocks. A layer whose records are not plain [`UndoRecord`]s says what they hold:
    /// of each account that changed, or of which a slot did, what it was before the block; of a wiped one all its
    /// slots, unless [`WriteSet::apart`] says where they are. `before` values need not be set. `rows` is the store at that
    /// block or a later one of the same branch.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if `record` is damaged, or if the store fails.
    fn undo_writes(&self, record: &[u8], rows: &dyn Read) -> Result<WriteSet, StateError> {
        let _ = rows;
        Ok(UndoRecord::decode(record)?.into_writes())
    }

    /// Visits the slots that [`Self::undo_writes`] does not list, in order of their hash, beginning at `from`: those of
    /// an account for which [`WriteSet::apart`] gives this number. `rows` is as there.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or as `visit`.
    fn slots_apart(
        &self,
        rows: &dyn Read,
        (number, account): (u64, &B256),
        from: &B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        visit_wiped(rows, (number, account), from, visit)
    }

    /// A layer of its own with the same settings, that begins with what the store holds now and changes nothing of it:
    /// to go back in, for what only the head can tell, such as [`Self::prove`]. Not while a block is written or waits.
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if blocks wait, or if the store cannot be read.
    fn fork(&self) -> Result<Fork, StateError>;

    /// A proof of an account and some of its slots, present or absent, against [`Self::commitment`].
    ///
    /// # Errors
    ///
    /// [`StateError::Unsupported`] if the layer has no proofs; or if the store fails or is damaged.
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError>;

    /// What it takes, beside code and headers, to execute a block without the state and to compute its root: the state
    /// root before it and the nodes, as RLP, each once. `back` takes blocks back from the head on
    /// ([`Self::undo_writes`]), the last of them the block itself; `touched` is what it read, slots by account, all by
    /// hash.
    ///
    /// # Errors
    ///
    /// [`StateError::Unsupported`] if the layer makes none; or if the store fails or is damaged.
    fn witness(
        &self,
        back: &[WriteSet],
        touched: &Touched,
    ) -> Result<(B256, Vec<Bytes>), StateError> {
        let _ = (back, touched);
        Err(StateError::Unsupported {
            layer: self.name(),
            reason:
                "makes no witnesses of blocks; start the node with --state mpt, replica or rain"
                    .into(),
        })
    }

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

    /// From now on every block that is finished leaves a [`Witness`], without the first `levels` levels of the account
    /// trie; `None` ends that. A block under way is not concerned.
    ///
    /// # Errors
    ///
    /// If the layer makes none.
    fn make_witnesses(&self, levels: Option<u8>) -> Result<(), StateError> {
        match levels {
            None => Ok(()),
            Some(_) => Err(StateError::Unsupported {
                layer: self.name(),
                reason: "makes no witnesses of blocks; use the layer `rain`".into(),
            }),
        }
    }

    /// The witness of the block that was finished last, if one was to be made and it has not been taken yet.
    fn take_witness(&self) -> Option<Witness> {
        None
    }

    /// Forgets what proofs of the state do not need: what newer versions have replaced, except for what undoing the
    /// blocks of `undo_records` (all whose records are kept) brings back. Reads, commitment and proofs stay as they
    /// are. Writes to the store directly, in pieces, and may be stopped at any time, by a crash too. `None` if there
    /// is nothing of the kind in this layer.
    ///
    /// # Errors
    ///
    /// If the store fails, or a block is under way.
    fn prune(&self, undo_records: &[Vec<u8>]) -> Result<Option<Pruned>, StateError> {
        let _ = undo_records;
        Ok(None)
    }

    /// What the layer counted since it was opened, by name, for reports; nothing depends on it.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Receives accounts by hash.
pub type AccountVisit<'a> = dyn FnMut(B256, Account) -> Result<ControlFlow<()>, StateError> + 'a;

/// Receives slots by hash; values are never zero.
pub type SlotVisit<'a> = dyn FnMut(B256, U256) -> Result<ControlFlow<()>, StateError> + 'a;

/// What [`StateLayer::prune`] did.
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
