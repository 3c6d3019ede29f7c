//! `--state replica`: Storage Replica.
//!
//! The EVM reads accounts and slots from flat rows, one key a read. The canonical trie stands beside them for
//! authentication only; threads of its own keep it, fetch what of it the block will need, and take in the
//! writes of each transaction while the next one runs. When the last transaction ends, little is left to do
//! before the state root is known. The README of this crate draws the flow of data and lists what differs
//! from the paper.

mod check;
mod error;
mod flat;
mod hints;
mod journal;
mod layer;
mod load;
mod options;
mod overlay;
mod reader;
mod session;
mod shared;
mod side;

#[cfg(test)]
mod tests;

pub use layer::ReplicaLayer;
pub use options::{FlatStore, ReplicaOptions};
pub use polytrie_trie::verify;
