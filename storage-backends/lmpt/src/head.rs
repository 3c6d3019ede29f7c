//! The head, and its changes: blocks, undos, merges, and spilling to the scratch store.

use crate::{
    LmptOptions,
    block::changes_of,
    generation::{Change, Generation},
    journal::{self, blocks_in_memory},
    merge::{Merge, MergeStats, Merged, Slice, take_back},
    meta::Meta,
    reader::LmptReader,
    undo,
    value::Record,
    view::View,
};
use alloy_primitives::B256;
use parking_lot::{Mutex, MutexGuard, RwLock};
use polytrie_kv::{Batch, KvError, LiveSet, Read, Snapshot, Store};
use polytrie_state::{
    Commitment, HeadChange, Lifecycle, Outcome, Proposal, Result, StateError, UndoRecord, WriteSet,
    ahead::Readers, corrupt, write_codes,
};
use polytrie_trie::EMPTY_ROOT;
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

#[derive(Debug)]
pub(crate) struct LmptState {
    pub(crate) store: Store,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) options: LmptOptions,
    /// The threads that read ahead for merges and for blocks.
    pub(crate) readers: Arc<Readers>,
    pub(crate) live: Arc<LiveSet>,
    pub(crate) head: RwLock<HeadState>,
    /// The lock that serialises all changes of the layer; it is taken before `head`. Readers do not take it, because a
    /// change may take long.
    pub(crate) work: Mutex<Work>,
    /// The first block that may still be undone.
    pub(crate) undo_from: AtomicU64,
}

/// The state at the head.
#[derive(Debug)]
pub(crate) struct HeadState {
    pub(crate) meta: Meta,
    pub(crate) delta: Arc<Generation>,
    pub(crate) intermediate: Arc<Generation>,
    /// Number of the last change. Each reader sees the state after one change.
    pub(crate) seq: u64,
    /// The store before an undo that goes back into the interval before, until the undo is accepted: once written, it
    /// takes out of the flat map what the head no longer has in a trie.
    pub(crate) before: Option<Snapshot>,
}

impl HeadState {
    /// Returns the state at the head over the given flat map.
    pub(crate) fn view<R>(&self, flat: R) -> View<R> {
        let (delta, intermediate) = (self.delta.clone(), self.intermediate.clone());
        View { delta, intermediate, flat, seq: self.seq }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The block or undo that is finished and not accepted. Proofs of the head must undo it in memory while they are
    /// made.
    pub(crate) pending: Option<Pending>,
    pub(crate) merge: Option<Merge>,
    /// The parts of the snapshot that the last completed merge left in memory.
    snapshot: Option<Merged>,
    pub(crate) stats: MergeStats,
}

/// A block or an undo that is finished and not accepted: one trie is ahead of the head.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The trie that is ahead.
    ahead: Arc<Generation>,
    changes: Vec<Change>,
    meta: Meta,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Forward {
        /// Whether the block takes a slice of the merge.
        slice: bool,
        /// Whether the interval ends with the block.
        rotate: bool,
    },
    Back {
        /// The intermediate of the interval before, if the undo goes back into that one.
        across: Option<Arc<Generation>>,
    },
}

impl Pending {
    /// Undoes the changes in the trie that is ahead.
    pub(crate) fn take_back(&self) -> Result<()> {
        let back: Vec<Change> = self.changes.iter().map(Change::reversed).collect();
        self.ahead.update(&back).map(drop)
    }

    /// Makes the changes again that [`Self::take_back`] has undone.
    pub(crate) fn make_again(&self) -> Result<()> {
        self.ahead.update(&self.changes).map(drop)
    }

    /// Whether this row of the head is that of the change, so that the change is written.
    pub(crate) fn is_of(&self, row: Option<Meta>) -> bool {
        row == Some(self.meta)
    }
}

/// The change of the head, which controls the trie that is ahead.
#[derive(Debug)]
pub(crate) struct LmptChange(pub(crate) Arc<LmptState>);

