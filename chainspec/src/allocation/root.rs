//! The canonical state root of genesis accounts.

use std::ops::Range;

use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, keccak256};
use alloy_rlp::Encodable;
use alloy_trie::{
    HashBuilder, Nibbles, TrieAccount, TrieMask,
    nodes::{BranchNodeRef, RlpNode},
};
use rayon::prelude::*;

/// Below this number of accounts one thread is as fast as several.
const PARALLEL_FROM: usize = 4096;

/// Returns the root of the secure Merkle Patricia trie of `accounts`, each address given once.
pub(super) fn state_root(
    accounts: impl ExactSizeIterator<Item = (Address, GenesisAccount)>,
) -> B256 {
    // The leaves lie end to end in one buffer, because a genesis can have millions of accounts.
    let mut leaves = Vec::new();
    let mut addresses = Vec::with_capacity(accounts.len());
    for (address, account) in accounts {
        let start = leaves.len();
        TrieAccount::from(account).encode(&mut leaves);
        addresses.push((address, start..leaves.len()));
    }
    let hashed = |(address, leaf): (Address, Range<usize>)| (keccak256(address), leaf);
    if addresses.len() < PARALLEL_FROM {
        let mut index: Vec<_> = addresses.into_iter().map(hashed).collect();
        index.sort_unstable_by_key(|(key, _)| *key);
        return subtrie_root(&index, &leaves, 0);
    }
    let mut index: Vec<_> = addresses.into_par_iter().map(hashed).collect();
    index.par_sort_unstable_by_key(|(key, _)| *key);
    root_in_parallel(&index, &leaves)
}

/// Hashed key of each leaf and its place in the buffer, in the order of the keys.
type Index = [(B256, Range<usize>)];

/// Returns the root of a trie. Its sixteen subtries, one for each first nibble, are hashed on several threads.
fn root_in_parallel(index: &Index, leaves: &[u8]) -> B256 {
    let subtries: Vec<&Index> = index.chunk_by(|(a, _), (b, _)| a[0] >> 4 == b[0] >> 4).collect();
    if subtries.len() < 2 {
        return subtrie_root(index, leaves, 0);
    }
    // A node above account leaves is never shorter than 32 bytes, so the branch refers to its children by hash.
    let children: Vec<RlpNode> = subtries
        .par_iter()
        .map(|subtrie| RlpNode::word_rlp(&subtrie_root(subtrie, leaves, 1)))
        .collect();
    let mask = subtries.iter().fold(0, |mask, subtrie| mask | 1 << (subtrie[0].0[0] >> 4));
    let mut branch = Vec::new();
    BranchNodeRef::new(&children, TrieMask::new(mask)).encode(&mut branch);
    keccak256(branch)
}

/// Returns the hash of the node that is the root of all these leaves, `depth` nibbles below the root of the trie.
fn subtrie_root(index: &Index, leaves: &[u8], depth: usize) -> B256 {
    let mut trie = HashBuilder::default();
    for (key, leaf) in index {
        trie.add_leaf(Nibbles::unpack(key).slice(depth..), &leaves[leaf.clone()]);
    }
    trie.root()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;
    use alloy_trie::root::state_root_unhashed;

    use super::*;

    fn accounts(count: u64) -> Vec<(Address, GenesisAccount)> {
        let account = |number| GenesisAccount { balance: U256::from(number), ..Default::default() };
        (0..count)
            .map(|number| (Address::left_padding_from(&number.to_be_bytes()), account(number)))
            .collect()
    }

    #[test]
    fn every_way_gives_the_same_root() {
        for count in [0, 1, 2, 3, 16, 40, 300, PARALLEL_FROM as u64 + 10] {
            let accounts = accounts(count);
            let expected = state_root_unhashed(accounts.clone());
            assert_eq!(state_root(accounts.clone().into_iter()), expected, "{count}");

            let mut leaves = Vec::new();
            let mut index = Vec::new();
            for (address, account) in accounts {
                let start = leaves.len();
                TrieAccount::from(account).encode(&mut leaves);
                index.push((keccak256(address), start..leaves.len()));
            }
            index.sort_unstable_by_key(|(key, _)| *key);
            assert_eq!(root_in_parallel(&index, &leaves), expected, "{count} in parallel");
        }
    }
}
