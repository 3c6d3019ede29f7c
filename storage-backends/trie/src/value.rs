//! The values of leaves.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256, b256};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use polytrie_kv::take_array;
use polytrie_state::{
    Account,
    flat::{encode_value, parse_number},
};
use std::fmt::Debug;

/// Root of the trie without keys: the Keccak-256 of the RLP of an empty string.
pub const EMPTY_ROOT: B256 =
    b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");

/// The value of a leaf, with its encodings.
pub trait LeafValue: Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Appends the bytes that the leaf node holds as its second item.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes the bytes of [`Self::encode`].
    ///
    /// # Errors
    ///
    /// The reason, if the bytes are not in the canonical form.
    fn decode(bytes: &[u8]) -> Result<Self, &'static str>;

    /// Appends the bytes by which a row holds the value: at most 32,767, and no more than needed.
    fn encode_row(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    /// Decodes the bytes of [`Self::encode_row`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::decode`].
    fn decode_row(bytes: &[u8]) -> Result<Self, &'static str> {
        Self::decode(bytes)
    }
}

/// The change of a key: its new value, which may keep a part of the one before. An `Option` is a value as it is.
pub trait NewValue<V> {
    /// Returns the value that takes the place of `before`; `None` removes the key. Whether it removes the key must not
    /// depend on `before`, which is `None` for a key that is absent.
    fn after(&self, before: Option<&V>) -> Option<V>;
}

impl<V: Clone> NewValue<V> for Option<V> {
    fn after(&self, _: Option<&V>) -> Self {
        self.clone()
    }
}

/// A leaf of the state trie: `rlp([nonce, balance, storageRoot, codeHash])`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, RlpEncodable, RlpDecodable)]
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

impl AccountLeaf {
    /// Creates the leaf of an account with a storage trie of this root.
    pub const fn new(account: &Account, storage_root: B256) -> Self {
        let Account { nonce, balance, code_hash } = *account;
        Self { nonce, balance, storage_root, code_hash }
    }

    /// Returns the part of the leaf that the EVM reads.
    pub const fn account(&self) -> Account {
        Account { nonce: self.nonce, balance: self.balance, code_hash: self.code_hash }
    }
}

impl Default for AccountLeaf {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, storage_root: EMPTY_ROOT, code_hash: KECCAK256_EMPTY }
    }
}

impl LeafValue for AccountLeaf {
    fn encode(&self, out: &mut Vec<u8>) {
        alloy_rlp::Encodable::encode(self, out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        alloy_rlp::decode_exact(bytes).map_err(|_| "not an account")
    }

    /// Most accounts have neither storage nor code, so a row leaves those hashes out: length of the nonce, plus 16 if
    /// there is a storage root, plus 32 if there is a code hash (1); nonce; the two hashes; balance.
    fn encode_row(&self, out: &mut Vec<u8>) {
        let nonce = self.nonce.to_be_bytes();
        let nonce = &nonce[self.nonce.leading_zeros() as usize / 8..];
        let has_storage = self.storage_root != EMPTY_ROOT;
        let has_code = self.code_hash != KECCAK256_EMPTY;
        out.push(nonce.len() as u8 | u8::from(has_storage) << 4 | u8::from(has_code) << 5);
        out.extend_from_slice(nonce);
        if has_storage {
            out.extend_from_slice(self.storage_root.as_slice());
        }
        if has_code {
            out.extend_from_slice(self.code_hash.as_slice());
        }
        encode_value(&self.balance, out);
    }

    fn decode_row(bytes: &[u8]) -> Result<Self, &'static str> {
        parse_account(bytes).ok_or("not the row of an account")
    }
}

/// The change of an account's leaf.
#[derive(Debug, Clone, Copy)]
pub struct LeafChange {
    /// The account afterwards; `None` if it was removed.
    pub account: Option<Account>,
    /// The root of its storage trie; `None` if the leaf keeps the one that it has.
    pub storage_root: Option<B256>,
}

impl NewValue<AccountLeaf> for LeafChange {
    fn after(&self, before: Option<&AccountLeaf>) -> Option<AccountLeaf> {
        let kept = || before.map_or(EMPTY_ROOT, |leaf| leaf.storage_root);
        Some(AccountLeaf::new(&self.account?, self.storage_root.unwrap_or_else(kept)))
    }
}

fn parse_account(mut rest: &[u8]) -> Option<AccountLeaf> {
    let flags = *rest.split_off_first()?;
    let nonce = rest.split_off(..usize::from(flags & 0x0f))?;
    let nonce = u64::try_from(parse_number(nonce)?).ok()?;
    let mut hash = |flag: u8, absent: B256| match flags & flag {
        0 => Some(absent),
        _ => take_array(&mut rest).map(B256::new).filter(|hash| *hash != absent),
    };
    let (storage_root, code_hash) = (hash(16, EMPTY_ROOT)?, hash(32, KECCAK256_EMPTY)?);
    let balance = parse_number(rest)?;
    (flags < 64).then_some(AccountLeaf { nonce, balance, storage_root, code_hash })
}

/// A leaf of a storage trie: `rlp(value without leading zeros)`; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotValue(pub U256);

impl SlotValue {
    /// Returns the leaf of a slot with this value; `None` if it is zero, which removes the leaf.
    pub fn of(value: U256) -> Option<Self> {
        (!value.is_zero()).then_some(Self(value))
    }
}

impl LeafValue for SlotValue {
    fn encode(&self, out: &mut Vec<u8>) {
        alloy_rlp::Encodable::encode(&self.0, out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let value = alloy_rlp::decode_exact(bytes).map_err(|_| "not a slot value")?;
        Self::of(value).ok_or("a slot of value zero")
    }

    fn encode_row(&self, out: &mut Vec<u8>) {
        encode_value(&self.0, out);
    }

    fn decode_row(bytes: &[u8]) -> Result<Self, &'static str> {
        parse_number(bytes).and_then(Self::of).ok_or("not the row of a slot")
    }
}
