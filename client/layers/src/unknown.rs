//! The errors of unknown names.

use thiserror::Error;

/// Error of a layer or an engine that this build does not have, or that does not have an option.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownKind {
    /// A name that no layer of any build has.
    #[error("there is no state layer `{name}`; this build has {available}")]
    Layer {
        /// Name that the caller gave.
        name: String,
        /// Names of this build's layers, in words.
        available: String,
    },
    /// A name that no engine of any build has.
    #[error("there is no engine `{name}`; this build has {available}")]
    Engine {
        /// Name that the caller gave.
        name: String,
        /// Names of this build's engines, in words.
        available: String,
    },
    /// A layer or an engine that this build leaves out.
    #[error(
        "{what} `{name}` is not compiled in; build with `cargo build --release --features {name}`"
    )]
    NotCompiledIn {
        /// Kind of the missing part: `the state layer` or `the engine`.
        what: &'static str,
        /// Name of the layer or engine.
        name: String,
    },
    /// An option of another engine.
    #[error(
        "{option} goes with --kv {of}, and the engine here is `{engine}`; leave it out, or choose that engine for a new directory"
    )]
    OtherEngine {
        /// The option.
        option: &'static str,
        /// Names of the engines that have it, in words.
        of: &'static str,
        /// Name of the engine that is opened.
        engine: String,
    },
}
