//! One sorted batch of changes; what it does not touch is shared with the version before.

use super::{
    children::Children,
    hash,
    node::{CowTrie, Kind, Link, Node},
};
use crate::{
    LeafValue, Nibbles, RowSource, TrieError,
    codec::{nibble, path_of, shared_nibbles},
};
use alloy_primitives::B256;
use rayon::prelude::*;

/// From this many changes below a branch on, its children are changed and hashed on several threads.
const PARALLEL_FROM: usize = 2_048;

/// A key and its value afterwards; `None` removes it.
type Change<V> = (B256, Option<V>);

impl<V: LeafValue> CowTrie<V> {
    /// The version after setting and removing keys. `changes` is sorted by key, each key once and below this
    /// trie's path; removing an absent key and setting an equal value change nothing. `now` is the number of
    /// this change, greater than all before.
    pub fn updated(
        &self,
        changes: &[Change<V>],
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Self, TrieError> {
        debug_assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "changes are sorted and unique");
        let update = Update { rows, now };
        let root = match changes.is_empty() {
            true => None,
            false => update.set(&self.root, self.base.len(), changes)?,
        };
        Ok(Self { base: self.base, root: root.unwrap_or_else(|| self.root.clone()) })
    }

    /// The version without any key.
    pub fn cleared(&self) -> Self {
        Self { base: self.base, root: Link::Empty }
    }
}

struct Update<'a, R> {
    rows: &'a R,
    now: u64,
}

