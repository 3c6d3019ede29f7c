//! The keyspace: keys of accounts and slots, and their places in a trie.
//!
//! ```text
//! flat       account   keccak256(address)                                              32 bytes
//!            slot      keccak256(address) ‖ incarnation ‖ keccak256(slot)              72 bytes
//! snapshot   account   A                                where A = keccak256(address)
//!            slot      A[0..4] ‖ H(A ‖ incarnation ‖ keccak256(slot))[0..28]
//! salted     account   B                                where B = H(salt ‖ A)
//!            slot      B[0..4] ‖ H(salt ‖ A ‖ incarnation ‖ keccak256(slot))[0..28]
//! ```
//!
//! H is Keccak-256, an incarnation is 8 bytes big-endian. The account part comes first, so that the keys of one
//! account are neighbours; with 28 bytes of hash behind it, collisions cannot be found.

use alloy_primitives::{B256, Keccak256, keccak256};
use polytrie_state::keccak::Inputs;

/// Bytes of the account part that slots share with their account.
pub(crate) const SHARED: usize = 4;

/// Bytes of a slot's flat key.
pub(crate) const SLOT_KEY: usize = 72;

/// The key of a slot of one incarnation of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotKey {
    /// Keccak-256 of the address.
    pub(crate) account: B256,
    /// Number of the block in which this storage began.
    pub(crate) incarnation: u64,
    /// Keccak-256 of the slot.
    pub(crate) slot: B256,
}

impl SlotKey {
    /// Returns the flat key.
    pub(crate) fn to_bytes(self) -> [u8; SLOT_KEY] {
        let mut bytes = [0; SLOT_KEY];
        bytes[..32].copy_from_slice(self.account.as_slice());
        bytes[32..40].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes[40..].copy_from_slice(self.slot.as_slice());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (account, rest) = bytes.split_first_chunk::<32>()?;
        let (incarnation, slot) = rest.split_first_chunk::<8>()?;
        Some(Self {
            account: B256::new(*account),
            incarnation: u64::from_be_bytes(*incarnation),
            slot: B256::try_from(slot).ok()?,
        })
    }
}

/// A key of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// The record of an account, by the Keccak-256 of its address.
    Account(B256),
    /// The value of a slot.
    Slot(SlotKey),
}

impl Key {
    /// Appends the flat key.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Account(hash) => out.extend_from_slice(hash.as_slice()),
            Self::Slot(slot) => out.extend_from_slice(&slot.to_bytes()),
        }
    }

    /// Returns the flat key.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SLOT_KEY);
        self.encode(&mut out);
        out
    }

    /// Decodes a flat key; `None` if it is not one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes.len() {
            32 => Some(Self::Account(B256::from_slice(bytes))),
            SLOT_KEY => SlotKey::parse(bytes).map(Self::Slot),
            _ => None,
        }
    }

    /// Returns the account that the key belongs to.
    pub(crate) const fn account(&self) -> B256 {
        match self {
            Self::Account(hash) => *hash,
            Self::Slot(slot) => slot.account,
        }
    }
}

/// A mapping of keys to places in a trie.
#[derive(Debug)]
pub(crate) struct Places {
    salt: Option<B256>,
}

impl Places {
    /// Returns the mapping for the snapshot trie.
    pub(crate) const fn snapshot() -> Self {
        Self { salt: None }
    }

    /// Returns the mapping for a trie with a salt.
    pub(crate) const fn salted(salt: B256) -> Self {
        Self { salt: Some(salt) }
    }

    /// Returns the place of a key.
    pub(crate) fn of(&self, key: &Key) -> B256 {
        let account = key.account();
        let mut place = self.salt.map_or(account, |salt| keccak256([salt.0, account.0].concat()));
        if let Key::Slot(slot) = key {
            let mut hasher = Keccak256::new();
            hasher.update(self.salt());
            hasher.update(slot.to_bytes());
            place.0[SHARED..].copy_from_slice(&hasher.finalize()[..32 - SHARED]);
        }
        place
    }

