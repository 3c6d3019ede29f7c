//! Reading ahead: what of a path is not in memory yet, and fetching it without the trie.
//!
//! The trie that will need the rows belongs to one thread; those who fetch them only read rows. What they
//! bring is valid for as long as the node above it says that its child is in the store: a node that is not in
//! memory has not changed.

use crate::{
    LeafValue, Nibbles, RowSource, Trie, TrieError,
    arena::Link,
    codec::{self, Node, nibble, path_of},
};
use alloy_primitives::B256;

impl<V: LeafValue> Trie<V> {
    /// How many nibbles of `key` lead to the first node on its way that is in the store only; `None` if the
    /// whole way is in memory. What is in memory of it counts as touched.
    pub fn missing(&mut self, key: &B256) -> Option<usize> {
        let mut link = self.root;
        let mut depth = 0;
        loop {
            if let Some(status) = self.arena.status_mut(link) {
                status.touched = self.now;
            }
            match link {
                Link::Empty | Link::Leaf(_) => return None,
                Link::Stored => return Some(depth),
                Link::Extension(id) => {
                    let extension = self.arena.extensions.get(id);
                    let end = depth + extension.prefix.len();
                    if path_of(key, end).slice(depth..) != extension.prefix {
                        return None;
                    }
                    link = extension.child;
                    depth = end;
                }
                Link::Branch(id) => {
                    link = self.arena.branches.get(id).children[nibble(key, depth) as usize];
                    depth += 1;
                }
            }
        }
    }

    /// Whether the trie has no keys.
    pub fn is_empty(&self) -> bool {
        self.root == Link::Empty
    }
}

/// Receives the rows that [`read_path`] finds.
pub type VisitNode<'a> = dyn FnMut(Nibbles, &[u8]) + 'a;

/// Reads the rows on the way of `key`, beginning with the one at its first `from` nibbles, and gives them to
/// `visit`. Of a branch with two children both are read if the way ends below it: removing the key makes the
/// other one move up.
///
/// # Errors
///
/// If the store fails, or a row is missing or damaged. The latter two may also mean that the rows were
/// written to meanwhile.
pub fn read_path<V: LeafValue>(
    key: &B256,
    from: usize,
    rows: &impl RowSource,
    visit: &mut VisitNode<'_>,
) -> Result<(), TrieError> {
    let mut depth = from;
    let mut rlp = Vec::new();
    let mut sibling = None;
    loop {
        let path = path_of(key, depth);
        rlp.clear();
        if !rows.load(&path, &mut rlp)? {
            // Only a trie without keys has no root.
            return if depth == 0 { Ok(()) } else { Err(TrieError::Missing { path }) };
        }
        visit(path, &rlp);
        let malformed = |reason| TrieError::Malformed { path, reason };
        match codec::decode_node::<V>(&rlp).map_err(malformed)? {
            Node::Leaf { .. } => break,
            Node::Extension { prefix, .. } => {
                let end = depth + prefix.len();
                if end >= 64 {
                    return Err(malformed("an extension that leads beyond the keys"));
                }
                if path_of(key, end).slice(depth..) != prefix {
                    return Ok(());
                }
                depth = end;
                sibling = None;
            }
            Node::Branch { refs } => {
                if depth >= 64 {
                    return Err(malformed("a branch below the keys"));
                }
                let own = nibble(key, depth);
                if refs[own as usize].is_empty() {
                    return Ok(());
                }
                let mut others = (0u8..16).filter(|n| *n != own && !refs[*n as usize].is_empty());
                sibling = match (others.next(), others.next()) {
                    (Some(only), None) => {
                        let mut path = path;
                        path.push(only);
                        Some(path)
                    }
                    _ => None,
                };
                depth += 1;
            }
        }
    }
    if let Some(path) = sibling {
        rlp.clear();
        if rows.load(&path, &mut rlp)? {
            visit(path, &rlp);
        }
    }
    Ok(())
}
