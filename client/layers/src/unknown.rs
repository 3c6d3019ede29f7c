//! Names that name nothing.

use thiserror::Error;

/// A layer or an engine that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownKind {
    /// No such layer.
    #[error("there is no state layer `{name}`; this build has {available}")]
    Layer {
        /// Asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// No such engine.
    #[error("there is no engine `{name}`; this build has {available}")]
    Engine {
        /// Asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// Left out of this build.
    #[error(
        "{what} `{name}` is not compiled in; build with `cargo build --release --features {name}`"
    )]
    NotCompiledIn {
        /// `the state layer` or `the engine`.
        what: &'static str,
        /// Its name.
        name: String,
    },
}
