//! The errors of a block file.

use std::{fmt, io, sync::Arc};

use crate::{MAX_BLOCK_BYTES, e2store::E2StoreError};
use alloy_primitives::B256;
use polytrie_consensus::decode::DecodeError;

/// Error of a block file: one sentence with the file, the place, the found and the expected content,
/// and what to do next.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {kind}")]
pub struct BlockFileError {
    /// Name of the file, as the user gave it.
    pub file: Arc<str>,
    /// Kind of the error.
    pub kind: Box<BlockFileErrorKind>,
}

impl BlockFileError {
    pub(super) fn new(file: &Arc<str>, kind: BlockFileErrorKind) -> Self {
        Self { file: Arc::clone(file), kind: Box::new(kind) }
    }

    /// Whether the machine failed (the file is not there, or cannot be read) rather than the content
    /// being wrong.
    pub fn is_io(&self) -> bool {
        matches!(
            *self.kind,
            BlockFileErrorKind::NotFound
                | BlockFileErrorKind::Open { .. }
                | BlockFileErrorKind::Read { .. }
                | BlockFileErrorKind::Temporary { .. }
        )
    }
}

/// Place of a block in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Position among the blocks of the file, counted from 0.
    pub index: u64,
    /// Number of bytes from the start of the (decompressed) file.
    pub offset: u64,
    /// Block number, if it is known.
    pub number: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, offset, number } = self;
        match number {
            Some(number) => {
                write!(f, "block {number} (index {index} in the file, offset {offset})")
            }
            None => write!(f, "the block at index {index} in the file (offset {offset})"),
        }
    }
}

