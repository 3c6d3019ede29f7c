//! The errors that end an import early.

use super::{InvalidReport, shadow::ShadowError};
use crate::access_lists::AccessListFileError;
use alloy_primitives::B256;
use polytrie_chain::{ChainError, InvalidBlock, InvalidReason};
use polytrie_consensus::decode::BlockPart;
use polytrie_files::{BlockFileError, BlockFileErrorKind};
use std::{fmt, sync::Arc};
use thiserror::Error;

/// The place of a block in its file.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The file.
    pub file: Arc<str>,
    /// Position of the block in the file, from 0.
    pub index: u64,
    /// Bytes from the start of the (decompressed) file.
    pub offset: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (index {}, offset {})", self.file, self.index, self.offset)
    }
}

/// The error that ended an import early.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A block is invalid.
    #[error("{place}: {block}{}", advice(block))]
    Invalid {
        /// The place of the block.
        place: Origin,
        /// The block and the rule that it breaks.
        block: Box<InvalidBlock>,
    },
    /// A block that an earlier import stored was found to be invalid.
    #[error("{block}{}", advice(block))]
    Stored {
        /// The block and the rule that it breaks.
        block: Box<InvalidBlock>,
    },
    /// The shadow and the chain differ, or the shadow failed.
    #[error(transparent)]
    Shadow(#[from] ShadowError),
    /// A file is no file of blocks, or is truncated.
    #[error(transparent)]
    File(#[from] BlockFileError),
    /// The file has the genesis block of another chain.
    #[error(
        "{place}: the file begins with genesis block {found}, the chain {chain} has {expected}; name the right chain with --chain, or import into another --datadir"
    )]
    OtherGenesis {
        /// The place of that block.
        place: Origin,
        /// Genesis hash in the file.
        found: B256,
        /// Genesis hash of the chain.
        expected: B256,
        /// Name of the chain.
        chain: String,
    },
    /// The machine or the program failed, independent of the block.
    #[error("{}{error}", place.as_ref().map(|p| format!("{p}: ")).unwrap_or_default())]
    Broken {
        /// The place of the current block.
        place: Option<Origin>,
        /// The error.
        error: Box<ChainError>,
    },
    /// A file of figures cannot be written.
    #[error(
        "cannot write {file}: {source}; check the path, its permissions and the free space, then run the same command again"
    )]
    Output {
        /// The file.
        file: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file of access lists cannot be written.
    #[error(transparent)]
    AccessLists(#[from] AccessListFileError),
    /// A file that was named for figures has other content.
    #[error(
        "{file} holds something else than the figures of an import, which go on after those that are there; name another file"
    )]
    OtherContent {
        /// The file.
        file: String,
    },
    /// The system gives no thread.
    #[error(
        "cannot start a thread: {source}; ask for fewer (--threads), or raise the limit of processes (`ulimit -u`)"
    )]
    Thread {
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A worker thread has ended unexpectedly.
    #[error(
        "a thread that prepares blocks ended unexpectedly; this is an error of polytrie, please report it"
    )]
    Worker,
    /// The user asked to stop.
    #[error("interrupted at block {head}; run the same command again to go on from there")]
    Interrupted {
        /// Number of the head.
        head: u64,
    },
}

/// Returns the advice that follows the message of an invalid block.
fn advice(block: &InvalidBlock) -> String {
    match (&block.reason, block.number.checked_sub(1)) {
        // The reason has its own advice.
        (InvalidReason::UnknownParent { .. }, _) | (_, None) => String::new(),
        (_, Some(before)) => format!(
            "; the blocks before it are kept: get the file again from a source you trust, or leave the rest out with --to {before}"
        ),
    }
}

impl From<ChainError> for ImportError {
    fn from(error: ChainError) -> Self {
        Self::Broken { place: None, error: Box::new(error) }
    }
}

impl ImportError {
    /// Whether the machine or this program failed, and not a block, a file, or the arguments.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Shadow(error) => matches!(error, ShadowError::Broken { .. }),
            Self::Broken { .. } | Self::Output { .. } | Self::Thread { .. } | Self::Worker => true,
            Self::AccessLists(error) => error.is_ours(),
            Self::File(error) => error.is_io(),
            Self::Invalid { .. }
            | Self::Stored { .. }
            | Self::OtherGenesis { .. }
            | Self::OtherContent { .. }
            | Self::Interrupted { .. } => false,
        }
    }

    /// Returns the invalid block; `None` if a file is unreadable, or this program at fault.
    pub(crate) fn invalid_block(&self) -> Option<InvalidReport> {
        match self {
            Self::Invalid { block, .. } | Self::Stored { block } => Some(InvalidReport {
                number: Some(block.number),
                hash: Some(block.hash),
                reason: block.reason.to_string(),
            }),
            Self::File(error) => match &*error.kind {
                // A file whose first bytes are not even a header is no file of blocks.
                BlockFileErrorKind::Decode { place, error }
                    if place.index > 0
                        || !matches!(error.part, BlockPart::Block | BlockPart::Header) =>
                {
                    let (number, reason) = (place.number, error.to_string());
                    Some(InvalidReport { number, hash: None, reason })
                }
                _ => None,
            },
            _ => None,
        }
    }
}
