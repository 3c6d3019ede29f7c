//! era1 files: the pre-merge chain in pieces of 8192 blocks, each with its receipts and total difficulty.
//!
//! An era1 file is a sequence of e2store records, each an 8-byte head (type, length, two reserved zero
//! bytes; little-endian) and that many bytes:
//!
//! ```text
//! Version (CompressedHeader CompressedBody CompressedReceipts TotalDifficulty){1,8192} Accumulator BlockIndex
//! ```
//!
//! The compressed ones are RLP in the snappy framing format. The accumulator is the SSZ hash tree root of
//! the block hashes and total difficulties; the index has the place of every block.
//!
//! Files are read from front to back without seeking, so that they may come through a pipe or gzip, and several
//! may follow each other in one stream. Everything the file says about itself is checked: structure,
//! checksums, numbers, parent hashes, total difficulties, accumulator, and index.

mod accumulator;
mod directory;
mod error;
mod exporter;
mod read;
mod record;
mod snappy;
mod write;

pub use accumulator::{accumulator_root, header_record_root};
pub use error::{Era1Error, Era1Problem};
pub use exporter::Era1Exporter;
pub use write::{Era1Summary, Era1Writer};

pub(super) use directory::{DirectoryEntry, list_directory};
pub(super) use read::Era1Blocks;
pub(super) use record::VERSION_MAGIC;

/// The most blocks in one era1 file; each file starts at a multiple of it.
pub const BLOCKS_PER_ERA: u64 = 8192;
