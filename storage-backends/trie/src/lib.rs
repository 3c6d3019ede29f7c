//! The Merkle Patricia trie engine that layers of polytrie share.
//!
//! A [`Trie`] keeps the recently touched part of one trie in an arena and loads the rest on demand from **path-keyed
//! rows**: one row a branch, with its leaves (see [`rows`]). One sorted batch of changes a block goes through the
//! structure once ([`Trie::update`]). Then every changed node is encoded and hashed exactly once, level by level and
//! eight at a time, and every changed branch is written as one row ([`Trie::commit`]). More than a few nodes are
//! hashed on several threads, if those are idle.
//!
//! The engine knows accounts and slots as leaf values only; it knows no layer. Code that several layers need at the
//! seam (errors, proofs, filling and checking their tables) is here too.

mod ages;
mod arena;
mod build;
mod canonical;
mod check;
mod codec;
pub mod cow;
mod error;
mod prefetch;
mod proof;
mod row;
pub mod rows;
mod tables;
mod value;

#[cfg(test)]
mod tests;

pub use ages::Ages;
pub use arena::{Cut, Trie};
pub use build::SortedBuilder;
pub use canonical::verify;
pub use check::{RowCheck, check_rows};
pub use error::{Result, TrieError};
pub use prefetch::{Owner, Prefetcher};
pub use proof::{leaf_on_path, prove_key, stored_root, verify_key};
pub use rows::{RowSink, RowSource, Rows};
pub use tables::{LeafCheck, LoadSink, TrieTables};
pub use value::{AccountLeaf, EMPTY_ROOT, LeafChange, LeafValue, NewValue, SlotValue};

/// A path of nibbles from the root of a trie.
pub type Nibbles = alloy_trie::Nibbles;
