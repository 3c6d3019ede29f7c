//! The bytes of the rows.
//!
//! Every value has exactly one encoding; anything else is damage. Numbers are big-endian without leading
//! zeros, so zero has no bytes at all.
//!
//! ```text
//! account  key    keccak256(address)                                32 bytes
//!          value  head ‖ nonce ‖ code hash ‖ balance                1 to 73 bytes
//!                 head: bits 0–3 length of the nonce (0 to 8), bit 4 set where the code hash follows
//!                 code hash: 32 bytes, left out where there is no code
//!                 balance: the rest (0 to 32 bytes)
//! slot     key    keccak256(address) ‖ keccak256(slot)              64 bytes
//!          value  the number                                        1 to 32 bytes, never zero
//! ```

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};
use polytrie_kv::Table;
use polytrie_state::{Account, StateError};

/// `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(10, "RawAccounts", 32);

/// `keccak256(address) ‖ keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(11, "RawSlots", 64);

const NONCE_LENGTH: u8 = 0x0f;
const HAS_CODE: u8 = 0x10;

/// Appends the bytes of an account.
pub(crate) fn encode_account(account: &Account, out: &mut Vec<u8>) {
    let nonce = account.nonce.to_be_bytes();
    let nonce = trim(&nonce);
    // At most 8, the number of bytes in a u64.
    let mut head = nonce.len() as u8;
    if account.has_code() {
        head |= HAS_CODE;
    }
    out.push(head);
    out.extend_from_slice(nonce);
    if account.has_code() {
        out.extend_from_slice(account.code_hash.as_slice());
    }
    out.extend_from_slice(trim(&account.balance.to_be_bytes::<32>()));
}

/// Reads the bytes of an account.
pub(crate) fn decode_account(hash: &B256, bytes: &[u8]) -> Result<Account, StateError> {
    parse_account(bytes).ok_or_else(|| {
        StateError::Corrupt(format!(
            "the row of account {hash} is no account ({} bytes)",
            bytes.len()
        ))
    })
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

/// Appends the bytes of a slot's value; there are none where it is zero, and such a slot has no row.
pub(crate) fn encode_value(value: &U256, out: &mut Vec<u8>) {
    out.extend_from_slice(trim(&value.to_be_bytes::<32>()));
}

/// Reads the bytes of a slot's value.
pub(crate) fn decode_value(account: &B256, slot: &B256, bytes: &[u8]) -> Result<U256, StateError> {
    parse_number(bytes).filter(|value| !value.is_zero()).ok_or_else(|| {
        StateError::Corrupt(format!(
            "the row of slot {slot} of account {account} is no number that a slot can hold ({} bytes)",
            bytes.len()
        ))
    })
}

/// The key of a slot.
pub(crate) fn slot_key(account: &B256, slot: &B256) -> [u8; 64] {
    let mut key = [0; 64];
    key[..32].copy_from_slice(account.as_slice());
    key[32..].copy_from_slice(slot.as_slice());
    key
}

/// The hash an account's row is kept under.
pub(crate) fn parse_account_key(key: &[u8]) -> Result<B256, StateError> {
    B256::try_from(key).map_err(|_| {
        StateError::Corrupt(format!(
            "a key of {} bytes in {}, expected 32",
            key.len(),
            ACCOUNTS.name
        ))
    })
}

/// The hashes of the account and the slot a slot's row is kept under.
pub(crate) fn parse_slot_key(key: &[u8]) -> Result<(B256, B256), StateError> {
    match key.split_first_chunk::<32>() {
        Some((account, slot)) if slot.len() == 32 => {
            Ok((B256::from(*account), B256::from_slice(slot)))
        }
        _ => Err(StateError::Corrupt(format!(
            "a key of {} bytes in {}, expected 64",
            key.len(),
            SLOTS.name
        ))),
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

fn parse_number(bytes: &[u8]) -> Option<U256> {
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

    #[test]
    fn keys_of_another_length_are_damage() {
        let (a, b) = (B256::repeat_byte(1), B256::repeat_byte(2));
        assert_eq!(parse_slot_key(&slot_key(&a, &b)).unwrap(), (a, b));
        for length in [0, 31, 32, 63, 65] {
            assert!(parse_slot_key(&vec![0; length]).is_err());
        }
        assert!(parse_account_key(&[0; 31]).is_err());
    }
}
