//! Nodes, links between them, and their references.

use super::{
    children::{Child, Children, Item},
    row,
};
use crate::{
    EMPTY_ROOT, LeafValue, Nibbles, RowSource, SlotValue, TrieError,
    codec::{self, ChildRef},
};
use alloy_primitives::{B256, keccak256};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// A leaf value that may hold a trie of its own.
pub trait CowValue: LeafValue {
    /// The value without what it need not keep in memory; `None` if nothing changes.
    fn pruned(&self, keep: &super::Keep) -> Option<Self> {
        let _ = keep;
        None
    }

    /// Bytes of memory beyond those of the value itself.
    fn bytes(&self) -> usize {
        0
    }
}

impl CowValue for SlotValue {}

/// One version of a trie. Cloning it costs a pointer, and what is changed afterwards is no longer shared.
#[derive(Debug)]
pub struct CowTrie<V> {
    /// The nibble at which it begins, if it is the part of a larger trie.
    pub(super) base: Option<u8>,
    pub(super) root: Link<V>,
}

impl<V> Clone for CowTrie<V> {
    fn clone(&self) -> Self {
        Self { base: self.base, root: self.root.clone() }
    }
}

/// A node as its parent holds it. Its reference stands here and not in the node, so that hashing a branch takes the branch
/// alone.
#[derive(Debug)]
pub(super) struct Link<V> {
    /// Not set while it is not known; empty if there is no node.
    reference: OnceLock<ChildRef>,
    /// Not set while the node is in the store only. Loaded on first use, for all versions that share the parent.
    node: OnceLock<Arc<Node<V>>>,
}

impl<V> Clone for Link<V> {
    fn clone(&self) -> Self {
        Self { reference: self.reference.clone(), node: self.node.clone() }
    }
}

/// A node with a row of its own: every one but leaves that are in their branch.
#[derive(Debug)]
pub(super) struct Node<V> {
    pub(super) kind: Kind<V>,
    /// Number of the last change that changed it; 0 if it is as it came from the store.
    pub(super) born: u64,
    /// Number of the last change that touched it.
    pub(super) used: AtomicU64,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(super) struct Leaf<V> {
    pub(super) key: B256,
    pub(super) value: V,
    reference: OnceLock<ChildRef>,
    /// As that of a node.
    pub(super) born: u64,
}

#[derive(Debug, Clone)]
pub(super) enum Kind<V> {
    /// The root of a trie with one key. What is put together from a witness may have more of them, as it does not know
    /// what its references lead to.
    Leaf(Box<Leaf<V>>),
    Extension {
        /// Never empty.
        prefix: Nibbles,
        /// Always a branch.
        child: Box<Link<V>>,
    },
    /// At least two children.
    Branch(Children<V>),
}

impl<V> Leaf<V> {
    pub(super) fn new(key: B256, value: V, born: u64) -> Self {
        Self { key, value, reference: OnceLock::new(), born }
    }

    /// This leaf at another depth.
    pub(super) fn moved(self) -> Self {
        Self { reference: OnceLock::new(), ..self }
    }

    /// This leaf with its value in another form.
    pub(super) fn with(&self, value: V) -> Self {
        Self { key: self.key, value, reference: self.reference.clone(), born: self.born }
    }

    /// The value, to be changed by the change `now`.
    pub(super) fn changed(&mut self, now: u64) -> &mut V {
        self.born = now;
        self.reference = OnceLock::new();
        &mut self.value
    }

    /// Whether its reference is known.
    pub(super) fn is_resolved(&self) -> bool {
        self.reference.get().is_some()
    }

    /// Says what its reference is.
    pub(super) fn refer(&self, reference: ChildRef) {
        // Another thread may have been faster; both found the same.
        let _ = self.reference.set(reference);
    }
}

impl<V: LeafValue> Leaf<V> {
    /// What a parent holds of the leaf, which stands at `depth`.
    pub(super) fn reference(&self, depth: usize) -> &ChildRef {
        self.reference.get_or_init(|| {
            let mut rlp = Vec::with_capacity(128);
            self.encode(depth, &mut rlp, &mut Vec::new());
            ChildRef::to(&rlp)
        })
    }

    /// Appends the leaf's RLP; `scratch` is room to work in.
    pub(super) fn encode(&self, depth: usize, rlp: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        codec::encode_leaf(&self.key, depth, &self.value, rlp, scratch);
    }
}

impl<V> Node<V> {
    pub(super) fn new(kind: Kind<V>, born: u64) -> Self {
        Self { kind, born, used: AtomicU64::new(born) }
    }

