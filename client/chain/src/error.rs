//! "The block is bad" and "we are broken", kept apart.

use crate::executor::{BlockInvalid, ExecuteError, InternalError, SenderError};
use alloy_primitives::{B256, U256};
use polytrie_consensus::{ConsensusError, clique::CliqueError, decode::DecodeError};
use polytrie_kv::KvError;
use polytrie_state::StateError;
use thiserror::Error;

/// The chain cannot go on, whatever the block.
#[derive(Debug, Error)]
pub enum ChainError {
    /// The state layer or its store failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// Execution failed for a reason that no block can cause.
    #[error(transparent)]
    Execution(#[from] InternalError),
    /// The store's genesis block is another one.
    #[error(
        "the data directory belongs to a chain with genesis {found}, the chain {name} has {expected}: name the chain it was made for with --chain, or choose another --datadir"
    )]
    Genesis {
        /// Genesis hash in the store.
        found: B256,
        /// Genesis hash of the chain asked for.
        expected: B256,
        /// Name of that chain.
        name: String,
    },
    /// The genesis allocation does not make the state root its header holds.
    #[error(
        "the genesis allocation of {name} makes state root {found}, its header says {expected}; the genesis file is inconsistent"
    )]
    GenesisState {
        /// Name of the chain.
        name: String,
        /// Root of the allocation.
        found: B256,
        /// Root in the header.
        expected: B256,
    },
    /// The chain was made without its genesis accounts, and the store needs them.
    #[error(
        "the genesis accounts of {name} are needed and not at hand: name the genesis file with --chain"
    )]
    NoGenesisAccounts {
        /// Name of the chain.
        name: String,
    },
    /// The state in the store is not that of the head.
    #[error(
        "the store is damaged: the state has root {found}, block {number} at the head says {expected}; import again into an empty --datadir"
    )]
    HeadState {
        /// Number of the head.
        number: u64,
        /// Root of the state.
        found: B256,
        /// Root in the head's header.
        expected: B256,
    },
    /// Taking blocks back leads to a state that is not that of the block there.
    #[error(
        "taking blocks back leads at block {number} to state root {found}, its header says {expected}: block {number} is invalid and was imported without its root being compared (`--verify every` or `none`), or the store is damaged; import again into an empty --datadir with `--verify full`, which names an invalid block"
    )]
    OtherState {
        /// Number of the block.
        number: u64,
        /// Root of the state.
        found: B256,
        /// Root in its header.
        expected: B256,
    },
    /// A row that must be there is not, or does not decode.
    #[error("the store is damaged: {0}; import again into an empty --datadir")]
    Corrupt(String),
    /// Blocks before the one that the chain begins with are needed.
    #[error(
        "{what}, and the chain in this directory begins with the state at block {start}: make it anew with `polytrie init`, whose --header may name a file with the {needed} blocks up to {start}"
    )]
    BeforeStart {
        /// What asks for them.
        what: String,
        /// The block that the chain begins with.
        start: u64,
        /// How many would do.
        needed: usize,
    },
    /// It is a block before the one that the chain begins with.
    #[error(
        "block {number} is not here: the chain in this directory begins with the state at block {start}"
    )]
    NotHere {
        /// Its number.
        number: u64,
        /// The block that the chain begins with.
        start: u64,
    },
    /// The records needed to go back that far are not kept any more.
    #[error(
        "cannot go back to block {asked}: undo records reach back to block {lowest} only; go back to that one, or import into an empty --datadir"
    )]
    NoUndo {
        /// Asked for.
        asked: u64,
        /// The lowest block that can be reached.
        lowest: u64,
    },
    /// Going back takes longer than it may.
    #[error(
        "going back from block {head} to block {asked} takes longer than a request may: block {reached} was reached; ask for a later block, or start the node with a larger --rpc.evmtimeout"
    )]
    TooLong {
        /// Asked for.
        asked: u64,
        /// The head.
        head: u64,
        /// Where the time was over.
        reached: u64,
    },
    /// A better branch begins too far below the head.
    #[error(
        "a better branch leaves the chain at block {fork}, but from the head {head} undo records reach back to block {lowest} only; to go over to it, import it into an empty --datadir"
    )]
    TooDeep {
        /// The last block they share.
        fork: u64,
        /// The head.
        head: u64,
        /// The lowest block that can be reached.
        lowest: u64,
    },
    /// A crash interrupted taking back a block that wiped a large contract.
    #[error(
        "taking back block {number} was interrupted; first end that, with `polytrie db unwind --to {parent}`"
    )]
    HalfBack {
        /// Number of the block.
        number: u64,
        /// Number of its parent, which is the head then.
        parent: u64,
    },
    /// A crash interrupted a change of branch.
    #[error(
        "a change of branch was interrupted; first go back to the head there was, with `polytrie db unwind --to {head}`"
    )]
    Interrupted {
        /// Number of that head.
        head: u64,
    },
    /// Blocks led to another state together than one by one.
    #[error(
        "the state root up to block {last}, computed for several blocks at once, was {root}, but each of them by itself leads to the root in its header; this is an error of polytrie, please report it (with --verify full the import goes on)"
    )]
    Group {
        /// The last of them.
        last: u64,
        /// The root that they led to together.
        root: B256,
    },
    /// There is no such block to go back to.
    #[error("cannot go back to block {asked}: the head is block {head}; choose one below it")]
    AboveHead {
        /// Asked for.
        asked: u64,
        /// The head.
        head: u64,
    },
}

