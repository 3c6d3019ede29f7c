//! The commit of one epoch: the changes of a block are converted to rows and a commitment.
//!
//! 1. Versions: the version of each changed key is incremented; a new key gets a place and version 1.
//! 2. Points: each changed key has the point of its entry and slot, and each changed tree has a point of the entry
//!    above; the points of every tree are summed in the same batched rounds.
//! 3. Tuples: the hash of each changed key's tuple, in the order of the write set, then of each changed tree's, the
//!    deepest first; their Merkle root is appended to the history.
//!
//! If witnesses are kept, their nodes are updated beside the commitments.

use crate::{
    ENTRIES, EPOCHS, HISTORY, LEAVES, META, TREES,
    allocation::{Allocator, EntryRow},
    hashing::hash_all,
    history::node_key,
    kept::{Counts, KeptRows, Share, update},
    key::Key,
    log::{CHUNK, Epoch, chunk_key, write_chunk},
    meta::Meta,
    path::{Path, RowKey, entry_index},
    record::{KeyRecord, Position, RecordRef, Value, next_version},
    trees::{LvmtHead, LvmtHeadUpdate, Tree, read_trees},
    undo::{OldRows, Remarks},
};
use alloy_primitives::B256;
use polytrie_amt::{Counting, Direction, G1Affine, Setup};
use polytrie_kv::{Batch, Read, Table};
use polytrie_state::Result;
use rayon::prelude::*;
use std::{cmp::Ordering, mem};

/// The range of a row among the rows that a block has read, all in one buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) start: usize,
    pub(crate) len: u32,
}

impl Stored {
    /// Returns the row.
    pub(crate) fn row(self, rows: &[u8]) -> &[u8] {
        &rows[self.start..][..self.len as usize]
    }
}

/// The change of a key.
#[derive(Debug)]
pub(crate) struct KeyChange {
    pub(crate) key: Key,
    /// The row of its former record; `None` for a key that was never written.
    pub(crate) old: Option<Stored>,
    pub(crate) value: Value,
}

/// A committed epoch, not written yet.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) batch: Batch,
    /// The undo record; empty if none was requested.
    pub(crate) undo: Vec<u8>,
    pub(crate) update: LvmtHeadUpdate,
}

/// A changed key with its new record, and the row of the old one.
struct Changed<'a> {
    key: Key,
    position: B256,
    old: Option<&'a [u8]>,
    new: KeyRecord,
}

/// A changed tree.
struct ChangedTree {
    path: Path,
    old: Tree,
    new: Tree,
}

/// The increment of a version in an entry of a tree. After sorting, those of a tree are neighbours.
#[derive(Debug, Clone, Copy)]
struct Increment {
    /// The first 64 bits of the position, as a number.
    head: u64,
    /// The number of the changed key or, beyond the keys, of the changed tree that is counted.
    of: u32,
}

/// Commits the changes, of which there must be at least one, on top of `head`. `read` holds the rows that they
/// replace. The witnesses of `share` are updated. With remarks, an undo record is made.
pub(crate) fn commit(
    store: &dyn Read,
    setup: &Setup,
    share: Option<Share>,
    head: &LvmtHead,
    changes: Vec<KeyChange>,
    read: &[u8],
    remarks: Option<&Remarks<'_>>,
) -> Result<Committed> {
    let height = setup.height();
    let epoch = head.history.size();
    if epoch >= Position::MAX_EPOCHS {
        return Err(crate::unsupported("counts to 2^40 blocks, and they are all used"));
    }
    let (changed, entries) = versions(store, height, epoch, changes, read)?;
    let (leaves, trees) = rayon::join(
        || {
            hash_all(changed.len(), |n, bytes| {
                changed[n].new.write_tuple(&changed[n].position, bytes);
            })
        },
        || sum(store, setup, share, head, &changed),
    );
    let mut leaves = leaves;
    let Sums { root, mut trees, kept } = trees?;
    for (n, tree) in trees.iter_mut().enumerate() {
        // A block changes far fewer than 2^32 keys.
        tree.new.at = Position { epoch, leaf: (leaves.len() + n) as u32 };
    }
    leaves.extend(hash_all(trees.len(), |n, bytes| {
        trees[n].new.write_tuple(&trees[n].path, bytes);
    }));
    let tuples = Epoch::of(&leaves);
    let mut history = head.history.clone();
    let nodes = history.append(tuples.root());

    let rows = EpochRows {
        setup,
        share,
        head,
        epoch,
        changed: &changed,
        entries: &entries,
        root,
        trees: &trees,
        leaves: &leaves,
        tuples: &tuples,
        nodes: &nodes,
    };
    let (batch, undo) = rayon::join(
        || {
            let mut batch = Batch::with_capacity(rows.count(), rows.count() * 128);
            rows.write(&mut |table, key, new, _| batch.put_with(table, key, new));
            kept.write(&mut batch);
            batch
        },
        || {
            let mut old = OldRows::new(rows.count(), remarks?);
            rows.write(&mut |table, key, _, before| old.remember(table.id, key, before));
            Some(old.finish())
        },
    );
    let first = trees
        .iter()
        .filter(|tree| tree.path.level == 1)
        .map(|tree| (entry_index(height, 0, &tree.path.prefix), tree.new))
        .collect();
    let undo = undo.unwrap_or_default();
    Ok(Committed { batch, undo, update: LvmtHeadUpdate { root, first, history } })
}