    /// Returns the places of many keys, in their order; most of the hashes are computed eight at a time.
    pub(crate) fn of_all<T>(&self, items: &[T], key: impl Fn(&T) -> &Key) -> Vec<B256> {
        let mut places = Vec::with_capacity(items.len());
        let mut inputs = Inputs::default();
        // A portion is small enough for its hash inputs to stay in the processor's cache.
        for items in items.chunks(512) {
            let accounts = items.iter().map(|item| key(item).account()).collect();
            let accounts = self.accounts(accounts, &mut inputs);
            inputs.clear();
            for (i, item) in (0..).zip(items) {
                if let Key::Slot(slot) = key(item) {
                    let encode = |out: &mut Vec<u8>| {
                        out.extend_from_slice(self.salt());
                        out.extend_from_slice(&slot.to_bytes());
                    };
                    inputs.add(i, encode);
                }
            }
            let first = places.len();
            places.extend(accounts);
            inputs.hash_all(|i, hash| {
                places[first + i as usize].0[SHARED..].copy_from_slice(&hash[..32 - SHARED]);
            });
        }
        places
    }

    /// Returns the places of accounts.
    fn accounts(&self, mut accounts: Vec<B256>, inputs: &mut Inputs) -> Vec<B256> {
        let Some(salt) = self.salt else { return accounts };
        inputs.clear();
        let mut first = 0;
        for same in accounts.chunk_by(|a, b| a == b) {
            let encode = |out: &mut Vec<u8>| out.extend_from_slice(&[salt.0, same[0].0].concat());
            inputs.add(first, encode);
            first += same.len() as u32;
        }
        let hashed = accounts.clone();
        inputs.hash_all(|first, place| {
            let first = first as usize;
            let same = hashed[first..].iter().take_while(|account| **account == hashed[first]);
            accounts[first..first + same.count()].fill(place);
        });
        accounts
    }

    fn salt(&self) -> &[u8] {
        self.salt.as_ref().map_or(&[][..], B256::as_slice)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_form() {
        let slot =
            SlotKey { account: B256::repeat_byte(1), incarnation: 7, slot: B256::repeat_byte(2) };
        for key in [Key::Account(B256::repeat_byte(3)), Key::Slot(slot)] {
            assert_eq!(Key::parse(&key.to_vec()).unwrap(), key);
            assert_eq!(Key::parse(&key.to_vec()[1..]), None);
        }
    }

    #[test]
    fn places_are_as_documented() {
        let account = B256::repeat_byte(9);
        let slot = SlotKey { account, incarnation: 258, slot: B256::repeat_byte(4) };
        let (salt, number) = (B256::repeat_byte(5), 258u64.to_be_bytes());
        let tail = [&account[..], &number[..], &slot.slot[..]].concat();

        let snapshot = Places::snapshot();
        assert_eq!(snapshot.of(&Key::Account(account)), account);
        let expected = [&account[..4], &keccak256(&tail)[..28]].concat();
        assert_eq!(snapshot.of(&Key::Slot(slot)).to_vec(), expected);

        let salted = Places::salted(salt);
        let part = keccak256([&salt[..], &account[..]].concat());
        assert_eq!(salted.of(&Key::Account(account)), part);
        let expected = [&part[..4], &keccak256([&salt[..], &tail].concat())[..28]].concat();
        assert_eq!(salted.of(&Key::Slot(slot)).to_vec(), expected);
    }

    #[test]
    fn many_keys_have_the_places_of_each() {
        let hash = |n: u64| keccak256(n.to_be_bytes());
        let slot = |n: u64| SlotKey { account: hash(n % 50), incarnation: n % 3, slot: hash(n) };
        // The keys include accounts with slots alone, and accounts with and without slots.
        let mut keys: Vec<Key> = (0..3_000).map(|n| Key::Slot(slot(n))).collect();
        keys.extend((20..2_000).map(|n| Key::Account(hash(n))));
        let mut sorted = keys.clone();
        sorted.sort();
        for places in [Places::snapshot(), Places::salted(hash(7))] {
            for keys in [&keys, &sorted] {
                let one_by_one: Vec<B256> = keys.iter().map(|key| places.of(key)).collect();
                assert_eq!(places.of_all(keys, |key| key), one_by_one);
            }
        }
        assert_eq!(Places::snapshot().of_all(&[], |key| key), Vec::<B256>::new());
    }
}
