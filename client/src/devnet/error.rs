//! Why the node did not do what it was asked for.

use super::PoolError;
use crate::{
    chain::{BuildError, ChainError},
    consensus::TransactionError,
    datadir::OpenError,
};
use polytrie_state::StateError;
use thiserror::Error;

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
    /// What was asked for makes no sense now.
    #[error("{0}")]
    Refused(String),
}

impl From<StateError> for NodeError {
    fn from(error: StateError) -> Self {
        Self::Chain(error.into())
    }
}

impl From<polytrie_kv::KvError> for NodeError {
    fn from(error: polytrie_kv::KvError) -> Self {
        Self::Chain(error.into())
    }
}
