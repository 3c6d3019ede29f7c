//! Reading ahead: what of a path is not in memory yet, and fetching it without the trie.
//!
//! The trie that will need the rows belongs to one thread; those who fetch them only read rows. What they
//! bring is valid for as long as the node above it says that its child is in the store: a node that is not in
//! memory has not changed.

use crate::{
    LeafValue, Nibbles, RowSource, Trie, TrieError,
    arena::Link,
    codec::{nibble, path_of},
    row::{self, Row, RowChild},
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
pub type VisitFound<'a> = dyn FnMut(Nibbles, &[u8]) + 'a;

/// Reads the rows on the way of `key`, beginning with the one at its first `from` nibbles, and gives them to
/// `visit`. Where the way ends at the key's leaf in a branch with one more child, the row of that child is read
/// too: removing the key makes the child move up.
///
/// # Errors
///
/// If the store fails, or a row is missing or damaged. The latter two may also mean that the rows were
/// written to meanwhile.
pub fn read_path<V: LeafValue>(
    key: &B256,
    from: usize,
    rows: &impl RowSource,
    visit: &mut VisitFound<'_>,
) -> Result<(), TrieError> {
    let mut depth = from;
    let (mut bytes, mut children) = (Vec::new(), Vec::new());
    loop {
        let path = path_of(key, depth);
        bytes.clear();
        if !rows.load(&path, &mut bytes)? {
            // Only a trie without keys has no root.
            return if depth == 0 { Ok(()) } else { Err(TrieError::Missing { path }) };
        }
        visit(path, &bytes);
        let row = row::decode::<V>(&path, &bytes, &mut children);
        let prefix = match row.map_err(|reason| TrieError::Malformed { path, reason })? {
            Row::Leaf(..) => return Ok(()),
            Row::Branch { prefix } => prefix,
        };
        let end = depth + prefix.len();
        if path_of(key, end).slice(depth..) != prefix {
            return Ok(());
        }
        let own = nibble(key, end);
        match children.iter().find(|(n, _)| *n == own) {
            None => return Ok(()),
            Some((_, RowChild::Inner(_))) => depth = end + 1,
            Some((_, RowChild::Leaf(..))) => {
                let mut others = children.iter().filter(|(n, _)| *n != own);
                if let (Some((only, RowChild::Inner(_))), None) = (others.next(), others.next()) {
                    let mut path = path_of(key, end);
                    path.push(*only);
                    bytes.clear();
                    if rows.load(&path, &mut bytes)? {
                        visit(path, &bytes);
                    }
                }
                return Ok(());
            }
        }
    }
}
