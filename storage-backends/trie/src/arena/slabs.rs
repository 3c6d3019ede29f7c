//! The memory of nodes: three slabs, addressed by small numbers.
//!
//! A number is four bytes instead of a pointer's eight, a freed place is used again without going through the
//! allocator, and memory is counted from three lengths.

use crate::{Nibbles, codec::ChildRef};
use alloy_primitives::B256;

/// The position of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Link {
    /// There is no child.
    #[default]
    Empty,
    /// The child is only in the store: a branch, or an extension with its branch.
    Stored,
    /// The child is a leaf in memory.
    Leaf(u32),
    /// The child is an extension in memory.
    Extension(u32),
    /// The child is a branch in memory.
    Branch(u32),
}

/// The state of a node besides its content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    /// The block in which the node was last touched (wrapping).
    pub(crate) touched: u32,
    /// Whether the reference in its parent is out of date.
    pub(crate) unhashed: bool,
    /// Whether its row is missing or out of date.
    pub(crate) unsaved: bool,
    /// Whether there is a row at the node's path (perhaps out of date, perhaps of an earlier node at that path). Only
    /// the root, extensions, and branches that follow no extension have one.
    pub(crate) has_row: bool,
}

impl Status {
    pub(crate) const fn fresh(touched: u32, has_row: bool) -> Self {
        Self { touched, unhashed: true, unsaved: true, has_row }
    }

    pub(crate) const fn loaded(touched: u32) -> Self {
        Self { touched, unhashed: false, unsaved: false, has_row: true }
    }

    pub(crate) const fn is_clean(self) -> bool {
        !self.unhashed && !self.unsaved
    }

    pub(crate) const fn changed(&mut self) {
        self.unhashed = true;
        self.unsaved = true;
    }
}

#[derive(Debug)]
pub(crate) struct Leaf<V> {
    /// The whole key; the node itself holds the part after its path.
    pub(crate) key: B256,
    pub(crate) value: V,
    pub(crate) status: Status,
}

#[derive(Debug)]
pub(crate) struct Extension {
    /// The nibbles of the extension; never empty.
    pub(crate) prefix: Nibbles,
    /// The child, which is always a branch in memory.
    pub(crate) child: Link,
    /// The reference of the child; empty if it is not known.
    pub(crate) child_ref: ChildRef,
    pub(crate) status: Status,
}

/// The references to the children of a branch. Most branches have two or three children, so there is memory only for
/// known references: a branch in memory is a third as large as with sixteen of them.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    /// A bit for each nibble with a known reference.
    known: u16,
    items: Vec<ChildRef>,
}

impl Refs {
    /// Creates an empty list with room for `count` references.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { known: 0, items: Vec::with_capacity(count) }
    }

    /// Returns the reference to a child; empty if it is not known.
    pub(crate) fn get(&self, nibble: u8) -> &ChildRef {
        if self.known & (1 << nibble) == 0 {
            return &ChildRef::EMPTY;
        }
        &self.items[self.position(nibble)]
    }

    pub(crate) fn set(&mut self, nibble: u8, reference: ChildRef) {
        let at = self.position(nibble);
        if self.known & (1 << nibble) == 0 {
            self.known |= 1 << nibble;
            self.items.insert(at, reference);
        } else {
            self.items[at] = reference;
        }
    }

    pub(crate) fn forget(&mut self, nibble: u8) {
        if self.known & (1 << nibble) != 0 {
            self.items.remove(self.position(nibble));
            self.known &= !(1 << nibble);
        }
    }

    /// Returns all references, by nibble.
    pub(crate) fn each(&self) -> [&ChildRef; 16] {
        let mut items = self.items.iter();
        std::array::from_fn(|nibble| match self.known & (1 << nibble) {
            0 => &ChildRef::EMPTY,
            _ => items.next().unwrap_or(&ChildRef::EMPTY),
        })
    }

    fn position(&self, nibble: u8) -> usize {
        (self.known & ((1 << nibble) - 1)).count_ones() as usize
    }

    /// Bytes of memory beside the branch itself.
    fn bytes(&self) -> usize {
        self.items.capacity() * size_of::<ChildRef>()
    }
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) children: [Link; 16],
    /// References to the children; out of date for those in `unhashed`, and empty for leaves that were never hashed.
    pub(crate) refs: Refs,
    /// A bit for each child that changed since this node was hashed.
    pub(crate) unhashed: u16,
    /// A bit for each child that changed since this node was saved.
    pub(crate) unsaved: u16,
    pub(crate) status: Status,
}

impl Branch {
    pub(crate) fn new(status: Status) -> Self {
        Self { children: [Link::Empty; 16], refs: Refs::default(), unhashed: 0, unsaved: 0, status }
    }

    /// Replaces a child, and marks it as changed.
    pub(crate) fn set_child(&mut self, nibble: u8, child: Link) {
        self.children[nibble as usize] = child;
        let bit = 1 << nibble;
        if child == Link::Empty {
            self.refs.forget(nibble);
            self.unhashed &= !bit;
            self.unsaved &= !bit;
        } else {
            self.unhashed |= bit;
            self.unsaved |= bit;
        }
    }

