//! One slice of a merge: computing it, and undoing it.

use super::schedule::SliceNumber;
use crate::{
    SNAPSHOT_TRIE, SWEEP, flat,
    generation::Generation,
    keys::{Key, Places, SlotKey},
    value::Value,
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, KeyRange, Read, Store};
use polytrie_state::{Result, ahead::Readers, corrupt, each_row};
use polytrie_trie::{Cut, Prefetcher, Rows, Trie, TrieTables};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    ops::{ControlFlow, Range},
    sync::Arc,
};

/// The account hash ‖ incarnation of a dead storage.
pub(crate) type DeadStorage = [u8; 40];

/// The tables of the snapshot's rows; the snapshot is a single trie.
const SNAPSHOT: TrieTables = TrieTables::new(SNAPSHOT_TRIE, SNAPSHOT_TRIE);

/// Number of entries of a slice whose paths are read ahead together.
const PORTION: usize = 1_024;

/// A merged slice.
#[derive(Debug, Default, Clone)]
pub(crate) struct Slice {
    /// The root of the snapshot after the slice.
    pub(crate) root: B256,
    /// The changed rows of the snapshot trie, the flat map and the queue of dead storage.
    pub(crate) batch: Batch,
    pub(crate) undo: SliceUndo,
}

/// The data that undoes a slice.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SliceUndo {
    /// The snapshot's former value of each key that the slice changed.
    pub(crate) merged: Vec<(Key, Option<Value>)>,
    /// The storages that the slice queued for sweeping.
    pub(crate) queued: Vec<DeadStorage>,
    /// The storages that the slice swept completely.
    pub(crate) swept: Vec<DeadStorage>,
}

impl Slice {
    /// Bytes of memory, estimated.
    pub(super) fn bytes(&self) -> usize {
        let SliceUndo { merged, queued, swept } = &self.undo;
        self.batch.memory_bytes()
            + merged.capacity() * size_of::<(Key, Option<Value>)>()
            + (queued.capacity() + swept.capacity()) * size_of::<DeadStorage>()
    }
}

/// The entries of a frozen intermediate in the order of the snapshot, without slots that died within its interval.
#[derive(Debug)]
pub(super) struct Plan {
    entries: Vec<(Key, Value)>,
    /// The places in the snapshot, sorted, with the indices of their entries.
    order: Vec<(B256, u32)>,
}

impl Plan {
    pub(super) fn new(intermediate: &Generation) -> Result<Self> {
        // The account of the last slot and, if the interval changed it, its incarnation at the end of the interval.
        let mut last: Option<(B256, Option<Option<u64>>)> = None;
        let mut is_alive = |slot: &SlotKey| -> Result<bool> {
            let life = match last {
                Some((account, life)) if account == slot.account => life,
                _ => {
                    let record = intermediate.account(&slot.account, u64::MAX)?;
                    record.map(|record| record.map(|record| record.incarnation))
                }
            };
            last = Some((slot.account, life));
            Ok(life.is_none_or(|life| life == Some(slot.incarnation)))
        };
        let (mut entries, mut looked_up) = (intermediate.entries()?, Ok(()));
        entries.retain(|(key, _)| match key {
            Key::Account(_) => true,
            Key::Slot(slot) => is_alive(slot).unwrap_or_else(|error| {
                looked_up = Err(error);
                true
            }),
        });
        looked_up?;
        let places = Places::snapshot().of_all(&entries, |(key, _)| key).into_iter();
        let mut order: Vec<_> = places.zip(0..).collect();
        order.sort_unstable_by_key(|(place, _)| *place);
        Ok(Self { entries, order })
    }

    fn places(&self, number: SliceNumber) -> impl Iterator<Item = &B256> {
        self.order[number.of(self.order.len())].iter().map(|(place, _)| place)
    }

    fn entries_at(&self, at: Range<usize>) -> impl Iterator<Item = (&B256, &Key, &Value)> {
        self.order[at].iter().map(|(place, at)| {
            let (key, value) = &self.entries[*at as usize];
            (place, key, value)
        })
    }
}

/// The snapshot between two merges.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) trie: Trie<Value>,
    /// The queue of dead storages; `None` if the next merge has to read it.
    queue: Option<BTreeSet<DeadStorage>>,
}

impl Merged {
    /// Returns the snapshot that the store holds, without any part of it in memory.
    pub(crate) fn stored(root: B256) -> Self {
        Self { trie: Trie::stored(root), queue: None }
    }
}

