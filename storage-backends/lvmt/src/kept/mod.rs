//! The witnesses of a share of the keys, updated with each block under `--lvmt.proofs full` and `I/N` (section 3.3 of
//! the paper).
//!
//! An entry of a tree is opened with one node a depth. The kept nodes are those that open the entries of the share:
//! in the root tree the subtree of its class and the siblings on the path there, in each tree below one of its
//! entries all nodes. A version counts in one node a depth, and when it is incremented, its quotient there is added
//! in the batch of its block. A proof then reads the nodes and sums nothing.
//!
//! Undoing a block subtracts what was added, which restores the rows bit by bit; so undo records do not contain them.
//!
//! - `share.rs`: which nodes are kept; `bundle.rs`: their rows,
//! - `counts.rs`: the version increments of a block; `touched.rs`: the nodes in which they count,
//! - `update.rs`: a block, and undoing it; `open.rs`: opening an entry; `check.rs`: the search for damage.

mod bundle;
mod check;
mod counts;
mod open;
mod share;
mod touched;
mod update;

pub(crate) use check::check;
pub(crate) use counts::Counts;
pub(crate) use open::open;
pub(crate) use share::{Share, expect_kept};
pub(crate) use update::{KeptRows, take_back, update};
