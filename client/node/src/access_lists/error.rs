//! Why there are no access lists to be had.

use std::{io, path::PathBuf};
use thiserror::Error;

/// A file of access lists cannot be used.
#[derive(Debug, Error)]
pub enum AccessListFileError {
    /// It cannot be read or written.
    #[error("cannot use the access lists in {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// It is not there.
    #[error(
        "there are no access lists in {}: import the blocks with --bal-build first, or name the file that holds them with --bal-file",
        file.display()
    )]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// It holds something else.
    #[error(
        "{} holds no access lists of blocks; name another file with --bal-file, or have it made with --bal-build",
        file.display()
    )]
    OtherContent {
        /// The file.
        file: PathBuf,
    },
    /// A list in it is none.
    #[error(
        "the access list at byte {offset} of {} does not decode ({reason}): the file is damaged; remove it, and have it made again with --bal-build",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where the list begins.
        offset: u64,
        /// What does not decode.
        reason: String,
    },
}

impl AccessListFileError {
    /// Whether the machine failed, as opposed to what was asked for.
    pub const fn is_ours(&self) -> bool {
        !matches!(self, Self::OtherContent { .. })
    }
}
