//! The merge: from the frozen intermediate into the snapshot, a slice with each block.
//!
//! The content of a slice depends on the intermediate and the block's place in its interval. So the rows that a block
//! writes, and the snapshot root that it commits to, do not depend on how fast anything was. A thread computes the
//! slices ahead of the blocks that take them; a block waits if its slice is not ready yet. If the snapshot is
//! switched at the boundary, the whole merge is one slice, which the last block of the interval takes.

mod schedule;
mod slice;
mod stats;
mod worker;

pub use schedule::Boundary;
pub(crate) use schedule::Schedule;
pub(crate) use slice::{Merged, Slice, SliceUndo, storage_of, take_back};
pub use stats::MergeStats;
pub(crate) use worker::Merge;