impl HeadChange for LmptChange {
    fn accept(&mut self) -> Result<()> {
        let mut work = self.0.work.lock();
        let pending = work.pending.take();
        pending.map_or(Ok(()), |pending| self.0.settle(&mut work, pending))
    }

    fn discard(&mut self) -> Result<()> {
        // The lock keeps a proof from seeing the trie ahead of the head.
        let mut work = self.0.work.lock();
        let Some(pending) = work.pending.take() else { return Ok(()) };
        self.0.head.write().before = None;
        pending.take_back()
    }
}

impl LmptState {
    /// Reads the state from a store; an empty store is the empty state.
    pub(crate) fn open(store: Store, options: LmptOptions) -> Result<Self> {
        options.check()?;
        let live = Arc::new(LiveSet::default());
        let empty = Meta::loaded(&options, EMPTY_ROOT);
        let replay = |meta: &Meta| {
            let rows = (&store as &dyn Read, store.scratch());
            journal::generations(rows, meta, &live, options.memory_bytes)
        };
        let read = Meta::read(&store).and_then(|meta| {
            let meta = meta.unwrap_or(empty).under(&options)?;
            Ok((meta, replay(&meta)?))
        });
        let (lifecycle, (meta, (delta, intermediate))) =
            Lifecycle::opened(store.clone(), read, || Ok((empty, replay(&empty)?)))?;
        let head = RwLock::new(HeadState { meta, delta, intermediate, seq: 0, before: None });
        let work = Mutex::default();
        let readers = Arc::new(Readers::new(Readers::MOST, options.read_ahead));
        let undo_from = AtomicU64::new(0);
        Ok(Self { store, lifecycle, options, readers, live, head, work, undo_from })
    }

    /// Makes a loaded state the head.
    pub(crate) fn fill(&self, meta: Meta) -> Result<()> {
        let rows = (&self.store as &dyn Read, self.store.scratch());
        let (delta, intermediate) =
            journal::generations(rows, &meta, &self.live, self.options.memory_bytes)?;
        let mut head = self.head.write();
        *head = HeadState { meta, delta, intermediate, seq: head.seq + 1, before: None };
        Ok(())
    }

    /// Takes the merge from which the next block takes its slice; starts it if necessary.
    fn take_merge(&self, work: &mut Work, next: u64) -> Result<Merge> {
        let head = self.head.read();
        let start = head.meta.schedule.first_block(next);
        if let Some(merge) = work.merge.take().filter(|merge| merge.first_block() == start) {
            return Ok(merge);
        }
        let intermediate = head.intermediate.clone();
        let root = head.meta.roots.snapshot;
        let snapshot = work.snapshot.take().filter(|merged| merged.trie.last_root() == root);
        let snapshot = snapshot.unwrap_or_else(|| Merged::stored(root));
        let store = (self.store.clone(), self.readers.clone());
        Merge::start(store, intermediate, snapshot, next, self.options)
    }

    /// Starts the merge from which the next block takes its slice, unless it is under way.
    pub(crate) fn ensure_merge(&self, work: &mut Work, next: u64) -> Result<()> {
        work.merge = Some(self.take_merge(work, next)?);
        Ok(())
    }

