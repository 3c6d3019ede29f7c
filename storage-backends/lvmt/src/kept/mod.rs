//! The witnesses of a share of the keys, kept current under `--lvmt.proofs full` and `I/N` (section 3.3 of the paper).
//!
//! An entry of a tree is opened with one node a depth. What is kept is the nodes that open the entries of the share:
//! of the root tree the subtree of its class and the siblings of the way there, of each tree below one of its entries
//! all nodes. A version counted up is in one node a depth, and its quotient there is added in the batch of its block. A
//! proof then reads the nodes and sums up nothing.
//!
//! Going back subtracts what was added, which gives the rows bit by bit; so undo records know nothing of them.
//!
//! - `share.rs`: which nodes are kept; `bundle.rs`: their rows,
//! - `counts.rs`: the versions of a block; `touched.rs`: the nodes that these are in,
//! - `update.rs`: a block, and the way back from it; `open.rs`: opening an entry; `check.rs`: looking for damage.

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
