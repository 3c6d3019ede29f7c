//! One epoch: the changes of a block turned into rows and a commitment.
//!
//! 1. Versions: one up for each changed key; a new key gets a place and version 1.
//! 2. Points: for each changed key the one of its entry and slot, for each tree that changes one for the entry
//!    above; every tree's points are summed in the same batched rounds.
//! 3. Tuples: the hash of each changed key's, in the order of the write set, then of each changed tree's, the
//!    deepest first; their Merkle root is appended to the history.

use crate::{
    ACCOUNTS, ENTRIES, EPOCHS, HISTORY, LEAVES, META, SLOTS, TREES,
    allocation::Allocator,
    history::{meta_row, node_key},
    key::Key,
    log::{CHUNK, Epoch, chunk_key, chunk_row},
    path::{Path, entry_index},
    record::{Position, Record, Value, next_version},
    trees::{Head, HeadUpdate, Tree},
    undo::{Remarks, Rows},
};
use alloy_primitives::B256;
use polytrie_amt::{Counting, G1Affine, Setup};
use polytrie_kv::{Batch, Read};
use polytrie_state::StateError;
use rayon::prelude::*;
use std::{cmp::Ordering, mem};

/// Work that one thread takes at a time.
const GRAIN: usize = 256;

/// A key that changes.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    /// Its record before; `None` for a key never seen.
    pub(crate) old: Option<Record>,
    pub(crate) value: Value,
}

/// An epoch, not written yet.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) batch: Batch,
    /// What takes it back; empty if nobody asked for it.
    pub(crate) undo: Vec<u8>,
    pub(crate) update: HeadUpdate,
}

/// A key with its new record.
struct Changed {
    key: Key,
    position: B256,
    old: Option<Record>,
    new: Record,
}

/// A tree that changes.
struct ChangedTree {
    path: Path,
    old: Tree,
    new: Tree,
}

/// One up in an entry of a tree. Sorted, those of a tree are neighbours.
#[derive(Debug, Clone, Copy)]
struct Increment {
    /// The first bits of the position.
    head: u64,
    /// Whose: the number of a changed key, or, beyond these, of a changed tree.
    of: u32,
}

/// Commits the changes, of which there must be one at least, on top of `head`. With remarks the block can be taken
/// back.
pub(crate) fn commit(
    store: &dyn Read,
    setup: &Setup,
    head: &Head,
    changes: Vec<Change>,
    remarks: Option<Remarks>,
) -> Result<Committed, StateError> {
    let height = setup.height();
    let epoch = head.history.size();
    if epoch >= Position::MAX_EPOCHS {
        let reason = "counts to 2^40 blocks, and they are all used".into();
        return Err(StateError::Unsupported { layer: crate::LvmtLayer::NAME, reason });
    }
    let (changed, entries) = versions(store, height, epoch, changes)?;
    let (leaves, trees) = rayon::join(
        || changed.par_iter().with_min_len(GRAIN).map(|c| c.new.leaf(&c.position)).collect(),
        || sum(store, setup, head, &changed),
    );
    let mut leaves: Vec<B256> = leaves;
    let (root, mut trees) = trees?;
    for (n, tree) in trees.iter_mut().enumerate() {
        // A block changes far fewer than 2^32 keys.
        tree.new.at = Position { epoch, leaf: (leaves.len() + n) as u32 };
    }
    leaves.par_extend(trees.par_iter().with_min_len(GRAIN).map(|tree| tree.new.leaf(&tree.path)));
    let tuples = Epoch::of(&leaves);

    let mut rows = Rows::new(changed.len() + trees.len() + entries.len(), remarks);
    put_records(&mut rows, &changed);
    for (key, entry) in &entries {
        rows.put(ENTRIES, key, &entry.now, entry.before.as_deref());
    }
    put_trees(&mut rows, height, head, &root, &trees);
    for (n, chunk) in leaves.chunks(CHUNK).enumerate() {
        rows.put(LEAVES, &chunk_key(epoch, n as u32), &chunk_row(chunk), None);
    }
    rows.put(EPOCHS, &epoch.to_be_bytes(), &tuples.row(), None);
    let mut history = head.history.clone();
    for (level, index, hash) in history.append(tuples.root()) {
        rows.put(HISTORY, &node_key(level, index), hash.as_slice(), None);
    }
    let before = (epoch > 0).then(|| meta_row(&setup.id(), epoch));
    rows.put(META, &[], &meta_row(&setup.id(), epoch + 1), before.as_deref());

    let first = trees
        .iter()
        .filter(|tree| tree.path.level == 1)
        .map(|tree| (entry_index(height, 0, &tree.path.prefix), tree.new))
        .collect();
    let (batch, undo) = rows.finish();
    Ok(Committed { batch, undo, update: HeadUpdate { root, first, history } })
}

