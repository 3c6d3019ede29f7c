//! `--state mpt-hash`: the Merkle Patricia trie with a row for every node, under the hash of the node.
//!
//! So OpenEthereum and Parity kept the state, and geth before its paths: a node is found by the reference that leads to
//! it, a block writes every node on the way to what it changed under a new hash, and the nodes of before go or stay. The
//! papers measured against this. The README of this crate draws the rows and says what those clients had.
//!
//! - `layer.rs`: the layer, which implements the seam,
//! - `session.rs`, `reader.rs`: one block under way, and reads at one block,
//! - `state.rs`: a write set on its way through the tries,
//! - `trie.rs`: one trie, read and changed by the library `trie-db`,
//! - `codec.rs`: nodes as RLP, for that library,
//! - `nodes.rs`, `cache.rs`: where nodes are read from,
//! - `changes.rs`: nodes that a block adds and removes,
//! - `proof.rs`, `load.rs`, `check.rs`: proofs and witnesses, filling an empty layer, looking for damage.

mod cache;
mod changes;
mod check;
mod codec;
mod layer;
mod load;
mod nodes;
mod proof;
mod reader;
mod session;
mod state;
mod trie;

pub use cache::Cached;
pub use layer::{MptHashLayer, MptHashOptions, Pruning};
pub use polytrie_trie::verify;

use polytrie_kv::Table;

/// The hash of a node, combined with that of the account in a storage trie ([`nodes::row_key`]) → the node's RLP.
pub(crate) const NODES: Table = Table::new(25, "HashNodes", 32);
/// [`ROOT_KEY`] → the state root at the head.
pub(crate) const HEAD: Table = Table::new(26, "HashHead", 4);
/// The only key of [`HEAD`].
pub(crate) const ROOT_KEY: &[u8] = b"root";
