//! The accounts and slots in the trie nodes of a witness.

use alloy_primitives::{B256, Bytes, U256, keccak256, map::B256Map};
use alloy_rlp::Decodable;
use alloy_trie::{
    EMPTY_ROOT_HASH, Nibbles, TrieAccount,
    nodes::{RlpNode, TrieNode},
};
use polytrie_state::Account;
use std::collections::{BTreeMap, BTreeSet};

/// Number of nibbles of a key.
const KEY_NIBBLES: usize = 64;
/// Greatest number of nodes that a walk visits, each counted as often as it is referred to. Nodes that refer to each
/// other many times could otherwise fill any memory.
const MOST_NODES: usize = 1 << 20;
/// Length from which on a node counts as several, in bytes. No node of a real trie is as long.
const LONG_NODE: usize = 1 << 10;

/// Hashes of accounts, each with hashes of its slots.
pub(super) type Names = BTreeMap<B256, BTreeSet<B256>>;

/// An account in a witness, by its hash: with a value for each known slot, 0 for an empty one; `None` if the account
/// does not exist.
pub(super) type Answer = (B256, Option<(Account, Vec<(B256, U256)>)>);

/// Looks up these accounts and slots in the nodes. A witness need not contain a key to show its absence: a block that
/// creates it has the nodes which prove that.
///
/// # Errors
///
/// Fails with a sentence about the node or value that does not decode.
pub(super) fn answers(root: B256, nodes: &[Bytes], names: &Names) -> Result<Vec<Answer>, String> {
    let nodes: B256Map<&Bytes> = nodes.iter().map(|node| (keccak256(node), node)).collect();
    let hashes: Vec<B256> = names.keys().copied().collect();
    let mut found: Vec<(B256, Option<Decoded<TrieAccount>>)> = Vec::new();
    look_up(&nodes, root, &hashes, &mut |hash, value| found.push((hash, value.map(decoded))))?;
    let answer = |(hash, leaf): (B256, Option<Decoded<TrieAccount>>)| {
        let Some(leaf) = leaf else { return Ok((hash, None)) };
        let leaf = leaf.map_err(|e| wrong("an account", &e))?;
        let slots: Vec<B256> = names.get(&hash).into_iter().flatten().copied().collect();
        let mut values: Vec<(B256, Option<Decoded<U256>>)> = Vec::new();
        look_up(&nodes, leaf.storage_root, &slots, &mut |slot, value| {
            values.push((slot, value.map(decoded)));
        })?;
        let slot = |(slot, value): (B256, Option<Decoded<U256>>)| match value {
            None => Ok((slot, U256::ZERO)),
            Some(value) => {
                let value = value.map_err(|e| wrong("a slot", &e))?;
                Ok((slot, value))
            }
        };
        let slots = values.into_iter().map(slot).collect::<Result<_, String>>()?;
        let TrieAccount { nonce, balance, code_hash, .. } = leaf;
        Ok((hash, Some((Account { nonce, balance, code_hash }, slots))))
    };
    found.into_iter().map(answer).collect()
}

type Visit<'v> = dyn FnMut(B256, Option<&[u8]>) + 'v;

/// Calls `visit` with the value of each of the sorted keys, or with `None` if it is absent. A key whose nodes are
/// missing is skipped.
fn look_up(
    nodes: &B256Map<&Bytes>,
    root: B256,
    keys: &[B256],
    visit: &mut Visit<'_>,
) -> Result<(), String> {
    match nodes.get(&root) {
        Some(node) => descend(nodes, node, 0, keys, visit),
        None if root == EMPTY_ROOT_HASH => {
            keys.iter().for_each(|key| visit(*key, None));
            Ok(())
        }
        None => Ok(()),
    }
}

/// Looks up the keys below a node at this depth; all keys lead to the node.
fn descend(
    nodes: &B256Map<&Bytes>,
    rlp: &[u8],
    depth: usize,
    keys: &[B256],
    visit: &mut Visit<'_>,
) -> Result<(), String> {
    let node = TrieNode::decode(&mut &*rlp).map_err(|e| wrong("a node", &e))?;
    let enter = |child: &RlpNode, depth: usize, keys: &[B256], visit: &mut Visit<'_>| {
        let node = match child.as_hash() {
            Some(hash) => nodes.get(&hash).map(|node| &node[..]),
            None => Some(&child[..]),
        };
        match node.filter(|_| !keys.is_empty()) {
            Some(node) => descend(nodes, node, depth, keys, visit),
            None => Ok(()),
        }
    };
    // Returns the keys that continue with these nibbles; they are neighbours.
    let split = |rest: &Nibbles| {
        let end = depth + rest.len();
        let part = |key: &B256| Nibbles::unpack(key).slice(depth..end);
        let first = keys.partition_point(|key| part(key) < *rest);
        (first, keys.partition_point(|key| part(key) <= *rest))
    };
    match node {
        TrieNode::EmptyRoot => keys.iter().for_each(|key| visit(*key, None)),
        TrieNode::Branch(branch) => {
            if depth == KEY_NIBBLES {
                return Err(too_deep());
            }
            let mut children = branch.stack.iter();
            for nibble in 0..16 {
                let child = match branch.state_mask.is_bit_set(nibble) {
                    true => children.next(),
                    false => None,
                };
                let (first, end) = split(&Nibbles::from_nibbles([nibble]));
                match child {
                    Some(child) => enter(child, depth + 1, &keys[first..end], visit)?,
                    None => keys[first..end].iter().for_each(|key| visit(*key, None)),
                }
            }
        }
        TrieNode::Extension(extension) => {
            if extension.key.is_empty() || depth + extension.key.len() > KEY_NIBBLES {
                return Err(too_deep());
            }
            let (first, end) = split(&extension.key);
            keys[..first].iter().chain(&keys[end..]).for_each(|key| visit(*key, None));
            enter(&extension.child, depth + extension.key.len(), &keys[first..end], visit)?;
        }
        TrieNode::Leaf(leaf) => {
            if depth + leaf.key.len() != KEY_NIBBLES {
                return Err(too_deep());
            }
            let (first, end) = split(&leaf.key);
            for (at, key) in keys.iter().enumerate() {
                visit(*key, (first..end).contains(&at).then_some(&leaf.value[..]));
            }
        }
    }
    Ok(())
}

