//! The update of the tree: changed leaves lead to a new root in one pass from the root down, which reads and rewrites
//! only the groups on the path to a changed stem.

use crate::{
    GROUPS, STEMS, Stem,
    account::LeafChange,
    cache::GroupCache,
    group::{self, GroupKey},
    node::Node,
    stem::Leaves,
    tree::Tree,
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Read};
use polytrie_state::{Result, corrupt};
use rayon::prelude::*;

/// The changes of leaves: stems in order, each once, with its changes in the order in which they apply.
pub(crate) type StemChanges = Vec<StemChange>;

/// The changes of the leaves of a stem.
pub(crate) type StemChange = (Stem, Vec<(u8, LeafChange)>);

/// Number of stems from which on two threads work.
const PARALLEL: usize = 64;

/// A changed stem with the hash of its node; `None` if the stem was removed.
type Changed = (Stem, Option<B256>);

/// The changed rows, and the new root.
#[derive(Debug)]
pub(crate) struct Update {
    /// The node at the root.
    pub(crate) root: Node,
    groups: Vec<(GroupKey, Option<Node>)>,
    stems: Vec<(Stem, Leaves)>,
}

impl Update {
    /// Changes leaves of the tree below `root`.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub(crate) fn of(tree: Tree<'_>, root: &Node, changes: &StemChanges) -> Result<Self> {
        let changed = changed_stems(tree.rows, changes, |stem, leaves| {
            ((stem, leaves.hash(&stem)), (stem, leaves))
        })?;
        let (hashes, stems): (Vec<Changed>, Vec<_>) = changed.into_iter().unzip();
        let Self { root, groups, .. } = Self::of_hashes(tree, root, &hashes)?;
        Ok(Self { root, groups, stems })
    }

    /// Adds stems to the tree below `root`, or removes them; the caller writes their rows.
    ///
    /// # Errors
    ///
    /// Those of [`Self::of`].
    pub(crate) fn of_hashes(tree: Tree<'_>, root: &Node, changed: &[Changed]) -> Result<Self> {
        let mut groups = Vec::new();
        let before = root.hash();
        let root = within(tree, root.clone(), 0, changed, &mut groups)?;
        if root.hash() != before {
            groups.push((GroupKey::ROOT, Some(root.clone()).filter(|root| !root.is_empty())));
        }
        Ok(Self { root, groups, stems: Vec::new() })
    }

    /// Adds the changed rows to a batch.
    pub(crate) fn write(&self, batch: &mut Batch) {
        put_stems(batch, &self.stems);
        for (key, node) in &self.groups {
            let (key, length) = key.bytes();
            match node {
                Some(node) => {
                    batch.put_with(GROUPS, &key[..length], |row| group::encode(node, row));
                }
                None => batch.delete(GROUPS, &key[..length]),
            }
        }
    }

    /// Caches the changed groups after their rows were written: they are likely to be read.
    pub(crate) fn settle(&self, cache: &GroupCache) {
        for (key, node) in &self.groups {
            match node {
                // The root is in memory anyway.
                Some(node) if *key != GroupKey::ROOT => cache.put(*key, node),
                _ => cache.remove(key),
            }
        }
    }

    /// Returns the numbers of written or deleted rows of groups and of stems.
    pub(crate) fn row_counts(&self) -> (u64, u64) {
        (self.groups.len() as u64, self.stems.len() as u64)
    }
}

/// Applies changes to stems of these rows; returns what `of` makes of those that this changes, in order.
///
/// # Errors
///
/// If the store fails or is damaged.
pub(crate) fn changed_stems<T: Send>(
    rows: &dyn Read,
    changes: &StemChanges,
    of: impl Fn(Stem, Leaves) -> T + Sync,
) -> Result<Vec<T>> {
    let keys: Vec<&[u8]> = changes.iter().map(|(stem, _)| &stem.0[..]).collect();
    let rows = rows.get_many(STEMS, &keys)?;
    let changed = |((stem, changes), row): (&StemChange, Option<Vec<u8>>)| {
        let mut leaves = Leaves::of_row(stem, row)?;
        let before = leaves.clone();
        for (sub, change) in changes {
            leaves.change(stem, *sub, *change)?;
        }
        Ok((leaves != before).then(|| of(*stem, leaves)))
    };
    let pairs = changes.par_iter().zip(rows).with_min_len(PARALLEL / 2);
    pairs.filter_map(|pair| changed(pair).transpose()).collect()
}

