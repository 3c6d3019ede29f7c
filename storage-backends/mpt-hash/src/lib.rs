//! `--state mpt-hash`: the Merkle Patricia trie with a row for every node, under the hash of the node.
//!
//! OpenEthereum and Parity kept the state like this, and geth before its path scheme: a node is found by the
//! reference that leads to it, a block writes every node on the path to a change under a new hash, and the former
//! nodes are removed or stay. The papers measured against this. The README of this crate draws the rows and describes
//! those clients.
//!
//! - `layer.rs`: the layer, which implements the seam,
//! - `session.rs`, `reader.rs`: one block in progress, and reads, proofs and witnesses at one block,
//! - `state.rs`: the application of a write set to the tries,
//! - `trie.rs`: one trie, read and changed by the library `trie-db`,
//! - `codec.rs`: nodes as RLP, for that library,
//! - `nodes.rs`, `cache.rs`: the sources of nodes,
//! - `ahead.rs`: nodes on many paths, read together,
//! - `changes.rs`: nodes that a block adds and removes,
//! - `load.rs`, `check.rs`: filling an empty layer, the search for damage.

mod ahead;
mod cache;
mod changes;
mod check;
mod codec;
mod layer;
mod load;
mod nodes;
mod reader;
mod session;
mod state;
mod trie;

pub use cache::Cached;
pub use layer::{MptHashLayer, MptHashOptions, Pruning};
pub use polytrie_trie::verify;

use polytrie_kv::Table;

/// The table of nodes: the hash of a node, combined with that of the account in a storage trie ([`nodes::row_key`]) →
/// the node's RLP.
pub(crate) const NODES: Table = Table::new(25, "HashNodes", 32);
/// The table of the head: [`ROOT_KEY`] → the state root.
pub(crate) const HEAD: Table = Table::new(26, "HashHead", 4);
/// The only key of [`HEAD`].
pub(crate) const ROOT_KEY: &[u8] = b"root";
