//! The Merkle Patricia trie engine the layers of polytrie share.
//!
//! A [`Trie`] keeps the part of one trie that was touched lately in an arena and loads the rest on demand
//! from **path-keyed rows**: one row a branch, with its leaves (see [`rows`]). One sorted batch of changes a
//! block goes through the structure once ([`Trie::update`]); then every node that changed is encoded and hashed
//! exactly once, level by level and eight at a time, and every branch that changed is written as one row
//! ([`Trie::commit`]). What is more than a few nodes is hashed on several threads, if they have time.
//!
//! The engine knows accounts and slots as leaf values only; it knows no layer. What several layers say of it at the seam
//! in the same words (errors, proofs, how their tables are filled and checked) is here too.

mod arena;
mod build;
mod canonical;
mod check;
mod codec;
pub mod cow;
mod error;
pub mod keccak;
mod prefetch;
mod proof;
mod row;
pub mod rows;
mod tables;
mod value;

#[cfg(test)]
mod tests;

pub use arena::{Ages, Cut, Trie};
pub use build::SortedBuilder;
pub use canonical::{prove_account, verify};
pub use check::{RowCheck, check_rows};
pub use error::TrieError;
pub use prefetch::{Owner, Prefetcher, ReadAhead, Readers, Reading};
pub use proof::{leaf_on_path, prove_key, stored_root, verify_key};
pub use rows::{RowSink, RowSource, Rows};
pub use tables::{LeafCheck, LoadSink, TrieTables};
pub use value::{AccountLeaf, EMPTY_ROOT, LeafValue, SlotValue};

/// A path of nibbles from the root of a trie.
pub type Nibbles = alloy_trie::Nibbles;
