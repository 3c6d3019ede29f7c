//! The head, and how it moves: blocks, ways back, checkpoints, and what has to leave memory.

use crate::{
    RainOptions, SHARD_COUNT,
    change::{change, key_count},
    checkpoint::{Finished, Underway, Written, checkpoint, due_after, lag},
    load,
    log::{self, LogRow},
    meta::Meta,
    reader::RainReader,
    shard::Lost,
    state::{Shardwise, State, read_state},
    touches::Source,
    version::{Part, Version},
    witness::{self, Asked},
    workers::{Awaited, Workers},
};
use alloy_primitives::B256;
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Commitment, GenesisAccount, Lifecycle, Outcome, SlotVisit, StateError, Turn, UndoRecord,
    Witness, WriteSet, write_codes,
};
use polytrie_trie::cow::Keep;
use std::{collections::VecDeque, sync::Arc};

/// What the layer and its sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) source: Source,
    /// The same for changes. Those of a fork bring nodes into memory that are its own, while it shares what it reads.
    changes: Source,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) options: RainOptions,
    /// Those who write checkpoints. A fork has none, as it does not live long.
    workers: Option<Workers>,
    pub(crate) head: RwLock<Head>,
    work: Mutex<Work>,
    pub(crate) witnesses: Mutex<Witnesses>,
}

/// Whether witnesses are made, and the last one.
#[derive(Debug, Default)]
pub(crate) struct Witnesses {
    /// Levels of the account trie that are left out; none are made without.
    pub(crate) levels: Option<u8>,
    pub(crate) last: Option<Witness>,
}

/// The state at the head. It is locked after [`Work`], where both are.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) root: B256,
    /// `None` while a finished block, which took it and changed it, is neither accepted nor discarded.
    version: Option<Arc<Version>>,
}

impl From<Version> for Head {
    fn from(version: Version) -> Self {
        Self { root: version.root, version: Some(Arc::new(version)) }
    }
}

#[derive(Debug, Default)]
struct Work {
    /// The change up to which the rows of each shard go.
    saved: [u64; SHARD_COUNT],
    /// What the rows of each shard have lost since the checkpoint that was begun last.
    lost: [Lost; SHARD_COUNT],
    /// Number of the last row of each shard's log.
    logged: [u64; SHARD_COUNT],
    /// Keys written to each shard since its last checkpoint was begun.
    written: [u64; SHARD_COUNT],
    /// Checkpoints that are not in the store yet, in the order in which they were begun and will be written.
    underway: VecDeque<Underway>,
    pending: Option<Pending>,
}

impl Work {
    fn of(shards: Shardwise) -> Self {
        let Shardwise { saved, lost, logged } = shards;
        Self { saved: saved.map(|saved| saved.seq), lost, logged, ..Self::default() }
    }
}

/// A change that is finished and not accepted.
#[derive(Debug)]
struct Pending {
    version: Version,
    /// The undo record, if the head before it was changed into it.
    back: Option<Vec<u8>>,
    /// The shards that it changed, how many keys in each, and what their rows lose.
    logged: Vec<(usize, u64, Lost)>,
    checkpoint: Option<Written>,
}

/// A change, computed.
struct Changed {
    version: Version,
    /// What it logs, and where it leads to.
    batch: Batch,
    /// The shards that it changed, how many keys in each, and what their rows lose.
    logged: Vec<(usize, u64, Lost)>,
}

impl Shared {
    /// What the store holds; an empty store is the empty state.
    pub(crate) fn open(store: Store, options: RainOptions) -> Result<Self, StateError> {
        let (lifecycle, State { version, shards }) =
            Lifecycle::opened(store.clone(), read_state(&store), || Ok(State::empty()))?;
        let source = Source::new(store, options.cache_bytes);
        Ok(Self {
            lifecycle,
            changes: source.clone(),
            source,
            options,
            workers: Some(Workers::start()?),
            head: RwLock::new(version.into()),
            work: Mutex::new(Work::of(shards)),
            witnesses: Mutex::default(),
        })
    }