    /// A node that came from the store.
    pub(super) fn stored(kind: Kind<V>, now: u64) -> Self {
        Self { kind, born: 0, used: AtomicU64::new(now) }
    }

    /// This node with other links to the nodes that it had.
    pub(super) fn relinked(&self, kind: Kind<V>) -> Self {
        let used = AtomicU64::new(self.used.load(Ordering::Relaxed));
        Self { kind, born: self.born, used }
    }

    pub(super) fn touch(&self, now: u64) {
        // A write would take the node away from the caches of other processors.
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    /// The leaf at a nibble, if it is a branch with one there.
    pub(super) fn leaf_at(&self, nibble: u8) -> Option<&Leaf<V>> {
        match &self.kind {
            Kind::Branch(children) => match children.get(nibble) {
                Some(Child::Leaf(leaf)) => Some(leaf),
                _ => None,
            },
            Kind::Leaf(_) | Kind::Extension { .. } => None,
        }
    }

    /// The leaf, if it is one.
    pub(super) const fn as_leaf(&self) -> Option<&Leaf<V>> {
        match &self.kind {
            Kind::Leaf(leaf) => Some(leaf),
            Kind::Extension { .. } | Kind::Branch(_) => None,
        }
    }
}

impl<V> Link<V> {
    /// To no node.
    pub(super) fn empty() -> Self {
        Self::stored(ChildRef::EMPTY)
    }

    /// To a node that the store has.
    pub(super) fn stored(reference: ChildRef) -> Self {
        Self { reference: OnceLock::from(reference), node: OnceLock::new() }
    }

