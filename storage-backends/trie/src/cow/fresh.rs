//! Writing the rows of a version: those that differ from the rows of an older one.

use super::{
    children::{Child, Children, Item},
    node::{CowTrie, Kind, Link, Node},
    row,
};
use crate::{LeafValue, Nibbles, Result, RowSink, RowSource, TrieError, codec::child_path};
use alloy_primitives::B256;
use std::{collections::VecDeque, vec};

/// Most rows of a trie that are read at a time.
pub(super) const AT_A_TIME: usize = 1_024;

/// New branches whose stored rows tell which children are leaves, with their paths, in the order in which they are written.
pub(super) type Doubtful<'a, V> = Vec<(Nibbles, &'a Children<V>)>;

impl<V: LeafValue> CowTrie<V> {
    /// Brings the rows of an older version up to this one. The older version has the changes up to number `since`, this
    /// one also later ones. `gone` has the paths that the later changes added to theirs (more paths do no harm). `rows`
    /// are the rows of the older version; they are read only where nodes were given ([`RowSource::given`]). Returns the
    /// leaves that changed after `since`.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn write_since(
        &self,
        since: u64,
        gone: &[Nibbles],
        rows: &impl RowSource,
        sink: &mut impl RowSink,
    ) -> Result<Vec<(B256, &V)>> {
        self.write_knowing(self.doubtful_since(since), since, gone, rows, sink)
    }

    /// Returns the branches of which [`Self::write_since`] reads the stored rows.
    pub(super) fn doubtful_since(&self, since: u64) -> Doubtful<'_, V> {
        let mut doubtful = Vec::new();
        self.root.add_doubtful(since, self.path(), &mut doubtful);
        doubtful
    }

    /// Does as [`Self::write_since`] does, with the answer of [`Self::doubtful_since`].
    pub(super) fn write_knowing<'a>(
        &'a self,
        doubtful: Doubtful<'a, V>,
        since: u64,
        gone: &[Nibbles],
        rows: &impl RowSource,
        sink: &mut impl RowSink,
    ) -> Result<Vec<(B256, &'a V)>> {
        for path in gone.iter().filter(|path| self.has_lost(path, since)) {
            sink.delete(path);
        }
        let stored = Stored { rows, branches: doubtful.into_iter(), read: VecDeque::new() };
        let mut fresh = Fresh { since, stored, sink, leaves: Vec::new(), row: Vec::new() };
        fresh.put(&self.root, self.path())?;
        Ok(fresh.leaves)
    }

    /// Whether there is surely no row at a path now. Below a node that is not new the rows are right already.
    fn has_lost(&self, path: &Nibbles, since: u64) -> bool {
        let (mut link, mut at) = (&self.root, self.path());
        loop {
            if link.is_empty() {
                return true;
            }
            let Some(node) = link.fresh(since) else { return false };
            if at.len() >= path.len() {
                return at != *path;
            }
            match &node.kind {
                Kind::Leaf(_) => return true,
                Kind::Extension { prefix, child } => {
                    at = at.join(prefix);
                    if !path.starts_with(&at) {
                        return true;
                    }
                    link = child;
                }
                Kind::Branch(children) => {
                    let n = path.get_unchecked(at.len());
                    let Some(Child::Inner(child)) = children.get(n) else { return true };
                    link = child;
                    at.push(n);
                }
            }
        }
    }
}

impl<V> Link<V> {
    /// Returns the node, if it was changed after the change `since`.
    fn fresh(&self, since: u64) -> Option<&Node<V>> {
        self.in_memory().filter(|node| node.born > since)
    }

    /// Adds the doubtful branches, in the order in which [`Fresh::put`] comes to them.
    fn add_doubtful<'a>(&'a self, since: u64, path: Nibbles, found: &mut Doubtful<'a, V>) {
        match self.fresh(since).map(|node| &node.kind) {
            None | Some(Kind::Leaf(_)) => {}
            Some(Kind::Extension { prefix, child }) => {
                child.add_doubtful(since, path.join(prefix), found);
            }
            Some(Kind::Branch(children)) => {
                found.extend(unknown(children).next().map(|_| (path, children)));
                for (n, child) in children.inner() {
                    child.add_doubtful(since, child_path(path, n), found);
                }
            }
        }
    }
}

/// Returns the doubtful children of a branch that are not in memory.
fn unknown<V>(children: &Children<V>) -> impl Iterator<Item = (u8, &Link<V>)> {
    children.doubtful().filter(|(_, link)| link.in_memory().is_none())
}

