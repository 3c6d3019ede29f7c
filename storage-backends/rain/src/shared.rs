//! The head, and how it moves: blocks, undo records, checkpoints, and the nodes that have to leave memory.

use crate::{
    RainOptions, SHARD_COUNT,
    change::{change, key_count},
    checkpoint::{Finished, Replayed, Size, Underway, Written, checkpoint, due_after, lag},
    load,
    log::{self, LogRow},
    meta::Meta,
    reader::RainReader,
    shard::Lost,
    state::{State, read_state},
    touches::Source,
    unread::{HeadReader, Unread},
    version::{Part, Version},
    workers::{Awaited, Workers},
};
use alloy_primitives::B256;
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Commitment, GenesisAccounts, HeadChange, Lifecycle, Outcome, Proposal, Result, SlotVisit,
    StateError, UndoRecord, WriteSet, write_codes,
};
use polytrie_trie::cow::Keep;
use std::{collections::VecDeque, sync::Arc};

/// The core that the layer and its sessions share.
#[derive(Debug)]
pub(crate) struct RainCore {
    pub(crate) source: Source,
    /// The store and counters of changes. A fork counts here the nodes that its changes load, as they are its own;
    /// those that it only reads are shared with the layer.
    changes: Source,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) options: RainOptions,
    /// The worker threads that make checkpoints. A fork has none, as it does not live long.
    workers: Option<Workers>,
    pub(crate) head: RwLock<RainHead>,
    work: Mutex<Work>,
}

/// The state at the head. Where both are locked, [`Work`] is locked first.
#[derive(Debug)]
pub(crate) struct RainHead {
    pub(crate) root: B256,
    state: HeadState,
}

#[derive(Debug)]
enum HeadState {
    Here(Arc<Version>),
    /// The version and the undo record of a block that is finished and not accepted, and that changed the head in
    /// place. `None` while the block is computed.
    Ahead(Option<(Arc<Version>, Vec<u8>)>),
}

impl From<Arc<Version>> for RainHead {
    fn from(version: Arc<Version>) -> Self {
        Self { root: version.root, state: HeadState::Here(version) }
    }
}

#[derive(Debug, Default)]
struct Work {
    /// Number of the change up to which the rows of each shard go.
    saved: [u64; SHARD_COUNT],
    /// Rows of each shard that have lost their node since its last checkpoint was started.
    lost: [Lost; SHARD_COUNT],
    /// Number of the last row of each shard's log.
    logged: [u64; SHARD_COUNT],
    /// Keys written to each shard since its last checkpoint was started.
    written: [u64; SHARD_COUNT],
    /// Checkpoints that are not in the store yet, in the order in which they were started and will be written.
    underway: VecDeque<Underway>,
    unread: Unread,
}

impl Work {
    fn of(shards: Vec<Replayed>) -> Self {
        let mut work = Self::default();
        for (shard, Replayed { saved, lost, last, .. }) in shards.into_iter().enumerate() {
            (work.saved[shard], work.lost[shard], work.logged[shard]) = (saved.seq, lost, last);
        }
        work
    }
}

/// The change of the head that a block, or the undoing of one, makes.
#[derive(Debug)]
pub(crate) struct RainChange {
    pub(crate) shared: Arc<RainCore>,
    finished: Option<FinishedChange>,
}

/// A change that is finished and not accepted.
#[derive(Debug)]
struct FinishedChange {
    version: Arc<Version>,
    /// Each shard that the change wrote to, with the number of its keys and the rows that lost their node.
    logged: Vec<(usize, u64, Lost)>,
    checkpoint: Option<Written>,
}

impl RainChange {
    fn of(shared: &Arc<RainCore>) -> Self {
        Self { shared: Arc::clone(shared), finished: None }
    }

