//! The positions in the tree: the EIP's "Tree embedding".
//!
//! ```text
//! key     stem (31 bytes) ‖ sub-index (1 byte)
//! stem    first 31 bytes of BLAKE3(12 zeros ‖ address ‖ tree index, 32 bytes, big-endian)
//!
//! account tree index 0:  0 basic data │ 1 code hash │ 2 rest of the balance │ 64… slots 0 to 63 │ 128… chunks 0 to 127
//! code    chunk n, from 128 on:   tree index (128 + n) / 256, sub-index the rest
//! slots   slot n, from 64 on:     tree index (256³¹ + n) / 256, sub-index the rest
//! ```

use crate::hash::hash;
use alloy_primitives::{Address, U256};
use std::fmt;

/// Sub-index of [`basic data`](crate::account).
pub(crate) const BASIC_DATA: u8 = 0;
/// Sub-index of the code's hash.
pub(crate) const CODE_HASH: u8 = 1;
/// Sub-index of the part of a balance that does not fit into the basic data; one of those that the EIP reserves.
pub(crate) const BALANCE_REST: u8 = 2;
/// Sub-index of the first slot in the account's own stem.
const HEADER_STORAGE: u8 = 64;
/// Sub-index of the first chunk of code in the account's own stem.
const CODE: u8 = 128;
/// Number of slots in the account's own stem.
const HEADER_SLOTS: u64 = (CODE - HEADER_STORAGE) as u64;
/// Number of bits of a stem.
pub(crate) const STEM_BITS: usize = 248;

/// The first 31 bytes of a key: the path to 256 leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stem(pub [u8; 31]);

impl Stem {
    /// Returns the bit that decides at this depth: whether the path goes to the right.
    pub(crate) const fn bit(&self, depth: usize) -> bool {
        self.0[depth / 8] & (0x80 >> (depth % 8)) != 0
    }

    /// Returns the first `depth` bits, followed by zeros.
    pub(crate) fn prefix(&self, depth: usize) -> Self {
        let mut prefix = [0; 31];
        let whole = depth / 8;
        prefix[..whole].copy_from_slice(&self.0[..whole]);
        if !depth.is_multiple_of(8) {
            prefix[whole] = self.0[whole] & !(0xff >> (depth % 8));
        }
        Self(prefix)
    }

    /// Returns this stem with the bit that decides at this depth flipped.
    pub(crate) fn turned(mut self, depth: usize) -> Self {
        self.0[depth / 8] ^= 0x80 >> (depth % 8);
        self
    }

    /// Whether both have the same first `depth` bits.
    pub(crate) fn shares(&self, other: &Self, depth: usize) -> bool {
        self.prefix(depth) == other.prefix(depth)
    }
}

impl fmt::Debug for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&alloy_primitives::hex::encode_prefixed(self.0))
    }
}

/// A key of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeKey {
    /// The stem, which selects 256 leaves.
    pub stem: Stem,
    /// The sub-index, which selects one of them.
    pub sub: u8,
}

/// The keys of one account. Its own stem is hashed once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccountKeys {
    address: Address,
    /// The account's own stem.
    pub(crate) header: Stem,
}

impl AccountKeys {
    pub(crate) fn new(address: Address) -> Self {
        Self { address, header: stem(&address, &U256::ZERO) }
    }

    /// Whether the account is the one at address zero.
    pub(crate) fn are_of_zero(&self) -> bool {
        self.address.is_zero()
    }

    /// Returns a key in the account's own stem.
    pub(crate) const fn in_header(&self, sub: u8) -> TreeKey {
        TreeKey { stem: self.header, sub }
    }

    /// Returns the key of a slot.
    pub(crate) fn slot(&self, slot: &U256) -> TreeKey {
        if *slot < U256::from(HEADER_SLOTS) {
            // The sub-index is at most 127.
            return self.in_header(HEADER_STORAGE + slot.to::<u8>());
        }
        // The tree index is (256³¹ + slot) / 256; every slot fits.
        let tree_index = (U256::ONE << 240) + (*slot >> 8);
        TreeKey { stem: stem(&self.address, &tree_index), sub: slot.byte(0) }
    }

