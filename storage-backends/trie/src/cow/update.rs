//! One sorted batch of changes; what it does not touch is shared with the version before.

use super::node::{CowTrie, Kind, Link, Node};
use crate::{
    LeafValue, Nibbles, RowSource, TrieError,
    codec::{nibble, path_of, shared_nibbles},
};
use alloy_primitives::B256;

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
        let path = path_of(&changes[0].0, depth);
        let Some(node) = link.resolve(&path, self.rows, self.now)? else {
            let built = self.build(&present(changes), depth);
            return Ok((!built.is_empty()).then_some(built));
        };
        node.touch(self.now);
        match &node.kind {
            Kind::Leaf { key, value } => Ok(self.set_leaf(key, value, depth, changes)),
            Kind::Extension { prefix, child } => self.set_extension(prefix, child, depth, changes),
            Kind::Branch(children) => {
                let mut children = children.clone();
                let changed = self.set_children(&mut children, depth, changes)?;
                if changed { self.join(children, path).map(Some) } else { Ok(None) }
            }
        }
    }

    fn set_leaf<V: LeafValue>(
        &self,
        key: &B256,
        value: &V,
        depth: usize,
        changes: &[Change<V>],
    ) -> Option<Link<V>> {
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
        let mut children: Box<[Link<V>; 16]> = Box::new(std::array::from_fn(|_| Link::Empty));
        children[usize::from(n)] = if at + 1 == prefix.len() {
            child.clone()
        } else {
            let prefix = prefix.slice(at + 1..);
            Link::Node(Node::new(Kind::Extension { prefix, child: child.clone() }, self.now))
        };
        self.set_children(&mut children, depth + at, &changes)?;
        let head = path.join(&prefix.slice(..at));
        let below = self.join(children, head)?;
        if at == 0 {
            return Ok(Some(below));
        }
        self.prepend(prefix.slice(..at), below, path).map(Some)
    }

    fn set_children<V: LeafValue>(
        &self,
        children: &mut [Link<V>; 16],
        depth: usize,
        changes: &[Change<V>],
    ) -> Result<bool, TrieError> {
        let mut changed = false;
        let mut rest = changes;
        while let Some((key, _)) = rest.first() {
            let n = nibble(key, depth);
            let end = rest.partition_point(|(key, _)| nibble(key, depth) <= n);
            let (part, later) = rest.split_at(end);
            rest = later;
            let child = &mut children[usize::from(n)];
            if let Some(link) = self.set(child, depth + 1, part)? {
                *child = link;
                changed = true;
            }
        }
        Ok(changed)
    }

    /// A branch at `path`, or what is left of it if it has fewer than two children.
    fn join<V: LeafValue>(
        &self,
        children: Box<[Link<V>; 16]>,
        path: Nibbles,
    ) -> Result<Link<V>, TrieError> {
        let mut filled = (0u8..).zip(children.iter()).filter(|(_, child)| !child.is_empty());
        match (filled.next(), filled.next()) {
            (None, _) => Ok(Link::Empty),
            (Some((n, child)), None) => {
                self.prepend(Nibbles::from_nibbles([n]), child.clone(), path)
            }
            _ => Ok(Link::Node(Node::new(Kind::Branch(children), self.now))),
        }
    }

    /// Puts `prefix` before what stands at `path` + `prefix`; the result stands at `path`.
    fn prepend<V: LeafValue>(
        &self,
        prefix: Nibbles,
        link: Link<V>,
        path: Nibbles,
    ) -> Result<Link<V>, TrieError> {
        let below = path.join(&prefix);
        let Some(node) = link.resolve(&below, self.rows, self.now)? else { return Ok(Link::Empty) };
        let kind = match &node.kind {
            Kind::Leaf { key, value } => Kind::Leaf { key: *key, value: value.clone() },
            Kind::Extension { prefix: rest, child } => {
                Kind::Extension { prefix: prefix.join(rest), child: child.clone() }
            }
            Kind::Branch(_) => Kind::Extension { prefix, child: link.clone() },
        };
        Ok(Link::Node(Node::new(kind, self.now)))
    }

    /// A new subtree at nibble `depth` of keys that share the nibbles before it.
    fn build<V: LeafValue>(&self, entries: &[(B256, V)], depth: usize) -> Link<V> {
        let (first, last) = match entries {
            [] => return Link::Empty,
            [(key, value)] => {
                let kind = Kind::Leaf { key: *key, value: value.clone() };
                return Link::Node(Node::new(kind, self.now));
            }
            [first, .., last] => (&first.0, &last.0),
        };
        let shared = shared_nibbles(first, last);
        if shared > depth {
            let child = self.build(entries, shared);
            let prefix = path_of(first, shared).slice(depth..);
            return Link::Node(Node::new(Kind::Extension { prefix, child }, self.now));
        }
        let mut children: Box<[Link<V>; 16]> = Box::new(std::array::from_fn(|_| Link::Empty));
        for part in entries.chunk_by(|a, b| nibble(&a.0, depth) == nibble(&b.0, depth)) {
            children[usize::from(nibble(&part[0].0, depth))] = self.build(part, depth + 1);
        }
        Link::Node(Node::new(Kind::Branch(children), self.now))
    }
}

fn present<V: Clone>(changes: &[Change<V>]) -> Vec<(B256, V)> {
    changes.iter().filter_map(|(key, value)| value.clone().map(|value| (*key, value))).collect()
}
