//! Hashing: every changed node is encoded and hashed once, the deepest level first.
//!
//! The nodes of a level do not depend on each other, so they are hashed together (see [`Inputs`]). The walk only reads
//! the arena, so several threads share subtrees of it. The results of each thread (references for parents, rows for
//! the store) are collected on the side and put in place afterwards.

use super::slabs::{Arena, Branch, Link, Status};
use crate::{
    EMPTY_ROOT, LeafValue, Nibbles, RowSink, Rows, Trie,
    codec::{self, ChildRef, child_path},
    row::{self, Child},
};
use parking_lot::Mutex;
use polytrie_kv::Batch;
use polytrie_state::{Beside, keccak::Inputs};
use std::{cell::Cell, hint::black_box, mem, sync::Arc};

/// Number of changes below which one thread hashes alone: it is done before another one has woken up.
const BESIDE_FROM: usize = 128;
/// Number of changes from which on more than one other thread helps.
const PARALLEL_FROM: usize = 2_048;
/// Number of levels whose memory a thread keeps for the next root, and the largest number of nodes in a kept level.
const SPARE_LEVELS: usize = 32;
const SPARE_VISITS: usize = 4_096;

impl<V: LeafValue> Trie<V> {
    /// Computes the root of the present content. Nothing is written.
    pub fn root(&mut self) -> alloy_primitives::B256 {
        self.hash(None::<Rows<Batch>>).0
    }

    /// Computes the root of the present content, and writes the changes since the last commit to `rows`.
    pub fn commit<S: RowSink + 'static>(&mut self, mut rows: S) -> (alloy_primitives::B256, S) {
        self.commit_removals(&mut rows);
        let (root, rows) = self.hash(Some(rows));
        self.unsaved = 0;
        (root, rows.expect("the sink comes back"))
    }

    /// Does a part of [`Self::commit`] ahead of time: subtrees that begin at nibble `depth` or below are hashed and
    /// their rows go to `rows`. Nodes above stay as they are, so they are not hashed once for each call. Nodes that
    /// change afterwards are hashed again.
    ///
    /// `rows` must be part of the same atomic write as those of the commit, before them; of several changes of one
    /// row the last one counts. If the trie is cleared in between, `rows` must be dropped instead.
    pub fn commit_below<S: RowSink>(&mut self, depth: usize, mut rows: S) -> S {
        self.commit_removals(&mut rows);
        if !self.arena.must_visit(self.root, true) {
            return rows;
        }
        let root = Visit::new(self.root, Nibbles::new(), Link::Empty, 0);
        let tops = self.arena.expand_to(root, depth);
        let mut out = Output::new(Some(rows));
        let levels = self.arena.hash_levels(tops, &mut out);
        self.arena.put_all_in_place(&levels, true);
        for top in &levels[0] {
            if let Link::Branch(id) = top.parent {
                self.arena.set_reference(id, top.nibble, top.reference, true);
            }
        }
        out.buffers.keep(levels);
        out.into_sink().expect("the sink comes back")
    }

    /// Removals come before puts, because a row may be put where another one was removed.
    fn commit_removals<S: RowSink>(&mut self, rows: &mut S) {
        if self.cleared {
            rows.delete_all();
            self.cleared = false;
        }
        for path in self.removed.drain(..) {
            rows.delete(&path);
        }
    }

    fn hash<S: RowSink + 'static>(
        &mut self,
        sink: Option<S>,
    ) -> (alloy_primitives::B256, Option<S>) {
        let save = sink.is_some();
        match self.arena.status(self.root) {
            Some(status) if needs_visit(status, save) => {}
            _ => return (self.root_hash, sink),
        }
        let root = Visit::new(self.root, Nibbles::new(), Link::Empty, 0);
        let mut out = Output::new(sink);
        let changes = if save { self.unsaved } else { self.unhashed };
        self.root_hash = if changes >= BESIDE_FROM {
            self.hash_beside(root, changes, &mut out)
        } else {
            let levels = self.arena.hash_levels(vec![root], &mut out);
            self.arena.put_all_in_place(&levels, save);
            let root = levels[0][0].reference;
            out.buffers.keep(levels);
            root
        }
        .hash();
        self.unhashed = 0;
        debug_assert!(self.root != Link::Empty || self.root_hash == EMPTY_ROOT);
        (self.root_hash, out.into_sink())
    }

    /// Hashes the root and everything below it, with the help of other threads. Returns the reference of the root.
    fn hash_beside<S: RowSink + 'static>(
        &mut self,
        root: Visit,
        changes: usize,
        out: &mut Output<S>,
    ) -> ChildRef {
        let save = out.sink.is_some();
        let mut top = vec![root];
        let children = self.arena.expand(&mut top, save, Vec::new());
        let threads = if changes < PARALLEL_FROM { 2 } else { rayon::current_num_threads() };
        let left = Mutex::new(children.into_iter().enumerate().collect());
        let shared = Arc::new(Shared { arena: mem::take(&mut self.arena), left });
        let helpers: Vec<_> = (1..threads)
            .map(|_| {
                let shared = shared.clone();
                let sink = out.sink.as_ref().map(S::split);
                let spare = out.buffers.split();
                Beside::start(move || {
                    let mut own = Output::new(sink);
                    own.buffers.keep(spare);
                    (shared.hash(&mut own), own.into_sink())
                })
            })
            .collect();
        let mut done = shared.hash(out);
        for (theirs, sink) in helpers.into_iter().filter_map(Beside::finish) {
            done.extend(theirs);
            if let (Some(mine), Some(theirs)) = (&mut out.sink, sink) {
                mine.join(theirs);
            }
        }
        self.arena = Arc::into_inner(shared).expect("no thread helps any more").arena;
        done.sort_unstable_by_key(|(number, _)| *number);
        let children: Vec<Visit> = done.iter().flat_map(|(_, levels)| levels[0].clone()).collect();
        self.arena.hash_level(&mut top, &children, out);
        self.arena.put_in_place(&top, &children, save);
        for (_, levels) in done {
            self.arena.put_all_in_place(&levels, save);
            out.buffers.keep(levels);
        }
        top[0].reference
    }
}

