//! The update: one sorted batch of changes, in one pass over the structure. Nothing is hashed here.

use super::slabs::{Branch, Extension, Leaf, Link, Status};
use crate::{
    LeafValue, NewValue, Nibbles, Result, RowSource, Trie, TrieError,
    codec::{ChildRef, child_path, nibble, path_of, shared_nibbles},
};
use alloy_primitives::B256;

impl<V: LeafValue> Trie<V> {
    /// Sets and removes keys. `changes` must be sorted by key, each key once; removing an absent key and setting an
    /// equal value change nothing.
    ///
    /// # Errors
    ///
    /// If a needed node cannot be read; the trie may be half changed then.
    pub fn update<C: NewValue<V>>(
        &mut self,
        changes: &[(B256, C)],
        rows: &impl RowSource,
    ) -> Result<()> {
        debug_assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "changes are sorted and unique");
        if changes.is_empty() {
            return Ok(());
        }
        let root = self.load_root(rows)?;
        let (root, changed) = self.update_at(root, 0, changes, rows)?;
        self.root = root;
        if changed {
            self.unhashed += changes.len();
            self.unsaved += changes.len();
            if root == Link::Empty {
                self.root_hash = crate::EMPTY_ROOT;
            }
        }
        Ok(())
    }

    /// Applies changes to the node at the first `depth` nibbles of any of their keys. Returns the node at that place
    /// afterwards and whether anything changed. A returned node has `has_row` set if there is a row at this path.
    fn update_at<C: NewValue<V>>(
        &mut self,
        link: Link,
        depth: usize,
        changes: &[(B256, C)],
        rows: &impl RowSource,
    ) -> Result<(Link, bool)> {
        if let Some(status) = self.arena.status_mut(link) {
            status.touched = self.now;
        }
        match link {
            Link::Empty => {
                let entries: Vec<(B256, V)> = added(changes.iter()).collect();
                let fresh = self.build(&entries, depth, false);
                Ok((fresh, fresh != Link::Empty))
            }
            Link::Stored => Err(TrieError::Missing { path: path_of(&changes[0].0, depth) }),
            Link::Leaf(id) => Ok(self.update_leaf(id, depth, changes)),
            Link::Extension(id) => self.update_extension(id, depth, changes, rows),
            Link::Branch(id) => self.update_branch(id, depth, changes, rows),
        }
    }

    fn update_leaf<C: NewValue<V>>(
        &mut self,
        id: u32,
        depth: usize,
        changes: &[(B256, C)],
    ) -> (Link, bool) {
        let leaf = self.arena.leaves.get_mut(id);
        if let [(key, change)] = changes
            && *key == leaf.key
            && let Some(value) = change.after(Some(&leaf.value))
        {
            if leaf.value == value {
                return (Link::Leaf(id), false);
            }
            leaf.value = value;
            leaf.status.changed();
            return (Link::Leaf(id), true);
        }
        let own = match changes.binary_search_by_key(&leaf.key, |(key, _)| *key) {
            Ok(at) => changes[at].1.after(Some(&leaf.value)),
            Err(_) => Some(leaf.value.clone()),
        };
        let others = changes.iter().filter(|(key, _)| *key != leaf.key);
        let mut merged: Vec<(B256, V)> = added(others).collect();
        if merged.is_empty() && own.as_ref() == Some(&leaf.value) {
            return (Link::Leaf(id), false);
        }
        let leaf = self.arena.leaves.take(id);
        if let Some(value) = own {
            let place = merged.partition_point(|(key, _)| *key < leaf.key);
            merged.insert(place, (leaf.key, value));
        }
        let fresh = self.build(&merged, depth, leaf.status.has_row);
        if fresh == Link::Empty && leaf.status.has_row {
            self.removed.push(path_of(&leaf.key, depth));
        }
        (fresh, true)
    }

    fn update_branch<C: NewValue<V>>(
        &mut self,
        id: u32,
        depth: usize,
        changes: &[(B256, C)],
        rows: &impl RowSource,
    ) -> Result<(Link, bool)> {
        let mut any = false;
        let mut rest = changes;
        while let Some((key, _)) = rest.first() {
            let n = nibble(key, depth);
            let end = rest.partition_point(|(key, _)| nibble(key, depth) <= n);
            let (part, later) = rest.split_at(end);
            rest = later;
            let child = self.branch_child(id, n, || path_of(&part[0].0, depth + 1), rows)?;
            let (child, changed) = self.update_at(child, depth + 1, part, rows)?;
            if changed {
                any = true;
                self.arena.branches.get_mut(id).set_child(n, child);
            }
        }
        if !any {
            return Ok((Link::Branch(id), false));
        }
        let branch = self.arena.branches.get_mut(id);
        branch.status.changed();
        match branch.only_child() {
            Ok(None) => Ok((Link::Branch(id), true)),
            Ok(Some(n)) => {
                let path = path_of(&changes[0].0, depth);
                Ok((self.collapse(id, n, path, rows)?, true))
            }
            Err(()) => {
                let branch = self.arena.take_branch(id);
                if branch.status.has_row {
                    self.removed.push(path_of(&changes[0].0, depth));
                }
                Ok((Link::Empty, true))
            }
        }
    }

    /// Replaces a branch at `path` whose only child is `n` by that child, which moves up.
    fn collapse(&mut self, id: u32, n: u8, path: Nibbles, rows: &impl RowSource) -> Result<Link> {
        let child = self.branch_child(id, n, || child_path(path, n), rows)?;
        let branch = self.arena.take_branch(id);
        let prefix = child_path(Nibbles::new(), n);
        let stale = branch.unhashed & (1 << n) != 0;
        let step = Step { child, child_ref: *branch.refs.get(n), stale };
        Ok(self.prepend(prefix, step, path, branch.status.has_row))
    }

    /// Puts `prefix` before a node at `path` + `prefix`; the result is at `path`.
    fn prepend(&mut self, prefix: Nibbles, step: Step, path: Nibbles, has_row: bool) -> Link {
        let status = Status::fresh(self.now, has_row);
        match step.child {
            Link::Empty | Link::Stored => unreachable!("the child was loaded and is not empty"),
            Link::Leaf(id) => {
                let leaf = self.arena.leaves.get_mut(id);
                if leaf.status.has_row {
                    self.removed.push(path.join(&prefix));
                }
                leaf.status = status;
                Link::Leaf(id)
            }
            Link::Extension(id) => {
                let extension = self.arena.extensions.get_mut(id);
                if extension.status.has_row {
                    self.removed.push(path.join(&prefix));
                }
                extension.prefix = prefix.join(&extension.prefix);
                extension.status = status;
                Link::Extension(id)
            }
            Link::Branch(id) => {
                // A child that is up to date keeps its reference; a stale one is hashed with its parent.
                let branch = self.arena.branches.get_mut(id);
                let stale = step.stale || !branch.status.is_clean();
                // From now on the branch is part of the extension's row.
                if std::mem::take(&mut branch.status.has_row) {
                    self.removed.push(path.join(&prefix));
                }
                let child_ref = if stale { ChildRef::EMPTY } else { step.child_ref };
                let extension = Extension { prefix, child: Link::Branch(id), child_ref, status };
                Link::Extension(self.arena.extensions.add(extension))
            }
        }
    }

    fn update_extension<C: NewValue<V>>(
        &mut self,
        id: u32,
        depth: usize,
        changes: &[(B256, C)],
        rows: &impl RowSource,
    ) -> Result<(Link, bool)> {
        let prefix = self.arena.extensions.get(id).prefix;
        let end = depth + prefix.len();
        let shared = |key: &B256| path_of(key, end).slice(depth..).common_prefix_length(&prefix);
        // The keys are sorted, so those that follow the whole prefix are neighbours.
        let start = changes.partition_point(|(key, _)| path_of(key, end).slice(depth..) < prefix);
        let stop = changes.partition_point(|(key, _)| path_of(key, end).slice(depth..) <= prefix);
        let leaves_it = changes[..start].iter().chain(&changes[stop..]);
        let split = leaves_it
            .filter(|(_, change)| change.after(None).is_some())
            .map(|(key, _)| shared(key))
            .min();
        match split {
            Some(at) => self.split_extension(id, depth, at, changes, rows),
            None if start == stop => Ok((Link::Extension(id), false)),
            None => {
                let changes = &changes[start..stop];
                let path = path_of(&changes[0].0, end);
                let child = self.arena.extensions.get(id).child;
                let (child, changed) = self.update_at(child, end, changes, rows)?;
                if !changed {
                    return Ok((Link::Extension(id), false));
                }
                Ok((self.extend(id, child, path.slice(..depth)), true))
            }
        }
    }

    /// Replaces the changed child of an extension at `path`. The child may have become a node of another kind.
    fn extend(&mut self, id: u32, child: Link, path: Nibbles) -> Link {
        match child {
            Link::Branch(_) => {
                let extension = self.arena.extensions.get_mut(id);
                extension.child = child;
                extension.child_ref = ChildRef::EMPTY;
                extension.status.changed();
                Link::Extension(id)
            }
            Link::Empty => {
                if self.arena.extensions.take(id).status.has_row {
                    self.removed.push(path);
                }
                Link::Empty
            }
            Link::Leaf(_) | Link::Extension(_) | Link::Stored => {
                let Extension { prefix, status, .. } = self.arena.extensions.take(id);
                let step = Step { child, child_ref: ChildRef::EMPTY, stale: true };
                self.prepend(prefix, step, path, status.has_row)
            }
        }
    }

    /// Splits an extension with a branch, because a key leaves it after `at` nibbles of its prefix.
    fn split_extension<C: NewValue<V>>(
        &mut self,
        id: u32,
        depth: usize,
        at: usize,
        changes: &[(B256, C)],
        rows: &impl RowSource,
    ) -> Result<(Link, bool)> {
        let Extension { prefix, child, child_ref, status } = self.arena.extensions.take(id);
        let path = path_of(&changes[0].0, depth);
        let n = prefix.get_unchecked(at);
        // The child of the branch is the extension's child itself, or a shorter extension to it.
        let mut branch = Branch::new(Status::fresh(self.now, at == 0 && status.has_row));
        if at + 1 == prefix.len() {
            // The child was part of the extension's row, and now needs a separate one, which may be written blocks
            // later.
            let now = self.now;
            if let Some(status) = self.arena.status_mut(child) {
                status.changed();
                status.touched = now;
            }
            branch.set_child(n, child);
        } else {
            let rest = prefix.slice(at + 1..);
            let status = Status::fresh(self.now, false);
            let rest = Extension { prefix: rest, child, child_ref, status };
            branch.set_child(n, Link::Extension(self.arena.extensions.add(rest)));
        }
        let branch = Link::Branch(self.arena.add_branch(branch));
        // Keys that leave even earlier are only removals of absent keys.
        let head = path.join(&prefix.slice(..at));
        let within = |key: &B256| path_of(key, head.len());
        let start = changes.partition_point(|(key, _)| within(key) < head);
        let stop = changes.partition_point(|(key, _)| within(key) <= head);
        let (below, _) = self.update_at(branch, depth + at, &changes[start..stop], rows)?;
        if at == 0 {
            return Ok((below, true));
        }
        let step = Step { child: below, child_ref: ChildRef::EMPTY, stale: true };
        Ok((self.prepend(prefix.slice(..at), step, path, status.has_row), true))
    }

    /// Builds a subtree at nibble `depth` from keys that share the nibbles before it.
    fn build(&mut self, entries: &[(B256, V)], depth: usize, has_row: bool) -> Link {
        let status = Status::fresh(self.now, has_row);
        let (first, last) = match entries {
            [] => return Link::Empty,
            [(key, value)] => {
                let leaf = Leaf { key: *key, value: value.clone(), status };
                return Link::Leaf(self.arena.leaves.add(leaf));
            }
            [first, .., last] => (&first.0, &last.0),
        };
        let shared = shared_nibbles(first, last);
        if shared > depth {
            let child = self.build(entries, shared, false);
            let prefix = path_of(first, shared).slice(depth..);
            let extension = Extension { prefix, child, child_ref: ChildRef::EMPTY, status };
            return Link::Extension(self.arena.extensions.add(extension));
        }
        let mut branch = Branch::new(status);
        let mut rest = entries;
        while let Some((key, _)) = rest.first() {
            let n = nibble(key, depth);
            let (part, later) =
                rest.split_at(rest.partition_point(|(key, _)| nibble(key, depth) <= n));
            rest = later;
            branch.set_child(n, self.build(part, depth + 1, false));
        }
        Link::Branch(self.arena.add_branch(branch))
    }
}

/// A child that moves from one parent to another.
#[derive(Debug, Clone, Copy)]
struct Step {
    child: Link,
    child_ref: ChildRef,
    /// Whether the reference is out of date.
    stale: bool,
}

/// Returns the values of these keys, none of which is in the trie, after their changes.
fn added<'c, V, C: NewValue<V> + 'c>(
    changes: impl Iterator<Item = &'c (B256, C)>,
) -> impl Iterator<Item = (B256, V)> {
    changes.filter_map(|(key, change)| Some((*key, change.after(None)?)))
}
