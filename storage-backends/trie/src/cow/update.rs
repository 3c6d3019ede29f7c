//! Applying one sorted batch of changes. Nodes that no other version shares are changed in place, the others are
//! copied.

use super::{
    children::{Children, Item},
    hash,
    node::{CowTrie, Kind, Leaf, Link, Node},
};
use crate::{
    LeafValue, Nibbles, Result, RowSource, TrieError,
    codec::{nibble, path_of, shared_nibbles},
};
use alloy_primitives::B256;
use rayon::prelude::*;

/// Number of changes below a branch from which its children are changed and hashed on several threads.
const PARALLEL_FROM: usize = 2_048;

/// A key and its new value; `None` removes the key.
type Change<V> = (B256, Option<V>);

/// A child with its nibble, and the changes below it.
type Part<'c, V> = (u8, Item<V>, &'c [Change<V>]);

impl<V: LeafValue> CowTrie<V> {
    /// Sets and removes keys. `changes` is sorted by key, each key once and below this trie's path; removing an absent
    /// key and setting an equal value change nothing. `now` is the number of this change, greater than all before.
    /// Paths that may have lost their row are added to `gone`, for [`Self::write_since`].
    ///
    /// # Errors
    ///
    /// If a node cannot be read; the trie must not be used then.
    pub fn update(
        &mut self,
        changes: &[Change<V>],
        rows: &impl RowSource,
        now: u64,
        gone: &mut Vec<Nibbles>,
    ) -> Result<()> {
        debug_assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "changes are sorted and unique");
        if changes.is_empty() {
            return Ok(());
        }
        let depth = self.depth();
        let item = Item::Inner(std::mem::replace(&mut self.root, Link::empty()));
        let mut update = Update { rows, now, gone };
        self.root = update.set_item(item, depth, changes)?.into_link(now);
        Ok(())
    }
}

impl<V> Item<V> {
    /// Returns the link to this item as the root of a trie.
    pub(super) fn into_link(self, now: u64) -> Link<V> {
        match self {
            Self::Empty => Link::empty(),
            // The root has a row of its own, which a leaf in a branch had not.
            Self::Leaf(leaf) => Link::new(Node::new(Kind::Leaf(Box::new(leaf)), now)),
            Self::Inner(link) => link,
        }
    }
}

pub(super) struct Update<'a, R> {
    pub(super) rows: &'a R,
    pub(super) now: u64,
    /// Paths that may have lost their row.
    pub(super) gone: &'a mut Vec<Nibbles>,
}

/// The outcome of changes to a node.
enum Done<V> {
    Same,
    Changed,
    /// Another item, which stands in the place of the node now.
    Replaced(Item<V>),
}

