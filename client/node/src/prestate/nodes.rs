//! The accounts and slots in the trie nodes of a witness.

use alloy_primitives::{B256, Bytes, U256, keccak256, map::B256Map};
use alloy_rlp::Decodable;
use alloy_trie::{
    EMPTY_ROOT_HASH, Nibbles, TrieAccount,
    nodes::{RlpNode, TrieNode},
};
use polytrie_state::Account;

/// An account by its hash, and the slots of it that are known.
pub(super) type Leaf = (B256, Account, Vec<(B256, U256)>);

/// All leaves that can be reached from the root; what the nodes leave out is not touched.
///
/// # Errors
///
/// What does not decode.
pub(super) fn leaves(root: B256, nodes: &[Bytes]) -> Result<Vec<Leaf>, String> {
    let nodes: B256Map<&Bytes> = nodes.iter().map(|node| (keccak256(node), node)).collect();
    let mut accounts = Vec::new();
    let mut found = Vec::new();
    walk(&nodes, root, &mut |key, value| found.push((key, value.to_vec())))?;
    for (hash, value) in found {
        let leaf = TrieAccount::decode(&mut &value[..]).map_err(|e| wrong("an account", &e))?;
        let mut values = Vec::new();
        if leaf.storage_root != EMPTY_ROOT_HASH {
            walk(&nodes, leaf.storage_root, &mut |key, value| values.push((key, value.to_vec())))?;
        }
        let slots = values.into_iter().map(|(key, value)| {
            let value = U256::decode(&mut &value[..]).map_err(|e| wrong("a slot", &e))?;
            Ok((key, value))
        });
        let slots = slots.collect::<Result<_, String>>()?;
        let TrieAccount { nonce, balance, code_hash, .. } = leaf;
        accounts.push((hash, Account { nonce, balance, code_hash }, slots));
    }
    Ok(accounts)
}

fn wrong(what: &str, error: &alloy_rlp::Error) -> String {
    format!("{what} in its trie nodes does not decode ({error})")
}

fn walk(
    nodes: &B256Map<&Bytes>,
    root: B256,
    visit: &mut dyn FnMut(B256, &[u8]),
) -> Result<(), String> {
    let Some(node) = nodes.get(&root) else { return Ok(()) };
    let mut open: Vec<(Nibbles, Bytes)> = vec![(Nibbles::default(), (*node).clone())];
    while let Some((path, rlp)) = open.pop() {
        let node = TrieNode::decode(&mut &rlp[..]).map_err(|e| wrong("a node", &e))?;
        let mut enter = |path: Nibbles, child: &RlpNode| match child.as_hash() {
            Some(hash) => open.extend(nodes.get(&hash).map(|node| (path, (*node).clone()))),
            None => open.push((path, Bytes::copy_from_slice(child))),
        };
        match node {
            TrieNode::EmptyRoot => {}
            TrieNode::Branch(branch) => {
                let mut children = branch.stack.iter();
                for nibble in 0..16 {
                    if branch.state_mask.is_bit_set(nibble)
                        && let Some(child) = children.next()
                    {
                        let mut path = path;
                        path.push(nibble);
                        enter(path, child);
                    }
                }
            }
            TrieNode::Extension(extension) => enter(path.join(&extension.key), &extension.child),
            TrieNode::Leaf(leaf) => {
                let key = path.join(&leaf.key);
                if key.len() == 64 {
                    visit(B256::from_slice(&key.pack()), &leaf.value);
                }
            }
        }
    }
    Ok(())
}
