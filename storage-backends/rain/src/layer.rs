//! The layer: its head, and how it moves.

use crate::{
    ACCOUNT_NODES, LOG, META, SHARD_COUNT, SHARDS, STORAGE_NODES,
    change::{change, key_count},
    check,
    checkpoint::{Finished, Underway, checkpoint, due_after, lag},
    load,
    log::{self, LogRow},
    meta::Meta,
    proof,
    reader::RainReader,
    session::RainSession,
    shard::{Lost, Shards},
    state::{Shardwise, State, read_state},
    touches::Source,
    version::{Part, Version, account_rows, rows_of, shard_of, storage_rows},
    witness::{self, Asked},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccount,
    LayerSession, Lifecycle, Outcome, Proof, SlotVisit, StateError, StateLayer, StateReader,
    Touched, Turn, UndoRecord, WipedSlots, Witness, WriteSet, write_codes,
};
use polytrie_trie::{
    Detour,
    cow::{CowTrie, Keep, StateTries},
    state_error,
};
use std::{collections::VecDeque, sync::Arc};

/// What the layer lets a user set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RainOptions {
    /// Levels of the account trie that always stay in memory.
    pub retain: usize,
    /// Bytes of nodes to keep in memory beyond what was changed since the last checkpoints and the levels that
    /// always stay.
    pub cache_bytes: usize,
    /// Whether blocks leave undo records. On a witness they cannot: what a wiped contract held is not in it.
    pub undo: bool,
}

impl Default for RainOptions {
    /// 4 levels, which take up to 60 MB, 1 GiB, and undo records.
    fn default() -> Self {
        Self { retain: 4, cache_bytes: 1 << 30, undo: true }
    }
}

/// The DSM-Tree as a state layer.
#[derive(Debug)]
pub struct RainLayer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) source: Source,
    pub(crate) lifecycle: Lifecycle,
    options: RainOptions,
    shards: Shards,
    head: RwLock<Head>,
    work: Mutex<Work>,
    /// Why the state cannot be used, if what was found is damaged.
    damage: RwLock<Option<StateError>>,
    witnesses: Mutex<Witnesses>,
}

/// Whether witnesses are made, and the last one.
#[derive(Debug, Default)]
struct Witnesses {
    /// Levels of the account trie that are left out; none are made without.
    levels: Option<u8>,
    last: Option<Witness>,
}

/// The state at the head. It is locked after [`Work`], where both are.
#[derive(Debug)]
struct Head {
    root: B256,
    /// `None` while a finished block, which took it and changed it, is neither accepted nor discarded.
    version: Option<Arc<Version>>,
}

impl From<Version> for Head {
    fn from(version: Version) -> Self {
        Self { root: version.root, version: Some(Arc::new(version)) }
    }
}

#[derive(Debug)]
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
        Self {
            saved: saved.map(|saved| saved.seq),
            lost,
            logged,
            written: [0; SHARD_COUNT],
            underway: VecDeque::new(),
            pending: None,
        }
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
    /// The checkpoint that is written with it, and the bytes of nodes that its shard had in memory.
    checkpoint: Option<(Underway, Option<usize>)>,
}

/// A change, computed.
struct Changed {
    version: Version,
    /// What it logs, and where it leads to.
    batch: Batch,
    /// The shards that it changed, how many keys in each, and what their rows lose.
    logged: Vec<(usize, u64, Lost)>,
}

impl RainLayer {
    /// The layer's name.
    pub const NAME: &'static str = "rain";

    /// The tables it needs in its store.
    pub const TABLES: &'static [Table] =
        &[ACCOUNT_NODES, STORAGE_NODES, SHARDS, LOG, META, CODE_TABLE];

    /// Opens the layer on what the store holds, replaying the logs of its shards; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn open(store: Store, options: RainOptions) -> Result<Arc<Self>, StateError> {
        let (damage, state) = match read_state(&store) {
            Ok(state) => (None, state),
            // What is damaged can still be checked, and loaded anew.
            Err(damage @ StateError::Corrupt(_)) => (Some(damage), State::empty()),
            Err(error) => return Err(error),
        };
        let State { version, shards } = state;
        let shared = Shared {
            lifecycle: Lifecycle::new(store.clone()),
            source: Source::new(store, options.cache_bytes),
            options,
            shards: Shards::start()?,
            head: RwLock::new(version.into()),
            work: Mutex::new(Work::of(shards)),
            damage: RwLock::new(damage),
            witnesses: Mutex::default(),
        };
        Ok(Arc::new(Self { shared: Arc::new(shared) }))
    }

    pub(crate) fn head_reader(&self) -> Result<RainReader, StateError> {
        self.shared.reader()
    }
}

impl Shared {
    /// Fails if the layer or the store failed before, or what was found is damaged.
    fn ready(&self) -> Result<(), StateError> {
        self.lifecycle.ready()?;
        self.damage.read().clone().map_or(Ok(()), Err)
    }

    /// Whether what a block asks for is to be noted.
    pub(crate) fn wants_asked(&self) -> bool {
        self.witnesses.lock().levels.is_some()
    }

