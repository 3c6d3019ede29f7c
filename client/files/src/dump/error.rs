//! The errors of a dump.

use std::{io, sync::Arc};

/// Error of a dump of a state: one sentence with the file, the line, the found and the expected content, and what to do
/// next.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {kind}")]
pub struct DumpError {
    /// Name of the file, as the user gave it.
    pub file: Arc<str>,
    /// Kind of the error.
    pub kind: DumpErrorKind,
}

impl DumpError {
    /// Whether the machine failed rather than the content being wrong.
    pub const fn is_io(&self) -> bool {
        matches!(self.kind, DumpErrorKind::Open(_) | DumpErrorKind::Read(_))
    }
}

/// Kinds of [`DumpError`].
#[derive(Debug, thiserror::Error)]
pub enum DumpErrorKind {
    /// A file that is not there, or cannot be opened.
    #[error("the file cannot be opened ({0}); check the path and its permissions")]
    Open(io::Error),
    /// A read that failed.
    #[error(
        "reading failed ({0}); check the disk or the program that writes into the pipe, then run the same command again"
    )]
    Read(io::Error),
    /// A gzip stream that is damaged or cut off.
    #[error(
        "the compressed data is damaged or cut off ({0}); copy the file again, or make it again"
    )]
    Gzip(io::Error),
    /// An empty file.
    #[error("the file is empty, a dump of a state was expected; check how it was made")]
    Empty,
    /// A file that does not begin like a dump.
    #[error(
        "the file begins with \"{start}\", which is no dump of a state; expected is the JSON of `geth dump`, `geth snapshot dump` or `polytrie db dump`, or the lines that reth's init-state takes"
    )]
    NoDump {
        /// First bytes of the file.
        start: String,
    },
    /// A dump that ends within an object.
    #[error(
        "the file ends within line {line}, after {accounts} whole accounts: it was cut off; copy it again, or make it again"
    )]
    CutOff {
        /// Number of the last line.
        line: u64,
        /// Number of complete accounts before it.
        accounts: u64,
    },
    /// Content that is no valid account.
    #[error("line {line}: {what}; make the dump again, or check what changed it")]
    Content {
        /// Number of the line, counted from 1.
        line: u64,
        /// Description of the found and the expected content.
        what: String,
    },
}
