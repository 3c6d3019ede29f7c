//! The part of an account that every layer keeps.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};
use alloy_rlp::{RlpDecodable, RlpEncodable};

/// An account as the EVM sees it.
///
/// It has no storage root: only canonical layers have one, and keep it themselves. Its RLP, which undo records and
/// logs hold, is a list of the fields in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    #[test]
    fn its_rlp_has_these_bytes() {
        let account =
            Account { nonce: 3, balance: U256::from(0x500), code_hash: B256::repeat_byte(7) };
        let expected = [&hex!("e503820500a0")[..], &[7; 32]].concat();
        assert_eq!(alloy_rlp::encode(account), expected);
        assert_eq!(alloy_rlp::decode_exact::<Account>(expected), Ok(account));
        let empty = [&hex!("e38080a0")[..], KECCAK256_EMPTY.as_slice()].concat();
        assert_eq!(alloy_rlp::encode(Account::default()), empty);
    }
}
