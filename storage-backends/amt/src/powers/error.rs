//! The errors of reading powers of tau.

use polytrie_kv::KvError;
use std::path::PathBuf;

/// The reason why powers of tau cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PowersError {
    /// A file cannot be read.
    #[error(transparent)]
    Io(#[from] KvError),
    /// A file has too few powers.
    #[error("{} holds {found} points, a setup of height {height} needs {needed}; use powers of a larger ceremony", path.display())]
    TooFew {
        /// The file.
        path: PathBuf,
        /// Number of points in the file.
        found: u64,
        /// Number of points that the setup needs.
        needed: u64,
        /// The requested height.
        height: u8,
    },
    /// A file does not have the expected form.
    #[error("{} is no {expected}: {reason}; use the file as it was published", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The expected form.
        expected: &'static str,
        /// The reason why it does not have that form.
        reason: String,
    },
    /// A point of a file is not in the group.
    #[error("point {index} of {} is not in the group; the file is damaged, or of another curve than BN254", path.display())]
    Point {
        /// The file.
        path: PathBuf,
        /// Number of the point, from 0.
        index: u64,
    },
    /// The points are not powers of one number.
    #[error(
        "the points are not the powers of one tau: {0}; the files are damaged, or of two different ceremonies"
    )]
    Inconsistent(String),
    /// The height is not supported.
    #[error(
        "a setup of height {0} cannot be made; the height must lie between 1 and 20, and 16 is the one of the paper"
    )]
    Height(u8),
}