    /// Bytes of memory of the branch.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Option<Self>>() + self.refs.bytes()
    }

    /// Returns the only child left; `None` if there are several, `Err` if there is none.
    pub(crate) fn only_child(&self) -> Result<Option<u8>, ()> {
        let mut found = None;
        for (nibble, child) in (0u8..).zip(&self.children) {
            if *child != Link::Empty {
                if found.is_some() {
                    return Ok(None);
                }
                found = Some(nibble);
            }
        }
        found.map(Some).ok_or(())
    }
}

/// Number of items of a chunk; the first one grows up to it.
const CHUNK: usize = 512;

/// Items in chunks that stay where they are: growing never copies items, nor holds them twice meanwhile.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// The chunks, all full but the last.
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn add(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            *self.place(id) = Some(item);
            return id;
        }
        // Four billion nodes would be 600 GB: memory ends long before the numbers do.
        let id = self.len() as u32;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(Some(item)),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(Some(item));
                self.chunks.push(chunk);
            }
            None => self.chunks.push(vec![Some(item)]),
        }
        id
    }

    pub(crate) fn take(&mut self, id: u32) -> T {
        self.free.push(id);
        self.place(id).take().expect("a link leads to a live node")
    }

    pub(crate) fn get(&self, id: u32) -> &T {
        let item = &self.chunks[id as usize / CHUNK][id as usize % CHUNK];
        item.as_ref().expect("a link leads to a live node")
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        self.place(id).as_mut().expect("a link leads to a live node")
    }

    fn place(&mut self, id: u32) -> &mut Option<T> {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// Returns the number of places, free ones included.
    fn len(&self) -> usize {
        match self.chunks.split_last() {
            Some((last, full)) => full.len() * CHUNK + last.len(),
            None => 0,
        }
    }

    /// Bytes of memory of the items in use and of the tables that lead to them.
    fn bytes(&self) -> usize {
        (self.len() - self.free.len()) * size_of::<Option<T>>()
            + self.chunks.capacity() * size_of::<Vec<Option<T>>>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// Frees the unused memory at the end.
    fn shrink(&mut self) {
        while let Some(chunk) = self.chunks.last_mut() {
            while matches!(chunk.last(), Some(None)) {
                chunk.pop();
            }
            if !chunk.is_empty() {
                break;
            }
            self.chunks.pop();
        }
        let len = self.len() as u32;
        self.free.retain(|id| *id < len);
        self.free.shrink_to(2 * self.free.len());
        if let [only] = &mut self.chunks[..]
            && only.capacity() > 2 * only.len() + 16
        {
            only.shrink_to_fit();
            self.free.shrink_to_fit();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Arena<V> {
    pub(crate) leaves: Slab<Leaf<V>>,
    pub(crate) extensions: Slab<Extension>,
    pub(crate) branches: Slab<Branch>,
    /// Bytes of memory of the branches beside their places in the slab.
    ref_bytes: usize,
}

impl<V> Default for Arena<V> {
    fn default() -> Self {
        Self {
            leaves: Slab::default(),
            extensions: Slab::default(),
            branches: Slab::default(),
            ref_bytes: 0,
        }
    }
}

impl<V> Arena<V> {
    pub(crate) fn bytes(&self) -> usize {
        self.leaves.bytes() + self.extensions.bytes() + self.branches.bytes() + self.ref_bytes
    }

    pub(crate) fn add_branch(&mut self, branch: Branch) -> u32 {
        self.ref_bytes += branch.refs.bytes();
        self.branches.add(branch)
    }

    pub(crate) fn take_branch(&mut self, id: u32) -> Branch {
        let branch = self.branches.take(id);
        self.ref_bytes -= branch.refs.bytes();
        branch
    }

    /// Stores the reference of a hashed child of a branch; `saved` says whether the child was saved as well.
    pub(crate) fn set_reference(&mut self, id: u32, nibble: u8, reference: ChildRef, saved: bool) {
        let branch = self.branches.get_mut(id);
        let before = branch.refs.bytes();
        branch.refs.set(nibble, reference);
        self.ref_bytes += branch.refs.bytes() - before;
        branch.unhashed &= !(1 << nibble);
        if saved {
            branch.unsaved &= !(1 << nibble);
        }
    }

    pub(crate) fn shrink(&mut self) {
        self.leaves.shrink();
        self.extensions.shrink();
        self.branches.shrink();
    }

    pub(crate) fn status(&self, link: Link) -> Option<Status> {
        match link {
            Link::Empty | Link::Stored => None,
            Link::Leaf(id) => Some(self.leaves.get(id).status),
            Link::Extension(id) => Some(self.extensions.get(id).status),
            Link::Branch(id) => Some(self.branches.get(id).status),
        }
    }

    pub(crate) fn status_mut(&mut self, link: Link) -> Option<&mut Status> {
        match link {
            Link::Empty | Link::Stored => None,
            Link::Leaf(id) => Some(&mut self.leaves.get_mut(id).status),
            Link::Extension(id) => Some(&mut self.extensions.get_mut(id).status),
            Link::Branch(id) => Some(&mut self.branches.get_mut(id).status),
        }
    }
}
