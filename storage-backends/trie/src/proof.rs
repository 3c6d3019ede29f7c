//! Proofs of the existence and absence of a key.

use crate::{
    EMPTY_ROOT, LeafValue, Result, RowSource, TrieError,
    codec::{self, ChildRef, Node, nibble, path_of},
    cow::CowTrie,
    row::{self, Row, RowChild, RowChildren},
};
use alloy_primitives::{B256, Bytes, keccak256};

/// Returns the nodes from the root to where the key is or would be, each as RLP; nodes that their parent embeds are
/// left out. Together they prove the value of the key, which is returned too, or its absence.
///
/// # Errors
///
/// If a row on the path is missing or damaged, or cannot be read.
pub fn prove_key<V: LeafValue>(
    key: &B256,
    rows: &impl RowSource,
) -> Result<(Option<V>, Vec<Bytes>)> {
    let trie = CowTrie::<V>::of_rows(rows)?;
    let (value, nodes) = trie.prove(key, rows, 0)?;
    Ok((value.cloned(), nodes))
}

/// Returns the root of the trie that `rows` hold.
///
/// # Errors
///
/// If the row of the root is damaged or cannot be read.
pub fn stored_root<V: LeafValue>(rows: &impl RowSource) -> Result<B256> {
    Ok(CowTrie::<V>::of_rows(rows)?.root())
}

/// Returns the leaf at the end of the path of `key`, if the path ends at one; its key may be another. Nothing is kept
/// in memory.
///
/// # Errors
///
/// Those of [`prove_key`].
pub fn leaf_on_path<V: LeafValue>(key: &B256, rows: &impl RowSource) -> Result<Option<(B256, V)>> {
    let mut depth = 0;
    let (mut bytes, mut children) = (Vec::new(), RowChildren::new());
    loop {
        let path = path_of(key, depth);
        bytes.clear();
        if !rows.load(&path, &mut bytes)? {
            // Only a trie without keys has no root row.
            return if depth == 0 { Ok(None) } else { Err(TrieError::Missing { path }) };
        }
        let row = row::decode::<V>(&path, &bytes, &mut children);
        let prefix = match row.map_err(|reason| TrieError::Malformed { path, reason })? {
            Row::Leaf(found, value) => return Ok(Some((found, value))),
            Row::Branch { prefix } => prefix,
        };
        let end = depth + prefix.len();
        if path_of(key, end).slice(depth..) != prefix {
            return Ok(None);
        }
        let n = nibble(key, end);
        match children.drain(..).find(|(nibble, _)| *nibble == n) {
            None => return Ok(None),
            Some((_, RowChild::Leaf(key, value))) => return Ok(Some((key, value))),
            Some((_, RowChild::Inner(_))) => depth = end + 1,
        }
    }
}

/// Follows a key through the nodes of a proof of [`prove_key`]. Returns the value of the key, or `None` if the key is
/// proven absent. Every node must be needed.
///
/// # Errors
///
/// A sentence that says why the proof does not hold.
pub fn verify_key<V: LeafValue>(
    root: B256,
    key: &B256,
    nodes: &[Bytes],
) -> Result<Option<V>, String> {
    if root == EMPTY_ROOT && nodes.is_empty() {
        return Ok(None);
    }
    let mut rest = nodes.iter();
    let mut reference = ChildRef::hashed(root);
    let mut depth = 0;
    let value = loop {
        let rlp = match reference.as_hash() {
            None => reference.bytes(),
            Some(expected) => {
                let rlp = &rest.next().ok_or("a node is missing")?[..];
                if keccak256(rlp) != expected {
                    return Err(format!("the node at depth {depth} does not have hash {expected}"));
                }
                rlp
            }
        };
        let path = path_of(key, depth);
        match codec::decode_node::<V>(rlp)? {
            Node::Leaf { suffix, value } => {
                let found = codec::full_key(&path, &suffix)?;
                break (found == *key).then_some(value);
            }
            Node::Extension { prefix, child } => {
                let end = depth + prefix.len();
                if end >= 64 {
                    return Err("an extension leads beyond the keys".into());
                }
                if path_of(key, end).slice(depth..) != prefix {
                    break None;
                }
                depth = end;
                reference = child;
            }
            Node::Branch { refs } => {
                if depth >= 64 {
                    return Err("a branch stands below the keys".into());
                }
                reference = refs[nibble(key, depth) as usize];
                depth += 1;
                if reference.is_empty() {
                    break None;
                }
            }
        }
    };
    match rest.next() {
        None => Ok(value),
        Some(_) => Err("there are more nodes than the key needs".into()),
    }
}