    /// To a new node.
    pub(super) fn new(node: Node<V>) -> Self {
        Self { reference: OnceLock::new(), node: OnceLock::from(Arc::new(node)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reference.get().is_some_and(ChildRef::is_empty)
    }

    /// The node, if it is in memory.
    pub(super) fn in_memory(&self) -> Option<&Node<V>> {
        self.node.get().map(|node| &**node)
    }

    /// Whether both lead to one node in memory.
    pub(super) fn is_shared(&self, other: &Self) -> bool {
        self.node.get().zip(other.node.get()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// A link to another copy of the node.
    pub(super) fn to_copy(&self, node: Node<V>) -> Self {
        Self { reference: self.reference.clone(), node: OnceLock::from(Arc::new(node)) }
    }

    /// Whether its reference is known.
    pub(super) fn is_resolved(&self) -> bool {
        self.reference.get().is_some()
    }

    /// Says what its reference is.
    pub(super) fn refer(&self, reference: ChildRef) {
        // Another thread may have been faster; both found the same.
        let _ = self.reference.set(reference);
    }
}

impl<V: Clone> Link<V> {
    /// The node, if it is in memory, to be changed: its own copy if others share it.
    pub(super) fn to_mut(&mut self) -> Option<&mut Node<V>> {
        let node = self.node.get_mut()?;
        if Arc::get_mut(node).is_none() {
            *node = Arc::new(node.relinked(node.kind.clone()));
        }
        Arc::get_mut(node)
    }

    /// The node, if it is in memory, as what the change `now` made of it.
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
    /// The node, loaded and kept if it was not in memory; `None` where there is none.
    pub(super) fn resolve(
        &self,
        path: impl FnOnce() -> Nibbles,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Option<&Node<V>>, TrieError> {
        if self.node.get().is_none() && !self.is_empty() {
            let node = self.load(&path(), rows, now)?;
            // Another thread may have been faster; both loaded the same.
            let _ = self.node.set(Arc::new(node));
        }
        Ok(self.in_memory())
    }

    /// Reads the node, whose place this is.
    pub(super) fn load(
        &self,
        path: &Nibbles,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Node<V>, TrieError> {
        let mut bytes = Vec::with_capacity(1_024);
        if let Some(hash) = self.reference.get().and_then(ChildRef::as_hash)
            && rows.given(path, &hash, &mut bytes)
        {
            return row::read_given(path, &bytes, now);
        }
        if rows.load(path, &mut bytes)? {
            let node = row::read(path, &bytes, now)?;
            if rows.is_doubted() {
                self.expect(&node, path)?;
            }
            return Ok(node);
        }
        self.leaf_above(path, rows, now)?.ok_or(TrieError::Missing { path: *path })
    }

    /// Compares a node that was read at a path with the reference.
    ///
    /// # Errors
    ///
    /// [`TrieError::Malformed`] if it is another one.
    pub(super) fn expect(&self, node: &Node<V>, path: &Nibbles) -> Result<(), TrieError> {
        let mut rlp = Vec::with_capacity(600);
        node.encode(path.len(), &mut rlp, &mut Vec::new());
        let reference = self.reference(path.len());
        let is_it = match reference.as_hash() {
            // The root of a trie is referred to by hash, however short it is.
            Some(hash) => keccak256(&rlp) == hash,
            None => ChildRef::to(&rlp) == *reference,
        };
        let reason = "it is not what its parent refers to";
        if is_it { Ok(()) } else { Err(TrieError::Malformed { path: *path, reason }) }
    }

    /// The leaf in the stored row of the branch above, if this leads to it: a row that was given may have taken it for a node
    /// of its own.
    fn leaf_above(
        &self,
        path: &Nibbles,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Option<Node<V>>, TrieError> {
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

    /// What a parent holds of the node; the node stands at `depth`.
    pub(super) fn reference(&self, depth: usize) -> &ChildRef {
        self.reference.get_or_init(|| {
            let Some(node) = self.in_memory() else { return ChildRef::EMPTY };
            let mut rlp = Vec::with_capacity(600);
            node.encode(depth, &mut rlp, &mut Vec::new());
            ChildRef::to(&rlp)
        })
    }
}

/// Reads the node at a path from the store.
pub(super) fn load<V: LeafValue>(
    path: &Nibbles,
    rows: &impl RowSource,
    now: u64,
) -> Result<Node<V>, TrieError> {
    let mut bytes = Vec::with_capacity(1_024);
    if !rows.load(path, &mut bytes)? {
        return Err(TrieError::Missing { path: *path });
    }
    row::read(path, &bytes, now)
}

/// Reads a node from its RLP.
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

/// Decodes a node; an error names its path.
pub(super) fn rlp_node<V: LeafValue>(path: &Nibbles, rlp: &[u8]) -> Result<Kind<V>, TrieError> {
    decode(path, rlp).map_err(|reason| TrieError::Malformed { path: *path, reason })
}

impl<V: LeafValue> Node<V> {
    /// Appends the node's RLP; `scratch` is room to work in.
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
    /// The trie without keys.
    pub fn empty() -> Self {
        Self { base: None, root: Link::empty() }
    }

    /// The trie of the given root, all of it in the store.
    pub fn stored(root: B256) -> Self {
        let empty = root == EMPTY_ROOT;
        let root = if empty { Link::empty() } else { Link::stored(ChildRef::hashed(root)) };
        Self { base: None, root }
    }

    /// The trie that the rows hold. Its root node is in memory then, so its root is known.
    ///
    /// # Errors
    ///
    /// If the root's row is damaged, or the store fails.
    pub fn of_rows(rows: &impl RowSource) -> Result<Self, TrieError> {
        let path = Nibbles::new();
        let mut row = Vec::new();
        let found = rows.load(&path, &mut row)?;
        let root = if found { Link::new(row::read(&path, &row, 0)?) } else { Link::empty() };
        Ok(Self { base: None, root })
    }

    /// The part of a larger trie below the first nibble of its keys, all of it in the store; `reference` is
    /// what [`Self::root_reference`] gave.
    ///
    /// # Errors
    ///
    /// If that is no reference.
    pub fn stored_part(nibble: u8, reference: &[u8]) -> Result<Self, &'static str> {
        let mut item = reference;
        let reference = ChildRef::decode(&mut item)?;
        if !item.is_empty() {
            return Err("bytes after a reference");
        }
        Ok(Self { base: Some(nibble), root: Link::stored(reference) })
    }

    /// The path at which it begins.
    pub(super) fn path(&self) -> Nibbles {
        self.base.map_or_else(Nibbles::new, |nibble| Nibbles::from_nibbles([nibble]))
    }

    /// How long that is.
    pub(super) const fn depth(&self) -> usize {
        self.base.is_some() as usize
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// Whether both are the same version, or equal.
    pub fn is_same(&self, other: &Self) -> bool {
        self.root.is_shared(&other.root)
            || self.root.reference(self.depth()) == other.root.reference(self.depth())
    }

    /// The reference to the root node as its parent holds it, as RLP.
    pub fn root_reference(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.root.reference(self.depth()).encode(&mut out);
        out
    }

    /// The root hash, resolving every reference that is not known yet.
    pub fn root(&self) -> B256 {
        let reference = self.root.reference(self.depth());
        if reference.is_empty() {
            return EMPTY_ROOT;
        }
        reference.hash()
    }
}