/// The stored rows of doubtful branches. They are read many at a time, because a store on other machines takes as long
/// for one.
struct Stored<'s, 'a, R, V> {
    rows: &'s R,
    /// The branches whose rows are not read, with their paths.
    branches: vec::IntoIter<(Nibbles, &'a Children<V>)>,
    /// Stored branches that are read and not taken, with their paths.
    read: VecDeque<(Nibbles, Node<V>)>,
}

impl<R: RowSource, V: LeafValue> Stored<'_, '_, R, V> {
    /// Returns the stored branch at a path, if it is the next one.
    fn next_at(&mut self, path: &Nibbles) -> Result<Option<Node<V>>> {
        if self.read.is_empty() {
            self.read_some()?;
        }
        Ok(self.read.pop_front_if(|(next, _)| next == path).map(|(_, node)| node))
    }

    /// Reads the rows of some branches together, and then again, together, those that were missing, older ones or damaged.
    fn read_some(&mut self) -> Result<()> {
        let some: Vec<_> = self.branches.by_ref().take(AT_A_TIME).collect();
        if some.is_empty() {
            return Ok(());
        }
        let paths: Vec<Nibbles> = some.iter().map(|(path, _)| *path).collect();
        let rows = self.rows.load_many(&paths, true)?.into_iter();
        let nodes = some.iter().zip(rows).map(|((path, children), row)| {
            let node = row::read::<V>(path, &row?, 0).ok()?;
            // With the same references they are the same children, however old the row is.
            let is_child = |(n, link): (u8, &Link<V>)| node.refers_at(n, link, path.len() + 1);
            unknown(children).all(is_child).then_some(node)
        });
        let nodes: Vec<Option<Node<V>>> = nodes.collect();
        let wrong = paths.iter().zip(&nodes).filter(|(_, node)| node.is_none());
        let wrong: Vec<Nibbles> = wrong.map(|(path, _)| *path).collect();
        let mut sure = self.rows.load_many(&wrong, false)?.into_iter();
        for (path, node) in paths.into_iter().zip(nodes) {
            let node = match node {
                Some(node) => node,
                None => {
                    let row = sure.next().flatten().ok_or(TrieError::Missing { path })?;
                    row::read(&path, &row, 0)?
                }
            };
            self.read.push_back((path, node));
        }
        Ok(())
    }
}

struct Fresh<'s, 'a, R, S, V> {
    since: u64,
    stored: Stored<'s, 'a, R, V>,
    sink: &'s mut S,
    leaves: Vec<(B256, &'a V)>,
    /// The buffer of a row.
    row: Vec<u8>,
}

impl<'a, R: RowSource, S: RowSink, V: LeafValue> Fresh<'_, 'a, R, S, V> {
    /// Writes the rows of new nodes, and collects the leaves that are new.
    fn put(&mut self, link: &'a Link<V>, path: Nibbles) -> Result<()> {
        let Some(node) = link.fresh(self.since) else { return Ok(()) };
        let mended = match &node.kind {
            Kind::Branch(children) => self.mended(children, &path)?,
            Kind::Leaf(_) | Kind::Extension { .. } => None,
        };
        self.row.clear();
        row::encode(mended.as_ref().unwrap_or(&node.kind), path.len(), &mut self.row);
        self.sink.put(&path, &self.row);
        match &node.kind {
            Kind::Leaf(leaf) => self.leaves.push((leaf.key, &leaf.value)),
            Kind::Extension { prefix, child } => self.put(child, path.join(prefix))?,
            Kind::Branch(children) => {
                let since = self.since;
                let leaves = children.leaves().filter(|(_, leaf)| leaf.born > since);
                self.leaves.extend(leaves.map(|(_, leaf)| (leaf.key, &leaf.value)));
                for (n, child) in children.inner() {
                    self.put(child, child_path(path, n))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the branch with its leaves put right, if a row that was given called some of them nodes with rows. Such
    /// leaves have no rows: they are in the stored row of the branch, which is about to be replaced. If there are none,
    /// the branch is not doubtful any more.
    fn mended(&mut self, children: &Children<V>, path: &Nibbles) -> Result<Option<Kind<V>>> {
        let (stored, mut mended) = (self.stored.next_at(path)?, None::<Children<V>>);
        for (n, link) in children.doubtful() {
            let leaf = match (link.in_memory(), &stored) {
                (Some(node), _) => node.as_leaf(),
                (None, Some(stored)) => stored.leaf_at(n),
                (None, None) => return Err(TrieError::Missing { path: *path }),
            };
            if let Some(leaf) = leaf {
                let leaf = Item::Leaf(leaf.clone());
                mended.get_or_insert_with(|| children.clone()).put(n, leaf);
            }
        }
        if mended.is_none() {
            children.believe();
        }
        Ok(mended.map(Kind::Branch))
    }
}
