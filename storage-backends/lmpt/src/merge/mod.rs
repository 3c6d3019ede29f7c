//! The merge: from the frozen intermediate into the snapshot, a slice with each block.
//!
//! What a slice holds is decided by the intermediate and the block's place in its interval, so the rows a block
//! writes, and the snapshot root it commits to, do not depend on how fast anything was. A thread computes the
//! slices ahead of the blocks that take them; a block whose slice is not there yet waits. Where the snapshot is to be
//! switched at the boundary, the whole merge is one slice, which the last block of the interval takes.

mod schedule;
mod slice;
mod stats;
mod worker;

pub use schedule::Boundary;
pub(crate) use schedule::Schedule;
pub(crate) use slice::{Slice, SliceUndo, storage_of, take_back};
pub use stats::MergeStats;
pub(crate) use worker::{Merge, Pace};