/// A trie that several threads hash.
struct Shared<V> {
    arena: Arena<V>,
    /// The children of the root that no thread has taken, each with its place in the order. A thread takes one at a time,
    /// because at the end it waits for what another thread has taken last.
    left: Mutex<Vec<(usize, Visit)>>,
}

impl<V: LeafValue> Shared<V> {
    /// Hashes children of the root until none is left. Returns the levels of each, with its place.
    fn hash<S: RowSink>(&self, out: &mut Output<S>) -> Vec<(usize, Vec<Vec<Visit>>)> {
        let mut done = Vec::new();
        loop {
            let next = self.left.lock().pop();
            let Some((number, child)) = next else { return done };
            done.push((number, self.arena.hash_levels(vec![child], out)));
        }
    }
}

/// A node that is encoded and hashed.
#[derive(Debug, Clone)]
struct Visit {
    link: Link,
    path: Nibbles,
    parent: Link,
    /// The nibble of the node in its parent.
    nibble: u8,
    /// The index of its first child among the visits of the next level.
    first: u32,
    count: u32,
    /// Whether the node is a leaf with a row that must be removed.
    had_row: bool,
    reference: ChildRef,
}

impl Visit {
    const fn new(link: Link, path: Nibbles, parent: Link, nibble: u8) -> Self {
        Self {
            link,
            path,
            parent,
            nibble,
            first: 0,
            count: 0,
            had_row: false,
            reference: ChildRef::EMPTY,
        }
    }
}

/// The rows that one thread writes, and its buffers.
#[derive(Debug)]
struct Output<S> {
    sink: Option<S>,
    buffers: Buffers,
}

#[derive(Debug, Default)]
struct Buffers {
    inputs: Inputs,
    row: Vec<u8>,
    scratch: Vec<u8>,
    /// Vectors for the levels of a walk: they are large, and the system would clear new memory for them each time.
    spare: Vec<Vec<Visit>>,
}

impl Buffers {
    /// Returns an empty vector for a level.
    fn level(&mut self) -> Vec<Visit> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps the memory of levels for reuse, except for levels as large as those of a whole state.
    fn keep(&mut self, levels: Vec<Vec<Visit>>) {
        let room = SPARE_LEVELS.saturating_sub(self.spare.len());
        let levels = levels.into_iter().filter(|level| level.capacity() <= SPARE_VISITS);
        self.spare.extend(levels.take(room).map(|mut level| {
            level.clear();
            level
        }));
    }

    /// Splits off half of the kept vectors.
    fn split(&mut self) -> Vec<Vec<Visit>> {
        self.spare.split_off(self.spare.len() / 2)
    }
}

thread_local! {
    /// The buffers are kept from trie to trie, so that they do not grow from nothing for each root.
    static BUFFERS: Cell<Option<Buffers>> = const { Cell::new(None) };
}