/// Returns the positions of the changed keys: the hash of a slot's row; an account's row is a hash already.
fn positions(changes: &[KeyChange]) -> Vec<B256> {
    let mut positions = hash_all(changes.len(), |n, bytes| {
        if let Key::Slot { .. } = changes[n].key {
            bytes.extend_from_slice(&changes[n].key.row());
        }
    });
    for (position, change) in positions.iter_mut().zip(changes) {
        if let Key::Account(hash) = change.key {
            *position = hash;
        }
    }
    positions
}

type Entries = Vec<(RowKey, EntryRow)>;
type Versions<'a> = (Vec<Changed<'a>>, Entries);

/// Does step 1: computes every key's next version and the position of its tuple.
fn versions<'a>(
    store: &dyn Read,
    height: u8,
    epoch: u64,
    changes: Vec<KeyChange>,
    read: &'a [u8],
) -> Result<Versions<'a>> {
    let positions = positions(&changes);
    let new_keys: Vec<B256> = changes
        .iter()
        .zip(&positions)
        .filter(|(change, _)| change.old.is_none())
        .map(|(_, position)| *position)
        .collect();
    let mut allocator = Allocator::new(store, height, &new_keys)?;
    let mut changed = Vec::with_capacity(changes.len());
    for (n, (KeyChange { key, old, value }, position)) in
        changes.into_iter().zip(positions).enumerate()
    {
        let old = old.map(|old| old.row(read));
        let (place, version) = match old {
            Some(old) => {
                let old = RecordRef::read(old)?;
                (old.place, next_version(old.version)?)
            }
            None => (allocator.place(&key, &position)?, 1),
        };
        let at = Position { epoch, leaf: n as u32 };
        changed.push(Changed { key, position, old, new: KeyRecord { place, version, at, value } });
    }
    Ok((changed, allocator.into_changed()))
}

/// The result of step 2.
struct Sums {
    /// The commitment of the root.
    root: G1Affine,
    /// All other changed trees, the deepest first, each with its next version.
    trees: Vec<ChangedTree>,
    /// The changed nodes of witnesses.
    kept: KeptRows,
}

/// Does step 2: computes the new commitments, and the nodes of witnesses that are kept.
fn sum(
    store: &dyn Read,
    setup: &Setup,
    share: Option<Share>,
    head: &LvmtHead,
    changed: &[Changed<'_>],
) -> Result<Sums> {
    let height = setup.height();
    let deepest = changed.iter().map(|change| change.new.place.level).max().unwrap_or(0);
    let mut levels: Vec<Vec<Increment>> = vec![Vec::new(); usize::from(deepest) + 1];
    for (change, n) in changed.iter().zip(0..) {
        levels[usize::from(change.new.place.level)].push(Increment::new(&change.position, n));
    }
    // The trees of levels 0 and 1 are in memory, and the others are read together.
    let deep = changed.iter().flat_map(|change| {
        let levels = 2..=change.new.place.level;
        levels.map(move |level| Path::of(height, level, &change.position))
    });
    let deep = read_trees(store, height, deep.collect())?;
    let mut trees: Vec<ChangedTree> = Vec::new();
    let mut counting = Counting::new(setup, changed.len() + 1, 2 * changed.len());
    let mut counts = share.map(|share| Counts::new(height, share));
    for level in (0..=deepest).rev() {
        let mut increments = mem::take(&mut levels[usize::from(level)]);
        // The position of the counted key (its slot) or tree (slot 0).
        let position = |n: u32| match changed.get(n as usize) {
            Some(key) => &key.position,
            None => &trees[n as usize - changed.len()].path.prefix,
        };
        let bits = usize::from(height) * usize::from(level);
        // If the first 64 bits decide the tree, the other bits need not be compared.
        let rest = |a: &Increment, b: &Increment| {
            if bits <= 64 { Ordering::Equal } else { position(a.of).cmp(position(b.of)) }
        };
        increments.par_sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| rest(a, b)));
        let same = |a: &Increment, b: &Increment| match bits {
            0 => true,
            1..=64 => (a.head ^ b.head) >> (64 - bits) == 0,
            _ => Path::of(height, level, position(a.of)) == Path::of(height, level, position(b.of)),
        };
        let mut found = Vec::new();
        for group in increments.chunk_by(same) {
            let path = Path::of(height, level, position(group[0].of));
            let old = match deep.get(&path) {
                Some(tree) => *tree,
                None => head.tree(store, height, &path)?,
            };
            let count = |increment: &Increment| {
                let slot = changed.get(increment.of as usize).map_or(0, |key| key.new.place.slot);
                let index = match bits + usize::from(height) {
                    // The first 64 bits contain the index.
                    ..=64 => (increment.head << bits >> (64 - height)) as u32,
                    _ => entry_index(height, level, position(increment.of)),
                };
                (usize::from(slot), index)
            };
            counting.vector(old.commitment, group.iter().map(count));
            if let Some(counts) = &mut counts {
                counts.tree(path, group.iter().map(count));
            }
            if level > 0 {
                let new = Tree { version: next_version(old.version)?, ..old };
                found.push(ChangedTree { path, old, new });
            }
        }
        if let Some(above) = level.checked_sub(1) {
            // A block changes far fewer than 2^32 keys.
            let first = (changed.len() + trees.len()) as u32;
            let below = found.iter().zip(first..);
            levels[usize::from(above)]
                .extend(below.map(|(tree, n)| Increment::new(&tree.path.prefix, n)));
        }
        trees.append(&mut found);
    }
    let (sums, kept) = rayon::join(
        || counting.finish(),
        || {
            let update = |counts| update(store, setup, counts, Direction::Up);
            counts.map_or_else(|| Ok(KeptRows::default()), update)
        },
    );
    for (tree, sum) in trees.iter_mut().zip(&sums) {
        tree.new.commitment = *sum;
    }
    // The root is the last tree: every tree below it makes it change.
    let root = sums.last().copied().unwrap_or(head.root);
    Ok(Sums { root, trees, kept: kept? })
}

