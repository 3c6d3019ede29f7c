//! Hashing: every node that changed is encoded once, children first; the same bytes are hashed and written.
//!
//! The walk only reads the arena, so subtrees go to several threads without locks. What it finds (references
//! for parents, rows for the store) is collected on the side and put in place afterwards.

use crate::{
    EMPTY_ROOT, LeafValue, Nibbles, RowSink, Trie,
    arena::{Arena, Branch, Link, Status},
    codec::{self, ChildRef},
};
use alloy_primitives::B256;
use rayon::prelude::*;

/// Fewer changes than this are hashed on the calling thread: handing a task to another one costs as much as
/// hashing about ten nodes.
const PARALLEL_FROM: usize = 128;

impl<V: LeafValue> Trie<V> {
    /// The root as of now. Nothing is written.
    pub fn root(&mut self) -> B256 {
        self.hash(None::<Nowhere>).0
    }

    /// The root as of now; what changed since the last commit goes to `rows`.
    pub fn commit<S: RowSink>(&mut self, mut rows: S) -> (B256, S) {
        self.commit_removals(&mut rows);
        let (root, rows) = self.hash(Some(rows));
        self.changes = 0;
        (root, rows.expect("the sink comes back"))
    }

    /// Does ahead of time what it can of [`Self::commit`]: subtrees that begin at nibble `depth` or below are
    /// hashed and their rows go to `rows`. What is above stays as it is, so it is not hashed once for each
    /// time this is called. What changes afterwards is done again.
    ///
    /// `rows` must end up in the same atomic write as those of the commit, before them. If the trie is
    /// cleared in between, they must be dropped instead.
    pub fn commit_below<S: RowSink>(&mut self, depth: usize, mut rows: S) -> S {
        self.commit_removals(&mut rows);
        let mut out = Output::new(Some(rows));
        self.arena.visit_below(self.root, Nibbles::new(), depth.max(1), &mut out);
        for update in &out.updates {
            self.arena.put_in_place(update, true);
        }
        out.sink.expect("the sink comes back")
    }

    /// Removals come before what is put: a row may be put where another one went.
    fn commit_removals<S: RowSink>(&mut self, rows: &mut S) {
        if self.cleared {
            rows.delete_all();
            self.cleared = false;
        }
        for path in self.removed.drain(..) {
            rows.delete(&path);
        }
    }

    fn hash<S: RowSink>(&mut self, sink: Option<S>) -> (B256, Option<S>) {
        let save = sink.is_some();
        match self.arena.status(self.root) {
            Some(status) if needs_visit(status, save) => {}
            _ => return (self.root_hash, sink),
        }
        let mut out = Output::new(sink);
        let parallel = self.changes >= PARALLEL_FROM;
        let reference = self.arena.visit(self.root, Nibbles::new(), parallel, &mut out);
        self.root_hash = Self::hash_of(&reference, &out.rlp);
        for update in &out.updates {
            self.arena.put_in_place(update, save);
        }
        if let Some(status) = self.arena.status_mut(self.root) {
            settle(status, save);
        }
        debug_assert!(self.root != Link::Empty || self.root_hash == EMPTY_ROOT);
        (self.root_hash, out.sink)
    }
}

/// A reference that a parent has to take over.
#[derive(Debug)]
struct Update {
    parent: Link,
    nibble: u8,
    child: Link,
    reference: ChildRef,
}

/// What one thread collects.
struct Output<S> {
    sink: Option<S>,
    updates: Vec<Update>,
    /// The node encoded last.
    rlp: Vec<u8>,
    scratch: Vec<u8>,
}

impl<S: RowSink> Output<S> {
    fn new(sink: Option<S>) -> Self {
        Self { sink, updates: Vec::new(), rlp: Vec::with_capacity(600), scratch: Vec::new() }
    }

    fn finish(&mut self, path: &Nibbles) -> ChildRef {
        if let Some(sink) = &mut self.sink {
            sink.put(path, &self.rlp);
        }
        ChildRef::to(&self.rlp)
    }

    fn join(&mut self, other: Self) {
        if let (Some(mine), Some(theirs)) = (&mut self.sink, other.sink) {
            mine.join(theirs);
        }
        self.updates.extend(other.updates);
    }
}

impl<V: LeafValue> Arena<V> {
    /// Encodes the node and everything below it that changed.
    fn visit<S: RowSink>(
        &self,
        link: Link,
        path: Nibbles,
        parallel: bool,
        out: &mut Output<S>,
    ) -> ChildRef {
        match link {
            Link::Empty | Link::Stored => unreachable!("only changed nodes are visited"),
            Link::Leaf(id) => {
                let leaf = self.leaves.get(id);
                out.rlp.clear();
                codec::encode_leaf(
                    &leaf.key,
                    path.len(),
                    &leaf.value,
                    &mut out.rlp,
                    &mut out.scratch,
                );
            }
            Link::Extension(id) => {
                let extension = self.extensions.get(id);
                let mut child_ref = extension.child_ref;
                let child_changed = self
                    .status(extension.child)
                    .is_some_and(|status| needs_visit(status, out.sink.is_some()));
                if child_changed || child_ref.is_empty() {
                    let child_path = path.join(&extension.prefix);
                    child_ref = self.visit(extension.child, child_path, parallel, out);
                    let child = extension.child;
                    out.updates.push(Update {
                        parent: link,
                        nibble: 0,
                        child,
                        reference: child_ref,
                    });
                }
                out.rlp.clear();
                codec::encode_extension(&extension.prefix, &child_ref, &mut out.rlp);
            }
            Link::Branch(id) => {
                let branch = self.branches.get(id);
                let refs = if parallel && branch.dirty.count_ones() > 1 {
                    self.visit_children_in_parallel(link, branch, path, out)
                } else {
                    self.visit_children(link, branch, path, out)
                };
                out.rlp.clear();
                codec::encode_branch(&refs, &mut out.rlp);
            }
        }
        out.finish(&path)
    }