impl<S> Output<S> {
    fn new(sink: Option<S>) -> Self {
        Self { sink, buffers: BUFFERS.take().unwrap_or_default() }
    }

    /// Returns the sink, and keeps the buffers for the next trie.
    fn into_sink(self) -> Option<S> {
        BUFFERS.set(Some(self.buffers));
        self.sink
    }
}

impl<V: LeafValue> Arena<V> {
    /// Hashes the given nodes and everything below them that changed; returns all of them, level by level.
    fn hash_levels<S: RowSink>(&self, level: Vec<Visit>, out: &mut Output<S>) -> Vec<Vec<Visit>> {
        let save = out.sink.is_some();
        let mut levels = vec![level];
        while let Some(level) = levels.last_mut() {
            let below = self.expand(level, save, out.buffers.level());
            if below.is_empty() {
                out.buffers.keep(vec![below]);
                break;
            }
            levels.push(below);
        }
        for depth in (0..levels.len()).rev() {
            let (upper, below) = levels.split_at_mut(depth + 1);
            let below = below.first().map_or(&[][..], Vec::as_slice);
            self.hash_level(&mut upper[depth], below, out);
        }
        levels
    }

    /// Returns the subtrees below `root` that must be saved and begin at nibble `depth` or below. The branch behind
    /// an extension that begins above `depth` is not one of them: the two share a row.
    fn expand_to(&self, root: Visit, depth: usize) -> Vec<Visit> {
        let mut tops = Vec::new();
        let mut level = vec![root];
        while !level.is_empty() {
            let below = self.expand(&mut level, true, Vec::new());
            let is_top = |v: &Visit| v.path.len() >= depth && matches!(v.parent, Link::Branch(_));
            let (deep, shallow): (Vec<_>, Vec<_>) = below.into_iter().partition(is_top);
            tops.extend(deep);
            level = shallow;
        }
        tops
    }

    /// Returns the children of a level that must be visited, in order. `below` is an empty vector for them.
    fn expand(&self, level: &mut [Visit], save: bool, mut below: Vec<Visit>) -> Vec<Visit> {
        // Mostly there is one child for each node.
        below.reserve(level.len());
        // The row of a branch holds all its leaves, which lie anywhere in memory. They are touched here, where the processor
        // fetches those of several branches at once. Between the encoding of two leaves it would wait for each.
        let mut touched = 0;
        for visit in level {
            visit.first = below.len() as u32;
            match visit.link {
                Link::Empty | Link::Stored | Link::Leaf(_) => {}
                Link::Extension(id) => {
                    let extension = self.extensions.get(id);
                    // The row of an extension is that of its branch.
                    let stale =
                        extension.child_ref.is_empty() || (save && extension.status.unsaved);
                    if stale || self.must_visit(extension.child, save) {
                        let path = visit.path.join(&extension.prefix);
                        below.push(Visit::new(extension.child, path, visit.link, 0));
                    }
                }
                Link::Branch(id) => {
                    let branch = self.branches.get(id);
                    // The branch itself shows which children changed; looking at the children would cost a memory
                    // access each.
                    let changed = if save { branch.unsaved } else { branch.unhashed };
                    for (nibble, child) in (0u8..).zip(branch.children) {
                        let mut stale = changed & (1 << nibble) != 0;
                        if let Link::Leaf(leaf) = child {
                            // Leaves are loaded from the store without their hashes.
                            stale |= branch.refs.get(nibble).is_empty();
                            if save {
                                touched ^= self.leaves.get(leaf).key[31];
                            }
                        }
                        if stale {
                            let path = child_path(visit.path, nibble);
                            below.push(Visit::new(child, path, visit.link, nibble));
                        }
                    }
                }
            }
            visit.count = below.len() as u32 - visit.first;
        }
        black_box(touched);
        below
    }

    fn must_visit(&self, link: Link, save: bool) -> bool {
        self.status(link).is_some_and(|status| needs_visit(status, save))
    }

    fn hash_level<S: RowSink>(&self, level: &mut [Visit], below: &[Visit], out: &mut Output<S>) {
        for portion in level.chunks_mut(Inputs::PORTION) {
            out.buffers.inputs.clear();
            for (i, visit) in portion.iter_mut().enumerate() {
                let children = &below[visit.first as usize..][..visit.count as usize];
                self.encode(i as u32, visit, children, out);
            }
            out.buffers
                .inputs
                .hash_all(|i, hash| portion[i as usize].reference = ChildRef::hashed(hash));
        }
    }