    /// Returns the keys of `count` chunks of code, in order.
    pub(crate) fn chunks(&self, count: usize) -> impl Iterator<Item = TreeKey> {
        let mut current = (0, self.header);
        (0..count as u64).map(move |chunk| {
            let position = u64::from(CODE) + chunk;
            let tree_index = position / 256;
            if tree_index != current.0 {
                current = (tree_index, stem(&self.address, &U256::from(tree_index)));
            }
            // The sub-index is the remainder of the division by 256.
            TreeKey { stem: current.1, sub: (position % 256) as u8 }
        })
    }
}

fn stem(address: &Address, tree_index: &U256) -> Stem {
    let mut bytes = [0; 64];
    bytes[12..32].copy_from_slice(address.as_slice());
    bytes[32..].copy_from_slice(&tree_index.to_be_bytes::<32>());
    let mut stem = [0; 31];
    stem.copy_from_slice(&hash(&bytes)[..31]);
    Stem(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Address = Address::repeat_byte(0x42);

    /// Computes a key by hand: the hash of the address and a tree index.
    fn by_hand(tree_index: [u8; 32], sub: u8) -> TreeKey {
        let bytes = [&[0; 12][..], ADDRESS.as_slice(), &tree_index].concat();
        let mut stem = [0; 31];
        stem.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..31]);
        TreeKey { stem: Stem(stem), sub }
    }

    fn index(bytes: &[(usize, u8)]) -> [u8; 32] {
        let mut index = [0; 32];
        for (at, byte) in bytes {
            index[*at] = *byte;
        }
        index
    }

    #[test]
    fn keys_are_those_of_the_eip() {
        let keys = AccountKeys::new(ADDRESS);
        assert_eq!(keys.in_header(BASIC_DATA), by_hand([0; 32], 0));
        assert_eq!(keys.in_header(CODE_HASH), by_hand([0; 32], 1));
        let slot = |slot: U256| keys.slot(&slot);
        assert_eq!(slot(U256::ZERO), by_hand([0; 32], 64));
        assert_eq!(slot(U256::from(63)), by_hand([0; 32], 127));
        // 256³¹ is a one followed by 31 zero bytes; divided by 256, by 30.
        assert_eq!(slot(U256::from(64)), by_hand(index(&[(1, 1)]), 64));
        assert_eq!(slot(U256::from(0x1234)), by_hand(index(&[(1, 1), (31, 0x12)]), 0x34));
        let high = U256::from(0xff) << 248;
        assert_eq!(slot(high), by_hand(index(&[(0, 1), (1, 0)]), 0));
        let chunks: Vec<_> = keys.chunks(400).collect();
        assert_eq!(chunks[0], by_hand([0; 32], 128));
        assert_eq!(chunks[127], by_hand([0; 32], 255));
        assert_eq!(chunks[128], by_hand(index(&[(31, 1)]), 0));
        assert_eq!(chunks[384], by_hand(index(&[(31, 2)]), 0));
    }

    #[test]
    fn bits_and_prefixes() {
        let stem = Stem([0b1010_0110; 31]);
        let bits: Vec<bool> = (0..8).map(|depth| stem.bit(depth)).collect();
        assert_eq!(bits, [true, false, true, false, false, true, true, false]);
        assert_eq!(stem.prefix(0), Stem([0; 31]));
        assert_eq!(stem.prefix(11).0[..3], [0b1010_0110, 0b1010_0000, 0]);
        assert_eq!(stem.prefix(STEM_BITS), stem);
        let mut other = stem;
        other.0[2] ^= 1;
        assert!(stem.shares(&other, 23) && !stem.shares(&other, 24));
    }
}