/// Adds the accounts and slots of all leaves that can be reached from the root. Missing nodes are skipped.
///
/// # Errors
///
/// Fails with a sentence about the node or account that does not decode.
pub(super) fn add_names(root: B256, nodes: &[Bytes], names: &mut Names) -> Result<(), String> {
    let nodes: B256Map<&Bytes> = nodes.iter().map(|node| (keccak256(node), node)).collect();
    let mut found: Vec<(B256, Decoded<TrieAccount>)> = Vec::new();
    let mut left = MOST_NODES;
    walk(&nodes, root, &mut left, &mut |key, value| found.push((key, decoded(value))))?;
    for (hash, leaf) in found {
        let leaf = leaf.map_err(|e| wrong("an account", &e))?;
        let slots = names.entry(hash).or_default();
        walk(&nodes, leaf.storage_root, &mut left, &mut |slot, _| {
            slots.insert(slot);
        })?;
    }
    Ok(())
}

/// A value of a leaf, or the reason why it does not decode.
type Decoded<T> = alloy_rlp::Result<T>;

/// Decodes the value of a leaf where it is found: a copy of it for each place that refers to it could fill any memory.
fn decoded<T: Decodable>(mut value: &[u8]) -> Decoded<T> {
    T::decode(&mut value)
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
        *left = left.checked_sub(1 + rlp.len() / LONG_NODE).ok_or_else(|| {
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
    use alloy_trie::nodes::LeafNode;

    /// Returns a branch with this node as each of its children.
    fn branch(child: B256) -> Bytes {
        let mut links = Vec::new();
        (0..16).for_each(|_| child.encode(&mut links));
        links.push(0x80);
        let mut rlp = Vec::new();
        Header { list: true, payload_length: links.len() }.encode(&mut rlp);
        rlp.extend(links);
        rlp.into()
    }

    /// Returns branches on top of each other, at the bottom of which is the node with this hash.
    fn tower(bottom: B256, height: usize) -> (B256, Vec<Bytes>) {
        let (mut nodes, mut root) = (Vec::new(), bottom);
        for _ in 0..height {
            nodes.push(branch(root));
            root = keccak256(&nodes[nodes.len() - 1]);
        }
        (root, nodes)
    }

    /// Returns the only node of a trie with one key.
    fn only_leaf(key: B256, value: &impl Encodable) -> Bytes {
        alloy_rlp::encode(LeafNode::new(Nibbles::unpack(key), alloy_rlp::encode(value))).into()
    }

    fn names(root: B256, nodes: &[Bytes]) -> Result<Names, String> {
        let mut names = Names::new();
        add_names(root, nodes, &mut names).map(|()| names)
    }

    #[test]
    fn nodes_that_refer_to_each_other_end_in_a_sentence() {
        let missing = B256::repeat_byte(7);
        for height in [8, 64, 70] {
            let (root, nodes) = tower(missing, height);
            let error = names(root, &nodes).expect_err("there are too many");
            assert!(error.contains("trie nodes"), "{error}");
        }
        let (root, nodes) = tower(missing, 3);
        assert_eq!(names(root, &nodes), Ok(Names::new()), "what is left out is not touched");
    }

    #[test]
    fn a_long_node_counts_as_several() {
        // A leaf in depth 3: 61 nibbles, an odd number, and a value that no trie has.
        let path = [&[0x30_u8][..], &[0; 30]].concat();
        let value = vec![0_u8; 1 << 20];
        let mut fields = Vec::new();
        path[..].encode(&mut fields);
        value[..].encode(&mut fields);
        let mut leaf = Vec::new();
        Header { list: true, payload_length: fields.len() }.encode(&mut leaf);
        leaf.extend(fields);
        let leaf = Bytes::from(leaf);
        let (root, mut nodes) = tower(keccak256(&leaf), 3);
        nodes.push(leaf);
        let error = names(root, &nodes).expect_err("there are too many bytes");
        assert!(error.contains("refer to each other"), "{error}");
    }

    #[test]
    fn a_slot_that_does_not_decode_is_named_so() {
        let (account, slot) = (B256::repeat_byte(1), B256::repeat_byte(2));
        // A list is no number.
        let storage = only_leaf(slot, &Vec::<U256>::new());
        let leaf = TrieAccount { storage_root: keccak256(&storage), ..TrieAccount::default() };
        let state = only_leaf(account, &leaf);
        let (root, nodes) = (keccak256(&state), [state, storage]);
        let found = Names::from([(account, BTreeSet::from([slot]))]);
        assert_eq!(names(root, &nodes).as_ref(), Ok(&found), "the search is for names alone");
        let error = answers(root, &nodes, &found).expect_err("the value is a list");
        assert!(error.contains("a slot in its trie nodes does not decode"), "{error}");
    }
}