/// The snapshot in the course of a merge.
#[derive(Debug)]
pub(super) struct Merger {
    /// The rows of the nodes that are not in memory.
    source: Prefetcher,
    plan: Plan,
    /// Largest number of dead slots that one slice removes.
    most_swept: u64,
    trie: Trie<Value>,
    /// The slices that may not be written yet, and the approximate bytes of nodes that each loaded into memory.
    unsettled: VecDeque<(SliceNumber, usize)>,
    /// The height from which on downwards nodes are evicted, if they ever were.
    cut: Option<Cut>,
    /// The buffer in which a slice's batch is built.
    scratch: Batch,
    /// The queue of dead storages, in the order in which they are swept.
    queue: BTreeSet<DeadStorage>,
    /// The last swept slot of each storage that is not swept completely. All slots up to it are removed, though
    /// perhaps not yet in the store.
    swept_to: BTreeMap<DeadStorage, B256>,
}

impl Merger {
    /// Begins with the content of the store.
    pub(super) fn new(
        store: Store,
        readers: Arc<Readers>,
        (plan, most_swept): (Plan, u64),
        Merged { mut trie, queue }: Merged,
    ) -> Result<Self> {
        let queue = queue.map_or_else(|| read_queue(&store), Ok)?;
        // The nodes that the last slice of the merge before has touched are older from now on.
        trie.next_block();
        Ok(Self {
            source: Prefetcher::new(SNAPSHOT, store, readers),
            plan,
            most_swept,
            trie,
            unsettled: VecDeque::new(),
            cut: None,
            scratch: Batch::new(),
            queue,
            swept_to: BTreeMap::new(),
        })
    }