    /// Encodes a node, whose children have been visited if necessary, and writes its row.
    fn encode<S: RowSink>(
        &self,
        tag: u32,
        visit: &mut Visit,
        children: &[Visit],
        out: &mut Output<S>,
    ) {
        let Output { sink, buffers: Buffers { inputs, row, scratch, .. } } = out;
        row.clear();
        let embedded = match visit.link {
            Link::Empty | Link::Stored => unreachable!("only changed nodes are visited"),
            Link::Leaf(id) => {
                let leaf = self.leaves.get(id);
                let depth = visit.path.len();
                let embedded = inputs.add_unless(tag, ChildRef::embedded, |rlp| {
                    codec::encode_leaf(&leaf.key, depth, &leaf.value, rlp, scratch);
                });
                if let Some(sink) = sink {
                    if depth == 0 {
                        row::encode_leaf(&leaf.key, &leaf.value, row);
                        sink.put(&visit.path, row);
                    } else if leaf.status.has_row {
                        sink.delete(&visit.path);
                        visit.had_row = true;
                    }
                }
                embedded
            }
            Link::Extension(id) => {
                let extension = self.extensions.get(id);
                let child = children.first().map_or(&extension.child_ref, |child| &child.reference);
                inputs.add_unless(tag, ChildRef::embedded, |rlp| {
                    codec::encode_extension(&extension.prefix, child, rlp)
                })
            }
            Link::Branch(id) => {
                let branch = self.branches.get(id);
                let mut refs = branch.refs.each();
                for child in children {
                    refs[child.nibble as usize] = &child.reference;
                }
                let embedded = inputs
                    .add_unless(tag, ChildRef::embedded, |rlp| codec::encode_branch(&refs, rlp));
                if let Some(sink) = sink {
                    let prefix = match visit.parent {
                        Link::Extension(id) => self.extensions.get(id).prefix,
                        _ => Nibbles::new(),
                    };
                    self.encode_row(branch, &refs, &prefix, visit.path.len(), row);
                    let start = visit.path.len() - prefix.len();
                    sink.put(&visit.path.slice(..start), row);
                }
                embedded
            }
        };
        if let Some(embedded) = embedded {
            visit.reference = embedded;
        }
    }

    /// Encodes the row of a branch at `depth` and of the extension before it.
    pub(super) fn encode_row(
        &self,
        branch: &Branch,
        refs: &[&ChildRef; 16],
        prefix: &Nibbles,
        depth: usize,
        out: &mut Vec<u8>,
    ) {
        let child = |n: usize| match branch.children[n] {
            Link::Empty => Child::None,
            Link::Leaf(id) => {
                let leaf = self.leaves.get(id);
                Child::Leaf(&leaf.key, &leaf.value)
            }
            Link::Stored | Link::Extension(_) | Link::Branch(_) => Child::Inner(refs[n]),
        };
        row::encode_branch(prefix, depth, child, out);
    }

    fn put_all_in_place(&mut self, levels: &[Vec<Visit>], saved: bool) {
        for (depth, level) in levels.iter().enumerate() {
            let below = levels.get(depth + 1).map_or(&[][..], Vec::as_slice);
            self.put_in_place(level, below, saved);
        }
    }

    /// Stores the references of children in the nodes of a level, and marks the nodes as up to date.
    fn put_in_place(&mut self, level: &[Visit], below: &[Visit], saved: bool) {
        for visit in level {
            let children = &below[visit.first as usize..][..visit.count as usize];
            let is_root = matches!(visit.parent, Link::Empty);
            let (status, has_row) = match visit.link {
                Link::Empty | Link::Stored => continue,
                // A branch knows which of its leaves are saved.
                Link::Leaf(_) if saved && !is_root && !visit.had_row => continue,
                Link::Leaf(id) => (&mut self.leaves.get_mut(id).status, is_root),
                Link::Extension(id) => {
                    let extension = self.extensions.get_mut(id);
                    for child in children {
                        extension.child_ref = child.reference;
                    }
                    (&mut extension.status, true)
                }
                Link::Branch(id) => {
                    for child in children {
                        self.set_reference(id, child.nibble, child.reference, saved);
                    }
                    let branch = self.branches.get_mut(id);
                    (&mut branch.status, !matches!(visit.parent, Link::Extension(_)))
                }
            };
            status.unhashed = false;
            if saved {
                status.unsaved = false;
                status.has_row = has_row;
            }
        }
    }
}

const fn needs_visit(status: Status, save: bool) -> bool {
    status.unhashed || (save && status.unsaved)
}
