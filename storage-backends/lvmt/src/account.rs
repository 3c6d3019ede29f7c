//! The encoding of an account's value.
//!
//! ```text
//! head          bits 0–3 length of the nonce, 4 set where a code hash follows, 5 where an incarnation does,
//!               6 set where the account is gone; bit 7 zero
//! nonce         big-endian without leading zeros
//! code hash     32 bytes, left out where there is no code
//! incarnation   4 bytes, left out where it is zero
//! balance       the rest, big-endian without leading zeros
//! ```
//!
//! Only the incarnation is left of a removed account, so that the next account at its address does not find its
//! storage.

use crate::record::Value;
use alloy_primitives::KECCAK256_EMPTY;
use polytrie_state::{
    Account, Result, corrupt,
    flat::{parse_number, trim},
};

const NONCE_LENGTH: u8 = 0x0f;
const HAS_CODE: u8 = 0x10;
const HAS_INCARNATION: u8 = 0x20;
const GONE: u8 = 0x40;

/// An account, or its absence, and how many times its storage was wiped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AccountState {
    pub(crate) account: Option<Account>,
    pub(crate) incarnation: u32,
}

impl AccountState {
    pub(crate) fn encode(&self) -> Value {
        let mut out = Value::new();
        out.push(if self.incarnation == 0 { 0 } else { HAS_INCARNATION });
        let Some(account) = &self.account else {
            out[0] |= GONE;
            self.push_incarnation(&mut out);
            return out;
        };
        let nonce = account.nonce.to_be_bytes();
        let nonce = trim(&nonce);
        // The length is at most 8, the number of bytes in a u64.
        out[0] |= nonce.len() as u8;
        out.extend(nonce.iter().copied());
        if account.has_code() {
            out[0] |= HAS_CODE;
            out.extend(account.code_hash.iter().copied());
        }
        self.push_incarnation(&mut out);
        out.extend(trim(&account.balance.to_be_bytes::<32>()).iter().copied());
        out
    }

    fn push_incarnation(&self, out: &mut Value) {
        if self.incarnation != 0 {
            out.extend(self.incarnation.to_be_bytes());
        }
    }

    /// Decodes the bytes of [`Self::encode`]; `None` if they are not an account in its only encoding.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first()?;
        let (nonce, rest) = rest.split_at_checked(usize::from(head & NONCE_LENGTH))?;
        let (code_hash, rest) = if head & HAS_CODE == 0 {
            (KECCAK256_EMPTY, rest)
        } else {
            let (hash, rest) = rest.split_first_chunk::<32>()?;
            (hash.into(), rest)
        };
        let (incarnation, balance) = if head & HAS_INCARNATION == 0 {
            (0, rest)
        } else {
            let (incarnation, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_be_bytes(*incarnation), rest)
        };
        let account = if head & GONE == 0 {
            let nonce = u64::try_from(parse_number(nonce)?).ok()?;
            Some(Account { nonce, balance: parse_number(balance)?, code_hash })
        } else {
            None
        };
        let state = Self { account, incarnation };
        (state.encode()[..] == *bytes).then_some(state)
    }

    /// Decodes the account in a record.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes).ok_or_else(|| corrupt!("the value of an account is no account"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{U256, keccak256};

    #[test]
    fn accounts_have_one_encoding() {
        let plain = Account { nonce: 0x0102, balance: U256::from(255), ..Account::default() };
        let full = Account { nonce: u64::MAX, balance: U256::MAX, code_hash: keccak256("code") };
        for account in [None, Some(Account::default()), Some(plain), Some(full)] {
            for incarnation in [0, 1, u32::MAX] {
                let state = AccountState { account, incarnation };
                let bytes = state.encode();
                assert_eq!(AccountState::parse(&bytes), Some(state));
                let longer = [&[bytes[0]][..], &[0], &bytes[1..]].concat();
                assert_ne!(AccountState::parse(&longer), Some(state));
                for bit in 0..8 {
                    let mut other = bytes.clone();
                    other[0] ^= 1 << bit;
                    assert_ne!(AccountState::parse(&other), Some(state));
                }
            }
        }
        assert_eq!(AccountState { account: Some(full), incarnation: 1 }.encode().len(), 77);
        assert_eq!(AccountState::parse(&[]), None);
    }
}
