//! The interface for reading a layer at one block, unaffected by later blocks.

use crate::{Access, Account, Result};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::fmt::Debug;

/// A reader of the state at one block, shared between threads.
pub trait StateReader: Debug + Send + Sync {
    /// Reads an account; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn account(&self, address: &Address) -> Result<Option<Account>>;

    /// Reads the value of a slot; zero if it is not set.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn slot(&self, address: &Address, slot: &U256) -> Result<U256>;

    /// Reads code by its hash.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>>;

    /// Reads many codes by their hashes, in the order of these, at once if possible.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn codes(&self, hashes: &[B256]) -> Result<Vec<Option<Bytes>>> {
        hashes.iter().map(|hash| self.code(hash)).collect()
    }

    /// Whether the account has any slot (creation collides with it, EIP-7610).
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn has_storage(&self, address: &Address) -> Result<bool>;

    /// Whether [`Self::gather`] reads many accounts and slots in about the time of one.
    fn gathers(&self) -> bool {
        false
    }

    /// Reads accounts and slots that one of the next blocks touches, many at a time, into the memory of the layer or a cache of
    /// the store. Blocks make room for them there.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn gather(&self, accesses: &[Access]) -> Result<()> {
        let _ = accesses;
        Ok(())
    }
}
