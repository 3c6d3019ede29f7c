//! The errors of the chain. An error about a block and an error about this machine have different
//! types.

use crate::executor::{BlockInvalid, ExecuteError, InternalError, SenderError};
use alloy_primitives::{B256, U256};
use polytrie_consensus::{ConsensusError, clique::CliqueError, decode::DecodeError};
use polytrie_kv::KvError;
use polytrie_state::StateError;
use thiserror::Error;

/// Error after which the chain cannot go on with any block.
#[derive(Debug, Error)]
pub enum ChainError {
    /// An error of the state layer or its store.
    #[error(transparent)]
    State(#[from] StateError),
    /// An error of the execution that no block can cause.
    #[error(transparent)]
    Execution(#[from] InternalError),
    /// A store with the genesis block of another chain.
    #[error(
        "the data directory belongs to a chain with genesis {found}, the chain {name} has {expected}: name the chain it was made for with --chain, or choose another --datadir"
    )]
    Genesis {
        /// Genesis hash in the store.
        found: B256,
        /// Genesis hash of the requested chain.
        expected: B256,
        /// Name of the requested chain.
        name: String,
    },
    /// A genesis allocation with another state root than its header.
    #[error(
        "the genesis allocation of {name} makes state root {found}, its header says {expected}: the genesis file is inconsistent; get it again, or correct its accounts or its state root"
    )]
    GenesisState {
        /// Name of the chain.
        name: String,
        /// Root of the allocation.
        found: B256,
        /// Root in the header.
        expected: B256,
    },
    /// A chain that was made without its genesis accounts, which the store needs.
    #[error(
        "the genesis accounts of {name} are needed and not at hand: name the genesis file with --chain"
    )]
    NoGenesisAccounts {
        /// Name of the chain.
        name: String,
    },
    /// A store with another state than that of the head.
    #[error(
        "the state has root {found}, block {number} at the head says {expected}: block {number} is invalid and was imported without its root being compared (`--verify none`), or the store is damaged; import again into an empty --datadir with `--verify full`, which names an invalid block"
    )]
    HeadState {
        /// Number of the head.
        number: u64,
        /// Root of the state.
        found: B256,
        /// Root in the head's header.
        expected: B256,
    },
    /// A state after taking blocks back that is not that of the block.
    #[error(
        "taking blocks back leads at block {number} to state root {found}, its header says {expected}: block {number} is invalid and was imported without its root being compared (`--verify every` or `none`), or the store is damaged; import again into an empty --datadir with `--verify full`, which names an invalid block"
    )]
    OtherState {
        /// Number of the block.
        number: u64,
        /// Root of the state.
        found: B256,
        /// Root in the block's header.
        expected: B256,
    },
    /// A row that is missing or does not decode.
    #[error("the store is damaged: {0}; import again into an empty --datadir")]
    Corrupt(String),
    /// A need for blocks before the one that the chain begins with.
    #[error(
        "{what}, and the chain in this directory begins with the state at block {start}: make it anew with `polytrie init`, whose --header may name a file with the {needed} blocks up to {start}"
    )]
    BeforeStart {
        /// Description of the need.
        what: String,
        /// Number of the block that the chain begins with.
        start: u64,
        /// Number of blocks up to the start that are enough.
        needed: usize,
    },
    /// A part of a state without something that a block needs.
    #[error(
        "block {number} needs what its file does not hold: {what}; get the files again, with codes.json and blockhashes.json beside them if code and hashes are not in them"
    )]
    Lacking {
        /// Number of the block.
        number: u64,
        /// Description of what is missing.
        what: String,
    },
    /// A block before the one that the chain begins with.
    #[error(
        "block {number} is not here: the chain in this directory begins with the state at block {start}; choose a later one"
    )]
    NotHere {
        /// Number of the block.
        number: u64,
        /// Number of the block that the chain begins with.
        start: u64,
    },
    /// A block that cannot be reached, because the undo records on the way are dropped.
    #[error(
        "cannot go back to block {asked}: undo records reach back to block {lowest} only; go back to that one, or import into an empty --datadir"
    )]
    NoUndo {
        /// Number of the requested block.
        asked: u64,
        /// Number of the lowest block that can be reached.
        lowest: u64,
    },
    /// An earlier block with a state that takes longer to restore than the deadline allows.
    #[error(
        "going back from block {head} to block {asked} takes longer than a request may: block {reached} was reached; ask for a later block, or start the node with a larger --rpc.evmtimeout"
    )]
    TooLong {
        /// Number of the requested block.
        asked: u64,
        /// Number of the head.
        head: u64,
        /// Number of the block that was reached.
        reached: u64,
    },
    /// A better branch that begins too far below the head.
    #[error(
        "a better branch leaves the chain at block {fork}, but from the head {head} undo records reach back to block {lowest} only; to go over to it, import it into an empty --datadir"
    )]
    TooDeep {
        /// Number of the last common block.
        fork: u64,
        /// Number of the head.
        head: u64,
        /// Number of the lowest block that can be reached.
        lowest: u64,
    },
    /// A crash that interrupted taking back a block that wiped a large contract.
    #[error(
        "taking back block {number} was interrupted; first end that, with `polytrie db unwind --to {parent}`"
    )]
    HalfBack {
        /// Number of the block.
        number: u64,
        /// Number of its parent, which becomes the head.
        parent: u64,
    },
    /// A crash that interrupted a change of branch.
    #[error(
        "a change of branch was interrupted; first go back to the head there was, with `polytrie db unwind --to {head}`"
    )]
    Interrupted {
        /// Number of the former head.
        head: u64,
    },
    /// A group of blocks with a wrong common root, although the root of each block is right.
    #[error(
        "the state root up to block {last}, computed for several blocks at once, was {root}, but each of them by itself leads to the root in its header; this is an error of polytrie, please report it (with --verify full the import goes on)"
    )]
    Group {
        /// Number of the last block of the group.
        last: u64,
        /// Root of the group.
        root: B256,
    },
    /// A block above the head, to which the chain cannot go back.
    #[error("cannot go back to block {asked}: the head is block {head}; choose one below it")]
    AboveHead {
        /// Number of the requested block.
        asked: u64,
        /// Number of the head.
        head: u64,
    },
}

