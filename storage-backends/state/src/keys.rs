//! Hashed keys: the order in which every layer sees the state.

use alloy_primitives::{Address, B256, U256, keccak256};

/// Keccak-256 of an address: the key of an account.
pub fn hash_address(address: &Address) -> B256 {
    keccak256(address)
}

/// Keccak-256 of a slot's 32 big-endian bytes: the key of a slot within its account.
pub fn hash_slot(slot: &U256) -> B256 {
    keccak256(slot.to_be_bytes::<32>())
}