/// Adds the rows of changed stems to a batch.
pub(crate) fn put_stems(batch: &mut Batch, stems: &[(Stem, Leaves)]) {
    for (stem, leaves) in stems {
        match leaves.is_empty() {
            false => batch.put_with(STEMS, &stem.0, |row| leaves.encode(row)),
            true => batch.delete(STEMS, &stem.0),
        }
    }
}

/// Returns the node at a depth after changes. If a group begins there, its node goes into a separate row.
fn at(
    tree: Tree<'_>,
    node: Node,
    depth: usize,
    changed: &[Changed],
    groups: &mut Vec<(GroupKey, Option<Node>)>,
) -> Result<Node> {
    let [(stem, _), ..] = changed else { return Ok(node) };
    if !tree.group_depth.begins_at(depth) {
        return within(tree, node, depth, changed, groups);
    }
    let key = GroupKey::on_way_to(stem, depth);
    let (node, before) = match node {
        Node::Below(hash) => (tree.group(key, &hash)?, Some(hash)),
        node => (node, None),
    };
    match within(tree, node, depth, changed, groups)? {
        node @ Node::Inner(_) => {
            let hash = node.hash();
            if before != Some(hash) {
                groups.push((key, Some(node)));
            }
            Ok(Node::Below(hash))
        }
        node => {
            if before.is_some() {
                groups.push((key, None));
            }
            Ok(node)
        }
    }
}

/// Returns the node after changes, within its group.
fn within(
    tree: Tree<'_>,
    node: Node,
    depth: usize,
    changed: &[Changed],
    groups: &mut Vec<(GroupKey, Option<Node>)>,
) -> Result<Node> {
    if changed.is_empty() {
        return Ok(node);
    }
    let (left, right) = match node {
        Node::Inner(inner) => (inner.left.clone(), inner.right.clone()),
        Node::Below(_) => return Err(corrupt!("a group lies within another")),
        Node::Empty | Node::Stem(..) => {
            // A changed stem is among the changes.
            let stays = match node {
                Node::Stem(stem, hash) => {
                    let is_changed = changed.binary_search_by_key(&stem, |(stem, _)| *stem).is_ok();
                    (!is_changed).then_some((stem, hash))
                }
                _ => None,
            };
            let mut there = changed.iter().filter_map(|(stem, hash)| Some((*stem, (*hash)?)));
            match (stays, there.next(), there.next()) {
                (None, None, _) => return Ok(Node::Empty),
                (Some((stem, hash)), None, _) | (None, Some((stem, hash)), None) => {
                    return Ok(Node::Stem(stem, hash));
                }
                (Some((stem, hash)), ..) if stem.bit(depth) => {
                    (Node::Empty, Node::Stem(stem, hash))
                }
                (Some((stem, hash)), ..) => (Node::Stem(stem, hash), Node::Empty),
                (None, ..) => (Node::Empty, Node::Empty),
            }
        }
    };
    let (to_left, to_right) =
        changed.split_at(changed.partition_point(|(stem, _)| !stem.bit(depth)));
    if to_left.len().min(to_right.len()) < PARALLEL {
        let left = at(tree, left, depth + 1, to_left, groups)?;
        let right = at(tree, right, depth + 1, to_right, groups)?;
        return Ok(Node::above(left, right));
    }
    let mut of_right = Vec::new();
    let (left, right) = rayon::join(
        || at(tree, left, depth + 1, to_left, groups),
        || at(tree, right, depth + 1, to_right, &mut of_right),
    );
    groups.append(&mut of_right);
    Ok(Node::above(left?, right?))
}
