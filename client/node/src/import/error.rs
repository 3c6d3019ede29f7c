//! Why an import ended early.

use super::shadow::ShadowError;
use crate::access_lists::AccessListFileError;
use alloy_primitives::B256;
use polytrie_chain::{ChainError, InvalidBlock, InvalidReason};
use polytrie_consensus::decode::BlockPart;
use polytrie_files::{BlockFileError, BlockFileErrorKind};
use std::{fmt, sync::Arc};
use thiserror::Error;

/// Where a block came from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The file.
    pub file: Arc<str>,
    /// Position in the file, from 0.
    pub index: u64,
    /// Bytes from the start of the (decompressed) file.
    pub offset: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (index {}, offset {})", self.file, self.index, self.offset)
    }
}

/// Why an import ended early.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A block is invalid.
    #[error("{place}: {block}{}", advice(block))]
    Invalid {
        /// Where it came from.
        place: Origin,
        /// What is wrong with it.
        block: Box<InvalidBlock>,
    },
    /// A block that was stored already, with an earlier import, turns out to be invalid.
    #[error("{block}{}", advice(block))]
    Stored {
        /// What is wrong with it.
        block: Box<InvalidBlock>,
    },
    /// The shadow is not like what it follows.
    #[error(transparent)]
    Shadow(#[from] ShadowError),
    /// A file is no file of blocks, or breaks off.
    #[error(transparent)]
    File(#[from] BlockFileError),
    /// The file holds the genesis block of another chain.
    #[error(
        "{place}: the file begins with genesis block {found}, the chain {chain} has {expected}; name the right chain with --chain, or import into another --datadir"
    )]
    OtherGenesis {
        /// Where it came from.
        place: Origin,
        /// Genesis hash in the file.
        found: B256,
        /// Genesis hash of the chain.
        expected: B256,
        /// Name of the chain.
        chain: String,
    },
    /// We cannot go on, whatever the block.
    #[error("{}{error}", place.as_ref().map(|p| format!("{p}: ")).unwrap_or_default())]
    Broken {
        /// The block under way.
        place: Option<Origin>,
        /// What failed.
        error: Box<ChainError>,
    },
    /// A file of figures cannot be written.
    #[error("cannot write {file}: {source}")]
    Output {
        /// The file.
        file: String,
        /// The operating system's words.
        source: std::io::Error,
    },
    /// The file of access lists cannot be written.
    #[error(transparent)]
    AccessLists(#[from] AccessListFileError),
    /// A file that was named for figures holds something else.
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
        /// The operating system's words.
        source: std::io::Error,
    },
    /// A worker thread is gone.
    #[error(
        "a thread that prepares blocks ended unexpectedly; this is an error of polytrie, please report it"
    )]
    Worker,
    /// The user asked to stop.
    #[error("interrupted at block {head}; run the same command again to go on from there")]
    Interrupted {
        /// The head.
        head: u64,
    },
}

/// What to do about an invalid block.
fn advice(block: &InvalidBlock) -> String {
    match (&block.reason, block.number.checked_sub(1)) {
        // That depends on why; the reason says it.
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
    /// Whether the machine or we failed (as opposed to a block, a file, or what was asked for).
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

    /// Whether a block is to blame (as opposed to a file that cannot be read, or ourselves).
    pub fn is_invalid_block(&self) -> bool {
        match self {
            Self::Invalid { .. } | Self::Stored { .. } => true,
            // What begins with something that is not even a header is no file of blocks.
            Self::File(error) => match &*error.kind {
                BlockFileErrorKind::Decode { place, error } => {
                    place.index > 0 || !matches!(error.part, BlockPart::Block | BlockPart::Header)
                }
                _ => false,
            },
            _ => false,
        }
    }
}