    /// Computes a block on top of the head.
    pub(crate) fn finish(
        &self,
        proposal: Proposal<LmptChange>,
        parent: u64,
        (writes, state): (&WriteSet, &UndoRecord),
        mut record: impl FnMut(&B256) -> Result<Option<Record>>,
    ) -> Result<Outcome> {
        proposal.check()?;
        let mut work = self.work.lock();
        let (meta, delta, seq) = {
            let head = self.head.read();
            (head.meta, head.delta.clone(), head.seq)
        };
        let number = parent + 1;
        let changes = changes_of(writes, number, (&delta, seq), &mut record)?;
        let slice: Option<Arc<Slice>> = match meta.schedule.slice_of(number) {
            None => None,
            Some(slice) => {
                let (mut merge, mut stats) = (self.take_merge(&mut work, number)?, work.stats);
                // A slice that is late does not hold up proofs of the head. Until this proposal ends, nothing else uses
                // the merge.
                let found = MutexGuard::unlocked(&mut work, || merge.slice(slice, &mut stats));
                work.stats = stats;
                // Nothing has changed yet. A merge that failed is dropped, and the next attempt starts it anew.
                let found = found.map_err(|error| match error {
                    StateError::Store(KvError::Panicked { .. }) => self.lifecycle.poison(error),
                    error => error,
                })?;
                work.merge = Some(merge);
                Some(found)
            }
        };
        let mut roots = meta.roots;
        if !changes.is_empty() {
            // After a failure the trie may be half changed.
            let root = delta.update(&changes);
            roots.delta.root = root.map_err(|error| self.lifecycle.poison(error))?;
        }
        let mut batch = self.store.batch();
        write_codes(&mut batch, writes.codes());
        let mut no_slice = Default::default();
        let slice_undo = match &slice {
            Some(slice) => {
                roots.snapshot = slice.root;
                batch.append(&slice.batch);
                &slice.undo
            }
            None => &mut no_slice,
        };
        let undo = undo::encode(number, &meta, &changes, slice_undo, state);
        let rotate = meta.schedule.is_boundary(number);
        let first = if meta.number.is_some() { meta.first } else { number };
        let oldest = if meta.number.is_some() { meta.oldest } else { number };
        let mut next = Meta {
            number: Some(number),
            first,
            oldest,
            roots: if rotate { roots.rotated() } else { roots },
            ..meta
        };
        journal::write(&mut batch, number, &changes);
        // Undoing the first of the blocks that may be undone needs the two intervals before it.
        let needed = self.undo_from.load(Ordering::Relaxed).min(number);
        let needed = needed.saturating_sub(meta.schedule.interval.saturating_mul(2));
        while next.oldest < needed {
            journal::remove(&mut batch, next.oldest);
            next.oldest += 1;
        }
        next.write(&mut batch);
        let commitment = next.roots.commitment();
        let step = Step::Forward { slice: slice.is_some(), rotate };
        work.pending = Some(Pending { ahead: delta, changes, meta: next, step });
        drop(work);
        proposal.finish(commitment, batch, undo)
    }

    /// Computes the undo of the head's block.
    pub(crate) fn undo(&self, proposal: Proposal<LmptChange>, record: &[u8]) -> Result<Outcome> {
        let record = undo::decode(record)?;
        let (commitment, batch) = self.way_back(&mut self.work.lock(), record)?;
        proposal.finish(commitment, batch, Vec::new())
    }

    /// Does the work of [`Self::undo`]. If this fails without poisoning the layer, nothing has changed.
    fn way_back(&self, work: &mut Work, record: undo::LmptUndo) -> Result<(Commitment, Batch)> {
        let (meta, delta, intermediate) = {
            let head = self.head.read();
            (head.meta, head.delta.clone(), head.intermediate.clone())
        };
        let number = record.number;
        if meta.number != Some(number)
            || record.meta.schedule != meta.schedule
            || record.meta.number.is_some_and(|before| before + 1 != number)
        {
            return Err(corrupt!(
                "an undo record of block {number} stands where block {:?} is to be undone",
                meta.number
            ));
        }
        (work.merge, work.snapshot) = (None, None);
        let mut previous = record.meta;
        previous.oldest = previous.oldest.max(meta.oldest);
        let (root, mut batch) = take_back(&self.store, meta.roots.snapshot, &record.slice)?;
        let across = if meta.schedule.is_boundary(number) {
            let (_, blocks) = blocks_in_memory(&previous);
            let before = &previous.roots.intermediate;
            let rows = (&self.store as &dyn Read, self.store.scratch());
            let within = (&*self.live, self.options.memory_bytes / 2);
            Some(journal::rebuild(rows, blocks, before, within)?)
        } else {
            None
        };
        let ahead = if across.is_some() { intermediate } else { delta };
        let mut changes = Vec::with_capacity(record.writes.len());
        for (key, after) in record.writes {
            changes.push(Change { key, before: ahead.get(&key, u64::MAX)?, after });
        }
        if root != previous.roots.snapshot || ahead.salt() != previous.roots.delta.salt {
            return Err(not_before(number));
        }
        let found = ahead.update(&changes).map_err(|e| self.lifecycle.poison(e))?;
        if found != previous.roots.delta.root {
            let back: Vec<Change> = changes.iter().map(Change::reversed).collect();
            ahead.update(&back).map_err(|error| self.lifecycle.poison(error))?;
            return Err(not_before(number));
        }
        journal::remove(&mut batch, number);
        previous.write(&mut batch);
        let commitment = previous.roots.commitment();
        self.head.write().before = across.is_some().then(|| self.store.snapshot());
        let step = Step::Back { across };
        work.pending = Some(Pending { ahead, changes, meta: previous, step });
        Ok((commitment, batch))
    }

