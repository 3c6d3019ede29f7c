//! ere files: the chain in files of 8192 blocks, before and after the merge.
//!
//! An ere file is an [e2store](crate::e2store) file that has all records of one kind before those of the next:
//!
//! ```text
//! Version CompressedHeader+ CompressedBody+ CompressedSlimReceipts* Proof* TotalDifficulty* other* Accumulator? DynamicBlockIndex
//! ```
//!
//! Receipts come without their blooms. Receipts or proofs may be missing, but then for all blocks. Total difficulties
//! are there up to the epoch of the merge; in it the blocks after the merge have the final one. The accumulator is that
//! of the blocks before the merge. Records of unknown kinds are skipped.
//!
//! The records of one block stand at several places, so the file is read with seeks (`medium.rs`). First come all heads
//! from front to back (`layout.rs`), then headers, total difficulties, accumulator and index. All of these are compared
//! with each other before the first block is returned; body, receipts and proof of a block are checked when that block
//! is returned (`read.rs`). For this, a file from a pipe or gzip is kept in a temporary file, one ere file at a time.

mod layout;
mod medium;
mod proof;
mod read;
mod write;

pub use write::EreWriter;

pub(super) use read::EreBlocks;
