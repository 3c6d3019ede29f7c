//! Reading a layer at one block, whatever happens to it later.

use crate::{Account, StateError};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::fmt::Debug;

/// Reads at one block, shared between threads.
pub trait StateReader: Debug + Send + Sync {
    /// The account.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError>;

    /// The value of a slot; zero where there is none.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError>;

    /// Code by its hash.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError>;

    /// Whether the account has any slot (creation collides with it, EIP-7610).
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    fn has_storage(&self, address: &Address) -> Result<bool, StateError>;
}
