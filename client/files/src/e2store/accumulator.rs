//! The accumulator of an era1 or ere file: the SSZ hash tree root of `List[HeaderRecord, 8192]`, where a
//! `HeaderRecord` is a container of a block hash and the total difficulty (a `uint256`) up to that block.

use alloy_primitives::{B256, U256};
use sha2::{Digest, Sha256};

/// Depth of a tree with 8192 leaves.
const DEPTH: usize = 13;

fn hash_pair(left: &B256, right: &B256) -> B256 {
    let mut hasher = Sha256::new();
    hasher.update(left);
    hasher.update(right);
    B256::new(hasher.finalize().into())
}

/// Returns the hash tree root of one `HeaderRecord`.
pub fn header_record_root(block_hash: B256, total_difficulty: U256) -> B256 {
    hash_pair(&block_hash, &B256::new(total_difficulty.to_le_bytes()))
}

/// Returns the accumulator of blocks with these [`header_record_root`]s.
///
/// A file has at most [`BLOCKS_PER_ERA`](super::BLOCKS_PER_ERA) blocks; the root of more blocks is not defined.
pub fn accumulator_root(records: &[B256]) -> B256 {
    let mut level = records.to_vec();
    // The empty leaves of the list form subtrees of zeros; this is their root at the current height.
    let mut zero = B256::ZERO;
    for _ in 0..DEPTH {
        level = level
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => hash_pair(left, right),
                rest => hash_pair(rest.first().unwrap_or(&zero), &zero),
            })
            .collect();
        zero = hash_pair(&zero, &zero);
    }
    let root = level.first().copied().unwrap_or(zero);
    // SSZ mixes the length of a list into its root.
    hash_pair(&root, &B256::new(U256::from(records.len()).to_le_bytes()))
}

/// Whether `proof` leads from the hash of the block at `index` in its file to the accumulator `root`.
///
/// The proof is a `BlockProofHistoricalHashesAccumulator`: from the bottom up the block's total difficulty, the
/// siblings of its record in the tree, and the length of the list.
pub fn is_accumulated(block_hash: B256, index: u64, proof: &[B256; DEPTH + 2], root: B256) -> bool {
    let [total_difficulty, siblings @ .., length] = proof;
    let record = hash_pair(&block_hash, total_difficulty);
    let data = (0u32..).zip(siblings).fold(record, |node, (level, sibling)| {
        if index >> level & 1 == 0 { hash_pair(&node, sibling) } else { hash_pair(sibling, &node) }
    });
    hash_pair(&data, length) == root
}

#[cfg(test)]
mod tests {
    use alloy_primitives::b256;

    use super::*;

    #[test]
    fn the_tree_is_padded_with_zero_leaves() {
        // The slow reference: all 8192 leaves are written out.
        for count in [0, 1, 2, 3, 7, 100, 8191, 8192] {
            let records: Vec<B256> = (0..count)
                .map(|i| header_record_root(B256::with_last_byte(7), U256::from(i)))
                .collect();
            let mut level = records.clone();
            level.resize(8192, B256::ZERO);
            while level.len() > 1 {
                level = level.chunks(2).map(|pair| hash_pair(&pair[0], &pair[1])).collect();
            }
            let length = B256::new(U256::from(count).to_le_bytes());
            assert_eq!(accumulator_root(&records), hash_pair(&level[0], &length), "{count}");
        }
    }

    #[test]
    fn a_proof_leads_to_the_root_of_its_own_block_only() {
        let difficulty = |i: u64| U256::from(i) * U256::from(3);
        let hash = |i: u64| B256::from(U256::from(i + 1));
        let records: Vec<_> =
            (0..100).map(|i| header_record_root(hash(i), difficulty(i))).collect();
        let root = accumulator_root(&records);
        for index in [0, 1, 63, 64, 99] {
            // The slow reference: all levels are written out.
            let mut level = records.clone();
            level.resize(8192, B256::ZERO);
            let mut proof = vec![B256::new(difficulty(index).to_le_bytes())];
            let mut at = index as usize;
            while level.len() > 1 {
                proof.push(level[at ^ 1]);
                at /= 2;
                level = level.chunks(2).map(|pair| hash_pair(&pair[0], &pair[1])).collect();
            }
            proof.push(B256::new(U256::from(100).to_le_bytes()));
            let proof: [B256; 15] = proof.try_into().unwrap_or_default();
            assert!(is_accumulated(hash(index), index, &proof, root), "{index}");
            assert!(!is_accumulated(hash(index), index ^ 1, &proof, root), "{index}");
            assert!(!is_accumulated(hash(index + 1), index, &proof, root), "{index}");
            for part in 0..15 {
                let mut wrong = proof;
                wrong[part].0[7] ^= 1;
                assert!(!is_accumulated(hash(index), index, &wrong, root), "{index}, {part}");
            }
        }
    }

    #[test]
    fn zero_subtrees_have_their_known_roots() {
        // sha256 of 64 zero bytes, as in the deposit contract's `zero_hashes[1]`.
        assert_eq!(
            hash_pair(&B256::ZERO, &B256::ZERO),
            b256!("0xf5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b")
        );
    }
}
