//! The tree in its rows: finding a stem, and walking through all stems.

use crate::{
    GROUPS, GroupDepth, STEMS, Stem,
    cache::GroupCache,
    group::{self, GroupKey},
    node::Node,
    stem::Leaves,
};
use alloy_primitives::B256;
use polytrie_kv::Read;
use polytrie_state::{Result, corrupt};
use std::{collections::BTreeSet, ops::ControlFlow};

/// Most paths for which groups are read together, because all of one level are in memory then: some 20 MB with 5 levels a group.
const PATHS: usize = 4_096;

/// The tree in the rows of a store or a snapshot.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) rows: &'a dyn Read,
    /// The cached groups of the head, if `rows` are at the head.
    pub(crate) cache: Option<&'a GroupCache>,
    pub(crate) group_depth: GroupDepth,
}

/// A callback for stems with the hashes that they should have.
pub(crate) type StemVisit<'a> = dyn FnMut(&Stem, &B256) -> Result<ControlFlow<()>> + 'a;

/// The path to the position where a stem is or would be.
#[derive(Debug)]
pub(crate) struct Way {
    /// The hashes of the nodes beside the path, from the root on.
    pub(crate) siblings: Vec<B256>,
    /// The stem at the end of the path with its hash, which may be another one; `None` if there is no node.
    pub(crate) end: Option<(Stem, B256)>,
}