    /// Makes the pending change the head.
    pub(crate) fn settle(&self, work: &mut Work, pending: Pending) -> Result<()> {
        let Pending { ahead, changes, meta, step } = pending;
        if let Step::Forward { slice: true, .. } = step
            && let Some(merge) = &mut work.merge
        {
            merge.settle();
        }
        let rotated = matches!(step, Step::Forward { rotate: true, .. });
        if rotated && let Some(merge) = work.merge.take() {
            // The merge has no more slices, and drops the intermediate that it merged.
            work.snapshot = merge.end(&mut work.stats);
        }
        let mut head = self.head.write();
        head.seq += 1;
        ahead.remember(&changes, head.seq, &self.live);
        head.meta = meta;
        head.before = None;
        match step {
            Step::Forward { rotate: true, .. } => {
                let frozen = head.delta.clone();
                let spent = Arc::into_inner(mem::replace(&mut head.intermediate, frozen));
                let delta =
                    Generation::in_place_of(spent, meta.roots.delta.salt, self.store.scratch());
                head.delta = Arc::new(delta);
            }
            Step::Back { across: Some(intermediate) } => {
                head.delta = ahead;
                head.intermediate = intermediate;
            }
            Step::Back { across: None } | Step::Forward { rotate: false, .. } => {}
        }
        drop(head);
        if rotated && let Some(number) = meta.number {
            self.ensure_merge(work, number + 1)?;
        }
        self.shrink()
    }

    /// Spills what does not fit into memory, least needed parts first: the nodes of the intermediate, which only
    /// proofs need; cold nodes of the delta; and the keys of both.
    pub(crate) fn shrink(&self) -> Result<()> {
        let head = self.head.read();
        let (delta, intermediate) = (&head.delta, &head.intermediate);
        if self.fits(&head) {
            return Ok(());
        }
        intermediate.drop_nodes()?;
        for keep in [64, 8, 0] {
            if self.fits(&head) {
                return Ok(());
            }
            delta.spill_nodes(keep)?;
        }
        for generation in [intermediate, delta] {
            if !self.fits(&head) {
                generation.spill_keys(head.seq, &self.live)?;
            }
        }
        Ok(())
    }

    /// Drops the nodes of both tries, if these are too much for the memory. Proofs load nodes, and perhaps no block comes
    /// that makes room.
    pub(crate) fn drop_nodes(&self) -> Result<()> {
        let head = self.head.read();
        for generation in [&head.intermediate, &head.delta] {
            if !self.fits(&head) {
                generation.drop_nodes()?;
            }
        }
        Ok(())
    }

    /// Whether delta and intermediate are within their memory.
    fn fits(&self, head: &HeadState) -> bool {
        head.delta.bytes() + head.intermediate.bytes() <= self.options.memory_bytes
    }

    pub(crate) fn reader(&self) -> LmptReader {
        self.reader_at(&self.head.read())
    }

    /// Returns a reader of the head. While that is locked, no more than the change which follows it is written.
    pub(crate) fn reader_at(&self, head: &HeadState) -> LmptReader {
        let flat = head.before.clone().unwrap_or_else(|| self.store.snapshot());
        LmptReader { view: head.view(flat), ticket: self.live.enter(head.seq) }
    }
}

fn not_before(number: u64) -> StateError {
    corrupt!("an undo record does not lead to the state before block {number}")
}
