//! What can be wrong with a dump.

use std::{io, sync::Arc};

/// What is wrong with a dump of a state: one sentence with the file, the place, what was found, what was expected, and what
/// to do.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {kind}")]
pub struct DumpError {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// What is wrong with it.
    pub kind: DumpErrorKind,
}

impl DumpError {
    /// Whether the machine failed, rather than the content being wrong.
    pub const fn is_io(&self) -> bool {
        matches!(self.kind, DumpErrorKind::Open(_) | DumpErrorKind::Read(_))
    }
}

/// The kinds of [`DumpError`].
#[derive(Debug, thiserror::Error)]
pub enum DumpErrorKind {
    /// It is not there, or cannot be opened.
    #[error("the file cannot be opened ({0}); check the path and its permissions")]
    Open(io::Error),
    /// Reading failed on the way.
    #[error(
        "reading failed ({0}); check the disk or the program that writes into the pipe, then run the same command again"
    )]
    Read(io::Error),
    /// Gzip that is damaged or cut off.
    #[error(
        "the compressed data is damaged or cut off ({0}); copy the file again, or make it again"
    )]
    Gzip(io::Error),
    /// Nothing is in it.
    #[error("the file is empty; a dump of a state was expected")]
    Empty,
    /// It does not begin like a dump.
    #[error(
        "the file begins with \"{start}\", which is no dump of a state; expected is the JSON of `geth dump`, `geth snapshot dump` or `polytrie db dump`, or the lines that reth's init-state takes"
    )]
    NoDump {
        /// The first bytes.
        start: String,
    },
    /// It ends too early.
    #[error(
        "the file ends within line {line}, after {accounts} whole accounts: it was cut off; copy it again, or make it again"
    )]
    CutOff {
        /// The last line.
        line: u64,
        /// Accounts before it.
        accounts: u64,
    },
    /// Something in it is not as it should be.
    #[error("line {line}: {what}; make the dump again, or check what changed it")]
    Content {
        /// The line, counted from 1.
        line: u64,
        /// What was found and expected.
        what: String,
    },
}
