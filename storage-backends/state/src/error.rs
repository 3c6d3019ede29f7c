//! Why a layer failed. Never because a block is bad: a layer stores whatever it is given.

use polytrie_kv::KvError;

/// A state layer failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StateError {
    /// The store under the layer failed.
    #[error(transparent)]
    Store(#[from] KvError),
    /// What is stored does not fit together.
    #[error("the stored state is damaged: {0}; import again into an empty --datadir")]
    Corrupt(String),
    /// The layer was driven out of order.
    #[error("the state layer was driven out of order: {0}")]
    Protocol(&'static str),
    /// A block asked for something that it had not been told to ask for ([`Known`](crate::Known)).
    #[error("the block touches something that it was not said to touch")]
    Untold,
    /// The layer cannot do this.
    #[error("the state layer `{layer}` {reason}")]
    Unsupported {
        /// Name of the layer.
        layer: &'static str,
        /// What it cannot do, and what to use instead.
        reason: String,
    },
    /// An earlier failure made the layer unusable; open the data directory again.
    #[error("the state layer stopped after an earlier failure: {0}")]
    Poisoned(Box<Self>),
}
