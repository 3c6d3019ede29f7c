//! Errors of the node.

use super::PoolError;
use alloy_primitives::B256;
use polytrie_chain::{BuildError, ChainError};
use polytrie_kv::KvError;
use polytrie_node::datadir::OpenError;
use polytrie_state::StateError;
use thiserror::Error;

/// A failure after which the node does not work any more.
#[derive(Debug, Clone, Error)]
pub enum NodeFailure {
    /// The store failed, and nothing can be written.
    #[error(transparent)]
    Store(#[from] KvError),
    /// The store was lost, and nothing can be read any more.
    #[error(transparent)]
    Lost(KvError),
    /// The state layer failed, and refuses every call.
    #[error(transparent)]
    Layer(StateError),
    /// A bug in this program; the log has the details.
    #[error(
        "this program made a mistake, and the node cannot go on: {0}; what was made durable is as it was: start the node again, and please report the mistake with the log"
    )]
    Program(String),
}

/// The error of an operation that the node failed to do or refused.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The pool refused the transaction.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The node is read only.
    #[error("the node was started with --read-only: it makes no blocks and changes no state")]
    ReadOnly,
    /// A block could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The chain failed.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The genesis for a reset of the chain cannot be read.
    #[error(transparent)]
    Genesis(OpenError),
    /// The requested block was reverted while the request ran.
    #[error("block {number} with the hash {hash} was taken back while the request ran; ask again")]
    TakenBack {
        /// Number of the block.
        number: u64,
        /// Hash of the block.
        hash: B256,
    },
    /// The lock of the chain was not free within the time limit.
    #[error(
        "the chain is busy with other requests, and this one takes longer than it may; ask again, or start the node with a larger --rpc.evmtimeout"
    )]
    Busy,
    /// The chain has fewer blocks than the requested depth.
    #[error("{depth} blocks were to be taken back, and there are only {there}")]
    TooFew {
        /// Number of blocks that were to be reverted.
        depth: u64,
        /// Number of blocks that can be reverted.
        there: u64,
    },
    /// No block can have the requested time.
    #[error("{0}")]
    Time(String),
    /// The node has failed before.
    #[error(transparent)]
    Failed(#[from] NodeFailure),
    /// The request makes no sense in the current state of the node.
    #[error("{0}")]
    Refused(String),
}

/// The result of an operation that the node may fail to do or refuse.
pub type Result<T, E = NodeError> = std::result::Result<T, E>;

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
