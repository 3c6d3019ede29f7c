//! The values of the leaves of all three tries, and of the rows of the flat map.
//!
//! ```text
//! account     rlp([nonce, balance, code hash, incarnation])   the code hash is empty where there is no code
//! slot        rlp(value)                                      never zero
//! tombstone   nothing at all                                  delta and intermediate only
//! ```
//!
//! An account begins with a byte from 0xc0 on, a slot with a smaller one: no value can be taken for another.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};
use alloy_rlp::{Decodable, Encodable, Header};
use polytrie_state::Account;
use polytrie_trie::LeafValue;

/// An account with its incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) account: Account,
    /// Number of the block in which its storage began; slots of other incarnations are dead.
    pub(crate) incarnation: u64,
}

/// The value of a key in one of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// The key was removed, whatever the layers below hold.
    Tombstone,
    /// An account.
    Account(Record),
    /// A slot, not zero.
    Slot(U256),
}

impl Value {
    /// Wraps an account; `None` is a tombstone.
    pub(crate) fn of_account(record: Option<Record>) -> Self {
        record.map_or(Self::Tombstone, Self::Account)
    }

    /// Wraps a slot's value; zero is a tombstone.
    pub(crate) fn of_slot(value: U256) -> Self {
        if value.is_zero() { Self::Tombstone } else { Self::Slot(value) }
    }

    /// Returns the account; `None` for a tombstone.
    pub(crate) const fn record(self) -> Option<Record> {
        match self {
            Self::Account(record) => Some(record),
            Self::Slot(_) | Self::Tombstone => None,
        }
    }

    /// Returns the number in a slot; zero for a tombstone.
    pub(crate) const fn number(self) -> U256 {
        match self {
            Self::Slot(value) => value,
            Self::Account(_) | Self::Tombstone => U256::ZERO,
        }
    }

    /// Encodes the value.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Returns the value; `None` if it is a tombstone.
    pub(crate) fn present(self) -> Option<Self> {
        (self != Self::Tombstone).then_some(self)
    }
}

impl LeafValue for Value {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Tombstone => {}
            Self::Slot(value) => value.encode(out),
            Self::Account(Record { account, incarnation }) => {
                let code_hash: &[u8] =
                    if account.has_code() { account.code_hash.as_slice() } else { &[] };
                let payload_length = account.nonce.length()
                    + account.balance.length()
                    + code_hash.length()
                    + incarnation.length();
                Header { list: true, payload_length }.encode(out);
                account.nonce.encode(out);
                account.balance.encode(out);
                code_hash.encode(out);
                incarnation.encode(out);
            }
        }
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, &'static str> {
        let Some(first) = bytes.first() else { return Ok(Self::Tombstone) };
        let value = if *first < 0xc0 {
            let value = U256::decode(&mut bytes).map_err(|_| "not the value of a slot")?;
            if value.is_zero() {
                return Err("a slot of value zero");
            }
            Self::Slot(value)
        } else {
            const WRONG: &str = "not an account";
            let mut body = Header::decode_bytes(&mut bytes, true).map_err(|_| WRONG)?;
            let nonce = Decodable::decode(&mut body).map_err(|_| WRONG)?;
            let balance = Decodable::decode(&mut body).map_err(|_| WRONG)?;
            let code_hash = Header::decode_bytes(&mut body, false).map_err(|_| WRONG)?;
            let code_hash = match B256::try_from(code_hash) {
                Ok(hash) if hash != KECCAK256_EMPTY => hash,
                Err(_) if code_hash.is_empty() => KECCAK256_EMPTY,
                _ => return Err("an account with a code hash that is none"),
            };
            let incarnation = Decodable::decode(&mut body).map_err(|_| WRONG)?;
            if !body.is_empty() {
                return Err("more than four fields in an account");
            }
            Self::Account(Record { account: Account { nonce, balance, code_hash }, incarnation })
        };
        if bytes.is_empty() { Ok(value) } else { Err("bytes after the value") }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    #[test]
    fn values_have_the_documented_bytes() {
        let record = Record { account: Account::default(), incarnation: 0 };
        assert_eq!(Value::Account(record).to_vec(), hex!("c480808080"));
        let account =
            Account { nonce: 1, balance: U256::from(300), code_hash: B256::repeat_byte(7) };
        let record = Record { account, incarnation: 5 };
        let bytes = Value::Account(record).to_vec();
        assert_eq!(bytes[..6], hex!("e60182012ca0"));
        let slot = Value::of_slot(U256::from(0x80));
        assert_eq!(slot.to_vec(), hex!("8180"));
        assert_eq!(Value::of_slot(U256::ZERO).to_vec(), hex!(""));
        for value in [Value::Tombstone, slot, Value::Account(record)] {
            assert_eq!(Value::decode(&value.to_vec()).unwrap(), value);
        }
    }

    #[test]
    fn only_one_encoding_is_read() {
        let empty_code = [&hex!("e48080a0")[..], KECCAK256_EMPTY.as_slice(), &hex!("80")].concat();
        for bad in [&hex!("80")[..], &hex!("820001"), &hex!("0101"), &hex!("c3808080"), &empty_code]
        {
            assert!(Value::decode(bad).is_err(), "{}", hex::encode(bad));
        }
    }
}