/// Kinds of [`BlockFileError`]. The texts do not name the file, because the error around them does.
#[derive(Debug, thiserror::Error)]
pub enum BlockFileErrorKind {
    /// A file that does not exist.
    #[error("there is no such file; check the path")]
    NotFound,
    /// A file that exists but cannot be opened.
    #[error("the file cannot be opened ({error}); check its permissions")]
    Open {
        /// Error of the operating system.
        error: io::Error,
    },
    /// A read that failed.
    #[error(
        "reading failed after {offset} bytes ({error}); check the disk or the program that writes into \
         the pipe, then run the same command again"
    )]
    Read {
        /// Number of bytes that were read before.
        offset: u64,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A temporary file that failed, for ere that comes through a pipe or gzip.
    #[error(
        "ere from a pipe or gzip is kept in a temporary file, which failed ({error}); make room where temporary files go (TMPDIR), \
         or name the file itself, not compressed"
    )]
    Temporary {
        /// Error of the operating system.
        error: io::Error,
    },
    /// A checksum other than the list has for the file.
    #[error(
        "its SHA-256 is {found}, but checksums.txt beside it says {expected}; copy or download the file again"
    )]
    Checksum {
        /// Checksum of the file.
        found: B256,
        /// Checksum in the list.
        expected: B256,
    },
    /// A checksum that is not listed.
    #[error(
        "its SHA-256 is {found}, which checksums.txt beside it does not list; copy or download the file again, or remove \
         checksums.txt if it was made for other files"
    )]
    NotListed {
        /// Checksum of the file.
        found: B256,
    },
    /// A line of the list that is no checksum.
    #[error(
        "line {line} is no SHA-256 (64 hex digits, and the name of a file behind them or nothing); get the list again, or \
         remove it if it is about something else"
    )]
    ChecksumLine {
        /// Number of the line, counted from 1.
        line: u64,
    },
    /// A directory without an era1 or ere file.
    #[error(
        "this is a directory without .era1 or .ere files, a file of blocks was expected; name the block files \
         themselves"
    )]
    Directory,
    /// A directory with files of two networks.
    #[error(
        "the directory holds files of {first} and of {second}, one network was expected; name the \
         files of one of them"
    )]
    MixedNetworks {
        /// Name of one network.
        first: String,
        /// Name of another network.
        second: String,
    },
    /// A directory with two files of one epoch.
    #[error(
        "the directory holds two files of epoch {epoch} ({first} and {second}), one was expected; \
         remove one of them"
    )]
    DuplicateEpoch {
        /// Epoch: the number of the first block divided by 8192.
        epoch: u64,
        /// Name of one file.
        first: String,
        /// Name of the other file.
        second: String,
    },
    /// A directory with a file that has no epoch in its name.
    #[error(
        "the name of {name} in this directory is not of the form NETWORK-EPOCH-ROOT.era1 or NETWORK-EPOCH-HASH.ere (or \
         -PROFILE.ere), so the order of the files is unknown; name the files one by one in their order"
    )]
    ArchiveName {
        /// Name of the file.
        name: String,
    },
    /// A file without bytes, or with blank lines only.
    #[error("the file is empty, at least one block was expected; check how it was made")]
    Empty,
    /// The first bytes of an era1 or ere file, and no more.
    #[error(
        "the file ends after {length} of the 8 bytes with which an era1 or ere file starts, too short for any format; copy or \
         download it again"
    )]
    TooShort {
        /// Length of the file, in bytes.
        length: u64,
    },
    /// Content that looks like JSON.
    #[error(
        "the content looks like JSON, blocks were expected; if this is a genesis file, pass it with \
         --chain and name a file of blocks here"
    )]
    Json,
    /// A compression or archive format that is not supported.
    #[error(
        "the content is {format}, which is not read here; decompress it first (gzip is the only \
         compression that is read directly)"
    )]
    Compressed {
        /// Name of the format, in words.
        format: &'static str,
    },
    /// Content of an unknown format.
    #[error(
        "the file starts with \"{start}\", which is none of: an RLP stream of blocks, gzip, one block in \
         hex per line, era1, ere; check that this is a file of blocks"
    )]
    UnknownFormat {
        /// First bytes of the file, with escapes.
        start: String,
    },
    /// A gzip stream that is damaged or cut off.
    #[error(
        "the gzip data is damaged or cut off after {offset} decompressed bytes ({detail}); copy or \
         download the file again"
    )]
    Gzip {
        /// Number of bytes that were decompressed before.
        offset: u64,
        /// Error of the decompressor.
        detail: String,
    },
    /// A file that ends inside a block.
    #[error(
        "the file ends inside {place}: {present} of its {expected} bytes are there, {missing} are \
         missing; copy or download the file again",
        missing = expected - present
    )]
    Truncated {
        /// Place of the block that is cut off.
        place: Place,
        /// Number of its bytes in the file.
        present: u64,
        /// Number of bytes that the block should have.
        expected: u64,
    },
    /// A file that ends inside the length of a block.
    #[error(
        "the file ends inside the length of {place}: {present} of the {expected} bytes that state it are \
         there; copy or download the file again"
    )]
    TruncatedLength {
        /// Place of the block that is cut off.
        place: Place,
        /// Number of its bytes in the file.
        present: u64,
        /// Number of bytes that contain the length.
        expected: u64,
    },
    /// Zero bytes where a block should start.
    #[error(
        "found zero bytes at {place}, the start of a block was expected; the file was probably \
         preallocated or cut off and padded, make it again"
    )]
    Zeros {
        /// Place where a block should start.
        place: Place,
    },
    /// An RLP string where a block should start.
    #[error(
        "found the byte {found:#04x} at {place}, an RLP list (0xc0 or more) was expected as a block is \
         one; the file is damaged or not a file of blocks, get it again"
    )]
    NotAList {
        /// Place where a block should start.
        place: Place,
        /// First byte there.
        found: u8,
    },
    /// A list with a length that is not in its shortest form.
    #[error(
        "the RLP length of {place} is not in its shortest form, which Ethereum requires; the file is \
         damaged or not a file of blocks, get it again"
    )]
    NonCanonicalLength {
        /// Place of the block.
        place: Place,
    },
    /// A list longer than any block.
    #[error(
        "{place} claims to be {length} bytes long, at most {MAX_BLOCK_BYTES} were expected; the file is \
         damaged or not a file of blocks, get it again"
    )]
    TooLarge {
        /// Place of the block.
        place: Place,
        /// Length in the prefix, without the prefix itself, in bytes.
        length: u64,
    },
    /// A character that is no hex digit.
    #[error(
        "found '{}' in line {line}, column {column}, a hex digit was expected; a hex file has one block \
         per line", found.escape_ascii()
    )]
    HexDigit {
        /// Number of the line, counted from 1.
        line: u64,
        /// Number of the column, counted from 1.
        column: u64,
        /// Byte that is no digit.
        found: u8,
    },
    /// A hex line that ends before its block does.
    #[error(
        "line {line} has {digits} hex digits, {expected} were expected from the length the block \
         states; make or copy the file again"
    )]
    HexTooShort {
        /// Number of the line, counted from 1.
        line: u64,
        /// Number of digits in the line.
        digits: u64,
        /// Number of digits that the length of the block requires.
        expected: u64,
    },
    /// A hex line that goes on after its block.
    #[error(
        "line {line} goes on after the {expected} hex digits of its block, one block per line was \
         expected; break the line there"
    )]
    HexTooLong {
        /// Number of the line, counted from 1.
        line: u64,
        /// Number of digits of the block.
        expected: u64,
    },
    /// An error in the structure of an era1 or ere file.
    #[error(transparent)]
    E2Store(Box<E2StoreError>),
    /// A block that has the right length but no valid encoding.
    #[error(
        "{place} cannot be decoded: {error}; the file is damaged or was made by a faulty program, \
         get it again"
    )]
    Decode {
        /// Place of the block.
        place: Place,
        /// Error in the block.
        error: DecodeError,
    },
}
