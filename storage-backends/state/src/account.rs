//! The part of an account every layer keeps.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};

/// An account as the EVM sees it.
///
/// There is no storage root in it: only canonical layers have one, and it is theirs to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Account {
    /// Number of transactions sent, or of contracts created.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code; [`KECCAK256_EMPTY`] where there is none.
    pub code_hash: B256,
}

impl Account {
    /// Whether the account is empty in the sense of EIP-161: no nonce, no balance, no code.
    pub fn is_empty(&self) -> bool {
        self.nonce == 0 && self.balance.is_zero() && self.code_hash == KECCAK256_EMPTY
    }

    /// Whether the account has code.
    pub fn has_code(&self) -> bool {
        self.code_hash != KECCAK256_EMPTY
    }
}

impl Default for Account {
    /// The empty account.
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK256_EMPTY }
    }
}
