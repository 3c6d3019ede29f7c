//! Nodes, links between them, and their references.

use super::{
    children::{Child, Children, Item},
    row,
};
use crate::{
    Ages, EMPTY_ROOT, LeafValue, Nibbles, Result, RowSource, SlotValue, TrieError,
    codec::{self, ChildRef, nibble, path_of},
};
use alloy_primitives::{B256, keccak256};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// A leaf value that may hold a trie of its own, as an account holds its storage.
pub trait CowValue: LeafValue {
    /// Does for the nodes of the value what [`CowTrie::prune`] does.
    fn prune(&mut self, keep: &super::Keep) -> usize {
        let _ = keep;
        0
    }

    /// Does for the nodes of the value what [`CowTrie::add_ages`] does. Returns the bytes of memory that the value takes
    /// beyond its own size.
    fn add_ages(&self, now: u64, ages: &mut Ages) -> usize {
        let _ = (now, ages);
        0
    }
}

impl CowValue for SlotValue {}

/// One version of a trie. A clone costs a pointer. Nodes that are changed afterwards are no longer shared.
#[derive(Debug)]
pub struct CowTrie<V> {
    /// The first nibble of the keys, if this is the part of a larger trie below it.
    pub(super) base: Option<u8>,
    pub(super) root: Link<V>,
}

impl<V> Clone for CowTrie<V> {
    fn clone(&self) -> Self {
        Self { base: self.base, root: self.root.clone() }
    }
}

/// The link from a parent to a node. It holds the node's reference, so that a branch is hashed without reading its
/// children.
#[derive(Debug)]
pub(super) struct Link<V> {
    /// The reference. Not set while it is not computed; empty if there is no node.
    reference: OnceLock<ChildRef>,
    /// The node. Not set while it is only in the store. It is loaded on first use, for all versions that share the
    /// parent.
    node: OnceLock<Arc<Node<V>>>,
}

impl<V> Clone for Link<V> {
    fn clone(&self) -> Self {
        Self { reference: self.reference.clone(), node: self.node.clone() }
    }
}

/// A node with a row of its own: any node but a leaf in its branch.
#[derive(Debug)]
pub(super) struct Node<V> {
    pub(super) kind: Kind<V>,
    /// Number of the last change that changed the node; 0 if it is as the store has it.
    pub(super) born: u64,
    /// Number of the last change that touched the node.
    pub(super) used: AtomicU64,
}

impl<V: Clone> Clone for Node<V> {
    fn clone(&self) -> Self {
        let used = AtomicU64::new(self.used.load(Ordering::Relaxed));
        Self { kind: self.kind.clone(), born: self.born, used }
    }
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(super) struct Leaf<V> {
    pub(super) key: B256,
    pub(super) value: V,
    reference: OnceLock<ChildRef>,
    /// Number of the last change that changed the leaf; 0 if it is as the store has it.
    pub(super) born: u64,
}

#[derive(Debug, Clone)]
pub(super) enum Kind<V> {
    /// The root of a trie with one key. A trie made from a witness may have other leaves of this kind, because a
    /// reference does not tell whether it leads to a leaf.
    Leaf(Box<Leaf<V>>),
    Extension {
        /// The nibbles that the extension skips; never empty.
        prefix: Nibbles,
        /// The node below; always a branch.
        child: Box<Link<V>>,
    },
    /// The children; at least two.
    Branch(Children<V>),
}

impl<V> Leaf<V> {
    pub(super) fn new(key: B256, value: V, born: u64) -> Self {
        Self { key, value, reference: OnceLock::new(), born }
    }

    /// Returns the leaf as it is at another depth, where its reference is another.
    pub(super) fn moved(self) -> Self {
        Self { reference: OnceLock::new(), ..self }
    }

    /// Returns the value for the change `now` to write, and forgets the reference.
    pub(super) fn changed(&mut self, now: u64) -> &mut V {
        self.born = now;
        self.reference = OnceLock::new();
        &mut self.value
    }

