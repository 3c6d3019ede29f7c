//! `--state replica`: Storage Replica.
//!
//! The EVM reads accounts and slots from flat rows, one key a read. The canonical trie stands beside them for
//! authentication only; threads of its own keep it, fetch what of it the block will need, and take in the
//! writes of each transaction while the next one runs. When the last transaction ends, little is left to do
//! before the state root is known. The README of this crate draws the flow of data and lists what differs
//! from the paper.
//!
//! - `layer.rs`, `session.rs`: the seam,
//! - `shared.rs`: the head, and what makes the outcome of a block,
//! - `overlay.rs`, `hints.rs`: blocks that wait for their root, and what is worth fetching,
//! - `flat.rs`, `journal.rs`: where the flat state is, and how one in a store of its own comes after,
//! - `side/`: the threads that keep the trie,
//! - `load.rs`, `check.rs`: filling, scrubbing,
//! - `paper/`: the scheme as the paper prints it, for comparison,
//! - `options.rs`, `error.rs`: what can be set, and what is said of a thread that is gone.

mod check;
mod error;
mod flat;
mod hints;
mod journal;
mod layer;
mod load;
mod options;
mod overlay;
mod paper;
mod session;
mod shared;
mod side;

#[cfg(test)]
mod tests;

pub use layer::ReplicaLayer;
pub use options::{FlatStore, ReplicaOptions};
pub use paper::{PaperLayer, PaperOptions};
pub use polytrie_mpt_hash::MptHashOptions as TrieOptions;
pub use polytrie_trie::verify;

use polytrie_kv::Table;
use polytrie_state::flat::FlatTables;
use polytrie_trie::TrieTables;

/// `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(50, "ReplicaAccounts", 32);
/// First 20 bytes of `keccak256(address)` ‖ `keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(51, "ReplicaSlots", 52);
/// Both: what the EVM reads.
pub(crate) const FLAT: FlatTables = FlatTables::short(ACCOUNTS, SLOTS);
/// Nodes of the account trie by path.
pub(crate) const ACCOUNT_TRIE: Table = Table::new(52, "ReplicaAccountTrie", 64);
/// Nodes of all storage tries by account hash and path.
pub(crate) const STORAGE_TRIE: Table = Table::new(53, "ReplicaStorageTrie", 96);
/// Both.
pub(crate) const TRIE: TrieTables = TrieTables::new(ACCOUNT_TRIE, STORAGE_TRIE);
/// Number of a change → its flat rows; only where the flat state has a store of its own.
pub(crate) const JOURNAL: Table = Table::new(54, "ReplicaJournal", 8);
/// `seq` → number of the last change, `id` → which two stores belong together; only then, too.
pub(crate) const META: Table = Table::new(55, "ReplicaMeta", 8);
