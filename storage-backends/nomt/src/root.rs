//! The root of a trie computed from its sorted leaves, without the crate's trie, as a reference for checks.
//!
//! ```text
//! nothing   32 zero bytes
//! leaf      blake3(key ‖ blake3(value)), its first bit set       where its key parts from all others, no deeper
//! inner     blake3(left ‖ right), its first bit cleared          left: keys whose next bit is 0
//! ```

use nomt::{
    hasher::{Blake3Hasher, NodeHasher},
    trie::{InternalData, KeyPath, LeafData, Node, TERMINATOR, ValueHash},
};

/// The computation of a root from leaves in the order of their keys. It keeps the open nodes on the path to the last
/// leaf: at most one a level.
#[derive(Debug, Default)]
pub(crate) struct Root {
    /// The last leaf, and the number of bits that it shares with the one before it.
    last: Option<(KeyPath, ValueHash, Option<usize>)>,
    /// The left children that wait for their siblings, by their level, from the top down.
    left: Vec<(usize, Node)>,
}

impl Root {
    /// Adds the next leaf, whose key must be greater than those before.
    pub(crate) fn add(&mut self, key: KeyPath, value_hash: ValueHash) {
        let shared = self.last.as_ref().map(|(last, _, _)| shared_bits(last, &key));
        if let (Some((last, value_hash, before)), Some(shared)) = (self.last.take(), shared) {
            // The leaf separates from the next one, or from the one before, whichever is deeper.
            let level = before.map_or(shared, |before| before.max(shared)) + 1;
            let node = self.lift(&last, leaf(last, value_hash), level, shared + 1);
            self.left.push((shared + 1, node));
        }
        self.last = Some((key, value_hash, shared));
    }

    /// Returns the root over all leaves.
    pub(crate) fn end(mut self) -> Node {
        let Some((key, value_hash, before)) = self.last.take() else { return TERMINATOR };
        let level = before.map_or(0, |before| before + 1);
        self.lift(&key, leaf(key, value_hash), level, 0)
    }

    /// Lifts a node on the path to a key from one level to another.
    fn lift(&mut self, key: &KeyPath, mut node: Node, from: usize, to: usize) -> Node {
        for level in (to + 1..=from).rev() {
            let (left, right) = match bit(key, level - 1) {
                false => (node, TERMINATOR),
                true => match self.left.pop_if(|(at, _)| *at == level) {
                    Some((_, left)) => (left, node),
                    None => (TERMINATOR, node),
                },
            };
            node = Blake3Hasher::hash_internal(&InternalData { left, right });
        }
        node
    }
}

/// Returns the node of a leaf.
pub(crate) fn leaf(key_path: KeyPath, value_hash: ValueHash) -> Node {
    Blake3Hasher::hash_leaf(&LeafData { key_path, value_hash })
}

/// Returns the bit of a key that decides at this level, counted from the root.
pub(crate) const fn bit(key: &KeyPath, at: usize) -> bool {
    (key[at / 8] >> (7 - at % 8)) & 1 == 1
}

/// Returns the number of leading bits that two keys share.
pub(crate) fn shared_bits(a: &KeyPath, b: &KeyPath) -> usize {
    let bytes = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let bits = a.get(bytes).zip(b.get(bytes)).map_or(0, |(a, b)| (a ^ b).leading_zeros());
    bytes * 8 + bits as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Computes the root from its definition, top down.
    fn slow(leaves: &[(KeyPath, ValueHash)], level: usize) -> Node {
        match leaves {
            [] => TERMINATOR,
            [(key, value)] => leaf(*key, *value),
            _ => {
                let (left, right) =
                    leaves.split_at(leaves.partition_point(|(key, _)| !bit(key, level)));
                let (left, right) = (slow(left, level + 1), slow(right, level + 1));
                Blake3Hasher::hash_internal(&InternalData { left, right })
            }
        }
    }

    #[test]
    fn the_root_is_that_of_the_definition() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for count in (0..40).chain([200, 1_000]) {
            let mut leaves: Vec<(KeyPath, ValueHash)> = Vec::new();
            for _ in 0..count {
                let mut key: KeyPath = rng.random();
                // Some keys share many leading bits with an earlier one.
                if let Some((other, _)) = leaves.last()
                    && rng.random_bool(0.4)
                {
                    key = *other;
                    key[rng.random_range(0..32)] ^= 1 << rng.random_range(0..8);
                }
                leaves.push((key, rng.random()));
            }
            leaves.sort_unstable();
            leaves.dedup_by_key(|(key, _)| *key);
            let mut root = Root::default();
            leaves.iter().for_each(|(key, value)| root.add(*key, *value));
            assert_eq!(root.end(), slow(&leaves, 0), "{} leaves", leaves.len());
        }
    }
}