    /// Computes a block.
    pub(crate) fn finish(
        &self,
        turn: Turn,
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
        let mut undo = Vec::new();
        if self.options.undo {
            let mut wiped = WipedSlots::new();
            for write in writes.accounts().iter().filter(|write| write.wipe) {
                wiped.push((write.hash, parent.slots(&self.source.store, &write.hash)?));
            }
            undo = UndoRecord::new(writes, wiped).encode();
        }
        // Whoever wants to read the head waits until the block can be taken back.
        let mut work = self.work.lock();
        self.lifecycle.check(&turn)?;
        let back = self.options.undo.then(|| undo.clone());
        if back.is_some() {
            self.head.write().version = None;
        }
        let version = Arc::try_unwrap(parent).unwrap_or_else(|shared| (*shared).clone());
        // After a failure the head may be half changed.
        let poison = |error| self.lifecycle.poison(error);
        let Changed { version, mut batch, logged } =
            self.change(&work, version, writes).map_err(poison)?;
        write_codes(&mut batch, writes.codes());
        let mut checkpoint = None;
        if let Some(underway) = work.underway.pop_front_if(|next| next.due <= version.seq) {
            let Finished { mut rows, bytes } = underway.finished.wait().map_err(poison)?;
            // Most of what is written is in it.
            rows.append(&batch);
            batch = rows;
            checkpoint = Some((underway, bytes));
        }
        let commitment = Commitment::state_root(version.root);
        work.pending = Some(Pending { version, back, logged, checkpoint });
        self.lifecycle.finish(turn)?;
        Ok(Outcome { commitment, batch, undo })
    }

    /// The version after a change, and what is logged of it.
    fn change(&self, work: &Work, from: Version, writes: &WriteSet) -> Result<Changed, StateError> {
        let seq = from.seq + 1;
        let (version, logs) = change(&self.source, from, writes, seq)?;
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
        let (mut version, _) = change(&self.source, after.clone(), &writes, after.seq)?;
        version.seq = after.seq - 1;
        if version.root != head.root {
            let reason = "the way back from a block does not lead to the state before it";
            return Err(self.lifecycle.poison(StateError::Protocol(reason)));
        }
        Ok(head.version.insert(Arc::new(version)).clone())
    }

    /// Begins a checkpoint of the head, if one is due.
    fn begin_checkpoint(&self, work: &mut Work, head: &Version) {
        let Some(shard) = due_after(head.seq) else { return };
        // The block may be begun once more, after one that was void.
        if work.underway.iter().any(|underway| underway.shard == shard) {
            return;
        }
        let last = work.underway.back().map_or(0, |last| last.due);
        let due = last.max(head.seq + lag(std::mem::take(&mut work.written[shard])));
        let underway = self.start_checkpoint(work, head, shard, due);
        work.underway.push_back(underway);
    }

    fn start_checkpoint(
        &self,
        work: &mut Work,
        head: &Version,
        shard: usize,
        due: u64,
    ) -> Underway {
        let seq = head.seq;
        let (part, store, since) =
            (head.parts[shard].clone(), self.source.store.clone(), work.saved[shard]);
        let lost = Arc::new(std::mem::take(&mut work.lost[shard]));
        let taken = lost.clone();
        let is_measured = self.source.touches.may_be_full();
        if is_measured {
            self.source.touches.begin_measuring(shard);
        }
        let finished = self.shards.ask(shard, move || {
            // The rows of a shard stay as they are until this checkpoint is written.
            let rows = checkpoint(shard, &part, (since, seq), &taken, &store)?;
            Ok(Finished { rows, bytes: is_measured.then(|| part.bytes()) })
        });
        Underway { shard, seq, due, lost, finished }
    }