    /// Whether the leaf's reference is computed.
    pub(super) fn is_resolved(&self) -> bool {
        self.reference.get().is_some()
    }

    /// Sets the leaf's reference.
    pub(super) fn refer(&self, reference: ChildRef) {
        // Another thread may have set it first, to the same reference.
        let _ = self.reference.set(reference);
    }
}

impl<V: LeafValue> Leaf<V> {
    /// Returns the leaf's reference at `depth`, as its parent holds it; computed on first use.
    pub(super) fn reference(&self, depth: usize) -> &ChildRef {
        self.reference.get_or_init(|| {
            let mut rlp = Vec::with_capacity(128);
            self.encode(depth, &mut rlp, &mut Vec::new());
            ChildRef::to(&rlp)
        })
    }

    /// Appends the leaf's RLP at `depth` to `rlp`; `scratch` is a buffer for the value.
    pub(super) fn encode(&self, depth: usize, rlp: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        codec::encode_leaf(&self.key, depth, &self.value, rlp, scratch);
    }
}

impl<V> Node<V> {
    pub(super) fn new(kind: Kind<V>, born: u64) -> Self {
        Self { kind, born, used: AtomicU64::new(born) }
    }

    /// Makes a node as the store has it, touched by the change `now`.
    pub(super) fn stored(kind: Kind<V>, now: u64) -> Self {
        Self { kind, born: 0, used: AtomicU64::new(now) }
    }

    pub(super) fn touch(&self, now: u64) {
        // A write would take the node from the caches of other processors.
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    /// Returns what is next on the way to a key from this node, which stands at `depth`, and at which depth it stands. A
    /// leaf leads to itself, also if it has another key.
    pub(super) fn toward(&self, key: &B256, depth: usize) -> Option<(Child<'_, V>, usize)> {
        match &self.kind {
            Kind::Leaf(leaf) => Some((Child::Leaf(leaf), depth)),
            Kind::Extension { prefix, child } => {
                let end = depth + prefix.len();
                let follows = path_of(key, end).slice(depth..) == *prefix;
                follows.then_some((Child::Inner(child), end))
            }
            Kind::Branch(children) => {
                children.get(nibble(key, depth)).map(|child| (child, depth + 1))
            }
        }
    }

    /// Returns the leaf at a nibble, if this is a branch with a leaf there.
    pub(super) fn leaf_at(&self, nibble: u8) -> Option<&Leaf<V>> {
        match &self.kind {
            Kind::Branch(children) => match children.get(nibble) {
                Some(Child::Leaf(leaf)) => Some(leaf),
                _ => None,
            },
            Kind::Leaf(_) | Kind::Extension { .. } => None,
        }
    }

    /// Returns the leaf, if the node is one.
    pub(super) const fn as_leaf(&self) -> Option<&Leaf<V>> {
        match &self.kind {
            Kind::Leaf(leaf) => Some(leaf),
            Kind::Extension { .. } | Kind::Branch(_) => None,
        }
    }
}

impl<V> Link<V> {
    /// Returns a link to no node.
    pub(super) fn empty() -> Self {
        Self::stored(ChildRef::EMPTY)
    }

    /// Returns a link to a node that is in the store.
    pub(super) fn stored(reference: ChildRef) -> Self {
        Self { reference: OnceLock::from(reference), node: OnceLock::new() }
    }

