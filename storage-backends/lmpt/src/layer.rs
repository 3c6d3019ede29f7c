//! The layer: its head, and how it moves.

use crate::{
    FLAT_ACCOUNTS, FLAT_SLOTS, JOURNAL, META, SNAPSHOT_TRIE, SWEEP,
    block::changes_of,
    check,
    generation::{Change, Generation},
    index::Live,
    journal::{self, blocks_in_memory},
    load,
    merge::{Merge, MergeStats, Pace, Readers, Slice, slice_of, take_back},
    meta::{Meta, Roots},
    proof,
    reader::LmptReader,
    session::LmptSession,
    undo,
    value::{Record, Value},
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::{Mutex, MutexGuard, RwLock};
use polytrie_kv::{Read, Snapshot, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccount,
    LayerSession, Lifecycle, Outcome, Proof, SlotVisit, StateError, StateLayer, StateReader,
    UndoRecord, WipedSlots, WriteSet, write_codes,
};
use polytrie_trie::{EMPTY_ROOT, Trie};
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What the layer lets a user set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LmptOptions {
    /// Blocks of an interval, at least 1. The commitment depends on it, so it belongs to the data.
    pub interval: u64,
    /// Bytes of delta and intermediate to keep in memory; what is above goes to a scratch store.
    pub memory_bytes: usize,
    /// Bytes of merged rows that may wait in memory for the blocks that take them.
    pub ahead_bytes: usize,
    /// Bytes of the snapshot trie to keep in memory, for the merge.
    pub cache_bytes: usize,
    /// A pause of the merge before each slice, to see what a late merge does; no result depends on it.
    pub merge_pause: Duration,
    /// The merge reads on many threads even where the store is fast; no result depends on it.
    pub read_ahead: bool,
}

impl Default for LmptOptions {
    /// The paper's interval of 1,000 blocks, 1 GiB, twice 64 MiB.
    fn default() -> Self {
        Self {
            interval: 1_000,
            memory_bytes: 1 << 30,
            ahead_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            merge_pause: Duration::ZERO,
            read_ahead: false,
        }
    }
}

/// The layered trie as a state layer.
#[derive(Debug)]
pub struct LmptLayer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) lifecycle: Lifecycle,
    options: LmptOptions,
    /// Read for the merge.
    readers: Arc<Readers>,
    live: Arc<Live>,
    head: RwLock<Head>,
    /// Locked before `head`, by whoever moves the layer.
    work: Mutex<Work>,
    /// The first block that may be taken back.
    undo_from: AtomicU64,
    /// Why the state cannot be used, if what was found is damaged.
    damage: RwLock<Option<StateError>>,
}

/// The state at the head.
#[derive(Debug)]
struct Head {
    meta: Meta,
    delta: Arc<Generation>,
    intermediate: Arc<Generation>,
    /// Number of the last change; readers see what was there after one.
    seq: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Work {
    pending: Option<Pending>,
    merge: Option<Merge>,
    /// What the last merge, which is at its end, has left in memory of the snapshot in the store.
    snapshot: Option<Trie<Value>>,
    stats: MergeStats,
}

/// A block or an undo that is finished and not accepted: one trie is ahead of the head.
#[derive(Debug)]
struct Pending {
    /// The trie that is ahead.
    ahead: Arc<Generation>,
    changes: Vec<Change>,
    meta: Meta,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Forward {
        /// Whether a slice of the merge was taken.
        slice: bool,
        /// Whether the interval ends.
        rotate: bool,
    },
    Back {
        /// Back into the interval before: the intermediate that was there then, and the store as it was
        /// before the undo, for whoever reads meanwhile.
        across: Option<(Arc<Generation>, Snapshot)>,
    },
}

impl LmptLayer {
    /// The layer's name.
    pub const NAME: &'static str = "lmpt";

    /// The tables it needs in its store.
    pub const TABLES: &'static [Table] =
        &[FLAT_ACCOUNTS, FLAT_SLOTS, SNAPSHOT_TRIE, JOURNAL, SWEEP, META, CODE_TABLE];