    /// Merges one slice while `waiting` slices wait for their blocks. The next slice builds on this one, whether or
    /// not it is written yet. Returns `None` if `is_cancelled` returns true before all of it is merged, since a slice
    /// may be a whole interval.
    pub(super) fn slice(
        &mut self,
        number: SliceNumber,
        waiting: usize,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<Slice>> {
        self.trie.set_block(number.index as u32);
        // More threads would keep the disk from answering the reads of execution.
        self.source.limit(Readers::MOST / (1 + waiting));
        let before = self.trie.bytes();
        let mut slice = Slice { batch: mem::take(&mut self.scratch), ..Slice::default() };
        let mut changes = Vec::new();
        let part = number.of(self.plan.order.len());
        slice.undo.merged.reserve_exact(part.len());
        for start in part.clone().step_by(PORTION) {
            if is_cancelled() {
                return Ok(None);
            }
            self.merge(start..part.end.min(start + PORTION), &mut slice, &mut changes)?;
        }
        let merged = changes.len();
        if !self.sweep(&mut slice, &mut changes, is_cancelled)? {
            return Ok(None);
        }
        let swept = changes[merged..].iter().map(|(place, _)| place);
        read_ahead(&mut self.source, &mut self.trie, swept)?;
        changes.sort_unstable_by_key(|(place, _)| *place);
        self.trie.update(&changes, &self.source.rows(None))?;
        let (root, rows) = self.trie.commit(Rows::new(slice.batch, SNAPSHOT_TRIE));
        // Slices wait by the hundred, so the batch is copied into memory of its exact size.
        let mut scratch = rows.into_inner();
        slice.batch = Batch::with_capacity(scratch.len(), scratch.byte_len());
        slice.batch.append(&scratch);
        scratch.clear();
        self.scratch = scratch;
        slice.undo.merged.shrink_to_fit();
        slice.root = root;
        // Rows that were read may be overwritten from now on.
        self.source.end()?;
        self.unsettled.push_back((number, self.trie.bytes().saturating_sub(before)));
        Ok(Some(slice))
    }

    /// Evicts nodes if they take more than `bytes`. The nodes of the last `keep` slices, whose rows may not be
    /// written yet, stay and are not counted.
    pub(super) fn evict(&mut self, bytes: usize, keep: u64) {
        let keep = u32::try_from(keep).unwrap_or(u32::MAX);
        while self.unsettled.len() > keep as usize + 1
            && let Some((number, _)) = self.unsettled.pop_front()
        {
            if let Some(cut) = self.cut {
                self.trie.evict_ways(self.plan.places(number), cut, keep);
            }
        }
        let unsettled: usize = self.unsettled.iter().map(|(_, bytes)| bytes).sum();
        if self.trie.bytes() > bytes + unsettled {
            // An eighth more is evicted, so that the next eviction is not due soon.
            self.cut = Some(self.trie.evict_deepest(bytes - bytes / 8, keep));
        }
    }

    /// Returns the snapshot after the last slice.
    pub(super) fn into_snapshot(self) -> Merged {
        Merged { trie: self.trie, queue: Some(self.queue) }
    }

    /// Merges some entries, given by their positions in the order of the snapshot.
    fn merge(
        &mut self,
        entries: Range<usize>,
        slice: &mut Slice,
        changes: &mut Vec<(B256, Option<Value>)>,
    ) -> Result<()> {
        let Self { source, plan, trie, .. } = self;
        read_ahead(source, trie, plan.order[entries.clone()].iter().map(|(place, _)| place))?;
        let store = source.store();
        let part = plan.entries_at(entries);
        for (place, key, value) in part {
            // The flat map has this value too, but the trie needs the path to it anyway.
            let before = trie.get(place, &source.rows(None))?.copied();
            let after = value.present();
            if before == after {
                continue;
            }
            if let (Key::Account(hash), Some(Value::Account(old))) = (key, before)
                && !matches!(after, Some(Value::Account(new)) if new.incarnation == old.incarnation)
                && flat::has_slots(store, *hash, old.incarnation)?
            {
                let dead = dead_storage(*hash, old.incarnation);
                self.queue.insert(dead);
                slice.batch.put(SWEEP, &dead, &[]);
                slice.undo.queued.push(dead);
            }
            flat::set(&mut slice.batch, key, after);
            changes.push((*place, after));
            slice.undo.merged.push((*key, before));
        }
        Ok(())
    }

    /// Removes slots of dead storages. Returns `false` if `is_cancelled` returns true before all are removed.
    fn sweep(
        &mut self,
        slice: &mut Slice,
        changes: &mut Vec<(B256, Option<Value>)>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let (mut left, mut goes_on) = (self.most_swept, true);
        while left > 0
            && let Some(dead) = self.queue.first().copied()
        {
            let (account, incarnation) = storage_of(&dead);
            let last = self.swept_to.remove(&dead);
            let from = last.unwrap_or(B256::ZERO);
            let mut swept_to = last;
            let mut ended = true;
            flat::scan_slots(
                self.source.store(),
                (account, incarnation),
                &from,
                &mut |slot, value| {
                    if Some(slot) == last {
                        return Ok(ControlFlow::Continue(()));
                    }
                    if left == 0 {
                        ended = false;
                        return Ok(ControlFlow::Break(()));
                    }
                    if changes.len().is_multiple_of(PORTION) && is_cancelled() {
                        goes_on = false;
                        return Ok(ControlFlow::Break(()));
                    }
                    left -= 1;
                    swept_to = Some(slot);
                    let key = Key::Slot(SlotKey { account, incarnation, slot });
                    flat::set(&mut slice.batch, &key, None);
                    changes.push((Places::snapshot().of(&key), None));
                    slice.undo.merged.push((key, Some(Value::Slot(value))));
                    Ok(ControlFlow::Continue(()))
                },
            )?;
            if !goes_on {
                return Ok(false);
            }
            if ended {
                self.queue.remove(&dead);
                slice.batch.delete(SWEEP, &dead);
                slice.undo.swept.push(dead);
            } else if let Some(slot) = swept_to {
                self.swept_to.insert(dead, slot);
            }
        }
        Ok(true)
    }
}

/// If the store is slow, reads all missing nodes on the paths to these places at once.
fn read_ahead<'a>(
    source: &mut Prefetcher,
    trie: &mut Trie<Value>,
    places: impl Iterator<Item = &'a B256>,
) -> Result<()> {
    source.end()?;
    if source.is_slow() {
        for place in places {
            if let Some(from) = trie.missing(place) {
                source.need(None, *place, from)?;
            }
        }
        source.wait()?;
    }
    Ok(())
}

/// Undoes a slice that led to `root`; returns the root before it and the batch.
pub(crate) fn take_back(store: &Store, root: B256, undo: &SliceUndo) -> Result<(B256, Batch)> {
    let mut batch = Batch::new();
    let mut changes = Vec::with_capacity(undo.merged.len());
    for (key, before) in &undo.merged {
        flat::set(&mut batch, key, *before);
        changes.push((Places::snapshot().of(key), *before));
    }
    for dead in &undo.swept {
        batch.put(SWEEP, dead, &[]);
    }
    for dead in &undo.queued {
        batch.delete(SWEEP, dead);
    }
    changes.sort_unstable_by_key(|(place, _)| *place);
    if changes.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(corrupt!("an undo record names a key twice"));
    }
    if store.snapshot().gathers() {
        SNAPSHOT.look_at_keys(store, changes.iter().map(|(place, _)| (None, *place)))?;
    }
    let mut trie = Trie::<Value>::stored(root);
    trie.update(&changes, &Rows::new(store as &dyn Read, SNAPSHOT_TRIE))?;
    let (root, rows) = trie.commit(Rows::new(Batch::new(), SNAPSHOT_TRIE));
    batch.append(&rows.into_inner());
    Ok((root, batch))
}