type Versions = (Vec<Changed>, Vec<(crate::path::RowKey, crate::allocation::EntryRow)>);

/// Step 1: every key with its next version and its tuple's position.
fn versions(
    store: &dyn Read,
    height: u8,
    epoch: u64,
    changes: Vec<Change>,
) -> Result<Versions, StateError> {
    let positions: Vec<B256> =
        changes.par_iter().with_min_len(GRAIN).map(|change| change.key.position()).collect();
    let new_keys: Vec<B256> = changes
        .iter()
        .zip(&positions)
        .filter(|(change, _)| change.old.is_none())
        .map(|(_, position)| *position)
        .collect();
    let mut allocator = Allocator::new(store, height, &new_keys)?;
    let mut changed = Vec::with_capacity(changes.len());
    for (n, (Change { key, old, value }, position)) in
        changes.into_iter().zip(positions).enumerate()
    {
        let (place, version) = match &old {
            Some(old) => (old.place, next_version(old.version)?),
            None => (allocator.place(&key, &position)?, 1),
        };
        let at = Position { epoch, leaf: n as u32 };
        changed.push(Changed { key, position, old, new: Record { place, version, at, value } });
    }
    Ok((changed, allocator.into_changed()))
}

/// Step 2: the new commitments; of the root, and of all other trees that change, the deepest first, each with
/// its next version.
fn sum(
    store: &dyn Read,
    setup: &Setup,
    head: &Head,
    changed: &[Changed],
) -> Result<(G1Affine, Vec<ChangedTree>), StateError> {
    let height = setup.height();
    let deepest = changed.iter().map(|change| change.new.place.level).max().unwrap_or(0);
    let mut levels: Vec<Vec<Increment>> = vec![Vec::new(); usize::from(deepest) + 1];
    for (change, n) in changed.iter().zip(0..) {
        levels[usize::from(change.new.place.level)].push(Increment::new(&change.position, n));
    }
    let mut trees: Vec<ChangedTree> = Vec::new();
    let mut counting = Counting::new(setup, changed.len() + 1, 2 * changed.len());
    for level in (0..=deepest).rev() {
        let mut increments = mem::take(&mut levels[usize::from(level)]);
        // What is counted: the slot of a key, or slot 0 for a tree below.
        let position = |n: u32| match changed.get(n as usize) {
            Some(key) => &key.position,
            None => &trees[n as usize - changed.len()].path.prefix,
        };
        let bits = usize::from(height) * usize::from(level);
        // As far as the first 64 bits choose the tree, the rest need not be looked at.
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
            let old = head.tree(store, height, &path)?;
            let count = |increment: &Increment| {
                let slot = changed.get(increment.of as usize).map_or(0, |key| key.new.place.slot);
                let index = match bits + usize::from(height) {
                    // The first 64 bits have it.
                    ..=64 => (increment.head << bits >> (64 - height)) as u32,
                    _ => entry_index(height, level, position(increment.of)),
                };
                (usize::from(slot), index)
            };
            counting.vector(old.commitment, group.iter().map(count));
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
    let sums = counting.finish();
    for (tree, sum) in trees.iter_mut().zip(&sums) {
        tree.new.commitment = *sum;
    }
    // The root is the last one: every tree below it made it change.
    let root = sums.last().copied().unwrap_or(head.root);
    Ok((root, trees))
}

impl Increment {
    fn new(position: &B256, of: u32) -> Self {
        let mut head = [0; 8];
        head.copy_from_slice(&position[..8]);
        Self { head: u64::from_be_bytes(head), of }
    }
}

fn put_records(rows: &mut Rows, changed: &[Changed]) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for Changed { key, old, new, .. } in changed {
        after.clear();
        new.write(&mut after);
        let old = old.as_ref().map(|old| {
            before.clear();
            old.write(&mut before);
            &before[..]
        });
        let table = match key {
            Key::Account(_) => ACCOUNTS,
            Key::Slot { .. } => SLOTS,
        };
        rows.put(table, &key.row(), &after, old);
    }
}

fn put_trees(rows: &mut Rows, height: u8, head: &Head, root: &G1Affine, trees: &[ChangedTree]) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut put = |path: &Path, old: Option<&Tree>, new: &Tree| {
        after.clear();
        new.write(path, &mut after);
        let old = old.map(|old| {
            before.clear();
            old.write(path, &mut before);
            &before[..]
        });
        rows.put(TREES, &path.row_key(height), &after, old);
    };
    for tree in trees {
        put(&tree.path, Some(&tree.old).filter(|old| old.version > 0), &tree.new);
    }
    let old = Tree { commitment: head.root, ..Tree::NEVER };
    let new = Tree { commitment: *root, ..Tree::NEVER };
    put(&Path::ROOT, Some(&old).filter(|_| head.history.size() > 0), &new);
}