    /// Opens the layer on what the store holds; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or holds a state of another interval.
    pub fn open(store: Store, options: LmptOptions) -> Result<Arc<Self>, StateError> {
        if options.interval == 0 {
            return Err(unsupported("takes no interval of 0 blocks; use 1 or more".into()));
        }
        let live = Arc::new(Live::default());
        let empty = Meta::loaded(options.interval, EMPTY_ROOT);
        let read = Meta::read(&store).and_then(|meta| {
            let mut meta = meta.unwrap_or(empty);
            if meta.number.is_none() {
                // What was loaded is all snapshot, whatever the interval.
                meta.interval = options.interval;
            }
            Ok((meta, generations(&store, &meta, &live)?))
        });
        // What is damaged can still be checked, and loaded anew.
        let (damage, (meta, (delta, intermediate))) = match read {
            Ok(read) => (None, read),
            Err(damage @ StateError::Corrupt(_)) => {
                (Some(damage), (empty, generations(&store, &empty, &live)?))
            }
            Err(error) => return Err(error),
        };
        if meta.interval != options.interval {
            return Err(unsupported(format!(
                "holds a state of intervals of {} blocks, {} were asked for; leave --lmpt.interval out",
                meta.interval, options.interval
            )));
        }
        let lifecycle = Lifecycle::new(store.clone());
        let head = RwLock::new(Head { meta, delta, intermediate, seq: 0 });
        let work = Mutex::default();
        let damage = RwLock::new(damage);
        let readers = Arc::new(Readers::new(options.read_ahead));
        let undo_from = AtomicU64::new(0);
        let shared =
            Shared { store, lifecycle, options, readers, live, head, work, undo_from, damage };
        Ok(Arc::new(Self { shared: Arc::new(shared) }))
    }

    /// How much time the merges had left.
    pub fn merge_stats(&self) -> MergeStats {
        self.shared.work.lock().stats
    }

    /// Bytes of memory that delta and intermediate take.
    pub fn memory_bytes(&self) -> usize {
        let head = self.shared.head.read();
        head.delta.bytes() + head.intermediate.bytes()
    }
}

fn unsupported(reason: String) -> StateError {
    StateError::Unsupported { layer: LmptLayer::NAME, reason }
}

/// Delta and intermediate as the journal has them.
pub(crate) fn generations(
    store: &dyn Read,
    meta: &Meta,
    live: &Live,
) -> Result<(Arc<Generation>, Arc<Generation>), StateError> {
    let (delta, intermediate) = blocks_in_memory(meta);
    Ok((
        journal::rebuild(store, delta, &meta.roots.delta, live)?,
        journal::rebuild(store, intermediate, &meta.roots.intermediate, live)?,
    ))
}

impl Shared {
    /// Fails if the layer or the store failed before, or what was found is damaged.
    fn ready(&self) -> Result<(), StateError> {
        self.lifecycle.ready()?;
        self.damage.read().clone().map_or(Ok(()), Err)
    }

