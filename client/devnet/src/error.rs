//! Why the node did not do what it was asked for.

use super::PoolError;
use alloy_primitives::B256;
use polytrie_chain::{BuildError, ChainError};
use polytrie_consensus::TransactionError;
use polytrie_kv::KvError;
use polytrie_node::datadir::OpenError;
use polytrie_state::StateError;
use thiserror::Error;

/// The node does not work any more.
#[derive(Debug, Clone, Error)]
pub enum NodeFailure {
    /// Nothing can be stored.
    #[error(transparent)]
    Store(#[from] KvError),
    /// A mistake in this program; the log has what it was.
    #[error(
        "this program made a mistake, and the node cannot go on: {0}; what was made durable is as it was: start the node again, and please report the mistake with the log"
    )]
    Program(String),
}

/// The node did not do what it was asked for.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The pool does not take the transaction.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Nothing may be changed.
    #[error("the node was started with --read-only: it makes no blocks and changes no state")]
    ReadOnly,
    /// A block cannot be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The chain failed.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The genesis that the chain was to begin anew with cannot be read.
    #[error(transparent)]
    Genesis(OpenError),
    /// A stored transaction has no sender.
    #[error(transparent)]
    Sender(#[from] TransactionError),
    /// The block that a request is about is not in the chain any more.
    #[error("block {number} with the hash {hash} was taken back while the request ran; ask again")]
    TakenBack {
        /// Its number.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The chain was not free in time.
    #[error(
        "the chain is busy with other requests, and this one takes longer than it may; ask again, or start the node with a larger --rpc.evmtimeout"
    )]
    Busy,
    /// There are not so many blocks to take back.
    #[error("{depth} blocks were to be taken back, and there are only {there}")]
    TooFew {
        /// Blocks that were to be taken back.
        depth: u64,
        /// Blocks that are there.
        there: u64,
    },
    /// No block can have the time that was asked for.
    #[error("{0}")]
    Time(String),
    /// The node does not work any more.
    #[error(transparent)]
    Failed(#[from] NodeFailure),
    /// What was asked for makes no sense now.
    #[error("{0}")]
    Refused(String),
}

impl From<StateError> for NodeError {
    fn from(error: StateError) -> Self {
        Self::Chain(error.into())
    }
}

impl From<KvError> for NodeError {
    fn from(error: KvError) -> Self {
        Self::Chain(error.into())
    }
}
