//! Proofs of the head, and witnesses of past blocks.

use crate::{MptHashLayer, nodes::ByHash, reader::MptHashReader};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{Proof, Result, Touched, WriteSet, hash_address};
use polytrie_trie::{
    AccountLeaf, SlotValue,
    cow::{CowTrie, StateTries},
    prove_account,
};

/// Proves an account and some of its slots.
pub(crate) fn prove(state: &MptHashReader, address: &Address, slots: &[U256]) -> Result<Proof> {
    let account = hash_address(address);
    let accounts = CowTrie::<AccountLeaf>::stored(state.root);
    let (leaf, nodes) = accounts.prove(&account, &ByHash::new(&state.nodes, None), 0)?;
    let leaf = leaf.copied().unwrap_or_default();
    let storage = CowTrie::<SlotValue>::stored(leaf.storage_root);
    let rows = ByHash::new(&state.nodes, Some(account));
    prove_account(MptHashLayer::NAME, address, (leaf, nodes), slots, |slot| {
        storage.prove(slot, &rows, 0).map(|(value, proof)| (value.copied(), proof))
    })
}

/// Returns the root before a past block, and the nodes that it takes to execute the block without the state: see
/// [`PastWitnesses`](polytrie_state::PastWitnesses).
pub(crate) fn past_witness(
    head: &MptHashReader,
    back: &[WriteSet],
    touched: &Touched,
) -> Result<(B256, Vec<Bytes>)> {
    let rows = |owner| ByHash::new(&head.nodes, owner);
    let tries = StateTries::new(CowTrie::stored(head.root), rows, 0);
    Ok(tries.past_witness(back, touched)?)
}
