//! The keys of the rows; their bytes are those of [`polytrie_state::flat`].
//!
//! ```text
//! account  key    keccak256(address)                                32 bytes
//! slot     key    keccak256(address) ‖ keccak256(slot)              64 bytes
//! ```

use alloy_primitives::B256;
use polytrie_kv::Table;
use polytrie_state::StateError;
pub(crate) use polytrie_state::flat::{decode_account, decode_value, encode_account, encode_value};

/// `keccak256(address)` → account.
pub(crate) const ACCOUNTS: Table = Table::new(10, "RawAccounts", 32);

/// `keccak256(address) ‖ keccak256(slot)` → value.
pub(crate) const SLOTS: Table = Table::new(11, "RawSlots", 64);

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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

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
