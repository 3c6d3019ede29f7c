//! The encoding of flat rows: an account, a slot's value. The same for every layer that keeps state flat.
//!
//! Every value has exactly one encoding; anything else is damage. Numbers are big-endian without leading
//! zeros, so zero has no bytes at all.
//!
//! ```text
//! account  head ‖ nonce ‖ code hash ‖ balance                1 to 73 bytes
//!          head: bits 0–3 length of the nonce (0 to 8), bit 4 set where the code hash follows
//!          code hash: 32 bytes, left out where there is no code
//!          balance: the rest (0 to 32 bytes)
//! slot     the number                                        1 to 32 bytes, never zero
//! ```

use crate::{Account, Result, corrupt};
use alloy_primitives::{B256, KECCAK256_EMPTY, U256};

const NONCE_LENGTH: u8 = 0x0f;
const HAS_CODE: u8 = 0x10;

/// Appends the encoding of an account, 1 to 73 bytes.
pub fn encode_account(account: &Account, out: &mut Vec<u8>) {
    let nonce = account.nonce.to_be_bytes();
    let nonce = trim(&nonce);
    // The length is at most 8, the number of bytes in a u64.
    let mut head = nonce.len() as u8;
    if account.has_code() {
        head |= HAS_CODE;
    }
    out.push(head);
    out.extend_from_slice(nonce);
    if account.has_code() {
        out.extend_from_slice(account.code_hash.as_slice());
    }
    encode_value(&account.balance, out);
}

/// Encodes an account.
pub fn account_row(account: &Account) -> Vec<u8> {
    // No row is longer than 73 bytes.
    let mut row = Vec::with_capacity(73);
    encode_account(account, &mut row);
    row
}

/// Decodes an account; the error message names its hash.
///
/// # Errors
///
/// [`Corrupt`](crate::StateError::Corrupt) if the bytes are not exactly what [`encode_account`] writes.
pub fn decode_account(hash: &B256, bytes: &[u8]) -> Result<Account> {
    parse_account(bytes)
        .ok_or_else(|| corrupt!("the row of account {hash} is no account ({} bytes)", bytes.len()))
}

fn parse_account(bytes: &[u8]) -> Option<Account> {
    let (head, rest) = bytes.split_first()?;
    if head & !(NONCE_LENGTH | HAS_CODE) != 0 {
        return None;
    }
    let (nonce, rest) = rest.split_at_checked(usize::from(head & NONCE_LENGTH))?;
    let (code_hash, balance) = if head & HAS_CODE == 0 {
        (KECCAK256_EMPTY, rest)
    } else {
        let (hash, rest) = rest.split_first_chunk::<32>()?;
        let hash = B256::from(*hash);
        (Some(hash).filter(|hash| *hash != KECCAK256_EMPTY)?, rest)
    };
    let nonce = u64::try_from(parse_number(nonce)?).ok()?;
    Some(Account { nonce, balance: parse_number(balance)?, code_hash })
}

/// Appends the encoding of a slot's value. Zero has no bytes, and such a slot has no row.
pub fn encode_value(value: &U256, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes::<32>()[value.leading_zeros() / 8..]);
}

/// Encodes a slot's value; `None` if it is zero.
pub fn value_row(value: &U256) -> Option<Vec<u8>> {
    (!value.is_zero()).then(|| value.to_be_bytes_trimmed_vec())
}

/// Decodes a slot's value; the error message names the hashes.
///
/// # Errors
///
/// [`Corrupt`](crate::StateError::Corrupt) if the bytes are not exactly what [`encode_value`] writes.
pub fn decode_value(account: &B256, slot: &B256, bytes: &[u8]) -> Result<U256> {
    parse_number(bytes).filter(|value| !value.is_zero()).ok_or_else(|| {
        corrupt!(
            "the row of slot {slot} of account {account} is no number that a slot can hold ({} bytes)",
            bytes.len()
        )
    })
}

/// Strips the leading zeros of a big-endian number.
pub fn trim(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// Decodes a big-endian number; `None` if there are leading zeros, or more than 32 bytes.
pub fn parse_number(bytes: &[u8]) -> Option<U256> {
    if bytes.len() > 32 || bytes.first() == Some(&0) {
        return None;
    }
    Some(U256::from_be_slice(bytes))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::{hex, keccak256};

    fn encoded(account: &Account) -> Vec<u8> {
        let mut out = Vec::new();
        encode_account(account, &mut out);
        out
    }

    #[test]
    fn accounts_have_the_documented_bytes() {
        assert_eq!(encoded(&Account::default()), hex!("00"));
        let rich = Account { nonce: 0x0102, balance: U256::from(0xffu64), ..Account::default() };
        assert_eq!(encoded(&rich), hex!("020102ff"));
        let code_hash = keccak256("code");
        let full = Account { nonce: u64::MAX, balance: U256::MAX, code_hash };
        assert_eq!(encoded(&full).len(), 73);
        for account in [Account::default(), rich, full] {
            assert_eq!(parse_account(&encoded(&account)), Some(account));
        }
    }

    #[test]
    fn only_one_encoding_is_read() {
        let no_code = [&hex!("10"), KECCAK256_EMPTY.as_slice()].concat();
        let long = [&hex!("00")[..], &[1; 33]].concat();
        for bad in
            [&[][..], &hex!("0100"), &hex!("0000"), &hex!("20"), &hex!("09"), &no_code, &long]
        {
            assert_eq!(parse_account(bad), None, "{}", hex::encode(bad));
        }
        let any = B256::ZERO;
        for bad in [&[][..], &[0], &[0, 1], &[1; 33]] {
            assert!(decode_value(&any, &any, bad).is_err(), "{}", hex::encode(bad));
        }
        assert_eq!(decode_value(&any, &any, &[1, 0]).unwrap(), U256::from(256));
    }
}
