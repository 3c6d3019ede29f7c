//! Proofs of the head, and witnesses of past blocks: the nodes that the library requests.

use crate::{
    MptHashLayer,
    nodes::{Nodes, Noted},
    reader::MptHashReader,
    state::State,
    trie::Trie,
};
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use polytrie_state::{AccountWrite, Proof, Result, SlotWrite, Touched, WriteSet, hash_address};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT, LeafValue, SlotValue, prove_account};
use std::ops::ControlFlow;

/// Proves an account and some of its slots.
pub(crate) fn prove(state: &MptHashReader, address: &Address, slots: &[U256]) -> Result<Proof> {
    let account = hash_address(address);
    let accounts = Trie::of_accounts(&state.nodes, state.root);
    let (leaf, nodes) = prove_key::<AccountLeaf>(accounts, &account)?;
    let leaf = leaf.unwrap_or_default();
    let storage = Trie::of_storage(&state.nodes, account, leaf.storage_root);
    prove_account(MptHashLayer::NAME, address, (leaf, nodes), slots, |slot| {
        prove_key(storage, slot)
    })
}

fn prove_key<V: LeafValue>(trie: Trie<'_>, key: &B256) -> Result<(Option<V>, Vec<Bytes>)> {
    let noted = Noted::on(trie.nodes);
    let value = Trie { nodes: &noted, ..trie }.get(key)?;
    Ok((value, noted.in_order().into_iter().map(Bytes::from).collect()))
}

/// Returns the root before a past block, and the nodes that it takes to execute the block without the state: see
/// [`PastWitnesses`](polytrie_state::PastWitnesses).
pub(crate) fn past_witness(
    head: &MptHashReader,
    back: &[WriteSet],
    touched: &Touched,
) -> Result<(B256, Vec<Bytes>)> {
    let nothing = B256Map::default();
    // The state is not written, so no node has to be removed.
    let mut state = State::new(head.root, false);
    let mut writes = Vec::new();
    if let Some((block, later)) = back.split_last() {
        for undo in later {
            state.apply(&head.nodes, undo.accounts(), &nothing)?;
        }
        for undo in block.accounts() {
            writes.push(redo(&state, &head.nodes, undo)?);
        }
        state.apply(&head.nodes, block.accounts(), &nothing)?;
    }
    let before = state.nodes(&head.nodes);
    let noted = Noted::on(&before);
    // The root node is always included, because it shows the content behind the root.
    if state.root != EMPTY_ROOT {
        noted.node(None, &state.root)?;
    }
    for (account, slots) in touched {
        let leaf = Trie::of_accounts(&noted, state.root).get::<AccountLeaf>(account)?;
        let root = leaf.map_or(EMPTY_ROOT, |leaf| leaf.storage_root);
        for slot in slots {
            Trie::of_storage(&noted, *account, root).get::<SlotValue>(slot)?;
        }
    }
    State::new(state.root, false).apply(&noted, &writes, &nothing)?;
    Ok((state.root, noted.sorted().into_iter().map(Bytes::from).collect()))
}

/// Returns the write that leads from the state before the block back to an account as it is in `state`.
fn redo(state: &State, below: &dyn Nodes, undo: &AccountWrite) -> Result<AccountWrite> {
    undo.redo(|slots| {
        let nodes = &state.nodes(below);
        let leaf = Trie::of_accounts(nodes, state.root).get::<AccountLeaf>(&undo.hash)?;
        let root = leaf.map_or(EMPTY_ROOT, |leaf| leaf.storage_root);
        let storage = Trie::of_storage(nodes, undo.hash, root);
        storage.leaves::<SlotValue>(&B256::ZERO, &mut |hash, value| {
            slots.push(SlotWrite::hashed(hash, U256::ZERO, value.0));
            Ok(ControlFlow::Continue(()))
        })
    })
}