    /// What is pending is the head now.
    fn settle(&self, work: &mut Work, pending: Pending) {
        let Pending { mut version, logged, checkpoint, .. } = pending;
        for (shard, keys, lost) in logged {
            work.logged[shard] = version.seq;
            work.written[shard] += keys;
            work.lost[shard].absorb(lost);
            self.source.touches.wrote(shard, keys);
        }
        if let Some((Underway { shard, seq, .. }, bytes)) = checkpoint {
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
            };
            if let Some(pruned) = part.pruned(&keep) {
                *part = pruned;
                bytes = part.bytes();
            }
        }
        bytes
    }

    fn reader(&self) -> Result<RainReader, StateError> {
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

impl StateLayer for RainLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        Commitment::state_root(self.shared.head.read().root)
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>, StateError> {
        self.shared.ready()?;
        Ok(Arc::new(self.shared.reader()?))
    }

    fn reader_ahead(&self) -> Result<Arc<dyn StateReader>, StateError> {
        self.shared.ready()?;
        Ok(Arc::new(RainReader { is_ahead: true, ..self.shared.reader()? }))
    }

    fn load(
        &self,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
    ) -> Result<Commitment, StateError> {
        let shared = &*self.shared;
        let mut work = shared.work.lock();
        shared.lifecycle.ready()?;
        load::load(&shared.source.store, accounts)?;
        let State { version, shards } = read_state(&shared.source.store)?;
        let commitment = Commitment::state_root(version.root);
        *work = Work::of(shards);
        *shared.head.write() = version.into();
        *shared.damage.write() = None;
        Ok(commitment)
    }

    fn begin(&self, _: BlockRef) -> Result<Box<dyn LayerSession>, StateError> {
        let shared = &self.shared;
        shared.ready()?;
        let turn = shared.lifecycle.begin()?;
        let mut work = shared.work.lock();
        let head = shared.head(&work)?;
        shared.begin_checkpoint(&mut work, &head);
        Ok(Box::new(RainSession::new(shared.clone(), turn, head)))
    }

    fn accept(&self) -> Result<(), StateError> {
        let shared = &*self.shared;
        let mut work = shared.work.lock();
        shared.lifecycle.accept()?;
        if let Some(pending) = work.pending.take() {
            shared.settle(&mut work, pending);
        }
        Ok(())
    }

    fn discard(&self) -> Result<(), StateError> {
        let shared = &*self.shared;
        let mut work = shared.work.lock();
        shared.lifecycle.discard()?;
        if work.pending.is_none() {
            return Ok(());
        }
        let head = shared.head(&work).map_err(|error| shared.lifecycle.poison(error))?;
        let void = work.pending.take().and_then(|pending| pending.checkpoint);
        if let Some((Underway { shard, due, lost, .. }, bytes)) = void {
            // It went with the block; what it covered is covered by another one. What was measured is so still.
            if let Some(bytes) = bytes {
                shared.source.touches.set_measured(shard, bytes);
            }
            work.lost[shard].absorb((*lost).clone());
            let again = shared.start_checkpoint(&mut work, &head, shard, due);
            work.underway.push_front(again);
        }
        Ok(())
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        let shared = &*self.shared;
        shared.ready()?;
        let turn = shared.lifecycle.begin()?;
        let mut work = shared.work.lock();
        let computed = UndoRecord::decode(record).and_then(|record| {
            let head = shared.head(&work)?;
            shared.change(&work, (*head).clone(), &record.into_writes())
        });
        let Changed { version, batch, logged } = match computed {
            Ok(computed) => computed,
            Err(error) => {
                shared.lifecycle.discard()?;
                return Err(error);
            }
        };
        let commitment = Commitment::state_root(version.root);
        work.pending = Some(Pending { version, back: None, logged, checkpoint: None });
        shared.lifecycle.finish(turn)?;
        Ok(Outcome { commitment, batch, undo: Vec::new() })
    }

    fn make_witnesses(&self, levels: Option<u8>) -> Result<(), StateError> {
        *self.shared.witnesses.lock() = Witnesses { levels, last: None };
        Ok(())
    }

    fn witness(
        &self,
        back: &[WriteSet],
        touched: &Touched,
    ) -> Result<(B256, Vec<Bytes>), StateError> {
        self.shared.ready()?;
        let reader = self.shared.reader()?;
        let (version, rows) = (&reader.version, &reader.noted());
        StateTries::new(version.whole(rows)?, rows_of(rows), version.seq)
            .past_witness(back, touched)
            .map_err(state_error)
    }

    fn take_witness(&self) -> Option<Witness> {
        self.shared.witnesses.lock().last.take()
    }

    fn fork(&self) -> Result<Fork, StateError> {
        self.shared.lifecycle.ready()?;
        let store = self.shared.source.store.fork()?;
        Ok(Fork { layer: Self::open(store.clone(), self.shared.options)?, store })
    }

    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
        self.shared.ready()?;
        proof::prove(&self.shared.reader()?, address, slots)
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError> {
        self.shared.ready()?;
        let RainReader { version, rows, .. } = self.shared.reader()?;
        for part in &version.parts[shard_of(&from)..] {
            let mut ended = false;
            let mut detour = Detour::default();
            let result = part.leaves(&from, &account_rows(&rows), &mut |hash, entry| {
                let flow = visit(*hash, entry.account).map_err(|error| detour.take(error))?;
                ended = flow.is_break();
                Ok(flow)
            });
            detour.resolve(result)?;
            if ended {
                break;
            }
        }
        Ok(())
    }

    fn slots(
        &self,
        account: B256,
        from: B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        self.shared.ready()?;
        let RainReader { version, rows, .. } = self.shared.reader()?;
        // The nodes on the way to the account are not worth keeping when the whole state is listed.
        let storage = version.look(&rows, &account, |entry| CowTrie::clone(&entry.storage))?;
        let Some(storage) = storage else { return Ok(()) };
        let mut detour = Detour::default();
        let result = storage.leaves(&from, &storage_rows(&rows, account), &mut |hash, value| {
            visit(*hash, value.0).map_err(|error| detour.take(error))
        });
        detour.resolve(result)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError> {
        self.shared.lifecycle.ready()?;
        if let Some(damage) = &*self.shared.damage.read() {
            let mut report = CheckReport::default();
            report.problem(damage.to_string());
            return Ok(report);
        }
        check::check(&self.shared.reader()?, progress)
    }
}
