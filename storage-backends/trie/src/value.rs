//! What leaves hold.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};
use alloy_rlp::{Decodable, Encodable, Header};
use std::fmt::Debug;

/// A leaf's value in memory and on the wire.
pub trait LeafValue: Clone + PartialEq + Debug + Send + Sync {
    /// Appends the bytes that the leaf node holds as its second item.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads those bytes back; anything but the canonical form is an error.
    fn decode(bytes: &[u8]) -> Result<Self, &'static str>;
}

/// A leaf of the state trie: `rlp([nonce, balance, storageRoot, codeHash])`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountLeaf {
    /// Number of transactions sent, or of contracts created.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Root of the account's storage trie.
    pub storage_root: B256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
}

impl Default for AccountLeaf {
    fn default() -> Self {
        Self {
            nonce: 0,
            balance: U256::ZERO,
            storage_root: crate::EMPTY_ROOT,
            code_hash: KECCAK256_EMPTY,
        }
    }
}

impl LeafValue for AccountLeaf {
    fn encode(&self, out: &mut Vec<u8>) {
        let payload_length = self.nonce.length() + self.balance.length() + 66;
        Header { list: true, payload_length }.encode(out);
        self.nonce.encode(out);
        self.balance.encode(out);
        self.storage_root.encode(out);
        self.code_hash.encode(out);
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, &'static str> {
        const WRONG: &str = "not an account";
        let mut body = Header::decode_bytes(&mut bytes, true).map_err(|_| WRONG)?;
        if !bytes.is_empty() {
            return Err("bytes after the account");
        }
        let account = Self {
            nonce: Decodable::decode(&mut body).map_err(|_| WRONG)?,
            balance: Decodable::decode(&mut body).map_err(|_| WRONG)?,
            storage_root: Decodable::decode(&mut body).map_err(|_| WRONG)?,
            code_hash: Decodable::decode(&mut body).map_err(|_| WRONG)?,
        };
        if body.is_empty() { Ok(account) } else { Err("more than four fields in an account") }
    }
}

/// A leaf of a storage trie: `rlp(value without leading zeros)`; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotValue(pub U256);

impl LeafValue for SlotValue {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, &'static str> {
        let value = U256::decode(&mut bytes).map_err(|_| "not a slot value")?;
        if !bytes.is_empty() {
            return Err("bytes after the slot value");
        }
        if value.is_zero() { Err("a slot of value zero") } else { Ok(Self(value)) }
    }
}