impl Tree<'_> {
    /// Reads the node at the root.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, as in the methods below.
    pub(crate) fn root(&self) -> Result<Node> {
        Ok(self.read(&GroupKey::ROOT)?.unwrap_or_default())
    }

    /// Reads the inner node with this hash, which begins a group.
    pub(crate) fn group(&self, key: GroupKey, hash: &B256) -> Result<Node> {
        if let Some(node) = self.cached(&key, hash) {
            return Ok(node);
        }
        let node = self.read(&key)?;
        let node = node
            .filter(|node| node.hash() == *hash)
            .ok_or_else(|| corrupt!("the part of the tree with the hash {hash} is not there"))?;
        if let Some(cache) = self.cache {
            cache.put(key, &node);
        }
        Ok(node)
    }

    fn cached(&self, key: &GroupKey, hash: &B256) -> Option<Node> {
        self.cache.and_then(|cache| cache.get(key)).filter(|node| node.hash() == *hash)
    }

    fn read(&self, key: &GroupKey) -> Result<Option<Node>> {
        let (bytes, length) = key.bytes();
        let row = self.rows.get(GROUPS, &bytes[..length])?;
        row.map(|row| group::decode(key, self.group_depth, &row)).transpose()
    }

    /// Reads the groups on the paths from `root` to stems, one level of many paths at a time, only to bring them into a cache.
    /// Returns the stems that exist. A damaged path is followed no further.
    pub(crate) fn look_at(
        &self,
        root: &Node,
        stems: impl IntoIterator<Item = Stem>,
    ) -> Result<BTreeSet<Stem>> {
        let mut stems: Vec<Stem> = stems.into_iter().collect();
        // Neighbours have most of their groups in common.
        stems.sort_unstable();
        stems.dedup();
        let mut there = BTreeSet::new();
        for some in stems.chunks(PATHS) {
            self.follow(root, some, &mut there)?;
        }
        Ok(there)
    }

    /// Does as [`Self::look_at`] for a portion of the stems, and adds those that exist to `there`.
    fn follow(&self, root: &Node, stems: &[Stem], there: &mut BTreeSet<Stem>) -> Result<()> {
        let mut ways: Vec<_> = stems.iter().map(|stem| (*stem, 0, root.clone())).collect();
        loop {
            let mut wanted = Vec::new();
            ways.retain_mut(|(stem, depth, node)| {
                loop {
                    *node = match &*node {
                        Node::Empty => return false,
                        Node::Stem(end, _) => {
                            there.extend((*end == *stem).then_some(*end));
                            return false;
                        }
                        Node::Inner(inner) => {
                            let next = if stem.bit(*depth) { &inner.right } else { &inner.left };
                            *depth += 1;
                            next.clone()
                        }
                        Node::Below(hash) => {
                            let key = GroupKey::on_way_to(stem, *depth);
                            let Some(node) = self.cached(&key, hash) else {
                                wanted.push(key);
                                return true;
                            };
                            node
                        }
                    };
                }
            });
            if wanted.is_empty() {
                return Ok(());
            }
            wanted.sort_unstable();
            wanted.dedup();
            let groups = self.read_many(&wanted)?;
            ways.retain_mut(|(stem, depth, node)| {
                let at = wanted.binary_search(&GroupKey::on_way_to(stem, *depth));
                let group = at.ok().and_then(|at| groups[at].as_ref());
                let Some(group) = group.filter(|group| group.hash() == node.hash()) else {
                    return false;
                };
                *node = group.clone();
                true
            });
        }
    }

    /// Reads the groups with these keys together, into the cache if there is one; `None` for those that are not there or do
    /// not decode.
    fn read_many(&self, wanted: &[GroupKey]) -> Result<Vec<Option<Node>>> {
        let keys: Vec<_> = wanted.iter().map(GroupKey::bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|(bytes, length)| &bytes[..*length]).collect();
        let rows = wanted.iter().zip(self.rows.get_many(GROUPS, &keys)?);
        let groups = rows.map(|(key, row)| {
            let node = group::decode(key, self.group_depth, &row?).ok()?;
            if let Some(cache) = self.cache {
                cache.put(*key, &node);
            }
            Some(node)
        });
        Ok(groups.collect())
    }

    /// Returns the path from `root` to a stem.
    pub(crate) fn way(&self, root: &Node, stem: &Stem) -> Result<Way> {
        let mut siblings = Vec::new();
        let mut node = root.clone();
        loop {
            node = match node {
                Node::Empty => return Ok(Way { siblings, end: None }),
                Node::Stem(stem, hash) => return Ok(Way { siblings, end: Some((stem, hash)) }),
                Node::Below(hash) => {
                    self.group(GroupKey::on_way_to(stem, siblings.len()), &hash)?
                }
                Node::Inner(inner) => {
                    let (next, other) = match stem.bit(siblings.len()) {
                        false => (&inner.left, &inner.right),
                        true => (&inner.right, &inner.left),
                    };
                    siblings.push(other.hash());
                    next.clone()
                }
            };
        }
    }

    /// Reads the leaves of a stem, found from `root` on; none if the stem does not exist.
    pub(crate) fn leaves(&self, root: &Node, stem: &Stem) -> Result<Leaves> {
        match self.way(root, stem)?.end {
            Some((found, _)) if found == *stem => self.row(stem),
            _ => Ok(Leaves::default()),
        }
    }

    /// Reads the leaves in the row of an existing stem.
    pub(crate) fn row(&self, stem: &Stem) -> Result<Leaves> {
        match self.rows.get(STEMS, &stem.0)? {
            Some(row) => Leaves::decode(stem, &row),
            None => Err(corrupt!("the leaves of the stem {stem} are not there")),
        }
    }

    /// Visits all stems in order, with the hashes that they should have. Returns the number of groups that hold them.
    pub(crate) fn stems(&self, root: &Node, visit: &mut StemVisit<'_>) -> Result<u64> {
        let mut groups = u64::from(!root.is_empty());
        let _ended_early = self.stems_below(root, Stem([0; 31]), 0, &mut groups, visit)?;
        Ok(groups)
    }

    fn stems_below(
        &self,
        node: &Node,
        path: Stem,
        depth: usize,
        groups: &mut u64,
        visit: &mut StemVisit<'_>,
    ) -> Result<ControlFlow<()>> {
        match node {
            Node::Empty => Ok(ControlFlow::Continue(())),
            Node::Stem(stem, hash) => visit(stem, hash),
            Node::Below(hash) => {
                let node = self.group(GroupKey::on_way_to(&path, depth), hash)?;
                *groups += 1;
                self.stems_below(&node, path, depth, groups, visit)
            }
            Node::Inner(inner) => {
                if self.stems_below(&inner.left, path, depth + 1, groups, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.stems_below(&inner.right, path.turned(depth), depth + 1, groups, visit)
            }
        }
    }
}
