//! The errors of a layer. None means that a block is bad: a layer stores what it gets.

use polytrie_kv::KvError;

/// The error of a state layer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StateError {
    /// The store under the layer failed.
    #[error(transparent)]
    Store(#[from] KvError),
    /// The stored rows contradict each other or do not decode.
    #[error("the stored state is damaged: {0}; import again into an empty --datadir")]
    Corrupt(String),
    /// The layer's methods were called in a wrong order.
    #[error("the state layer was driven out of order: {0}")]
    Protocol(&'static str),
    /// A block touched a part of the state that was not announced for it ([`Known`](crate::Known)).
    #[error("the block touches something that it was not said to touch")]
    Untold,
    /// The layer cannot do this.
    #[error("the state layer `{layer}` {reason}")]
    Unsupported {
        /// Name of the layer.
        layer: &'static str,
        /// The missing capability, and what to use instead.
        reason: String,
    },
    /// An earlier failure made the layer unusable; open the data directory again.
    #[error("the state layer stopped after an earlier failure: {0}")]
    Poisoned(Box<Self>),
}

/// The result of a call to a layer, and to most of what layers are built from.
pub type Result<T, E = StateError> = std::result::Result<T, E>;

/// Makes the [`StateError`] of damaged rows, with a message as for [`format!`].
#[macro_export]
macro_rules! corrupt {
    ($($message:tt)*) => {
        $crate::StateError::Corrupt(::std::format!($($message)*))
    };
}
