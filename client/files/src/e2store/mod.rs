//! e2store files, the common part of era1 and ere files.
//!
//! Such a file is a sequence of records. A record is an 8-byte head (type, length, two reserved zero bytes;
//! little-endian) and as many bytes as the length says. A file holds up to 8192 blocks, and starts at a multiple of
//! 8192. Headers, bodies and receipts are RLP in the snappy framing format. For the blocks before the merge there is an
//! accumulator, the SSZ hash tree root of their hashes and total difficulties. At the end there is an index with the
//! place of every record of every block.
//!
//! | | here |
//! |---|---|
//! | records, and what can be wrong with one | `record.rs`, `error.rs`, `snappy.rs` |
//! | what follows from one block to the next, and must add up at the end | `lineage.rs`, `accumulator.rs`, `index.rs` |
//! | which of the two formats a file has | `format.rs` |
//! | a directory of files, and their checksums | `directory.rs`, `checksums.rs` |
//! | the last block of a file that need not be read | `end.rs` |
//! | writing records, and the name of what was written | `write.rs`, `summary.rs` |

mod accumulator;
mod checksums;
mod directory;
mod end;
mod error;
mod format;
mod index;
mod lineage;
mod record;
mod snappy;
mod summary;
mod write;

pub use accumulator::{accumulator_root, header_record_root, is_accumulated};
pub use directory::files_at;
pub use end::ArchiveEnd;
pub use error::{E2StoreError, E2StoreProblem};
pub use summary::{ArchiveFormat, ArchiveSummary};

pub(crate) use checksums::{Checksums, Hashed, verify_checksum};
pub(crate) use directory::{DirectoryEntry, list_directory, names_of, other_network};
pub(crate) use format::format_of;
pub(crate) use index::Index;
pub(crate) use lineage::{Lineage, join};
pub(crate) use record::{
    HEAD, Kind, RecordHead, VERSION_MAGIC, cut_off, in_pieces, missing, payload, required,
};
pub(crate) use snappy::Unframer;
pub(crate) use write::{Place, RecordWriter};

/// Greatest number of blocks in one file. Each file starts at a multiple of it.
pub const BLOCKS_PER_ERA: u64 = 8192;
