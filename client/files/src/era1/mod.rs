//! era1 files: the chain before the merge in files of 8192 blocks, each with its receipts and total difficulty.
//!
//! An era1 file is an [e2store](crate::e2store) file:
//!
//! ```text
//! Version (CompressedHeader CompressedBody CompressedReceipts TotalDifficulty){1,8192} other* Accumulator BlockIndex
//! ```
//!
//! Files are read from front to back without seeking, so that they may come through a pipe or gzip, and several may
//! follow each other in one stream. The reader checks all redundant content of the file: structure, checksums, numbers,
//! parent hashes, total difficulties, accumulator, and index. Records of unknown kinds are skipped where they may
//! stand.

mod read;
mod write;

pub use write::Era1Writer;

pub(super) use read::Era1Blocks;
