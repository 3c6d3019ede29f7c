//! ere files: the chain in pieces of 8192 blocks, before and after the merge.
//!
//! An ere file is an [e2store](crate::e2store) file that has all records of one kind before those of the next:
//!
//! ```text
//! Version CompressedHeader+ CompressedBody+ CompressedSlimReceipts* Proof* TotalDifficulty* other* Accumulator? DynamicBlockIndex
//! ```
//!
//! Receipts come without their blooms. They and proofs may be missing, of all blocks alike; total difficulties are there up
//! to the epoch of the merge, in which the blocks after it have the final one, and the accumulator is that of the blocks
//! before the merge. Records of kinds that are not known are passed over.
//!
//! The records of one block stand at several places. So a file is read at its places (`medium.rs`): its heads from front to back
//! (`layout.rs`), then its headers, total difficulties, accumulator and index. All of this is held against each other
//! before the first block is handed out, and body, receipts and proof of each block as it is handed out (`read.rs`). What comes
//! through a pipe or gzip is kept in a temporary file for that, one ere file at a time.

mod layout;
mod medium;
mod proof;
mod read;
mod write;

pub use write::EreWriter;

pub(super) use read::EreBlocks;