    /// Returns a link to a new node.
    pub(super) fn new(node: Node<V>) -> Self {
        Self { reference: OnceLock::new(), node: OnceLock::from(Arc::new(node)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reference.get().is_some_and(ChildRef::is_empty)
    }

    /// Returns the node, if it is in memory.
    pub(super) fn in_memory(&self) -> Option<&Node<V>> {
        self.node.get().map(|node| &**node)
    }

    /// Whether both links lead to the same node in memory.
    pub(super) fn is_shared(&self, other: &Self) -> bool {
        self.node.get().zip(other.node.get()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Whether the reference is computed.
    pub(super) fn is_resolved(&self) -> bool {
        self.reference.get().is_some()
    }

    /// Sets the reference.
    pub(super) fn refer(&self, reference: ChildRef) {
        // Another thread may have set it first, to the same reference.
        let _ = self.reference.set(reference);
    }
}

impl<V: Clone> Link<V> {
    /// Returns the node for writing, if it is in memory. A node that other versions share is copied first.
    pub(super) fn to_mut(&mut self) -> Option<&mut Node<V>> {
        let node = self.node.get_mut()?;
        if Arc::get_mut(node).is_none() {
            *node = Arc::new(Node::clone(node));
        }
        Arc::get_mut(node)
    }

    /// Runs `edit`, which drops nodes below the node, if it is in memory. If other versions share it, a copy is edited,
    /// which takes its place if anything was dropped. Returns the bytes that `edit` says it dropped.
    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut Node<V>) -> usize) -> usize {
        let Some(node) = self.node.get_mut() else { return 0 };
        if let Some(node) = Arc::get_mut(node) {
            return edit(node);
        }
        let mut copy = Node::clone(node);
        let dropped = edit(&mut copy);
        if dropped > 0 {
            *node = Arc::new(copy);
        }
        dropped
    }

    /// Returns the node for the change `now` to write, if it is in memory. Forgets the reference.
    pub(super) fn changed(&mut self, now: u64) -> Option<&mut Node<V>> {
        self.node.get()?;
        self.reference = OnceLock::new();
        let node = self.to_mut()?;
        node.born = now;
        *node.used.get_mut() = now;
        Some(node)
    }
}

impl<V: LeafValue> Link<V> {
    /// Returns the node; it is loaded and kept if it was not in memory. `None` if there is no node.
    pub(super) fn resolve(
        &self,
        path: impl FnOnce() -> Nibbles,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Option<&Node<V>>> {
        if self.node.get().is_none() && !self.is_empty() {
            let node = self.load(&path(), rows, now)?;
            return Ok(Some(self.keep(node)));
        }
        Ok(self.in_memory())
    }

    /// Keeps the node that was loaded, and returns it.
    pub(super) fn keep(&self, node: Node<V>) -> &Node<V> {
        // Another thread may have set it first; both loaded the same node.
        self.node.get_or_init(|| Arc::new(node))
    }

    /// Reads the node at this path, which is not empty: from a row that was given for its hash, from the store, or from
    /// the reference where embedded nodes have no rows.
    pub(super) fn load(&self, path: &Nibbles, rows: &impl RowSource, now: u64) -> Result<Node<V>> {
        if let Some(node) = self.given(path, rows, now)? {
            return Ok(node);
        }
        let mut bytes = Vec::with_capacity(1_024);
        if rows.load(path, &mut bytes)? {
            return self.read(path, &bytes, rows, now);
        }
        let leaf = self.leaf_above(path, rows, now)?;
        leaf.ok_or(TrieError::Missing { path: *path })
    }

    /// Reads the node without the store: from a row that was given for its hash, or from the reference where embedded
    /// nodes have no rows.
    pub(super) fn given(
        &self,
        path: &Nibbles,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Option<Node<V>>> {
        let Some(reference) = self.reference.get() else { return Ok(None) };
        let mut bytes = Vec::new();
        let is_given = match reference.as_hash() {
            Some(hash) => rows.given(path, &hash, &mut bytes),
            None => rows.leaves_out_embedded(),
        };
        if !is_given {
            return Ok(None);
        }
        // The reference to an embedded node is the node.
        let bytes = if bytes.is_empty() { reference.bytes() } else { bytes.as_slice() };
        row::read_given(path, bytes, now).map(Some)
    }

    /// Decodes the node from its row at a path in the store.
    pub(super) fn read(
        &self,
        path: &Nibbles,
        row: &[u8],
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Node<V>> {
        let node = row::read(path, row, now)?;
        if rows.is_doubted() {
            self.expect(&node, path)?;
        }
        Ok(node)
    }

    /// Compares a node that was read at a path with the reference.
    ///
    /// # Errors
    ///
    /// [`TrieError::Malformed`] if the node has another reference.
    pub(super) fn expect(&self, node: &Node<V>, path: &Nibbles) -> Result<()> {
        let mut rlp = Vec::with_capacity(600);
        node.encode(path.len(), &mut rlp, &mut Vec::new());
        let reference = self.reference(path.len());
        let is_it = match reference.as_hash() {
            // The root of a trie is referred to by its hash, however short its RLP is.
            Some(hash) => keccak256(&rlp) == hash,
            None => ChildRef::to(&rlp) == *reference,
        };
        let reason = "it is not what its parent refers to";
        if is_it { Ok(()) } else { Err(TrieError::Malformed { path: *path, reason }) }
    }

    /// Returns the leaf in the stored row of the branch above, if this link leads to it: a row that was given may have
    /// called the leaf a node with a row of its own.
    fn leaf_above(
        &self,
        path: &Nibbles,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Option<Node<V>>> {
        let Some(n) = path.last() else { return Ok(None) };
        let (above, mut bytes) = (path.slice(..path.len() - 1), Vec::new());
        if !rows.load(&above, &mut bytes)? {
            return Ok(None);
        }
        let branch = row::read::<V>(&above, &bytes, now)?;
        let leaf = branch
            .leaf_at(n)
            .filter(|leaf| self.reference.get() == Some(leaf.reference(path.len())));
        Ok(leaf.map(|leaf| Node::stored(Kind::Leaf(Box::new(leaf.clone())), now)))
    }

    /// Returns the reference as a parent holds it; computed on first use. The node stands at `depth`.
    pub(super) fn reference(&self, depth: usize) -> &ChildRef {
        self.reference.get_or_init(|| {
            let Some(node) = self.in_memory() else { return ChildRef::EMPTY };
            let mut rlp = Vec::with_capacity(600);
            node.encode(depth, &mut rlp, &mut Vec::new());
            ChildRef::to(&rlp)
        })
    }
}

/// Reads the node at a path from the store. Fails if there is no row.
pub(super) fn load<V: LeafValue>(
    path: &Nibbles,
    rows: &impl RowSource,
    now: u64,
) -> Result<Node<V>> {
    let mut bytes = Vec::with_capacity(1_024);
    if !rows.load(path, &mut bytes)? {
        return Err(TrieError::Missing { path: *path });
    }
    row::read(path, &bytes, now)
}

/// Decodes a node from its RLP.
pub(super) fn decode<V: LeafValue>(path: &Nibbles, rlp: &[u8]) -> Result<Kind<V>, &'static str> {
    Ok(match codec::decode_node::<V>(rlp)? {
        codec::Node::Leaf { suffix, value } => {
            let key = codec::full_key(path, &suffix)?;
            Kind::Leaf(Box::new(Leaf::new(key, value, 0)))
        }
        codec::Node::Extension { prefix, child } => {
            if path.len() + prefix.len() >= 64 {
                return Err("an extension that leads beyond the keys");
            }
            Kind::Extension { prefix, child: Box::new(Link::stored(child)) }
        }
        codec::Node::Branch { refs } => {
            if path.len() >= 64 {
                return Err("a branch below the keys");
            }
            let filled = |reference: &&ChildRef| !reference.is_empty();
            let count = refs.iter().filter(filled).count();
            let refs = (0u8..).zip(refs.iter()).filter(|(_, reference)| filled(reference));
            let links = refs.map(|(n, reference)| (n, Item::Inner(Link::stored(*reference))));
            Kind::Branch(Children::in_order((count, 0), links))
        }
    })
}

/// Decodes a node from its RLP; an error names its path.
pub(super) fn rlp_node<V: LeafValue>(path: &Nibbles, rlp: &[u8]) -> Result<Kind<V>> {
    decode(path, rlp).map_err(|reason| TrieError::Malformed { path: *path, reason })
}

impl<V: LeafValue> Node<V> {
    /// Whether this is a branch whose child at a nibble has the reference of a link. The child stands at `depth`.
    pub(super) fn refers_at(&self, nibble: u8, link: &Link<V>, depth: usize) -> bool {
        let Kind::Branch(children) = &self.kind else { return false };
        let known = match children.get(nibble) {
            None => return false,
            Some(Child::Inner(child)) => child.reference(depth),
            Some(Child::Leaf(leaf)) => leaf.reference(depth),
        };
        known == link.reference(depth)
    }

    /// Appends the node's RLP at `depth` to `rlp`; `scratch` is a buffer for values.
    pub(super) fn encode(&self, depth: usize, rlp: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        match &self.kind {
            Kind::Leaf(leaf) => leaf.encode(depth, rlp, scratch),
            Kind::Extension { prefix, child } => {
                codec::encode_extension(prefix, child.reference(depth + prefix.len()), rlp);
            }
            Kind::Branch(children) => {
                let mut refs = [&ChildRef::EMPTY; 16];
                for (n, child) in children.inner() {
                    refs[usize::from(n)] = child.reference(depth + 1);
                }
                for (n, leaf) in children.leaves() {
                    refs[usize::from(n)] = leaf.reference(depth + 1);
                }
                codec::encode_branch(&refs, rlp);
            }
        }
    }
}

impl<V: LeafValue> CowTrie<V> {
    /// Returns a trie without keys.
    pub fn empty() -> Self {
        Self { base: None, root: Link::empty() }
    }

    /// Returns a trie of the given root, all of whose nodes are in the store.
    pub fn stored(root: B256) -> Self {
        let empty = root == EMPTY_ROOT;
        let root = if empty { Link::empty() } else { Link::stored(ChildRef::hashed(root)) };
        Self { base: None, root }
    }

    /// Returns the trie that the rows hold. Its root node is loaded, so its root can be computed.
    ///
    /// # Errors
    ///
    /// If the row of the root is damaged, or the store fails.
    pub fn of_rows(rows: &impl RowSource) -> Result<Self> {
        let path = Nibbles::new();
        let mut row = Vec::new();
        let found = rows.load(&path, &mut row)?;
        let root = if found { Link::new(row::read(&path, &row, 0)?) } else { Link::empty() };
        Ok(Self { base: None, root })
    }

    /// Returns the part of a larger trie below the first nibble of its keys, with all nodes in the store; `reference`
    /// is RLP as [`Self::root_reference`] returns it.
    ///
    /// # Errors
    ///
    /// If the bytes are not one reference.
    pub fn stored_part(nibble: u8, reference: &[u8]) -> Result<Self, &'static str> {
        let mut item = reference;
        let reference = ChildRef::decode(&mut item)?;
        if !item.is_empty() {
            return Err("bytes after a reference");
        }
        Ok(Self { base: Some(nibble), root: Link::stored(reference) })
    }

    /// Returns the path of the root node: one nibble in a part, else none.
    pub(super) fn path(&self) -> Nibbles {
        self.base.map_or_else(Nibbles::new, |nibble| Nibbles::from_nibbles([nibble]))
    }

    /// Returns the length of that path in nibbles.
    pub(super) const fn depth(&self) -> usize {
        self.base.is_some() as usize
    }

    /// Whether the trie has no keys.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// Whether both tries have the same root node or equal references to it.
    pub fn is_same(&self, other: &Self) -> bool {
        self.root.is_shared(&other.root)
            || self.root.reference(self.depth()) == other.root.reference(self.depth())
    }

    /// Returns the RLP of the reference to the root node, as its parent holds it.
    pub fn root_reference(&self) -> Vec<u8> {
        let mut item = vec![0; ChildRef::LONGEST];
        let length = self.root.reference(self.depth()).write(&mut item);
        item.truncate(length);
        item
    }

    /// Returns the root hash. Computes every reference below that is not computed yet.
    pub fn root(&self) -> B256 {
        let reference = self.root.reference(self.depth());
        if reference.is_empty() {
            return EMPTY_ROOT;
        }
        reference.hash()
    }
}