    /// Applies a write set to `from`. Returns the commitment after it, and the batch to write.
    fn compute(
        &mut self,
        work: &mut Work,
        from: Version,
        writes: &WriteSet,
    ) -> Result<(Commitment, Batch)> {
        let shared = &self.shared;
        let seq = from.seq + 1;
        let (version, logs) = change(&shared.changes, from, writes, seq)?;
        let mut batch = shared.source.store.batch();
        let mut logged = Vec::with_capacity(logs.len());
        for (shard, writes, lost) in logs {
            logged.push((shard, key_count(&writes), lost));
            // The rows of the log before a checkpoint are gone, and nothing knows them after a restart.
            let before = work.logged[shard].max(work.saved[shard]);
            log::write(&mut batch, shard, seq, &LogRow { before, writes });
        }
        Meta { seq, root: version.root }.write(&mut batch);
        write_codes(&mut batch, writes.codes());
        let checkpoint = RainCore::end_checkpoint(work, seq, &mut batch)
            .map_err(|error| shared.lifecycle.poison(error))?;
        let commitment = Commitment::state_root(version.root);
        self.finished = Some(FinishedChange { version: Arc::new(version), logged, checkpoint });
        Ok((commitment, batch))
    }
}

impl HeadChange for RainChange {
    fn accept(&mut self) -> Result<()> {
        if let Some(finished) = self.finished.take() {
            self.shared.settle(finished);
        }
        Ok(())
    }

    fn discard(&mut self) -> Result<()> {
        let mut work = self.shared.work.lock();
        self.shared.head()?;
        let void = self.finished.take().and_then(|finished| finished.checkpoint);
        if let Some(Written { shard, seq, due, spare, size }) = void {
            // The checkpoint goes with another block, and its measure of the shard is still right.
            if let Some(size) = &size {
                self.shared.source.touches.set_measured(shard, size.bytes);
            }
            let finished = Finished { rows: spare.clone(), spare, size };
            let finished = Awaited::ready(finished);
            work.underway.push_front(Underway { shard, seq, due, finished });
        }
        // What the block has read stays, and many blocks may be dropped before one is accepted, which would make room.
        let is_due = !self.shared.is_fork() && self.shared.source.touches.may_be_twice_full();
        if is_due { self.shared.free_half(&work) } else { Ok(()) }
    }
}

impl RainCore {
    /// Opens the state in the store; an empty store is the empty state.
    pub(crate) fn open(store: Store, options: RainOptions) -> Result<Self> {
        let source = Source::new(store.clone(), &options);
        let state = read_state(&source.noted());
        let (lifecycle, State { version, shards }) =
            Lifecycle::opened(store, state, || Ok(State::empty()))?;
        Ok(Self {
            lifecycle,
            changes: source.clone(),
            source,
            options,
            workers: Some(Workers::start()?),
            head: RwLock::new(Arc::new(version).into()),
            work: Mutex::new(Work::of(shards)),
        })
    }

    /// Makes a layer that begins with the head, on a fork of the store. It shares the nodes in memory, and keeps the
    /// nodes that it changes to itself.
    pub(crate) fn fork(&self) -> Result<Self> {
        self.lifecycle.ready()?;
        let work = self.work.lock();
        self.lifecycle.settled()?;
        let version = self.head()?;
        let Source { store, touches } = &self.source;
        let store = store.fork()?;
        let (saved, logged) = (work.saved, work.logged);
        Ok(Self {
            lifecycle: Lifecycle::new(store.clone()),
            source: Source { store: store.clone(), touches: touches.clone() },
            changes: Source::new(store, &self.options),
            options: self.options,
            workers: None,
            head: RwLock::new(version.into()),
            work: Mutex::new(Work { saved, logged, ..Work::default() }),
        })
    }

    /// Whether this is a fork of the core of another layer.
    pub(crate) const fn is_fork(&self) -> bool {
        self.workers.is_none()
    }

