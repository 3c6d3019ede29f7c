//! The tables of a canonical state, the same for every layer that keeps its tries in rows by path.

mod check;
mod load;
mod read;

pub use check::LeafCheck;
pub use load::LoadSink;

use crate::Rows;
use alloy_primitives::B256;
use polytrie_kv::{Batch, Read, Table};

/// A table for the account trie and one for all storage tries; [`rows`](crate::rows) describes their keys.
#[derive(Debug, Clone, Copy)]
pub struct TrieTables {
    accounts: Table,
    storage: Table,
}

impl TrieTables {
    /// Declares the tables: `accounts` must take keys of up to 64 bytes, `storage` of up to 96.
    pub const fn new(accounts: Table, storage: Table) -> Self {
        Self { accounts, storage }
    }

    /// Returns the rows of the account trie.
    pub fn account_rows<'a>(&self, store: &'a dyn Read) -> Rows<&'a dyn Read> {
        Rows::new(store, self.accounts)
    }

    /// Returns the rows of the storage trie of the account with this hash.
    pub fn storage_rows<'a>(&self, store: &'a dyn Read, account: B256) -> Rows<&'a dyn Read> {
        Rows::owned(store, self.storage, account)
    }

    /// Returns the rows of the storage trie of an account, or of the account trie.
    pub fn rows_of<'a>(&self, store: &'a dyn Read, owner: Option<B256>) -> Rows<&'a dyn Read> {
        match owner {
            Some(account) => self.storage_rows(store, account),
            None => self.account_rows(store),
        }
    }

    /// Returns a sink for changed rows of the account trie that adds them to a batch.
    pub const fn account_sink(&self, batch: Batch) -> Rows<Batch> {
        Rows::new(batch, self.accounts)
    }

    /// Returns a sink for changed rows of the storage trie of the account with this hash that adds them to a batch.
    pub const fn storage_sink(&self, batch: Batch, account: B256) -> Rows<Batch> {
        Rows::owned(batch, self.storage, account)
    }
}