impl<R: RowSource> Update<'_, R> {
    /// What stands at the first `depth` nibbles of the keys afterwards; `None` if nothing changes.
    fn set<V: LeafValue>(
        &self,
        link: &Link<V>,
        depth: usize,
        changes: &[Change<V>],
    ) -> Result<Option<Link<V>>, TrieError> {
        let first = &changes[0].0;
        let Some(node) = link.resolve(|| path_of(first, depth), self.rows, self.now)? else {
            return Ok(self.add(depth, changes));
        };
        match &node.kind {
            Kind::Leaf { key, value } => Ok(self.set_leaf(key, value, depth, changes)),
            Kind::Extension { prefix, child } => self.set_extension(prefix, child, depth, changes),
            Kind::Branch(children) => {
                let after = self.set_children(children, depth, changes)?;
                after.map(|children| self.join(children, || path_of(first, depth))).transpose()
            }
        }
    }

    /// What stands where nothing stood.
    fn add<V: LeafValue>(&self, depth: usize, changes: &[Change<V>]) -> Option<Link<V>> {
        if let [(key, value)] = changes {
            return value.as_ref().map(|value| self.leaf(key, value));
        }
        let built = self.build(&present(changes), depth);
        (!built.is_empty()).then_some(built)
    }

    fn set_leaf<V: LeafValue>(
        &self,
        key: &B256,
        value: &V,
        depth: usize,
        changes: &[Change<V>],
    ) -> Option<Link<V>> {
        if let [(changed, Some(after))] = changes
            && changed == key
        {
            return (after != value).then(|| self.leaf(key, after));
        }
        let mut merged = present(changes);
        match changes.binary_search_by_key(key, |(key, _)| *key) {
            Ok(at) => {
                if merged.len() == 1 && changes[at].1.as_ref() == Some(value) {
                    return None;
                }
            }
            Err(_) if merged.is_empty() => return None,
            Err(_) => {
                let place = merged.partition_point(|(other, _)| other < key);
                merged.insert(place, (*key, value.clone()));
            }
        }
        Some(self.build(&merged, depth))
    }

    fn set_extension<V: LeafValue>(
        &self,
        prefix: &Nibbles,
        child: &Link<V>,
        depth: usize,
        changes: &[Change<V>],
    ) -> Result<Option<Link<V>>, TrieError> {
        let end = depth + prefix.len();
        let shared = |key: &B256| path_of(key, end).slice(depth..).common_prefix_length(prefix);
        // Removing what leaves the extension removes nothing.
        let changes: Vec<Change<V>> = changes
            .iter()
            .filter(|(key, value)| value.is_some() || shared(key) == prefix.len())
            .cloned()
            .collect();
        let Some(at) = changes.iter().map(|(key, _)| shared(key)).min() else { return Ok(None) };
        let path = path_of(&changes[0].0, depth);
        if at == prefix.len() {
            let below = self.set(child, end, &changes)?;
            return below.map(|below| self.prepend(*prefix, below, path)).transpose();
        }
        let n = prefix.get_unchecked(at);
        let rest = if at + 1 == prefix.len() {
            child.clone()
        } else {
            let prefix = prefix.slice(at + 1..);
            self.node(Kind::Extension { prefix, child: child.clone() })
        };
        let children = Children::from_iter([(n, rest)]);
        let children = self.set_children(&children, depth + at, &changes)?.unwrap_or(children);
        let head = path.join(&prefix.slice(..at));
        let below = self.join(children, || head)?;
        if at == 0 {
            return Ok(Some(below));
        }
        self.prepend(prefix.slice(..at), below, path).map(Some)
    }

    /// The children of a branch at `depth` afterwards; `None` if nothing changes.
    fn set_children<V: LeafValue>(
        &self,
        children: &Children<V>,
        depth: usize,
        changes: &[Change<V>],
    ) -> Result<Option<Children<V>>, TrieError> {
        let parts = changes.chunk_by(|a, b| nibble(&a.0, depth) == nibble(&b.0, depth));
        let set = |part: &[Change<V>]| -> Result<(u8, Option<Link<V>>), TrieError> {
            let n = nibble(&part[0].0, depth);
            let child = children.get(n).unwrap_or(&Link::Empty);
            Ok((n, self.set(child, depth + 1, part)?))
        };
        let done: Vec<(u8, Option<Link<V>>)> = if changes.len() < PARALLEL_FROM {
            parts.map(set).collect::<Result<_, _>>()?
        } else {
            let set_and_hash = |part: &&[Change<V>]| -> Result<(u8, Option<Link<V>>), TrieError> {
                let (n, child) = set(part)?;
                hash::resolve(child.iter().map(|child| (child, depth + 1)));
                Ok((n, child))
            };
            let parts: Vec<&[Change<V>]> = parts.collect();
            parts.par_iter().map(set_and_hash).collect::<Result<_, _>>()?
        };
        let mut after = None;
        for (n, child) in done {
            if let Some(child) = child {
                after.get_or_insert_with(|| children.clone()).set(n, child);
            }
        }
        Ok(after)
    }

    /// A branch at `path`, or what is left of it if it has fewer than two children.
    fn join<V: LeafValue>(
        &self,
        children: Children<V>,
        path: impl FnOnce() -> Nibbles,
    ) -> Result<Link<V>, TrieError> {
        if children.len() > 1 {
            return Ok(self.node(Kind::Branch(children)));
        }
        let only = children.iter().next();
        let Some((n, child)) = only else { return Ok(Link::Empty) };
        self.prepend(Nibbles::from_nibbles([n]), child.clone(), path())
    }

    /// Puts `prefix` before what stands at `path` + `prefix`; the result stands at `path`.
    fn prepend<V: LeafValue>(
        &self,
        prefix: Nibbles,
        link: Link<V>,
        path: Nibbles,
    ) -> Result<Link<V>, TrieError> {
        let below = || path.join(&prefix);
        let Some(node) = link.resolve(below, self.rows, self.now)? else { return Ok(Link::Empty) };
        let kind = match &node.kind {
            Kind::Leaf { key, value } => return Ok(self.leaf(key, value)),
            Kind::Extension { prefix: rest, child } => {
                Kind::Extension { prefix: prefix.join(rest), child: child.clone() }
            }
            Kind::Branch(_) => Kind::Extension { prefix, child: link.clone() },
        };
        Ok(self.node(kind))
    }

    /// A new subtree at nibble `depth` of keys that share the nibbles before it.
    fn build<V: LeafValue>(&self, entries: &[(B256, V)], depth: usize) -> Link<V> {
        let (first, last) = match entries {
            [] => return Link::Empty,
            [(key, value)] => return self.leaf(key, value),
            [first, .., last] => (&first.0, &last.0),
        };
        let shared = shared_nibbles(first, last);
        if shared > depth {
            let child = self.build(entries, shared);
            let prefix = path_of(first, shared).slice(depth..);
            return self.node(Kind::Extension { prefix, child });
        }
        let parts = entries.chunk_by(|a, b| nibble(&a.0, depth) == nibble(&b.0, depth));
        let child = |part: &[(B256, V)]| (nibble(&part[0].0, depth), self.build(part, depth + 1));
        self.node(Kind::Branch(parts.map(child).collect()))
    }

    fn leaf<V: LeafValue>(&self, key: &B256, value: &V) -> Link<V> {
        self.node(Kind::Leaf { key: *key, value: value.clone() })
    }

    fn node<V: LeafValue>(&self, kind: Kind<V>) -> Link<V> {
        Link::Node(Node::new(kind, self.now))
    }
}

fn present<V: Clone>(changes: &[Change<V>]) -> Vec<(B256, V)> {
    changes.iter().filter_map(|(key, value)| value.clone().map(|value| (*key, value))).collect()
}