impl Increment {
    fn new(position: &B256, of: u32) -> Self {
        let mut head = [0; 8];
        head.copy_from_slice(&position[..8]);
        Self { head: u64::from_be_bytes(head), of }
    }
}

/// A visitor of rows: it gets the table, the key, and functions that append the new and the former content. The latter
/// returns `false` if there was no row.
type Put<'a> = dyn FnMut(Table, &[u8], &dyn Fn(&mut Vec<u8>), &dyn Fn(&mut Vec<u8>) -> bool) + 'a;

/// The rows that an epoch writes.
struct EpochRows<'a> {
    setup: &'a Setup,
    share: Option<Share>,
    /// The head before the epoch.
    head: &'a LvmtHead,
    epoch: u64,
    changed: &'a [Changed<'a>],
    entries: &'a Entries,
    root: G1Affine,
    trees: &'a [ChangedTree],
    leaves: &'a [B256],
    tuples: &'a Epoch,
    /// The new nodes of the history: level, index, hash.
    nodes: &'a [(u32, u64, B256)],
}

impl EpochRows<'_> {
    /// Estimates the number of rows.
    fn count(&self) -> usize {
        self.changed.len() + self.trees.len() + self.entries.len() + self.leaves.len() / CHUNK + 32
    }

    /// Visits the rows.
    fn write(&self, put: &mut Put<'_>) {
        for Changed { key, old, new, .. } in self.changed {
            let old = |out: &mut Vec<u8>| old.inspect(|old| out.extend_from_slice(old)).is_some();
            put(key.table(), &key.row(), &|out| new.write(out), &old);
        }
        for (key, EntryRow { before, now, .. }) in self.entries {
            let old = |out: &mut Vec<u8>| {
                before.as_ref().inspect(|old| out.extend_from_slice(old)).is_some()
            };
            put(ENTRIES, key, &|out| out.extend_from_slice(now), &old);
        }
        self.write_trees(put);
        let new = |_: &mut Vec<u8>| false;
        for (n, chunk) in (0..).zip(self.leaves.chunks(CHUNK)) {
            put(LEAVES, &chunk_key(self.epoch, n), &|out| write_chunk(chunk, out), &new);
        }
        let row = |out: &mut Vec<u8>| out.extend_from_slice(&self.tuples.row());
        put(EPOCHS, &self.epoch.to_be_bytes(), &row, &new);
        for (level, index, hash) in self.nodes {
            let row = |out: &mut Vec<u8>| out.extend_from_slice(hash.as_slice());
            put(HISTORY, &node_key(*level, *index), &row, &new);
        }
        let meta = |epochs, out: &mut Vec<u8>| {
            let meta = Meta { setup: self.setup.id(), epochs, share: self.share };
            out.extend_from_slice(&meta.row());
        };
        let before = |out: &mut Vec<u8>| (self.epoch > 0).then(|| meta(self.epoch, out)).is_some();
        put(META, &[], &|out| meta(self.epoch + 1, out), &before);
    }

    fn write_trees(&self, put: &mut Put<'_>) {
        let height = self.setup.height();
        let mut put = |path: &Path, old: Option<&Tree>, new: &Tree| {
            let old = |out: &mut Vec<u8>| old.inspect(|old| old.write(path, out)).is_some();
            put(TREES, &path.row_key(height), &|out| new.write(path, out), &old);
        };
        for tree in self.trees {
            put(&tree.path, Some(&tree.old).filter(|old| old.version > 0), &tree.new);
        }
        let [old, new] =
            [self.head.root, self.root].map(|root| Tree { commitment: root, ..Tree::NEVER });
        put(&Path::ROOT, Some(&old).filter(|_| self.epoch > 0), &new);
    }
}
