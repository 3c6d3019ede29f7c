//! The accounts and slots in the trie nodes of a witness.

use alloy_primitives::{B256, Bytes, U256, keccak256, map::B256Map};
use alloy_rlp::Decodable;
use alloy_trie::{
    EMPTY_ROOT_HASH, Nibbles, TrieAccount,
    nodes::{RlpNode, TrieNode},
};
use polytrie_state::Account;

/// Nibbles of a key.
const KEY_NIBBLES: usize = 64;
/// Nodes that the tries of a witness may lead to, each counted as often as it is referred to: nodes that refer to each
/// other many times over would fill any memory.
const MOST_NODES: usize = 1 << 20;

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
    let mut left = MOST_NODES;
    walk(&nodes, root, &mut left, &mut |key, value| found.push((key, value.to_vec())))?;
    for (hash, value) in found {
        let leaf = TrieAccount::decode(&mut &value[..]).map_err(|e| wrong("an account", &e))?;
        let mut values = Vec::new();
        if leaf.storage_root != EMPTY_ROOT_HASH {
            let visit = &mut |key, value: &[u8]| values.push((key, value.to_vec()));
            walk(&nodes, leaf.storage_root, &mut left, visit)?;
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

fn too_deep() -> String {
    format!("a path in its trie nodes has more than {KEY_NIBBLES} nibbles")
}

fn joined(path: Nibbles, rest: &Nibbles) -> Result<Nibbles, String> {
    if path.len() + rest.len() > KEY_NIBBLES {
        return Err(too_deep());
    }
    Ok(path.join(rest))
}

fn walk(
    nodes: &B256Map<&Bytes>,
    root: B256,
    left: &mut usize,
    visit: &mut dyn FnMut(B256, &[u8]),
) -> Result<(), String> {
    let Some(node) = nodes.get(&root) else { return Ok(()) };
    let mut open: Vec<(Nibbles, Bytes)> = vec![(Nibbles::default(), (*node).clone())];
    while let Some((path, rlp)) = open.pop() {
        *left = left.checked_sub(1).ok_or_else(|| {
            format!(
                "its trie nodes lead to more than {MOST_NODES} places; they refer to each other"
            )
        })?;
        let node = TrieNode::decode(&mut &rlp[..]).map_err(|e| wrong("a node", &e))?;
        let mut enter = |path: Nibbles, child: &RlpNode| match child.as_hash() {
            Some(hash) => open.extend(nodes.get(&hash).map(|node| (path, (*node).clone()))),
            None => open.push((path, Bytes::copy_from_slice(child))),
        };
        match node {
            TrieNode::EmptyRoot => {}
            TrieNode::Branch(branch) => {
                let mut children = branch.stack.iter();
                if path.len() == KEY_NIBBLES {
                    return Err(too_deep());
                }
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
            TrieNode::Extension(extension) => {
                enter(joined(path, &extension.key)?, &extension.child);
            }
            TrieNode::Leaf(leaf) => {
                let key = joined(path, &leaf.key)?;
                if key.len() == KEY_NIBBLES {
                    visit(B256::from_slice(&key.pack()), &leaf.value);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_rlp::{Encodable, Header};

    /// A branch all of whose links lead to this node.
    fn branch(child: B256) -> Bytes {
        let mut links = Vec::new();
        (0..16).for_each(|_| child.encode(&mut links));
        links.push(0x80);
        let mut rlp = Vec::new();
        Header { list: true, payload_length: links.len() }.encode(&mut rlp);
        rlp.extend(links);
        rlp.into()
    }

    fn tower(height: usize) -> (B256, Vec<Bytes>) {
        let (mut nodes, mut root) = (Vec::new(), B256::repeat_byte(7));
        for _ in 0..height {
            nodes.push(branch(root));
            root = keccak256(&nodes[nodes.len() - 1]);
        }
        (root, nodes)
    }

    #[test]
    fn nodes_that_refer_to_each_other_end_in_a_sentence() {
        for height in [8, 64, 70] {
            let (root, nodes) = tower(height);
            let error = leaves(root, &nodes).expect_err("there are too many");
            assert!(error.contains("trie nodes"), "{error}");
        }
        let (root, nodes) = tower(3);
        assert_eq!(leaves(root, &nodes), Ok(Vec::new()), "what is left out is not touched");
    }
}
