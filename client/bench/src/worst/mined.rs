//! Keys whose hashes have long common prefixes, so that their branch is deep in the trie.

use alloy_primitives::B256;
use rayon::prelude::*;
use std::{cmp::Reverse, collections::BTreeSet};

/// Number of neighbours of a pair, on each side, that are taken too: they make the branches above the pair.
const NEIGHBOURS: usize = 8;

/// Mined keys, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mined {
    /// Keys that are in the trie, in order.
    pub(super) all: Vec<u32>,
    /// Keys among these that are deepest, in order.
    pub(super) deepest: Vec<u32>,
}

/// Finds, among the keys with the numbers below `pool`, the `pairs` whose hashes have the longest common prefixes. With
/// the neighbours in the order of hashes, a path to a pair is as deep as if all keys were in the trie: the best pair of
/// n keys shares about twice as many nibbles as are needed to distinguish n keys.
pub(super) fn mine(pool: u32, pairs: usize, hash: impl Fn(u64) -> B256 + Sync) -> Mined {
    let hashes = (0..pool).into_par_iter().map(|number| (hash(number.into()), number));
    let mut hashes: Vec<(B256, u32)> = hashes.collect();
    hashes.par_sort_unstable();
    let shared = |at: usize| common_nibbles(&hashes[at].0, &hashes[at + 1].0);
    let mut places: Vec<usize> = (0..hashes.len().saturating_sub(1)).collect();
    places.sort_by_key(|at| Reverse(shared(*at)));
    places.truncate(pairs);
    let (mut all, mut deepest) = (BTreeSet::new(), BTreeSet::new());
    for at in places {
        let around = at.saturating_sub(NEIGHBOURS)..(at + 2 + NEIGHBOURS).min(hashes.len());
        all.extend(hashes[around].iter().map(|(_, number)| *number));
        deepest.extend([hashes[at].1, hashes[at + 1].1]);
    }
    Mined { all: all.into_iter().collect(), deepest: deepest.into_iter().collect() }
}

/// Returns the number of common first nibbles of two hashes.
fn common_nibbles(a: &B256, b: &B256) -> usize {
    let bytes = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let half = a.get(bytes).zip(b.get(bytes)).is_some_and(|(a, b)| a >> 4 == b >> 4);
    2 * bytes + usize::from(half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn pairs_lie_deeper_than_keys_at_random() {
        let hash = |number: u64| keccak256(number.to_be_bytes());
        let mined = mine(4096, 10, hash);
        // Three nibbles distinguish 4096 keys.
        let near = |number: &u32| {
            let others = mined.deepest.iter().filter(|other| *other != number);
            let of = |other: &u32| common_nibbles(&hash((*number).into()), &hash((*other).into()));
            others.map(of).max().unwrap_or(0)
        };
        assert!(mined.deepest.len() >= 18);
        assert!(mined.deepest.iter().map(near).all(|shared| shared >= 4), "{mined:?}");
        assert!(mined.deepest.iter().all(|number| mined.all.binary_search(number).is_ok()));
        assert_eq!(mined, mine(4096, 10, hash));
        assert_eq!(mine(0, 3, hash), Mined { all: vec![], deepest: vec![] });
    }

    #[test]
    fn nibbles_are_counted() {
        let [a, b] = [[0x12, 0x34], [0x12, 0x35]].map(|end| B256::left_padding_from(&end));
        assert_eq!(common_nibbles(&a, &b), 63);
        assert_eq!(common_nibbles(&a, &a), 64);
    }
}
