//! Why a call of the Engine API is refused, with the codes of its specification.

use crate::NodeError;
use thiserror::Error;

/// A call is refused.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No such payload was begun.
    #[error(
        "there is no payload {0}: it was not begun since the node was started, or others have taken its place"
    )]
    UnknownPayload(String),
    /// The choice contradicts itself.
    #[error("the forkchoice state is inconsistent: {0}")]
    Forkchoice(String),
    /// No payload can be made with these attributes.
    #[error("the payload attributes are invalid: {0}")]
    Attributes(String),
    /// More was asked for than one answer has.
    #[error("{found} {what} were asked for, at most {most} are answered at once")]
    TooLarge {
        /// What was asked for.
        what: &'static str,
        /// How many of them.
        found: u64,
        /// The most there may be.
        most: u64,
    },
    /// The method is not for the fork.
    #[error("{0}")]
    Fork(String),
    /// The way back is not kept.
    #[error(
        "the head that was chosen leaves the chain further back than blocks can be taken back (--history)"
    )]
    TooDeep,
    /// The parameters have another shape.
    #[error("{0}")]
    Params(String),
    /// The node did not do what it was asked for.
    #[error(transparent)]
    Node(#[from] NodeError),
}

impl EngineError {
    /// The code of the answer; `None` if it is for the node's error to say.
    pub const fn code(&self) -> Option<i32> {
        Some(match self {
            Self::UnknownPayload(_) => -38001,
            Self::Forkchoice(_) => -38002,
            Self::Attributes(_) => -38003,
            Self::TooLarge { .. } => -38004,
            Self::Fork(_) => -38005,
            Self::TooDeep => -38006,
            Self::Params(_) => -32602,
            Self::Node(_) => return None,
        })
    }
}
