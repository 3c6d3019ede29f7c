//! Writing the rows of a version: those that differ from the rows of an older one.

use super::{
    children::{Child, Children, Item},
    node::{CowTrie, Kind, Link, Node, load},
    row,
};
use crate::{LeafValue, Nibbles, Result, RowSink, RowSource};
use alloy_primitives::B256;
use std::{collections::VecDeque, vec};

/// Most rows that are read at a time.
const AT_A_TIME: usize = 1_024;

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
        for path in gone.iter().filter(|path| self.has_lost(path, since)) {
            sink.delete(path);
        }
        let mut doubtful = Vec::new();
        self.root.add_doubtful(since, self.path(), &mut doubtful);
        let stored = Stored { rows, paths: doubtful.into_iter(), read: VecDeque::new() };
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

    /// Adds the paths of new branches whose stored rows tell which children are leaves, in the order in which
    /// [`Fresh::put`] comes to them.
    fn add_doubtful(&self, since: u64, path: Nibbles, found: &mut Vec<Nibbles>) {
        match self.fresh(since).map(|node| &node.kind) {
            None | Some(Kind::Leaf(_)) => {}
            Some(Kind::Extension { prefix, child }) => {
                child.add_doubtful(since, path.join(prefix), found);
            }
            Some(Kind::Branch(children)) => {
                let is_unknown = |(_, link): (u8, &Self)| link.in_memory().is_none();
                found.extend(children.doubtful().any(is_unknown).then_some(path));
                for (n, child) in children.inner() {
                    let mut below = path;
                    below.push(n);
                    child.add_doubtful(since, below, found);
                }
            }
        }
    }
}

/// The stored rows of doubtful branches. They are read many at a time, because a store on other machines takes as long
/// for one.
struct Stored<'s, R> {
    rows: &'s R,
    /// The branches whose rows are not read.
    paths: vec::IntoIter<Nibbles>,
    /// Rows that are read and not taken, with their paths.
    read: VecDeque<(Nibbles, Option<Vec<u8>>)>,
}

impl<R: RowSource> Stored<'_, R> {
    /// Returns the stored branch at a path, if it is the next one and a row of it was found. It may be an older one.
    fn next_at<V: LeafValue>(&mut self, path: &Nibbles) -> Result<Option<Node<V>>> {
        if self.read.is_empty() {
            let paths: Vec<Nibbles> = self.paths.by_ref().take(AT_A_TIME).collect();
            self.read = paths.iter().copied().zip(self.rows.load_many(&paths)?).collect();
        }
        match self.read.pop_front_if(|(next, _)| next == path) {
            None | Some((_, None)) => Ok(None),
            // A row that is damaged is read again.
            Some((path, Some(row))) => Ok(row::read(&path, &row, 0).ok()),
        }
    }
}

struct Fresh<'s, 'a, R, S, V> {
    since: u64,
    stored: Stored<'s, R>,
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
                    let mut below = path;
                    below.push(n);
                    self.put(child, below)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the branch with its leaves put right, if a row that was given called some of them nodes with rows. Such
    /// leaves have no rows: they are in the stored row of the branch, which is about to be replaced. If there are none,
    /// the branch is not doubtful any more.
    fn mended(&mut self, children: &Children<V>, path: &Nibbles) -> Result<Option<Kind<V>>> {
        let (mut stored, mut mended) = (self.stored.next_at(path)?, None::<Children<V>>);
        for (n, link) in children.doubtful() {
            let leaf = match link.in_memory() {
                Some(node) => node.as_leaf(),
                None => {
                    let depth = path.len() + 1;
                    // With the same reference it is the same child, however old the row is.
                    if !stored.as_ref().is_some_and(|stored| stored.refers_at(n, link, depth)) {
                        stored = Some(load::<V>(path, self.stored.rows, 0)?);
                    }
                    stored.as_ref().and_then(|node| node.leaf_at(n))
                }
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