    /// Fills the store with these accounts, which are the head afterwards. Returns its commitment.
    pub(crate) fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment> {
        let mut work = self.work.lock();
        self.lifecycle.fillable()?;
        self.hold_all(&work.unread);
        self.lifecycle.filling();
        load::load(&self.source.store, accounts)?;
        let State { version, shards } = read_state(&self.source.noted())?;
        let commitment = Commitment::state_root(version.root);
        *work = Work::of(shards);
        *self.head.write() = Arc::new(version).into();
        self.lifecycle.filled();
        Ok(commitment)
    }

    /// Begins a block on the head. Returns the block and the head.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<(Proposal<RainChange>, Arc<Version>)> {
        let proposal = self.lifecycle.begin(RainChange::of(self))?;
        let mut work = self.work.lock();
        let head = self.head()?;
        self.begin_checkpoint(&mut work, &head);
        Ok((proposal, head))
    }

    /// Computes a block: its commitment, its batch and its undo record.
    pub(crate) fn finish(
        mut proposal: Proposal<RainChange>,
        (number, parent): (u64, Arc<Version>),
        writes: &WriteSet,
    ) -> Result<Outcome> {
        let shared = proposal.change.shared.clone();
        // A version that the record alone cannot restore stays as it is.
        let (mut undo, mut back) = (Vec::new(), None);
        if shared.options.undo {
            let store = &shared.source.store;
            let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
                parent.visit_slots(store, account, &B256::ZERO, visit)
            };
            let record = UndoRecord::of(writes, (store, number), slots)?;
            undo = record.encode();
            back = record.is_whole().then(|| undo.clone());
        }
        proposal.check()?;
        // A reader of the head waits for this lock until the undo record of the block is in place.
        let mut work = shared.work.lock();
        if back.is_some() {
            shared.head.write().state = HeadState::Ahead(None);
        }
        let version = Arc::try_unwrap(parent).unwrap_or_else(|shared| (*shared).clone());
        // After a failure the head may be half changed.
        let (commitment, batch) =
            proposal.change.compute(&mut work, version, writes).map_err(|e| proposal.poison(e))?;
        let finished = proposal.change.finished.as_ref();
        if let (Some(back), Some(FinishedChange { version, .. })) = (back, finished) {
            shared.head.write().state = HeadState::Ahead(Some((version.clone(), back)));
        }
        drop(work);
        proposal.finish(commitment, batch, undo)
    }

    /// Computes the change that undoes the head's block. It may start a checkpoint as a block does: without them, going
    /// back many blocks would fill the memory.
    pub(crate) fn undo(self: &Arc<Self>, record: &[u8]) -> Result<Outcome> {
        let (mut proposal, writes) = self.lifecycle.begin_undo(record, RainChange::of(self))?;
        let mut work = self.work.lock();
        let head = self.head()?;
        if self.source.store.snapshot().is_remote() {
            head.gather(&self.source.noted(), &writes.touched())?;
        }
        self.begin_checkpoint(&mut work, &head);
        let (commitment, batch) = proposal.change.compute(&mut work, (*head).clone(), &writes)?;
        drop(work);
        proposal.finish(commitment, batch, Vec::new())
    }

    /// Returns the head. If a finished block has changed it in place, it is made again from the undo record. The caller
    /// has locked `work`, because without it such a block may still be computed.
    fn head(&self) -> Result<Arc<Version>> {
        let mut head = self.head.write();
        let (after, back) = match &head.state {
            HeadState::Here(version) => return Ok(version.clone()),
            HeadState::Ahead(Some(way_back)) => way_back,
            HeadState::Ahead(None) => {
                self.lifecycle.ready()?;
                let error = "the head was changed by a block that is not there";
                return Err(StateError::Protocol(error));
            }
        };
        let version = self.before(after, back, head.root)?;
        head.state = HeadState::Here(version.clone());
        Ok(version)
    }

    /// Returns the version before another one, to which an undo record leads. It must have this root.
    fn before(&self, after: &Version, back: &[u8], root: B256) -> Result<Arc<Version>> {
        let writes = UndoRecord::decode(back)?.into_writes();
        let (mut version, _) = change(&self.changes, after.clone(), &writes, after.seq)?;
        version.seq = after.seq - 1;
        if version.root != root {
            let reason = "the way back from a block does not lead to the state before it";
            return Err(self.lifecycle.poison(StateError::Protocol(reason)));
        }
        Ok(Arc::new(version))
    }

    /// Starts a checkpoint of the head, if one is due.
    fn begin_checkpoint(&self, work: &mut Work, head: &Version) {
        let (Some(shard), Some(workers)) = (due_after(head.seq), &self.workers) else { return };
        // The checkpoint was started with the head, unless that was opened.
        if work.underway.iter().any(|underway| underway.shard == shard) {
            return;
        }
        let last = work.underway.back().map_or(0, |last| last.due);
        let due = last.max(head.seq + lag(std::mem::take(&mut work.written[shard])));
        let (part, seq) = (head.parts[shard].clone(), head.seq);
        let (store, since) = (self.source.store.clone(), work.saved[shard]);
        let lost = std::mem::take(&mut work.lost[shard]);
        let is_measured = self.source.touches.may_be_full();
        if is_measured {
            self.source.touches.begin_measuring(shard);
        }
        let finished = workers.ask(shard, move || {
            // The rows of a shard do not change until this checkpoint is written.
            let rows = checkpoint(shard, &part, (since, seq), &lost, &store)?;
            let size = is_measured.then(|| Box::new(Size::of(&part, seq)));
            Ok(Finished { spare: rows.clone(), rows, size })
        });
        work.underway.push_back(Underway { shard, seq, due, finished });
    }

    /// Adds the checkpoint that is due with a change, if there is one, to the change's batch.
    fn end_checkpoint(work: &mut Work, now: u64, batch: &mut Batch) -> Result<Option<Written>> {
        let Some(underway) = work.underway.pop_front_if(|next| next.due <= now) else {
            return Ok(None);
        };
        let Underway { shard, seq, due, finished } = underway;
        let Finished { mut rows, spare, size } = finished.wait()?;
        // The checkpoint has most of the rows.
        rows.append(batch);
        *batch = rows;
        Ok(Some(Written { shard, seq, due, spare, size }))
    }

    /// Makes a finished change the head.
    fn settle(&self, finished: FinishedChange) {
        let FinishedChange { mut version, logged, checkpoint } = finished;
        let mut work = self.work.lock();
        // A reader goes back one block at most.
        let older = work.unread.older();
        let back = match (&mut self.head.write().state, &older) {
            // From then on nothing else shares the version.
            (HeadState::Ahead(way_back), None) => way_back.take().map(|(_, back)| back),
            _ => None,
        };
        if back.is_none() {
            self.hold_all(&work.unread);
        }
        for (shard, keys, lost) in logged {
            work.logged[shard] = version.seq;
            work.written[shard] += keys;
            work.lost[shard].absorb(lost);
            self.changes.touches.wrote(shard, keys);
        }
        if let Some(Written { shard, seq, size, .. }) = checkpoint {
            work.saved[shard] = seq;
            if let Some(size) = size {
                let at = (seq, version.seq);
                let parts = &mut Arc::make_mut(&mut version).parts;
                let cache = self.options.cache_bytes;
                let kept = self.shrink(cache, shard, &mut parts[shard], &size, at);
                self.source.touches.set_measured(shard, kept);
            }
        }
        // Blocks may come seconds apart, and then the checkpoint is done before the next one.
        self.begin_checkpoint(&mut work, &version);
        *self.head.write() = version.into();
        work.unread.moved(back);
    }

    /// Drops nodes from memory until half of the cache is free, if it may be full. A layer that only reads has no blocks that
    /// would do so.
    pub(crate) fn make_room(&self) -> Result<()> {
        let touches = &self.source.touches;
        touches.begin_turn();
        if touches.may_be_full() { self.free_half(&self.work.lock()) } else { Ok(()) }
    }

    /// Drops nodes from memory until half of the cache is free. Visits all nodes in memory.
    fn free_half(&self, work: &Work) -> Result<()> {
        let touches = &self.source.touches;
        let mut version = (*self.head()?).clone();
        let (room, now) = (self.options.cache_bytes / 2, touches.now(version.seq));
        // Nodes that are read while the shards are measured count twice, not never.
        (0..SHARD_COUNT).for_each(|shard| touches.begin_measuring(shard));
        let sizes = version.parts.each_ref().map(|part| Size::of(part, now));
        for (shard, size) in sizes.iter().enumerate() {
            touches.set_measured(shard, size.bytes);
        }
        for (shard, (part, size)) in version.parts.iter_mut().zip(&sizes).enumerate() {
            let kept = self.shrink(room, shard, part, size, (work.saved[shard], now));
            touches.set_measured(shard, kept);
        }
        self.head.write().state = HeadState::Here(Arc::new(version));
        Ok(())
    }

    /// Drops from memory those nodes of a shard that the store has, the longest untouched first, until the shard is
    /// within its share of `room`, with an eighth to spare so that it is not due at once again. `size` is its size at its
    /// last measure. Returns its bytes afterwards.
    fn shrink(
        &self,
        room: usize,
        shard: usize,
        part: &mut Part,
        size: &Size,
        (saved, now): (u64, u64),
    ) -> usize {
        let share = room / SHARD_COUNT;
        // A shard may also use the room that the others leave: one contract's storage may be most of the state.
        let touches = &self.source.touches;
        let others = (0..SHARD_COUNT).filter(|other| *other != shard);
        let taken = others
            .map(|other| touches.at_most(other).min(share as u64).max(touches.measured(other)))
            .fold(0, u64::saturating_add);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        let share = share.max(room.saturating_sub(taken));
        if size.bytes <= share {
            return size.bytes;
        }
        let used_since = size.used_since(share - share / 8);
        let keep = Keep { levels: self.options.retain, saved, used_since, now };
        size.bytes.saturating_sub(part.prune(&keep))
    }

    /// Returns a reader of the head, which holds the head.
    pub(crate) fn reader(&self) -> Result<RainReader> {
        // The lock of the head is held here: the rows may be those of the next block, whose checkpoint is of this
        // version or an older one.
        if let HeadState::Here(version) = &self.head.read().state {
            return Ok(self.reader_of(version.clone()));
        }
        let _work = self.work.lock();
        Ok(self.reader_of(self.head()?))
    }

    fn reader_of(&self, version: Arc<Version>) -> RainReader {
        let Source { store, touches } = &self.source;
        RainReader { version, rows: store.snapshot(), touches: touches.clone() }
    }

    /// Returns a reader of the head, which holds nothing before it reads.
    pub(crate) fn head_reader(self: &Arc<Self>) -> Arc<HeadReader> {
        let mut work = self.work.lock();
        let root = self.head.read().root;
        work.unread.reader(self, root)
    }

    /// Makes a reader of a head take hold of its version.
    pub(crate) fn hold<'r>(&self, reader: &'r HeadReader) -> &'r Result<RainReader> {
        let _work = self.work.lock();
        self.hold_of(reader)
    }

    fn hold_all(&self, unread: &Unread) {
        for reader in unread.all() {
            let _ = self.hold_of(&reader);
        }
    }

    /// Makes a reader take hold of its version; if that fails, its reads do. The caller has locked `work`.
    fn hold_of<'r>(&self, reader: &'r HeadReader) -> &'r Result<RainReader> {
        reader.hold(|back| {
            let head = self.head()?;
            let version = match back {
                Some(back) => self.before(&head, &back, reader.root)?,
                None => head,
            };
            Ok(self.reader_of(version))
        })
    }
}