/// The result of a call. After an error of it the chain cannot go on.
pub type Result<T, E = ChainError> = std::result::Result<T, E>;

impl From<KvError> for ChainError {
    fn from(error: KvError) -> Self {
        Self::State(error.into())
    }
}

/// Error of an insertion.
#[derive(Debug, Error)]
pub enum InsertError {
    /// An invalid block.
    #[error(transparent)]
    Invalid(#[from] Box<InvalidBlock>),
    /// A failure of the chain.
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
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// Rule that the block breaks, with the found and the expected value.
    pub reason: InvalidReason,
}

/// Rule that a block breaks.
#[derive(Debug, Error)]
pub enum InvalidReason {
    /// A rule about header, body or result.
    #[error(transparent)]
    Consensus(#[from] ConsensusError),
    /// A failure of the execution that the block causes.
    #[error(transparent)]
    Execution(#[from] BlockInvalid),
    /// A transaction from which no sender can be recovered.
    #[error(transparent)]
    Sender(#[from] SenderError),
    /// RLP that does not decode.
    #[error("it does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// A parent that is not known.
    #[error("its parent {parent} is not known; the head is block {head}{hint}")]
    UnknownParent {
        /// Hash of the parent.
        parent: B256,
        /// Number of the chain's head.
        head: u64,
        /// Possible cause, and what to do next.
        hint: String,
    },
    /// A receipt in the file that differs from that of the execution.
    #[error(
        "the file holds another {field} for the receipt of transaction {index} than its execution gives: {found}, {expected} was expected"
    )]
    FileReceipt {
        /// Index of the first transaction with another receipt.
        index: usize,
        /// Name of the first field that differs.
        field: String,
        /// Value in the file.
        found: String,
        /// Value of the execution.
        expected: String,
    },
    /// More or fewer receipts in the file than the execution gives.
    #[error("the file holds {found} receipts for it, its execution gives {expected}")]
    FileReceiptCount {
        /// Number in the file.
        found: usize,
        /// Number that the execution gives.
        expected: usize,
    },
    /// A total difficulty in the file that differs from the sum.
    #[error("the file gives it the total difficulty {found}, expected {expected}")]
    FileTotalDifficulty {
        /// Total difficulty in the file.
        found: U256,
        /// Total difficulty computed from the parent's.
        expected: U256,
    },
}

impl From<CliqueError> for InvalidReason {
    fn from(error: CliqueError) -> Self {
        ConsensusError::from(error).into()
    }
}

/// Separates the errors of an execution: those about the block are `Ok`, those about this machine
/// `Err`.
pub(super) fn executed(error: ExecuteError) -> Result<InvalidReason, ChainError> {
    match error {
        ExecuteError::Invalid(invalid) => Ok(invalid.into()),
        ExecuteError::Internal(internal) => Err(internal.into()),
    }
}
