//! Errors of the Engine API, with the codes of its specification.

use crate::NodeError;
use thiserror::Error;

/// The error of a refused call.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No payload with this ID is kept.
    #[error(
        "there is no payload {0}: it was not begun since the node was started, or others have taken its place"
    )]
    UnknownPayload(String),
    /// The forkchoice state is inconsistent.
    #[error("the forkchoice state is inconsistent: {0}")]
    Forkchoice(String),
    /// No payload can be built with these attributes.
    #[error("the payload attributes are invalid: {0}")]
    Attributes(String),
    /// The request exceeds the maximum size of one answer.
    #[error("{found} {what} were asked for, at most {most} are answered at once")]
    TooLarge {
        /// Name of the requested items.
        what: &'static str,
        /// Number of items that were requested.
        found: u64,
        /// Maximum number of items in one request.
        most: u64,
    },
    /// The version of the method does not fit the fork.
    #[error("{0}")]
    Fork(String),
    /// The fork point is older than the undo records that are kept.
    #[error(
        "the head that was chosen leaves the chain further back than blocks can be taken back (--history)"
    )]
    TooDeep,
    /// The node failed or refused the operation.
    #[error(transparent)]
    Node(#[from] NodeError),
}

impl EngineError {
    /// Returns the JSON-RPC code of the error; `None` if the code is that of the node's error.
    pub const fn code(&self) -> Option<i32> {
        Some(match self {
            Self::UnknownPayload(_) => -38001,
            Self::Forkchoice(_) => -38002,
            Self::Attributes(_) => -38003,
            Self::TooLarge { .. } => -38004,
            Self::Fork(_) => -38005,
            Self::TooDeep => -38006,
            Self::Node(_) => return None,
        })
    }
}
