//! `--state mpt`: the Merkle Patricia trie as Ethereum specifies it.
//!
//! State is read and written through the trie itself; there is no flat copy beside it. What was touched
//! lately stays in memory within a byte budget, one sorted batch a block goes through the structure, every
//! changed node is hashed once. It is the honest baseline the other layers are measured against. The README
//! of this crate draws the data on disk.

mod layer;
mod reader;
mod session;
mod tries;

pub use layer::{MptLayer, MptOptions};
pub use polytrie_trie::verify;

use polytrie_kv::Table;
use polytrie_trie::TrieTables;

/// Nodes of the account trie by path.
pub(crate) const ACCOUNT_TRIE: Table = Table::new(20, "AccountTrie", 64);
/// Nodes of all storage trees by account hash and path.
pub(crate) const STORAGE_TRIE: Table = Table::new(21, "StorageTrie", 96);
/// Both.
pub(crate) const TRIE: TrieTables = TrieTables::new(ACCOUNT_TRIE, STORAGE_TRIE);
