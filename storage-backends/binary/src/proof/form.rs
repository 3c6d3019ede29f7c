//! The JSON form of a proof.

use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256};
use polytrie_state::SlotClaim;
use serde::{Deserialize, Serialize};

/// A proof of an account and some of its slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BinaryProof {
    /// The address of the account.
    pub address: Address,
    /// Whether the account exists; if not, the next fields are those of an empty account.
    pub exists: bool,
    /// Nonce.
    pub nonce: U256,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
    /// The slots that the proof covers.
    pub slots: Vec<SlotClaim>,
    /// The stems that these leaves need, each once: the account's own, then those of slots, in the order of the
    /// slots.
    pub stems: Vec<StemProof>,
}

/// The path to a stem, and the node at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StemProof {
    /// The hashes of the nodes beside the path, from the root on.
    pub way: Hashes,
    /// The proofs that ambiguous nodes on the path are not stems, from the root on. Hardly any node is ambiguous.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<InnerProof>,
    /// The node at the end of the path.
    pub end: End,
}

/// The proof that a node is not a stem: a path down from its right child that is longer than any among a stem's
/// leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InnerProof {
    /// A bit for each of the 9 levels, the last one lowest: whether the path goes to the right.
    pub turns: u16,
    /// The hashes beside the path, from the right child's own children on.
    pub siblings: Hashes,
    /// The hash at the end of the path, which is not zero.
    pub hash: B256,
}

/// The node at the end of the path to a stem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum End {
    /// No node: the stem does not exist.
    Nothing,
    /// Another stem: the requested one does not exist. Its last leaf is opened, to distinguish it from an inner node,
    /// whose hash could otherwise be taken for a stem's.
    #[serde(rename_all = "camelCase")]
    Other {
        /// The other stem.
        stem: FixedBytes<31>,
        /// The sub-index of the leaf.
        sub: u8,
        /// The value of the leaf.
        value: B256,
        /// The hashes to the left of the path to the leaf, from the root of the leaves on. All hashes to its right
        /// are zero.
        left: Hashes,
    },
    /// The requested stem.
    #[serde(rename_all = "camelCase")]
    Stem {
        /// The requested leaves, in order; `None` for a missing leaf.
        values: Vec<Option<B256>>,
        /// The hashes of the subtrees without requested leaves, from left to right.
        siblings: Hashes,
    },
}

/// A list of hashes that leaves out those that are zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hashes {
    /// Number of hashes in the list.
    pub count: u16,
    /// A bit for each hash, the first one highest: whether it is not zero. Bits after the last one are zero.
    pub mask: Bytes,
    /// The hashes that are not zero.
    pub hashes: Vec<B256>,
}

impl Hashes {
    /// Packs a list of hashes.
    pub(crate) fn pack(all: &[B256]) -> Self {
        let mut mask = vec![0; all.len().div_ceil(8)];
        for (at, _) in all.iter().enumerate().filter(|(_, hash)| !hash.is_zero()) {
            mask[at / 8] |= 0x80 >> (at % 8);
        }
        let hashes = all.iter().filter(|hash| !hash.is_zero()).copied().collect();
        // A path has at most 248 levels, and an opening at most 256 hashes.
        Self { count: all.len() as u16, mask: mask.into(), hashes }
    }

    /// Returns the whole list, with zeros; `None` if [`Self::pack`] does not make this form.
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
