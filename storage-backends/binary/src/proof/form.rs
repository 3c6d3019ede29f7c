//! The form of a proof.

use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256};
use serde::{Deserialize, Serialize};

/// A proof of an account and some of its slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BinaryProof {
    /// The account.
    pub address: Address,
    /// Whether it exists; if not, what follows is that of an empty account.
    pub exists: bool,
    /// Nonce.
    pub nonce: U256,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
    /// The slots asked for.
    pub slots: Vec<SlotClaim>,
    /// The stems that this takes, each once: the account's own, then those of slots, in the order in which they are asked
    /// for.
    pub stems: Vec<StemProof>,
}

/// A slot and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotClaim {
    /// The slot.
    pub key: U256,
    /// Its value; zero where there is none.
    pub value: U256,
}

/// The way to a stem, and what is at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StemProof {
    /// Hashes of the nodes beside the way, from the root on.
    pub way: Hashes,
    /// What shows of the nodes on the way that could be stems that they are none, from the root on. Hardly any could.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<InnerProof>,
    /// What is at the end.
    pub end: End,
}

/// What shows that a node is no stem: a way down from its right child that is longer than one in a stem's leaves could be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InnerProof {
    /// A bit for each of the 9 levels, the last one lowest: whether the way goes to the right.
    pub turns: u16,
    /// Hashes beside the way, from the right child's own children on.
    pub siblings: Hashes,
    /// The hash at its end, which is not zero.
    pub hash: B256,
}

/// What is at the end of the way to a stem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum End {
    /// Nothing: the stem is not there.
    Nothing,
    /// Another stem: the one asked for is not there. Its last leaf is opened, to tell it from an inner node, whose hash
    /// could be taken for a stem's otherwise.
    #[serde(rename_all = "camelCase")]
    Other {
        /// The other stem.
        stem: FixedBytes<31>,
        /// The leaf.
        sub: u8,
        /// Its value.
        value: B256,
        /// Hashes on the left of the way to it, from the root of the leaves on. On its right there is nothing.
        left: Hashes,
    },
    /// The stem.
    #[serde(rename_all = "camelCase")]
    Stem {
        /// The leaves asked for, in order; none where there is no leaf.
        values: Vec<Option<B256>>,
        /// Hashes of the subtrees in which nothing is asked for, from left to right.
        siblings: Hashes,
    },
}

/// Hashes, of which those that are zero are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hashes {
    /// How many there are.
    pub count: u16,
    /// A bit for each, the first one highest: whether it is not zero. Bits after the last one are zero.
    pub mask: Bytes,
    /// Those that are not zero.
    pub hashes: Vec<B256>,
}

impl Hashes {
    /// These hashes.
    pub(crate) fn pack(all: &[B256]) -> Self {
        let mut mask = vec![0; all.len().div_ceil(8)];
        for (at, _) in all.iter().enumerate().filter(|(_, hash)| !hash.is_zero()) {
            mask[at / 8] |= 0x80 >> (at % 8);
        }
        let hashes = all.iter().filter(|hash| !hash.is_zero()).copied().collect();
        // No way has more than 248 levels, and no opening more than 256 hashes.
        Self { count: all.len() as u16, mask: mask.into(), hashes }
    }

    /// All of them, with zeros; `None` if this is not what [`Self::pack`] makes.
    pub(crate) fn unpack(&self) -> Option<Vec<B256>> {
        let count = usize::from(self.count);
        let mut hashes = self.hashes.iter();
        let mut all = Vec::with_capacity(count);
        for at in 0..count {
            let is_there = self.mask.get(at / 8)? & (0x80 >> (at % 8)) != 0;
            all.push(if is_there { *hashes.next()? } else { B256::ZERO });
        }
        (Self::pack(&all) == *self).then_some(all)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_left_out_in_one_form() {
        let one = B256::repeat_byte(1);
        let all = [[one; 3], [B256::ZERO; 3], [one, B256::ZERO, one]].concat();
        let packed = Hashes::pack(&all);
        assert_eq!((packed.hashes.len(), &packed.mask[..]), (5, &[0b1110_0010, 0b1000_0000][..]));
        assert_eq!(packed.unpack().unwrap(), all);
        let broken: [fn(&mut Hashes); 5] = [
            |it| it.count += 8,
            |it| it.mask = Bytes::from_static(&[0b1110_0010, 0b1000_0001]),
            |it| it.mask = Bytes::from_static(&[0b1110_0010]),
            |it| it.hashes.push(B256::repeat_byte(2)),
            |it| it.hashes[0] = B256::ZERO,
        ];
        for change in broken {
            let mut broken = packed.clone();
            change(&mut broken);
            assert_eq!(broken.unpack(), None, "{broken:?}");
        }
    }
}
