//! The leaves of an account.
//!
//! ```text
//! basic data       version 0 (1 byte) │ 0 (3) │ size of the code (4) │ nonce (8) │ balance, last 16 bytes (16)    big-endian
//! code hash        keccak256(code), of no code too
//! rest of balance  0 (16) │ balance, first 16 bytes (16); only where they are not zero
//! ```
//!
//! The EIP has 3 bytes for the size of the code and allows a fourth one to be used. It has no place for balances from
//! 2^128 on, which no chain has but tests do; a layer stores what it gets.

use crate::key::{BALANCE_REST, BASIC_DATA, CODE_HASH};
use alloy_primitives::{B256, U256};
use polytrie_state::Account;

/// The change of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafChange {
    /// The leaf gets this value.
    Set(B256),
    /// The leaf is removed.
    Remove,
    /// The leaf is basic data and gets this value, except for the size of the code, which stays.
    KeepCodeSize(B256),
}

/// Returns the basic data of an account with code of this size in bytes.
pub(crate) fn basic_data(account: &Account, code_size: u32) -> B256 {
    let mut leaf = B256::ZERO;
    leaf[4..8].copy_from_slice(&code_size.to_be_bytes());
    leaf[8..16].copy_from_slice(&account.nonce.to_be_bytes());
    leaf[16..].copy_from_slice(&account.balance.to_be_bytes::<32>()[16..]);
    leaf
}

/// Returns the part of a balance that does not fit into the basic data.
pub(crate) fn balance_rest(balance: &U256) -> B256 {
    let mut leaf = B256::ZERO;
    leaf[16..].copy_from_slice(&balance.to_be_bytes::<32>()[..16]);
    leaf
}

/// Returns basic data with the code's size of other basic data.
pub(crate) fn with_code_size_of(mut basic_data: B256, other: &B256) -> B256 {
    basic_data[4..8].copy_from_slice(&other[4..8]);
    basic_data
}

/// Decodes an account from its leaves [`BASIC_DATA`], [`CODE_HASH`], [`BALANCE_REST`]; `None` if they are not those
/// of an account.
pub(crate) fn account_of(basic: &B256, code_hash: &B256, rest: Option<&B256>) -> Option<Account> {
    let mut nonce = [0; 8];
    nonce.copy_from_slice(&basic[8..16]);
    let mut balance = [0; 32];
    balance[16..].copy_from_slice(&basic[16..]);
    if let Some(rest) = rest {
        balance[..16].copy_from_slice(&rest[16..]);
        if rest[..16] != [0; 16] || rest.is_zero() {
            return None;
        }
    }
    if basic[..4] != [0; 4] {
        return None;
    }
    let balance = U256::from_be_bytes(balance);
    Some(Account { nonce: u64::from_be_bytes(nonce), balance, code_hash: *code_hash })
}

/// Returns all leaves of an account except those of code and slots.
pub(crate) fn leaves_of(account: &Account, code_size: u32) -> [(u8, LeafChange); 3] {
    [
        (BASIC_DATA, LeafChange::Set(basic_data(account, code_size))),
        (CODE_HASH, LeafChange::Set(account.code_hash)),
        (BALANCE_REST, rest_change(&account.balance)),
    ]
}

/// Returns the change of the leaf for the rest of a balance.
pub(crate) fn rest_change(balance: &U256) -> LeafChange {
    let rest = balance_rest(balance);
    if rest.is_zero() { LeafChange::Remove } else { LeafChange::Set(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::KECCAK256_EMPTY;

    #[test]
    fn leaves_have_the_bytes_of_the_eip() {
        let account = Account { nonce: 0x0102, balance: U256::from(0xabcd), ..Account::default() };
        let leaf = basic_data(&account, 0x01_0203);
        assert_eq!(leaf[0], 0, "the version");
        assert_eq!(leaf[5..8], [1, 2, 3], "the size of the code");
        assert_eq!(leaf[8..16], 0x0102u64.to_be_bytes(), "the nonce");
        assert_eq!(leaf[16..], 0xabcdu128.to_be_bytes(), "the balance");
        assert_eq!(account_of(&leaf, &KECCAK256_EMPTY, None), Some(account));
        assert_eq!(rest_change(&account.balance), LeafChange::Remove);
    }

    #[test]
    fn no_balance_is_too_large() {
        let account = Account { balance: U256::MAX, ..Account::default() };
        let rest = balance_rest(&account.balance);
        assert_eq!(rest[..16], [0; 16]);
        let leaf = basic_data(&account, 0);
        assert_eq!(account_of(&leaf, &KECCAK256_EMPTY, Some(&rest)), Some(account));
        for wrong in [B256::ZERO, B256::repeat_byte(1)] {
            assert_eq!(account_of(&leaf, &KECCAK256_EMPTY, Some(&wrong)), None);
        }
    }
}