    /// The merge that the next block takes its slice from.
    fn ensure_merge<'w>(&self, work: &'w mut Work, next: u64) -> Result<&'w mut Merge, StateError> {
        let head = self.head.read();
        let interval = head.meta.interval;
        let start = next - (next - 1) % interval;
        let merge = match work.merge.take() {
            Some(merge) if merge.first_block() == start => merge,
            _ => {
                let LmptOptions { ahead_bytes, cache_bytes, merge_pause: pause, .. } = self.options;
                let pace = Pace { ahead_bytes, cache_bytes, pause };
                let intermediate = head.intermediate.clone();
                let root = head.meta.roots.snapshot;
                let snapshot = work.snapshot.take().filter(|trie| trie.last_root() == root);
                let snapshot = snapshot.unwrap_or_else(|| Trie::stored(root));
                let store = (self.store.clone(), self.readers.clone());
                Merge::start(store, intermediate, snapshot, (next, interval), pace)?
            }
        };
        Ok(work.merge.insert(merge))
    }

    /// Computes a block on top of the head. The lock that comes back is to be held until the turn is finished.
    pub(crate) fn finish(
        &self,
        turn: &polytrie_state::Turn,
        parent: u64,
        (writes, wiped): (&WriteSet, WipedSlots),
        mut record: impl FnMut(&B256) -> Result<Option<Record>, StateError>,
    ) -> Result<(Outcome, MutexGuard<'_, Work>), StateError> {
        let mut work = self.work.lock();
        self.lifecycle.check(turn)?;
        let (meta, delta, seq) = {
            let head = self.head.read();
            (head.meta, head.delta.clone(), head.seq)
        };
        let number = parent + 1;
        let changes = changes_of(writes, number, (&delta, seq), &mut record)?;
        let slice: Option<Arc<Slice>> = match slice_of(number, meta.interval) {
            None => None,
            Some(slice) => {
                self.ensure_merge(&mut work, number)?;
                let Work { merge, stats, .. } = &mut *work;
                let merge = merge.as_mut().ok_or(StateError::Protocol("there is no merge"))?;
                Some(merge.slice(slice, stats).map_err(|error| self.lifecycle.poison(error))?)
            }
        };
        let mut roots = meta.roots;
        if !changes.is_empty() {
            // After a failure the trie may be half changed.
            let root = delta.update(&changes, number);
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
        let undo =
            undo::encode(number, &meta, &changes, slice_undo, &UndoRecord::new(writes, wiped));
        let rotate = meta.is_boundary(number);
        let first = if meta.number.is_some() { meta.first } else { number };
        let oldest = if meta.number.is_some() { meta.oldest } else { number };
        let mut next = Meta {
            interval: meta.interval,
            number: Some(number),
            first,
            oldest,
            roots: if rotate { roots.rotated() } else { roots },
        };
        journal::write(&mut batch, number, &changes);
        // Taking back the first block of those that may be taken back needs the two intervals before it.
        let needed = self.undo_from.load(Ordering::Relaxed).min(number);
        let needed = needed.saturating_sub(meta.interval.saturating_mul(2));
        while next.oldest < needed {
            journal::remove(&mut batch, next.oldest);
            next.oldest += 1;
        }
        next.write(&mut batch);
        let commitment = next.roots.commitment();
        let step = Step::Forward { slice: slice.is_some(), rotate };
        work.pending = Some(Pending { ahead: delta, changes, meta: next, step });
        Ok((Outcome { commitment, batch, undo }, work))
    }

    /// Computes the way back from the head. Nothing has changed if it fails without poisoning.
    fn undo(&self, record: &[u8]) -> Result<(Outcome, MutexGuard<'_, Work>), StateError> {
        let mut work = self.work.lock();
        let record = undo::decode(record)?;
        let (meta, delta, intermediate) = {
            let head = self.head.read();
            (head.meta, head.delta.clone(), head.intermediate.clone())
        };
        let number = record.number;
        if meta.number != Some(number)
            || record.meta.interval != meta.interval
            || record.meta.number.is_some_and(|before| before + 1 != number)
        {
            return Err(StateError::Corrupt(format!(
                "an undo record of block {number} stands where block {:?} is to be undone",
                meta.number
            )));
        }
        (work.merge, work.snapshot) = (None, None);
        let mut previous = record.meta;
        previous.oldest = previous.oldest.max(meta.oldest);
        let (root, mut batch) = take_back(&self.store, meta.roots.snapshot, &record.slice)?;
        let across = if meta.is_boundary(number) {
            let (_, blocks) = blocks_in_memory(&previous);
            let before = &previous.roots.intermediate;
            let generation = journal::rebuild(&self.store, blocks, before, &self.live)?;
            Some((generation, self.store.snapshot()))
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
        let found = ahead.update(&changes, number).map_err(|e| self.lifecycle.poison(e))?;
        if found != previous.roots.delta.root {
            let back: Vec<Change> = changes.iter().map(Change::reversed).collect();
            ahead.update(&back, number).map_err(|error| self.lifecycle.poison(error))?;
            return Err(not_before(number));
        }
        journal::remove(&mut batch, number);
        previous.write(&mut batch);
        let commitment = previous.roots.commitment();
        let step = Step::Back { across };
        work.pending = Some(Pending { ahead, changes, meta: previous, step });
        Ok((Outcome { commitment, batch, undo: Vec::new() }, work))
    }

    /// What is pending is the head now.
    fn settle(&self, work: &mut Work, pending: Pending) -> Result<(), StateError> {
        let Pending { ahead, changes, meta, step } = pending;
        if let Step::Forward { slice: true, .. } = step
            && let Some(merge) = &mut work.merge
        {
            merge.settle();
        }
        let rotated = matches!(step, Step::Forward { rotate: true, .. });
        if rotated && let Some(merge) = work.merge.take() {
            // It has no more slices, and lets go of the intermediate that it merged.
            work.snapshot = merge.end(&mut work.stats);
        }
        let mut head = self.head.write();
        head.seq += 1;
        ahead.remember(&changes, head.seq, &self.live);
        head.meta = meta;
        match step {
            Step::Forward { rotate: true, .. } => {
                let frozen = head.delta.clone();
                let spent = Arc::into_inner(mem::replace(&mut head.intermediate, frozen));
                let delta = Generation::in_place_of(spent, meta.roots.delta.salt);
                head.delta = Arc::new(delta);
            }
            Step::Back { across: Some((intermediate, _)) } => {
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

    /// Lets go of what does not fit into memory, what is needed least first: the nodes of the intermediate, which only
    /// proofs need; cold nodes of the delta; and the keys of both.
    fn shrink(&self) -> Result<(), StateError> {
        let head = self.head.read();
        let (delta, intermediate) = (&head.delta, &head.intermediate);
        let fits = || delta.bytes() + intermediate.bytes() <= self.options.memory_bytes;
        if fits() {
            return Ok(());
        }
        intermediate.spill_nodes(0)?;
        for keep in [64, 8, 0] {
            if fits() {
                return Ok(());
            }
            delta.spill_nodes(keep)?;
        }
        for generation in [intermediate, delta] {
            if !fits() {
                generation.spill_keys(head.seq, &self.live)?;
            }
        }
        Ok(())
    }

    fn reader(&self) -> LmptReader {
        let work = self.work.lock();
        let head = self.head.read();
        let flat = match &work.pending {
            Some(Pending { step: Step::Back { across: Some((_, snapshot)) }, .. }) => {
                snapshot.clone()
            }
            _ => self.store.snapshot(),
        };
        LmptReader {
            delta: head.delta.clone(),
            intermediate: head.intermediate.clone(),
            flat,
            ticket: self.live.enter(head.seq),
        }
    }
}

fn not_before(number: u64) -> StateError {
    StateError::Corrupt(format!("an undo record does not lead to the state before block {number}"))
}

impl StateLayer for LmptLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        self.shared.head.read().meta.roots.commitment()
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>, StateError> {
        self.shared.ready()?;
        Ok(Arc::new(self.shared.reader()))
    }

    fn load(
        &self,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
    ) -> Result<Commitment, StateError> {
        let shared = &*self.shared;
        let mut work = shared.work.lock();
        shared.lifecycle.ready()?;
        *work = Work::default();
        let meta = load::load(&shared.store, shared.options.interval, accounts)?;
        let (delta, intermediate) = generations(&shared.store, &meta, &shared.live)?;
        let mut head = shared.head.write();
        *head = Head { meta, delta, intermediate, seq: head.seq + 1 };
        *shared.damage.write() = None;
        Ok(meta.roots.commitment())
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError> {
        let shared = &self.shared;
        shared.ready()?;
        let turn = shared.lifecycle.begin()?;
        let mut work = shared.work.lock();
        let (state, number) = {
            let head = shared.head.read();
            ((head.delta.clone(), head.intermediate.clone(), head.seq), head.meta.number)
        };
        let next = match (number, parent.number.checked_add(1)) {
            (None, Some(next)) => next,
            (Some(number), Some(next)) if number == parent.number => next,
            _ => {
                shared.lifecycle.discard()?;
                return Err(StateError::Protocol("a block was begun on another one than the head"));
            }
        };
        // The keys of a block that somebody still reads before could not go when it was accepted.
        let prepared =
            shared.shrink().and_then(|()| shared.ensure_merge(&mut work, next).map(drop));
        if let Err(error) = prepared {
            shared.lifecycle.discard()?;
            return Err(error);
        }
        Ok(Box::new(LmptSession::new(shared.clone(), turn, parent.number, state)))
    }

    fn accept(&self) -> Result<(), StateError> {
        let shared = &*self.shared;
        let mut work = shared.work.lock();
        shared.lifecycle.accept()?;
        match work.pending.take() {
            // The block is written: memory must follow.
            Some(pending) => {
                shared.settle(&mut work, pending).map_err(|error| shared.lifecycle.poison(error))
            }
            None => Ok(()),
        }
    }

    fn discard(&self) -> Result<(), StateError> {
        let shared = &*self.shared;
        let mut work = shared.work.lock();
        shared.lifecycle.discard()?;
        let Some(pending) = work.pending.take() else { return Ok(()) };
        let back: Vec<Change> = pending.changes.iter().map(Change::reversed).collect();
        let number = pending.meta.number.unwrap_or_default();
        pending.ahead.update(&back, number).map_err(|error| shared.lifecycle.poison(error))?;
        Ok(())
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        let shared = &*self.shared;
        shared.ready()?;
        let turn = shared.lifecycle.begin()?;
        match shared.undo(record) {
            Ok((outcome, work)) => {
                shared.lifecycle.finish(turn)?;
                drop(work);
                Ok(outcome)
            }
            Err(error) => {
                // A failure that poisoned the layer is reported as it is.
                let _ = shared.lifecycle.discard();
                Err(error)
            }
        }
    }

    fn undo_writes(&self, record: &[u8], _: &dyn Read) -> Result<WriteSet, StateError> {
        undo::writes(record)
    }

    fn keep_undo_from(&self, number: u64) {
        self.shared.undo_from.store(number, Ordering::Relaxed);
    }

    fn fork(&self) -> Result<Fork, StateError> {
        self.shared.lifecycle.ready()?;
        let store = self.shared.store.fork()?;
        Ok(Fork { layer: Self::open(store.clone(), self.shared.options)?, store })
    }

    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
        let shared = &*self.shared;
        shared.ready()?;
        // Nothing moves meanwhile.
        let work = shared.work.lock();
        let reader = {
            let head = shared.head.read();
            let flat = shared.store.snapshot();
            LmptReader {
                delta: head.delta.clone(),
                intermediate: head.intermediate.clone(),
                flat,
                ticket: shared.live.enter(head.seq),
            }
        };
        let roots: Roots = shared.head.read().meta.roots;
        let Some(pending) = &work.pending else {
            return proof::prove(&reader, &roots, address, slots);
        };
        let ahead = &pending.ahead;
        let back: Vec<Change> = pending.changes.iter().map(Change::reversed).collect();
        let number = pending.meta.number.unwrap_or_default();
        let poison = |error| shared.lifecycle.poison(error);
        ahead.update(&back, number).map_err(poison)?;
        let proof = proof::prove(&reader, &roots, address, slots);
        ahead.update(&pending.changes, number).map_err(poison)?;
        proof
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError> {
        self.shared.ready()?;
        let reader = self.shared.reader();
        reader.view().accounts(&from, &mut |hash, record| visit(hash, record.account))
    }

    fn slots(
        &self,
        account: B256,
        from: B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        self.shared.ready()?;
        let reader = self.shared.reader();
        let view = reader.view();
        match view.account(&account)? {
            Some(record) => view.slots((account, record.incarnation), &from, visit),
            None => Ok(()),
        }
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError> {
        self.shared.lifecycle.ready()?;
        if let Some(damage) = &*self.shared.damage.read() {
            let mut report = CheckReport::default();
            report.problem(damage.to_string());
            return Ok(report);
        }
        let reader = self.shared.reader();
        let meta = self.shared.head.read().meta;
        check::check(&reader, &meta, progress)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let stats = self.merge_stats();
        vec![
            ("merges", stats.merges),
            ("merge_slack_slices", stats.slack),
            ("merge_slices_in_time", stats.in_time),
            ("merge_slices_late", stats.late),
            ("merge_waited_micros", u64::try_from(stats.waited.as_micros()).unwrap_or(u64::MAX)),
            ("memory_bytes", self.memory_bytes() as u64),
        ]
    }
}