    /// Visits what changed at nibble `depth` or below, without encoding what is above.
    fn visit_below<S: RowSink>(
        &self,
        link: Link,
        path: Nibbles,
        depth: usize,
        out: &mut Output<S>,
    ) {
        let mut child = |nibble: u8, child: Link, path: Nibbles| {
            if path.len() >= depth {
                let reference = self.visit(child, path, false, out);
                out.updates.push(Update { parent: link, nibble, child, reference });
            } else {
                self.visit_below(child, path, depth, out);
            }
        };
        match link {
            Link::Empty | Link::Stored | Link::Leaf(_) => {}
            Link::Extension(id) => {
                let extension = self.extensions.get(id);
                if self.status(extension.child).is_some_and(|status| needs_visit(status, true)) {
                    child(0, extension.child, path.join(&extension.prefix));
                }
            }
            Link::Branch(id) => {
                let branch = self.branches.get(id);
                for nibble in self.changed_children(branch, true) {
                    let mut child_path = path;
                    child_path.push(nibble);
                    child(nibble, branch.children[nibble as usize], child_path);
                }
            }
        }
    }

    fn visit_children<S: RowSink>(
        &self,
        link: Link,
        branch: &Branch,
        path: Nibbles,
        out: &mut Output<S>,
    ) -> [ChildRef; 16] {
        let mut refs = branch.refs;
        for nibble in self.changed_children(branch, out.sink.is_some()) {
            let child = branch.children[nibble as usize];
            let mut child_path = path;
            child_path.push(nibble);
            let reference = self.visit(child, child_path, false, out);
            refs[nibble as usize] = reference;
            out.updates.push(Update { parent: link, nibble, child, reference });
        }
        refs
    }

    fn visit_children_in_parallel<S: RowSink>(
        &self,
        link: Link,
        branch: &Branch,
        path: Nibbles,
        out: &mut Output<S>,
    ) -> [ChildRef; 16] {
        let mut refs = branch.refs;
        let changed: Vec<u8> = self.changed_children(branch, out.sink.is_some()).collect();
        let sinks: Vec<Option<S>> =
            changed.iter().map(|_| out.sink.as_ref().map(S::split)).collect();
        let done: Vec<(u8, ChildRef, Output<S>)> = changed
            .into_par_iter()
            .zip(sinks)
            .map(|(nibble, sink)| {
                let mut own = Output::new(sink);
                let mut child_path = path;
                child_path.push(nibble);
                let child = branch.children[nibble as usize];
                let reference = self.visit(child, child_path, false, &mut own);
                own.updates.push(Update { parent: link, nibble, child, reference });
                (nibble, reference, own)
            })
            .collect();
        for (nibble, reference, own) in done {
            refs[nibble as usize] = reference;
            out.join(own);
        }
        refs
    }

    /// The children of a branch whose reference or row is out of date.
    fn changed_children<'a>(
        &'a self,
        branch: &'a Branch,
        save: bool,
    ) -> impl Iterator<Item = u8> + 'a {
        (0u8..16).filter(move |n| {
            branch.dirty & (1 << n) != 0
                && self
                    .status(branch.children[*n as usize])
                    .is_some_and(|status| needs_visit(status, save))
        })
    }

    fn put_in_place(&mut self, update: &Update, saved: bool) {
        match update.parent {
            Link::Branch(id) => {
                let branch = self.branches.get_mut(id);
                branch.refs[update.nibble as usize] = update.reference;
                if saved {
                    branch.dirty &= !(1 << update.nibble);
                }
            }
            Link::Extension(id) => self.extensions.get_mut(id).child_ref = update.reference,
            Link::Empty | Link::Stored | Link::Leaf(_) => {}
        }
        if let Some(status) = self.status_mut(update.child) {
            settle(status, saved);
        }
    }
}

const fn needs_visit(status: Status, save: bool) -> bool {
    status.unhashed || (save && status.unsaved)
}

const fn settle(status: &mut Status, saved: bool) {
    status.unhashed = false;
    if saved {
        status.unsaved = false;
        status.has_row = true;
    }
}

/// A sink for those who only want the root.
#[derive(Debug)]
struct Nowhere;

impl RowSink for Nowhere {
    fn split(&self) -> Self {
        Self
    }
    fn join(&mut self, _: Self) {}
    fn put(&mut self, _: &Nibbles, _: &[u8]) {}
    fn delete(&mut self, _: &Nibbles) {}
    fn delete_all(&mut self) {}
}
