//! The errors of a file of access lists.

use std::{io, path::PathBuf};
use thiserror::Error;

/// Error of a file of access lists.
#[derive(Debug, Error)]
pub enum AccessListFileError {
    /// A file that cannot be read or written.
    #[error(
        "cannot use the access lists in {}: {source}; check the path, its permissions and the free space",
        file.display()
    )]
    Io {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file that does not exist.
    #[error(
        "there are no access lists in {}: import the blocks with --bal-build first, or name the file that holds them with --bal-file",
        file.display()
    )]
    Missing {
        /// Path of the file.
        file: PathBuf,
    },
    /// A file that holds something else.
    #[error(
        "{} holds no access lists of blocks; name another file with --bal-file, or have it made with --bal-build",
        file.display()
    )]
    OtherContent {
        /// Path of the file.
        file: PathBuf,
    },
    /// A list that does not decode.
    #[error(
        "the access list at byte {offset} of {} does not decode ({reason}): the file is damaged; remove it, and have it made again with --bal-build",
        file.display()
    )]
    Damaged {
        /// Path of the file.
        file: PathBuf,
        /// Offset of the list in the file, in bytes.
        offset: u64,
        /// Reason why it does not decode.
        reason: String,
    },
}

impl AccessListFileError {
    /// Whether the machine failed rather than the request being wrong.
    pub const fn is_ours(&self) -> bool {
        !matches!(self, Self::OtherContent { .. })
    }
}
