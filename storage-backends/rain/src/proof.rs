//! Proofs, in the form of `eth_getProof` (EIP-1186).

use crate::{RainLayer, TRIE, reader::RainReader};
use alloy_primitives::{Address, U256};
use polytrie_state::{Proof, Result, hash_address, hash_slot};
use polytrie_trie::{
    AccountLeaf,
    cow::{CowTrie, Entry},
    prove_account,
};

/// Makes a proof of what a reader sees.
pub(crate) fn prove(reader: &RainReader, address: &Address, slots: &[U256]) -> Result<Proof> {
    let (version, store) = (&reader.version, &reader.noted());
    let account = hash_address(address);
    let seq = version.seq;
    let (keeps, mut accounts) = (reader.keeps(), version.whole(store)?);
    if !keeps {
        accounts.unshare(&account);
    }
    let (entry, nodes) = accounts.prove(&account, &TRIE.account_rows(store), seq)?;
    let mut storage = entry.map_or_else(CowTrie::empty, |entry| CowTrie::clone(&entry.storage));
    for slot in slots.iter().filter(|_| !keeps) {
        storage.unshare(&hash_slot(slot));
    }
    let leaf = entry.map_or_else(AccountLeaf::default, Entry::leaf);
    let rows = TRIE.storage_rows(store, account);
    prove_account(RainLayer::NAME, address, (leaf, nodes), slots, |slot| {
        storage.prove(slot, &rows, seq).map(|(value, proof)| (value.copied(), proof))
    })
}