    /// A layer that begins with the head and goes its own way on a fork of the store. What is in memory it shares, and keeps
    /// what it changes.
    pub(crate) fn fork(&self) -> Result<Self, StateError> {
        self.lifecycle.ready()?;
        let work = self.work.lock();
        if work.pending.is_some() {
            return Err(StateError::Protocol("a layer was forked while a block of it was pending"));
        }
        let version = self.head(&work)?;
        let Source { store, touches } = &self.source;
        let store = store.fork()?;
        let (saved, logged) = (work.saved, work.logged);
        Ok(Self {
            lifecycle: Lifecycle::new(store.clone()),
            source: Source { store: store.clone(), touches: touches.clone() },
            changes: Source::new(store, self.options.cache_bytes),
            options: self.options,
            workers: None,
            head: RwLock::new(Head { root: version.root, version: Some(version) }),
            work: Mutex::new(Work { saved, logged, ..Work::default() }),
            witnesses: Mutex::default(),
        })
    }

    /// Fills the store; what it holds then is the head.
    pub(crate) fn load(
        &self,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
    ) -> Result<Commitment, StateError> {
        let mut work = self.work.lock();
        self.lifecycle.fillable()?;
        load::load(&self.source.store, accounts)?;
        let State { version, shards } = read_state(&self.source.store)?;
        let commitment = Commitment::state_root(version.root);
        *work = Work::of(shards);
        *self.head.write() = version.into();
        self.lifecycle.filled();
        Ok(commitment)
    }

    /// Begins a block on the head, and a checkpoint of it if one is due.
    pub(crate) fn begin(&self) -> Result<(Turn, Arc<Version>), StateError> {
        let turn = self.lifecycle.begin()?;
        let mut work = self.work.lock();
        let head = self.head(&work)?;
        self.begin_checkpoint(&mut work, &head);
        Ok((turn, head))
    }

    /// Whether what a block asks for is to be noted.
    pub(crate) fn wants_asked(&self) -> bool {
        self.witnesses.lock().levels.is_some()
    }