impl From<KvError> for ChainError {
    fn from(error: KvError) -> Self {
        Self::State(error.into())
    }
}

/// A block was not inserted.
#[derive(Debug, Error)]
pub enum InsertError {
    /// The block is invalid.
    #[error(transparent)]
    Invalid(#[from] Box<InvalidBlock>),
    /// The chain cannot go on.
    #[error(transparent)]
    Broken(#[from] ChainError),
}

impl From<StateError> for InsertError {
    fn from(error: StateError) -> Self {
        Self::Broken(error.into())
    }
}

impl From<KvError> for InsertError {
    fn from(error: KvError) -> Self {
        Self::Broken(error.into())
    }
}

/// A block that breaks a rule.
#[derive(Debug, Error)]
#[error("block {number} ({hash}) is invalid: {reason}")]
pub struct InvalidBlock {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Which rule, what was found and what was expected.
    pub reason: InvalidReason,
}

/// Which rule a block breaks.
#[derive(Debug, Error)]
pub enum InvalidReason {
    /// A rule about header, body or result.
    #[error(transparent)]
    Consensus(#[from] ConsensusError),
    /// It cannot be executed.
    #[error(transparent)]
    Execution(#[from] BlockInvalid),
    /// A transaction has no sender.
    #[error(transparent)]
    Sender(#[from] SenderError),
    /// It does not decode.
    #[error("it does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// Its parent is not known.
    #[error("its parent {parent} is not known; the head is block {head}{hint}")]
    UnknownParent {
        /// Hash of the parent.
        parent: B256,
        /// Number of our head.
        head: u64,
        /// What may have happened, and what to do.
        hint: String,
    },
    /// The file claims a receipt that the block does not produce.
    #[error(
        "the file holds another {field} for the receipt of transaction {index} than its execution gives: {found}, {expected} was expected"
    )]
    FileReceipt {
        /// The first transaction with one that differs.
        index: usize,
        /// The first field that differs.
        field: String,
        /// In the file.
        found: String,
        /// Of the execution.
        expected: String,
    },
    /// The file claims more or fewer receipts.
    #[error("the file holds {found} receipts for it, its execution gives {expected}")]
    FileReceiptCount {
        /// In the file.
        found: usize,
        /// Of the execution.
        expected: usize,
    },
    /// The file claims another total difficulty.
    #[error("the file gives it the total difficulty {found}, expected {expected}")]
    FileTotalDifficulty {
        /// In the file.
        found: U256,
        /// Computed.
        expected: U256,
    },
}

impl From<CliqueError> for InvalidReason {
    fn from(error: CliqueError) -> Self {
        ConsensusError::from(error).into()
    }
}

/// What running a block says of it, sorted into the two kinds.
pub(super) fn executed(error: ExecuteError) -> Result<InvalidReason, ChainError> {
    match error {
        ExecuteError::Invalid(invalid) => Ok(invalid.into()),
        ExecuteError::Internal(internal) => Err(internal.into()),
    }
}
