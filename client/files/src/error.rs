//! What can be wrong with a block file.

use std::{fmt, io, sync::Arc};

use crate::{MAX_BLOCK_BYTES, e2store::E2StoreError};
use alloy_primitives::B256;
use polytrie_consensus::decode::DecodeError;

/// What is wrong with a block file: one sentence with the file, the place, what was found, what was
/// expected, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {kind}")]
pub struct BlockFileError {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// What is wrong with it.
    pub kind: Box<BlockFileErrorKind>,
}

impl BlockFileError {
    pub(super) fn new(file: &Arc<str>, kind: BlockFileErrorKind) -> Self {
        Self { file: Arc::clone(file), kind: Box::new(kind) }
    }

    /// Whether the machine failed (the file is not there, or cannot be read) rather than its content
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

/// Where a block stands in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The position among the blocks of the file, counted from 0.
    pub index: u64,
    /// Bytes from the start of the (decompressed) file.
    pub offset: u64,
    /// The block number, where it is known.
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

/// The kinds of [`BlockFileError`]. The texts do not name the file; the error around them does.
#[derive(Debug, thiserror::Error)]
pub enum BlockFileErrorKind {
    /// There is no such file.
    #[error("there is no such file; check the path")]
    NotFound,
    /// The file is there but cannot be opened.
    #[error("the file cannot be opened ({error}); check its permissions")]
    Open {
        /// What the operating system said.
        error: io::Error,
    },
    /// Reading failed on the way.
    #[error(
        "reading failed after {offset} bytes ({error}); check the disk or the program that writes into \
         the pipe, then run the same command again"
    )]
    Read {
        /// How many bytes had been read.
        offset: u64,
        /// What the operating system said.
        error: io::Error,
    },
    /// An ere file that comes through a pipe or gzip cannot be kept in a temporary file.
    #[error(
        "ere from a pipe or gzip is kept in a temporary file, which failed ({error}); make room where temporary files go (TMPDIR), \
         or name the file itself, not compressed"
    )]
    Temporary {
        /// What the operating system said.
        error: io::Error,
    },
    /// The file has another checksum than the list says.
    #[error(
        "its SHA-256 is {found}, but checksums.txt beside it says {expected}; copy or download the file again"
    )]
    Checksum {
        /// The checksum of the file.
        found: B256,
        /// The checksum in the list.
        expected: B256,
    },
    /// A checksum that is not listed.
    #[error(
        "its SHA-256 is {found}, which checksums.txt beside it does not list; copy or download the file again, or remove \
         checksums.txt if it was made for other files"
    )]
    NotListed {
        /// The checksum of the file.
        found: B256,
    },
    /// A list of checksums that is none.
    #[error(
        "line {line} is no SHA-256 (64 hex digits, and the name of a file behind them or nothing); get the list again, or \
         remove it if it is about something else"
    )]
    ChecksumLine {
        /// Counted from 1.
        line: u64,
    },
    /// A directory that holds no era1 or ere file.
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
        /// One network.
        first: String,
        /// Another network.
        second: String,
    },
    /// A directory with two files of one epoch.
    #[error(
        "the directory holds two files of epoch {epoch} ({first} and {second}), one was expected; \
         remove one of them"
    )]
    DuplicateEpoch {
        /// The epoch: the number of the first block divided by 8192.
        epoch: u64,
        /// One file name.
        first: String,
        /// The other one.
        second: String,
    },
    /// A directory with a file that has no place by its name.
    #[error(
        "the name of {name} in this directory is not of the form NETWORK-EPOCH-ROOT.era1 or NETWORK-EPOCH-HASH.ere (or \
         -PROFILE.ere), so the order of the files is unknown; name the files one by one in their order"
    )]
    ArchiveName {
        /// The file name.
        name: String,
    },
    /// No bytes, or nothing but blank lines.
    #[error("the file is empty, at least one block was expected; check how it was made")]
    Empty,
    /// The content looks like JSON.
    #[error(
        "the content looks like JSON, blocks were expected; if this is a genesis file, pass it with \
         --chain and name a file of blocks here"
    )]
    Json,
    /// A compression or archive format that is not read.
    #[error(
        "the content is {format}, which is not read here; decompress it first (gzip is the only \
         compression that is read directly)"
    )]
    Compressed {
        /// Which one.
        format: &'static str,
    },
    /// None of the formats.
    #[error(
        "the file starts with \"{start}\", which is none of: an RLP stream of blocks, gzip, one block in \
         hex per line, era1, ere; check that this is a file of blocks"
    )]
    UnknownFormat {
        /// The first bytes, with escapes.
        start: String,
    },
    /// The gzip stream is damaged or cut off.
    #[error(
        "the gzip data is damaged or cut off after {offset} decompressed bytes ({detail}); copy or \
         download the file again"
    )]
    Gzip {
        /// How many bytes came out before.
        offset: u64,
        /// What the decompressor said.
        detail: String,
    },
    /// The file ends inside a block.
    #[error(
        "the file ends inside {place}: {present} of its {expected} bytes are there, {missing} are \
         missing; copy or download the file again",
        missing = expected - present
    )]
    Truncated {
        /// The block that is cut off.
        place: Place,
        /// Bytes of it that are there.
        present: u64,
        /// Bytes it should have.
        expected: u64,
    },
    /// The file ends before it is clear how long a block is.
    #[error(
        "the file ends inside the length of {place}: {present} of the {expected} bytes that state it are \
         there; copy or download the file again"
    )]
    TruncatedLength {
        /// The block that is cut off.
        place: Place,
        /// Bytes that are there.
        present: u64,
        /// Bytes it takes to know how long the block is.
        expected: u64,
    },
    /// Zero bytes where a block should start.
    #[error(
        "found zero bytes at {place}, the start of a block was expected; the file was probably \
         preallocated or cut off and padded, make it again"
    )]
    Zeros {
        /// Where.
        place: Place,
    },
    /// An RLP string where a block should start.
    #[error(
        "found the byte {found:#04x} at {place}, an RLP list (0xc0 or more) was expected as a block is \
         one; the file is damaged or not a file of blocks, get it again"
    )]
    NotAList {
        /// Where.
        place: Place,
        /// The byte.
        found: u8,
    },
    /// A list whose length is not in its shortest form.
    #[error(
        "the RLP length of {place} is not in its shortest form, which Ethereum requires; the file is \
         damaged or not a file of blocks, get it again"
    )]
    NonCanonicalLength {
        /// Where.
        place: Place,
    },
    /// A list longer than any block.
    #[error(
        "{place} claims to be {length} bytes long, at most {MAX_BLOCK_BYTES} were expected; the file is \
         damaged or not a file of blocks, get it again"
    )]
    TooLarge {
        /// Where.
        place: Place,
        /// The claimed length, without the length bytes themselves.
        length: u64,
    },
    /// A character that is no hex digit.
    #[error(
        "found '{}' in line {line}, column {column}, a hex digit was expected; a hex file has one block \
         per line", found.escape_ascii()
    )]
    HexDigit {
        /// Counted from 1.
        line: u64,
        /// Counted from 1.
        column: u64,
        /// The byte.
        found: u8,
    },
    /// A hex line that ends before its block does.
    #[error(
        "line {line} has {digits} hex digits, {expected} were expected from the length the block \
         states; make or copy the file again"
    )]
    HexTooShort {
        /// Counted from 1.
        line: u64,
        /// Digits that are there.
        digits: u64,
        /// Digits that the length of the block asks for.
        expected: u64,
    },
    /// A hex line that goes on after its block.
    #[error(
        "line {line} goes on after the {expected} hex digits of its block, one block per line was \
         expected; break the line there"
    )]
    HexTooLong {
        /// Counted from 1.
        line: u64,
        /// Digits of the block.
        expected: u64,
    },
    /// Something is wrong with the structure of an era1 or ere file.
    #[error(transparent)]
    E2Store(Box<E2StoreError>),
    /// The block was cut out well, but it is not a valid encoding.
    #[error(
        "{place} cannot be decoded: {error}; the file is damaged or was made by a faulty program, \
         get it again"
    )]
    Decode {
        /// Which block.
        place: Place,
        /// What is wrong with it.
        error: DecodeError,
    },
}