    /// Computes a block.
    pub(crate) fn finish(
        &self,
        (turn, number): (Turn, u64),
        parent: Arc<Version>,
        (writes, asked): (&WriteSet, Option<Asked>),
    ) -> Result<Outcome, StateError> {
        if let Some(asked) = asked {
            let levels = self.witnesses.lock().levels;
            let witness = levels
                .map(|levels| witness::make(&parent, &self.source.noted(), &asked, writes, levels))
                .transpose()?;
            self.witnesses.lock().last = witness;
        }
        let mut undo = None;
        if self.options.undo {
            let store = &self.source.store;
            let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
                parent.visit_slots(store, account, &B256::ZERO, visit)
            };
            undo = Some(UndoRecord::of(writes, (store, number), slots)?);
        }
        // Whoever wants to read the head waits until the block can be taken back.
        let mut work = self.work.lock();
        self.lifecycle.check(&turn)?;
        // A version whose way back is not in the record alone stays as it is.
        let back = undo.as_ref().filter(|undo| undo.is_whole()).map(UndoRecord::encode);
        let undo = undo.map(|undo| undo.encode()).unwrap_or_default();
        if back.is_some() {
            self.head.write().version = None;
        }
        let version = Arc::try_unwrap(parent).unwrap_or_else(|shared| (*shared).clone());
        // After a failure the head may be half changed.
        let poison = |error| self.lifecycle.poison(error);
        let Changed { version, mut batch, logged } =
            self.change(&work, version, writes).map_err(poison)?;
        write_codes(&mut batch, writes.codes());
        let checkpoint =
            Self::end_checkpoint(&mut work, version.seq, &mut batch).map_err(poison)?;
        let commitment = Commitment::state_root(version.root);
        work.pending = Some(Pending { version, back, logged, checkpoint });
        self.lifecycle.finish(turn)?;
        Ok(Outcome { commitment, batch, undo })
    }

    /// Computes the way back from the head. That is a change like a block: many of them, as where the steps of a way
    /// back are many, would fill the memory without checkpoints.
    pub(crate) fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        let (turn, writes) = self.lifecycle.begin_undo(record)?;
        let mut work = self.work.lock();
        let head = self.head(&work).map_err(|error| self.lifecycle.give_up(error))?;
        self.begin_checkpoint(&mut work, &head);
        let Changed { version, mut batch, logged } =
            self.change(&work, (*head).clone(), &writes)
                .map_err(|error| self.lifecycle.give_up(error))?;
        let checkpoint = Self::end_checkpoint(&mut work, version.seq, &mut batch)
            .map_err(|error| self.lifecycle.poison(error))?;
        let commitment = Commitment::state_root(version.root);
        work.pending = Some(Pending { version, back: None, logged, checkpoint });
        self.lifecycle.finish(turn)?;
        Ok(Outcome { commitment, batch, undo: Vec::new() })
    }

    /// The version after a change, and what is logged of it.
    fn change(&self, work: &Work, from: Version, writes: &WriteSet) -> Result<Changed, StateError> {
        let seq = from.seq + 1;
        let (version, logs) = change(&self.changes, from, writes, seq)?;
        let mut batch = self.source.store.batch();
        let mut logged = Vec::with_capacity(logs.len());
        for (shard, writes, lost) in logs {
            logged.push((shard, key_count(&writes), lost));
            // What was logged before a checkpoint is gone, and not known after a restart.
            let before = work.logged[shard].max(work.saved[shard]);
            log::write(&mut batch, shard, seq, &LogRow { before, writes });
        }
        Meta { seq, root: version.root }.write(&mut batch);
        Ok(Changed { version, batch, logged })
    }

    /// The head, made again if a block that is finished has changed it.
    fn head(&self, work: &Work) -> Result<Arc<Version>, StateError> {
        let mut head = self.head.write();
        if let Some(version) = &head.version {
            return Ok(version.clone());
        }
        let pending = work.pending.as_ref();
        let way_back = pending.and_then(|pending| Some((&pending.version, pending.back.as_ref()?)));
        let Some((after, back)) = way_back else {
            self.lifecycle.ready()?;
            return Err(StateError::Protocol("the head was changed by a block that is not there"));
        };
        let writes = UndoRecord::decode(back)?.into_writes();
        let (mut version, _) = change(&self.changes, after.clone(), &writes, after.seq)?;
        version.seq = after.seq - 1;
        if version.root != head.root {
            let reason = "the way back from a block does not lead to the state before it";
            return Err(self.lifecycle.poison(StateError::Protocol(reason)));
        }
        Ok(head.version.insert(Arc::new(version)).clone())
    }

    /// Begins a checkpoint of the head, if one is due.
    fn begin_checkpoint(&self, work: &mut Work, head: &Version) {
        let (Some(shard), Some(workers)) = (due_after(head.seq), &self.workers) else { return };
        // The block may be begun once more, after one that was void.
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
            // The rows of a shard stay as they are until this checkpoint is written.
            let rows = checkpoint(shard, &part, (since, seq), &lost, &store)?;
            let bytes = is_measured.then(|| part.bytes());
            Ok(Finished { spare: rows.clone(), rows, bytes })
        });
        work.underway.push_back(Underway { shard, seq, due, finished });
    }

    /// Adds to the batch of a change the checkpoint that is due with it, if one is.
    fn end_checkpoint(
        work: &mut Work,
        now: u64,
        batch: &mut Batch,
    ) -> Result<Option<Written>, StateError> {
        let Some(underway) = work.underway.pop_front_if(|next| next.due <= now) else {
            return Ok(None);
        };
        let Underway { shard, seq, due, finished } = underway;
        let Finished { mut rows, spare, bytes } = finished.wait()?;
        // Most of what is written is in it.
        rows.append(batch);
        *batch = rows;
        Ok(Some(Written { shard, seq, due, spare, bytes }))
    }

    /// What is finished is in the store.
    pub(crate) fn accept(&self) -> Result<(), StateError> {
        let mut work = self.work.lock();
        self.lifecycle.accept()?;
        if let Some(pending) = work.pending.take() {
            self.settle(&mut work, pending);
        }
        Ok(())
    }

    /// What is finished never will be.
    pub(crate) fn discard(&self) -> Result<(), StateError> {
        let mut work = self.work.lock();
        self.lifecycle.discard()?;
        if work.pending.is_none() {
            return Ok(());
        }
        self.head(&work).map_err(|error| self.lifecycle.poison(error))?;
        let void = work.pending.take().and_then(|pending| pending.checkpoint);
        if let Some(Written { shard, seq, due, spare, bytes }) = void {
            // It goes with another block, and what was measured is so still.
            if let Some(bytes) = bytes {
                self.source.touches.set_measured(shard, bytes);
            }
            let finished = Finished { rows: spare.clone(), spare, bytes };
            let finished = Awaited::ready(finished);
            work.underway.push_front(Underway { shard, seq, due, finished });
        }
        Ok(())
    }

    /// What is pending is the head now.
    fn settle(&self, work: &mut Work, pending: Pending) {
        let Pending { mut version, logged, checkpoint, .. } = pending;
        for (shard, keys, lost) in logged {
            work.logged[shard] = version.seq;
            work.written[shard] += keys;
            work.lost[shard].absorb(lost);
            self.changes.touches.wrote(shard, keys);
        }
        if let Some(Written { shard, seq, bytes, .. }) = checkpoint {
            work.saved[shard] = seq;
            if let Some(bytes) = bytes {
                let at = (seq, version.seq);
                let kept = self.shrink(shard, &mut version.parts[shard], bytes, at);
                self.source.touches.set_measured(shard, kept);
            }
        }
        *self.head.write() = version.into();
    }

    /// Lets go of nodes of a shard that the store has until it keeps its share of the memory, the longest untouched
    /// first. `bytes` is what it had at its last checkpoint. Returns what it keeps.
    fn shrink(
        &self,
        shard: usize,
        part: &mut Part,
        mut bytes: usize,
        (saved, now): (u64, u64),
    ) -> usize {
        let share = self.options.cache_bytes / SHARD_COUNT;
        // What the others leave: one contract's storage may be most of the state.
        let touches = &self.source.touches;
        let others = (0..SHARD_COUNT).filter(|other| *other != shard);
        let taken = others
            .map(|other| touches.at_most(other).min(share as u64).max(touches.measured(other)))
            .fold(0, u64::saturating_add);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        let share = share.max(self.options.cache_bytes.saturating_sub(taken));
        for age in [1 << 12, 1 << 10, 256, 64, 0] {
            if bytes <= share {
                break;
            }
            let keep = Keep {
                levels: self.options.retain,
                saved,
                used_since: now.saturating_sub(age).saturating_add(1),
                now,
            };
            if let Some(pruned) = part.pruned(&keep) {
                *part = pruned;
                bytes = part.bytes();
            }
        }
        bytes
    }

    pub(crate) fn reader(&self) -> Result<RainReader, StateError> {
        let reader = |version: &Arc<Version>| RainReader {
            version: version.clone(),
            rows: self.source.store.snapshot(),
            touches: self.source.touches.clone(),
            is_ahead: false,
        };
        // Under the lock: the rows may be those of the next block, whose checkpoint is of this version or an older one.
        if let Some(version) = &self.head.read().version {
            return Ok(reader(version));
        }
        let work = self.work.lock();
        Ok(reader(&self.head(&work)?))
    }
}
