//! Reading and writing of block files, and reading of dumps of a state.
//!
//! A [`BlockReader`] takes a path (or `-`) and yields [`RawBlock`]s: the exact RLP of one block after the other, cut
//! out of the file but not decoded. The content shows the format, never the name alone:
//!
//! | content | recognised by |
//! |---|---|
//! | RLP stream: blocks one after the other, nothing between them | a first byte of `0xc0` or more |
//! | the same (or any other of these) compressed | `1f 8b`, gzip |
//! | hex lines: one block a line, `0x` optional, blank lines ignored | a first character that is a hex digit |
//! | era1: blocks with receipts and total difficulty, up to the merge | the e2store version record, then the records of one block after those of the other |
//! | ere: blocks, mostly with receipts, of any age | the e2store version record, then two headers, or one block without the receipts of era1 |
//!
//! A file is never held in memory as a whole: it is read a mebibyte at a time, and a block of an RLP stream is a
//! slice of what was read. A block that claims to be longer than [`MAX_BLOCK_BYTES`] is refused before
//! anything is read for it.
//!
//! Decoding is a separate pure function, [`decode_block`](polytrie_consensus::decode::decode_block), so that it can run
//! on another thread than the reader. It accepts exactly the canonical encoding: the result encodes to the bytes that
//! it was decoded from.
//!
//! [`read_headers`] reads headers from such files, or from JSON; [`dump`] reads states.
//!
//! [`RlpWriter`], [`Era1Writer`] and [`EreWriter`] write files; [`ArchiveExporter`] writes a directory of files.

mod answer;
mod chunk;
mod detect;
pub mod dump;
pub mod e2store;
pub mod era1;
pub mod ere;
mod error;
mod exporter;
mod headers;
mod hex;
mod output;
mod raw;
mod reader;
mod rlp;
mod stream;

#[cfg(test)]
mod tests;

pub use detect::Format;
pub use e2store::{ArchiveEnd, ArchiveFormat, ArchiveSummary, BLOCKS_PER_ERA, files_at};
pub use era1::Era1Writer;
pub use ere::EreWriter;
pub use error::{BlockFileError, BlockFileErrorKind, Place};
pub use exporter::ArchiveExporter;
pub use headers::{HeaderError, KnownHeader, read_headers};
pub use output::{ExportError, OutputFile, RlpWriter, behind_links};
pub use raw::RawBlock;
pub use reader::{BlockReader, ReadProgress, input_name, length_of};

/// Greatest length of a block's RLP that is read, in bytes: 64 MiB, several times what any fork allows (EIP-7934 limits
/// the RLP of a block to 8 MiB).
pub const MAX_BLOCK_BYTES: u64 = 64 << 20;