fn read_queue(store: &dyn Read) -> Result<BTreeSet<DeadStorage>> {
    let mut queue = BTreeSet::new();
    each_row(store, SWEEP, KeyRange::ALL, |key, value| {
        let dead = DeadStorage::try_from(key).ok().filter(|_| value.is_empty());
        let damaged = || corrupt!("the queue of dead storage is damaged");
        queue.insert(dead.ok_or_else(damaged)?);
        Ok(())
    })?;
    Ok(queue)
}

fn dead_storage(account: B256, incarnation: u64) -> DeadStorage {
    let mut dead = [0; 40];
    dead[..32].copy_from_slice(account.as_slice());
    dead[32..].copy_from_slice(&incarnation.to_be_bytes());
    dead
}

/// Returns the account hash and the incarnation.
pub(crate) fn storage_of(dead: &DeadStorage) -> (B256, u64) {
    let incarnation = dead[32..].iter().fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
    (B256::from_slice(&dead[..32]), incarnation)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{LmptLayer, generation::Change, value::Record};
    use alloy_primitives::U256;
    use polytrie_kv::LiveSet;
    use polytrie_state::Account;
    use polytrie_trie::EMPTY_ROOT;
    use std::cell::Cell;

    /// Dropping a merge waits for its thread, which may be in the middle of a slice of any size.
    #[test]
    fn a_slice_of_any_size_can_be_left() {
        let store = Store::memory(LmptLayer::TABLES).unwrap();
        let generation = Generation::new(B256::ZERO, store.scratch());
        let changes: Vec<Change> = (0..3 * PORTION)
            .map(|n| {
                let record = Record { account: Account::default(), incarnation: n as u64 };
                let key = Key::Account(B256::left_padding_from(&n.to_be_bytes()));
                Change { key, before: None, after: Some(Value::Account(record)) }
            })
            .collect();
        generation.update(&changes).unwrap();
        generation.remember(&changes, 1, &LiveSet::default());
        let asked = Cell::new(0);
        let merge = |most: usize| {
            let plan = Plan::new(&generation).unwrap();
            let readers = Arc::new(Readers::new(1, false));
            let snapshot = Merged::stored(EMPTY_ROOT);
            let mut merger = Merger::new(store.clone(), readers, (plan, 1), snapshot).unwrap();
            let whole = SliceNumber { index: 0, count: 1 };
            asked.set(0);
            let is_cancelled = || asked.replace(asked.get() + 1) == most;
            merger.slice(whole, 0, &is_cancelled).unwrap()
        };
        assert!(merge(1).is_none());
        assert_eq!(asked.get(), 2);
        assert_eq!(merge(usize::MAX).unwrap().undo.merged.len(), changes.len());
    }

    /// A switch sweeps as many slots as all slices of an interval, which may be millions.
    #[test]
    fn the_sweep_of_any_number_of_slots_can_be_left() {
        let store = Store::memory(LmptLayer::TABLES).unwrap();
        let (account, incarnation) = (B256::repeat_byte(1), 7);
        let mut batch = Batch::new();
        batch.put(SWEEP, &dead_storage(account, incarnation), &[]);
        for n in 0..3 * PORTION {
            let slot = B256::left_padding_from(&n.to_be_bytes());
            let key = Key::Slot(SlotKey { account, incarnation, slot });
            flat::set(&mut batch, &key, Some(Value::Slot(U256::ONE)));
        }
        store.write(batch).unwrap();
        let asked = Cell::new(0);
        let sweep = |most: usize| {
            let plan = Plan::new(&Generation::new(B256::ZERO, store.scratch())).unwrap();
            let readers = Arc::new(Readers::new(1, false));
            let (plan, snapshot) = ((plan, u64::MAX), Merged::stored(EMPTY_ROOT));
            let mut merger = Merger::new(store.clone(), readers, plan, snapshot).unwrap();
            asked.set(0);
            let is_cancelled = || asked.replace(asked.get() + 1) == most;
            merger.slice(SliceNumber { index: 0, count: 1 }, 0, &is_cancelled).unwrap()
        };
        assert!(sweep(1).is_none());
        assert_eq!(asked.get(), 2);
        let swept = sweep(usize::MAX).unwrap().undo;
        assert_eq!((swept.merged.len(), swept.swept.len()), (3 * PORTION, 1));
    }
}
