//! `--state mpt`: the Merkle Patricia trie as Ethereum specifies it.
//!
//! State is read and written through the trie itself; there is no flat copy beside it. Recently touched nodes stay in
//! memory within a byte budget, one sorted batch a block goes through the structure, and every changed node is hashed
//! once. It is the honest baseline that the other layers are measured against. The README of this crate draws the
//! data on disk.

mod layer;
mod reader;
mod session;
mod storages;
mod tries;

pub use layer::{MptLayer, MptOptions};
pub use polytrie_trie::verify;

use polytrie_kv::Table;
use polytrie_trie::TrieTables;

/// The table of the account trie's nodes, by path.
pub(crate) const ACCOUNT_TRIE: Table = Table::new(20, "AccountTrie", 64);
/// The table of all storage tries' nodes, by account hash and path.
pub(crate) const STORAGE_TRIE: Table = Table::new(21, "StorageTrie", 96);
/// The two tables of the tries.
pub(crate) const TRIE: TrieTables = TrieTables::new(ACCOUNT_TRIE, STORAGE_TRIE);
