//! The proof of a key: the siblings on the path to the key, and the node at its end.
//!
//! ```text
//! the key is there      its own leaf, which follows from the claim
//! it is not             the leaf of another key that parts from it below, or nothing
//! ```

use crate::{
    root::{bit, leaf, shared_bits},
    tree::{Session, run},
};
use alloy_primitives::B256;
use nomt::{
    hasher::{Blake3Hasher, NodeHasher, ValueHasher},
    proof::{PathProof, PathProofTerminal},
    trie::{InternalData, KeyPath, Node, TERMINATOR},
};
use polytrie_state::{
    ProofError, Result,
    foreign::{self, Key, Way as _},
};
use serde::{Deserialize, Serialize};

/// The path from the root to a key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// The siblings of the path, from the root down.
    siblings: Vec<B256>,
    /// The leaf of another key at the end of the path, if this proves that the key is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<Other>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Other {
    key: B256,
    value_hash: B256,
}

impl Way {
    /// Returns the path to a key.
    pub(crate) fn to(session: &Session, key: KeyPath) -> Result<Self> {
        let PathProof { terminal, siblings } = run("prove", || session.prove(key))?;
        let other = match terminal {
            PathProofTerminal::Leaf(leaf) if leaf.key_path != key => {
                Some(Other { key: leaf.key_path.into(), value_hash: leaf.value_hash.into() })
            }
            _ => None,
        };
        Ok(Self { siblings: siblings.into_iter().map(B256::new).collect(), other })
    }
}

impl foreign::Way for Way {
    fn verify(&self, root: B256, key: Key, value: Option<Vec<u8>>) -> Result<(), ProofError> {
        let refused = |reason: &str| Err(ProofError::Invalid(reason.to_owned()));
        if self.siblings.len() > 256 {
            return refused("the way to a key is longer than the key");
        }
        let end = match (value, &self.other) {
            (Some(_), Some(_)) => return refused("the leaf of another key stands for a value"),
            (Some(value), None) => leaf(key, Blake3Hasher::hash_value(&value)),
            (None, None) => TERMINATOR,
            (None, Some(other)) => {
                if other.key.0 == key || shared_bits(&other.key.0, &key) < self.siblings.len() {
                    return refused("the leaf of another key is not on the way to the key");
                }
                leaf(other.key.0, other.value_hash.0)
            }
        };
        match climb(end, &key, &self.siblings) == root.0 {
            true => Ok(()),
            false => refused("the way to a key does not lead to the root"),
        }
    }
}

/// Returns the root over a node at the end of the path to a key.
fn climb(mut node: Node, key: &KeyPath, siblings: &[B256]) -> Node {
    for (level, sibling) in siblings.iter().enumerate().rev() {
        let (left, right) = if bit(key, level) { (sibling.0, node) } else { (node, sibling.0) };
        node = Blake3Hasher::hash_internal(&InternalData { left, right });
    }
    node
}

/// Whether the trie has exactly this value under a key, on a path that leads to the root, and also among its values.
pub(crate) fn holds(session: &Session, root: B256, key: KeyPath, value: &[u8]) -> Result<bool> {
    let way = Way::to(session, key)?;
    let found = run("read", || session.read(key))?;
    Ok(found.as_deref() == Some(value) && way.verify(root, key, found).is_ok())
}