impl<R: RowSource> Update<'_, R> {
    /// Applies changes to the item at `depth`, where all their keys are. Returns the item that stands there afterwards.
    fn set_item<V: LeafValue>(
        &mut self,
        item: Item<V>,
        depth: usize,
        changes: &[Change<V>],
    ) -> Result<Item<V>> {
        match item {
            Item::Empty => Ok(self.build(&present(changes), depth)),
            Item::Inner(link) if link.is_empty() => Ok(self.build(&present(changes), depth)),
            Item::Leaf(leaf) => Ok(self.set_leaf(leaf, depth, changes)),
            Item::Inner(mut link) => match self.set_link(&mut link, depth, changes)? {
                Done::Same | Done::Changed => Ok(Item::Inner(link)),
                Done::Replaced(item) => Ok(item),
            },
        }
    }

    fn set_leaf<V: LeafValue>(
        &self,
        mut leaf: Leaf<V>,
        depth: usize,
        changes: &[Change<V>],
    ) -> Item<V> {
        if let [(key, after)] = changes
            && *key == leaf.key
        {
            return match after {
                None => Item::Empty,
                Some(value) => {
                    if *value != leaf.value {
                        *leaf.changed(self.now) = value.clone();
                    }
                    Item::Leaf(leaf)
                }
            };
        }
        let mut merged = present(changes);
        if changes.binary_search_by_key(&leaf.key, |(key, _)| *key).is_err() {
            if merged.is_empty() {
                return Item::Leaf(leaf);
            }
            let place = merged.partition_point(|(other, _)| *other < leaf.key);
            merged.insert(place, (leaf.key, leaf.value));
        }
        self.build(&merged, depth)
    }

    /// Applies changes to the node at a link, which is not empty.
    fn set_link<V: LeafValue>(
        &mut self,
        link: &mut Link<V>,
        depth: usize,
        changes: &[Change<V>],
    ) -> Result<Done<V>> {
        let path = || path_of(&changes[0].0, depth);
        let node = link.resolve(path, self.rows, self.now)?;
        if let Some(leaf) = node.and_then(|node| node.as_leaf()).cloned() {
            // This leaf has a row of its own; a leaf in a branch has none.
            self.gone.push(path());
            return Ok(Done::Replaced(self.set_leaf(leaf, depth, changes)));
        }
        let Some(node) = link.to_mut() else { return Ok(Done::Same) };
        let done = match &mut node.kind {
            Kind::Leaf(_) => Done::Same,
            Kind::Extension { prefix, child } => {
                self.set_extension(prefix, child, depth, changes)?
            }
            Kind::Branch(children) => {
                if !self.set_children(children, depth, changes)? {
                    Done::Same
                } else if children.len() > 1 {
                    Done::Changed
                } else {
                    let children = std::mem::take(children);
                    Done::Replaced(self.join(children, path())?)
                }
            }
        };
        match &done {
            Done::Same => {}
            Done::Changed => drop(link.changed(self.now)),
            Done::Replaced(_) => self.gone.push(path()),
        }
        Ok(done)
    }

    fn set_extension<V: LeafValue>(
        &mut self,
        prefix: &Nibbles,
        child: &mut Link<V>,
        depth: usize,
        changes: &[Change<V>],
    ) -> Result<Done<V>> {
        let end = depth + prefix.len();
        let shared = |key: &B256| path_of(key, end).slice(depth..).common_prefix_length(prefix);
        // Keys to remove that are not below the extension do not exist.
        let changes: Vec<Change<V>> = changes
            .iter()
            .filter(|(key, value)| value.is_some() || shared(key) == prefix.len())
            .cloned()
            .collect();
        let Some(at) = changes.iter().map(|(key, _)| shared(key)).min() else {
            return Ok(Done::Same);
        };
        let path = path_of(&changes[0].0, depth);
        if at == prefix.len() {
            return Ok(match self.set_link(child, end, &changes)? {
                Done::Same => Done::Same,
                Done::Changed => Done::Changed,
                Done::Replaced(item) => Done::Replaced(self.prepend(*prefix, item, path)?),
            });
        }
        let n = prefix.get_unchecked(at);
        let child = std::mem::replace(child, Link::empty());
        let rest = if at + 1 == prefix.len() {
            child
        } else {
            self.extension(prefix.slice(at + 1..), child)
        };
        let mut children = Children::in_order((1, 0), [(n, Item::Inner(rest))].into_iter());
        self.set_children(&mut children, depth + at, &changes)?;
        let below = self.join(children, path.join(&prefix.slice(..at)))?;
        if at == 0 {
            return Ok(Done::Replaced(below));
        }
        Ok(Done::Replaced(self.prepend(prefix.slice(..at), below, path)?))
    }

    /// Applies changes to the children of a branch at `depth`. Returns whether any child changed.
    fn set_children<'c, V: LeafValue>(
        &mut self,
        children: &mut Children<V>,
        depth: usize,
        changes: &'c [Change<V>],
    ) -> Result<bool> {
        let below = depth + 1;
        let parts = changes.chunk_by(|a, b| nibble(&a.0, depth) == nibble(&b.0, depth));
        if changes.len() >= PARALLEL_FROM {
            let take = |part: &'c [Change<V>]| {
                let n = nibble(&part[0].0, depth);
                (n, children.take(n), part)
            };
            let parts: Vec<Part<'c, V>> = parts.map(take).collect();
            let (rows, now) = (self.rows, self.now);
            let set_and_hash = |(n, item, part): Part<'c, V>| {
                let mut gone = Vec::new();
                let item = Update { rows, now, gone: &mut gone }.set_item(item, below, part)?;
                if let Item::Inner(link) = &item {
                    hash::resolve([(link, below)]);
                }
                Ok::<_, TrieError>((n, item, gone))
            };
            let done: Vec<(u8, Item<V>, Vec<Nibbles>)> =
                parts.into_par_iter().map(set_and_hash).collect::<Result<_, _>>()?;
            for (n, item, gone) in done {
                children.put(n, item);
                self.gone.extend(gone);
            }
            return Ok(true);
        }
        let mut changed = false;
        for part in parts {
            let n = nibble(&part[0].0, depth);
            if let Some(child) = children.link_mut(n) {
                match self.set_link(child, below, part)? {
                    Done::Same => {}
                    Done::Changed => changed = true,
                    Done::Replaced(item) => {
                        children.put(n, item);
                        changed = true;
                    }
                }
                continue;
            }
            if let ([(key, Some(value))], Some(leaf)) = (part, children.leaf_mut(n))
                && leaf.key == *key
            {
                if leaf.value != *value {
                    *leaf.changed(self.now) = value.clone();
                    changed = true;
                }
                continue;
            }
            let before = children.take(n);
            let had_any = !matches!(before, Item::Empty);
            let item = self.set_item(before, below, part)?;
            changed |= had_any || !matches!(item, Item::Empty);
            children.put(n, item);
        }
        Ok(changed)
    }

    /// Makes the branch of these children at `path`, or the one child's subtree if there are fewer than two children.
    pub(super) fn join<V: LeafValue>(
        &mut self,
        mut children: Children<V>,
        path: Nibbles,
    ) -> Result<Item<V>> {
        if children.len() > 1 {
            return Ok(Item::Inner(self.node(Kind::Branch(children))));
        }
        let Some(n) = children.only() else { return Ok(Item::Empty) };
        let only = children.take(n);
        self.prepend(Nibbles::from_nibbles([n]), only, path)
    }

    /// Puts `prefix` before the item at `path` + `prefix`. Returns the item that stands at `path`.
    fn prepend<V: LeafValue>(
        &mut self,
        prefix: Nibbles,
        item: Item<V>,
        path: Nibbles,
    ) -> Result<Item<V>> {
        let link = match item {
            Item::Empty => return Ok(Item::Empty),
            Item::Leaf(leaf) => return Ok(Item::Leaf(leaf.moved())),
            Item::Inner(link) => link,
        };
        let below = || path.join(&prefix);
        let Some(node) = link.resolve(below, self.rows, self.now)? else { return Ok(Item::Empty) };
        let (prefix, child) = match &node.kind {
            Kind::Leaf(leaf) => {
                self.gone.push(below());
                return Ok(Item::Leaf(Leaf::clone(leaf).moved()));
            }
            Kind::Extension { prefix: rest, child } => {
                self.gone.push(below());
                (prefix.join(rest), Link::clone(child))
            }
            Kind::Branch(_) => (prefix, link),
        };
        Ok(Item::Inner(self.extension(prefix, child)))
    }

    /// Makes a subtree at `depth` of keys that share the first `depth` nibbles.
    fn build<V: LeafValue>(&self, entries: &[(B256, V)], depth: usize) -> Item<V> {
        let (first, last) = match entries {
            [] => return Item::Empty,
            [(key, value)] => return Item::Leaf(Leaf::new(*key, value.clone(), self.now)),
            [first, .., last] => (&first.0, &last.0),
        };
        let shared = shared_nibbles(first, last);
        let parts = entries.chunk_by(|a, b| nibble(&a.0, shared) == nibble(&b.0, shared));
        let child = |part: &[(B256, V)]| (nibble(&part[0].0, shared), self.build(part, shared + 1));
        let count = parts.clone().filter(|part| part.len() > 1).count();
        let count = (count, parts.clone().count() - count);
        let branch = self.node(Kind::Branch(Children::in_order(count, parts.map(child))));
        if shared == depth {
            return Item::Inner(branch);
        }
        Item::Inner(self.extension(path_of(first, shared).slice(depth..), branch))
    }

    fn extension<V>(&self, prefix: Nibbles, child: Link<V>) -> Link<V> {
        self.node(Kind::Extension { prefix, child: Box::new(child) })
    }

    fn node<V>(&self, kind: Kind<V>) -> Link<V> {
        Link::new(Node::new(kind, self.now))
    }
}

fn present<V: Clone>(changes: &[Change<V>]) -> Vec<(B256, V)> {
    changes.iter().filter_map(|(key, value)| value.clone().map(|value| (*key, value))).collect()
}
