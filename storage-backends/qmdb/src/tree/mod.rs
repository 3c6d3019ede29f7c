//! The crate's database, and the steps that it does not have yet.
//!
//! ```text
//! finish   what waits ──► overlay: root and operations of the block, in memory
//! accept   waiting: … │ overlay of the block
//!          enough waits ──► what is durable of it in the chain's store is one commit, but for the newest blocks
//! undo     the overlay goes; where nothing waits any more, the log is to be cut, which is done before the next block
//! open     the log is looked for in the trail: what it lacks is taken step by step
//! ```
//!
//! A fork copies the files when it needs them, and goes on by itself.

mod database;
mod failure;
mod files;
mod fill;
mod follow;
mod scrub;

pub(crate) use database::{CHUNK, DbKey, DbValue, VALUE};

use crate::{
    FLAT, NAME, QmdbOptions,
    mark::{Log, Mark, Step},
    proof::Way,
};
use database::{Database, Overlay, log_of};
use files::Files;
use parking_lot::Mutex;
use polytrie_kv::{DirLock, Sorter, Store};
use polytrie_state::{
    CheckReport, Horizon, StateError, Trail, WriteSet,
    flat::FlatTables,
    foreign::{Changes, Foreign, Key, Limits, Next, Row, Waiting, Waits, changed, make_durable},
};
use scrub::Scrub;
use std::{
    collections::VecDeque,
    fmt::{self, Debug},
    sync::Arc,
};

/// Bytes that an overlay holds for a key; an estimate.
const BYTES_A_KEY: usize = 1 << 10;
/// Blocks that are not committed with those below, as they may be taken back: below them the log is to be opened anew.
const NEWEST: usize = 32;
/// Bytes of cache for the copy of a fork.
const FORK_CACHE: usize = 16 << 20;

/// What a block amounts to in the database.
#[derive(Clone)]
pub struct Computed {
    /// The log after it.
    log: Log,
    changes: Arc<Changes>,
    /// None where it was computed on the database that a fork comes from.
    overlay: Option<Arc<Overlay>>,
}

impl Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed").field("log", &self.log).finish_non_exhaustive()
    }
}

/// What the database gets to do with a step.
#[derive(Debug)]
pub enum Work {
    /// A block.
    Block {
        /// Its number.
        number: u64,
        /// What it amounts to.
        computed: Computed,
    },
    /// The way back.
    Back(Mark),
}

/// A block that the database does not have.
#[derive(Debug, Clone)]
struct Block {
    computed: Computed,
    /// The first block that could still be taken back when it came.
    undo_from: u64,
}

/// What must be there to go back to a block.
#[derive(Debug, Clone, Copy)]
struct Kept {
    block: u64,
    operations: u64,
    /// The first operation that is needed.
    first: u64,
}

/// The database.
#[derive(Debug)]
pub struct Tree {
    // Fields drop in this order: it is closed before copies of its files go.
    state: Mutex<State>,
    files: Files,
}

#[derive(Debug, Default)]
struct State {
    /// Once it was asked for. The lock goes after it.
    open: Option<(Database, DirLock)>,
    /// Why it is not used any more.
    failed: Option<StateError>,
    /// The log in the files.
    at: Log,
    /// Where what waits begins: if that is not the log in the files, this one is to be cut.
    base: Log,
    /// The step that led there, and its batch, if the log is to be cut.
    cut: Option<(u64, u64)>,
    waiting: Waiting<Block>,
    /// The last step that the files have.
    done: u64,
    /// The first operation in the files.
    first: u64,
    /// Blocks since it was opened, as far as they can be taken back.
    kept: VecDeque<Kept>,
    /// The first block that may still be taken back.
    undo_from: u64,
    /// Shared with the forks that have no files yet.
    forks: Arc<()>,
    /// Where the files of a fork come from, until it has them.
    origin: Option<Origin>,
}

/// What a fork comes from.
#[derive(Debug)]
struct Origin {
    tree: Arc<Tree>,
    _fork: Arc<()>,
}

impl State {
    fn database(&self) -> Result<&Database, StateError> {
        let open = self.open.as_ref().map(|(database, _)| database);
        open.ok_or(StateError::Protocol("the database is closed"))
    }

    fn has_forks(&self) -> bool {
        Arc::strong_count(&self.forks) > 1
    }

    /// The log after what waits.
    fn tip(&self) -> Log {
        self.waiting.last().map_or(self.base, |last| last.work.computed.log)
    }

    /// Does something after which, if it fails, nobody knows what is in memory and what in the files.
    fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        work(self).inspect_err(|error| {
            self.open = None;
            self.failed = Some(error.clone());
        })
    }

    /// The way back to an earlier log, which is this step of the trail in this batch.
    fn go_back(&mut self, cut: (u64, u64), to: Log) {
        while self.tip() != to && self.waiting.pop().is_some() {}
        if self.tip() != to {
            (self.base, self.cut) = (to, Some(cut));
        }
        while self.kept.pop_back_if(|kept| kept.operations > to.operations).is_some() {}
    }

    /// The first operation that is needed to go back to before the block `undo_from`, if a whole file is below it.
    fn prunable(&mut self, undo_from: u64, file: u64) -> Option<u64> {
        let passed = self.kept.partition_point(|kept| kept.block < undo_from);
        // The block before the first one that may be taken back is where the way leads to.
        self.kept.drain(..passed.saturating_sub(1));
        let oldest = self.kept.front().filter(|_| passed > 0 && !self.has_forks())?;
        (oldest.first >= self.first + file).then_some(oldest.first)
    }
}

impl Foreign for Tree {
    const NAME: &'static str = NAME;
    const FLAT: FlatTables = FLAT;
    const TELLS_STATE: bool = false;
    const NODES: &'static str = "operations";

    type Options = QmdbOptions;
    type Mark = Mark;
    type Step = Step;
    type Work = Work;
    type Way = Way;

    fn new(options: QmdbOptions) -> Self {
        Self { files: Files::new(options), state: Mutex::default() }
    }

    fn follows_on_disk(&self) -> bool {
        self.files.are_kept() && !self.files.options.read_only
    }

    fn open(&self, trail: &Trail<Mark>, store: &Store) -> Result<(), StateError> {
        self.opened(&mut self.state.lock(), trail, store)
    }

    fn reserve(&self, old: &Mark) -> Result<Mark, StateError> {
        if self.state.lock().has_forks() {
            return Err(StateError::Protocol("a layer was filled while it had a fork"));
        }
        // Lost files are not those to come.
        Ok(Mark { files: self.files.reserve(old.files)?, log: Log::default() })
    }

    fn clear(&self, old: &Mark) -> Result<(), StateError> {
        // Closed before its files go.
        *self.state.lock() = State::default();
        self.files.remove(old.files)
    }

    fn fill(&self, store: &Store, reserved: &Mark) -> Result<Mark, StateError> {
        let mut state = self.state.lock();
        let files = reserved.files;
        let filled = self.make(&mut state, store, files);
        let log = filled.inspect_err(|_| *state = State::default())?;
        Ok(Mark { files, log })
    }

    fn forward(
        &self,
        from: &Trail<Mark>,
        store: &Store,
        number: u64,
        writes: &WriteSet,
    ) -> Result<Option<Next<Self>>, StateError> {
        let changes = changed(&FLAT, store, writes, None)?;
        if changes.is_empty() {
            return Ok(None);
        }
        let computed = self.compute(from, store, changes)?;
        let mark = Mark { log: computed.log, ..from.mark() };
        let step = Step::Block(Arc::clone(&computed.changes));
        Ok(Some(Next { mark, step, work: Work::Block { number, computed } }))
    }

    /// The last step leads to the log before the block; the others change flat rows only.
    fn back(
        &self,
        from: &Trail<Mark>,
        _: &Store,
        _: &WriteSet,
        to: Option<Mark>,
    ) -> Result<Option<Next<Self>>, StateError> {
        let to = to.filter(|to| *to != from.mark());
        Ok(to.map(|mark| Next { mark, step: Step::Back, work: Work::Back(mark) }))
    }

    fn accept(&self, store: &Store, step: u64, work: Work) -> Result<(), StateError> {
        let mut state = self.state.lock();
        let batch = store.progress().written;
        let (number, computed) = match work {
            Work::Block { number, computed } => (number, computed),
            Work::Back(to) => {
                state.go_back((step, batch), to.log);
                return Ok(());
            }
        };
        if let Some(overlay) = &computed.overlay {
            let (operations, first) = (computed.log.operations, *overlay.sync_boundary());
            state.kept.push_back(Kept { block: number, operations, first });
        }
        let (keys, undo_from) = (computed.changes.len(), state.undo_from);
        let work = Block { computed, undo_from };
        state.waiting.push(Waits { step, batch, keys, work });
        state.attempt(|state| {
            let keys = self.files.options.cache_bytes / BYTES_A_KEY;
            let limits = Limits { keys, newest: NEWEST, is_kept: self.files.are_kept() };
            let count = state.waiting.due(store, limits)?;
            self.commit(state, count)
        })
    }

    fn done(&self) -> u64 {
        self.state.lock().done
    }

    fn fork(self: &Arc<Self>, trail: &Trail<Mark>, store: &Store) -> Result<Self, StateError> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store)?;
        let options = QmdbOptions {
            dir: None,
            temporary: self.files.within().to_owned(),
            cache_bytes: self.files.options.cache_bytes.min(FORK_CACHE),
            ..self.files.options.clone()
        };
        let mut waiting = state.waiting.clone();
        waiting.iter_mut().for_each(|next| next.work.computed.overlay = None);
        let origin = Origin { tree: Arc::clone(self), _fork: Arc::clone(&state.forks) };
        let (base, done) = (state.base, state.done);
        let fork = State { base, waiting, done, origin: Some(origin), ..State::default() };
        Ok(Self { files: Files::new(options), state: Mutex::new(fork) })
    }

    fn prove(
        &self,
        trail: &Trail<Mark>,
        store: &Store,
        keys: Vec<Key>,
    ) -> Result<Option<Vec<Way>>, StateError> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store)?;
        if state.tip() != trail.mark().log {
            return Ok(None);
        }
        state.attempt(|state| {
            self.settle(state, store)?;
            if let Some(last) = state.waiting.last() {
                make_durable(store, last.batch, self.files.are_kept())?;
                self.commit(state, state.waiting.len())?;
            }
            Ok(())
        })?;
        // Nothing changes with a proof, not even if it cannot be read.
        let proofs = state.database()?.prove(keys)?;
        Ok(Some(proofs.into_iter().map(|proof| Way(proof.into())).collect()))
    }

    fn scrub(
        &self,
        trail: &Trail<Mark>,
        store: &Store,
        rows: Sorter<Row>,
        report: &mut CheckReport,
    ) -> Result<(), StateError> {
        Scrub { tree: self, trail, store, report, ends: None }.all(rows)
    }

    fn advance(&self, horizon: Horizon) {
        self.state.lock().undo_from = horizon.undo_from;
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let state = self.state.lock();
        let path = state.database().ok().map(|database| database.path.clone());
        vec![
            ("operations", state.at.operations - state.first.min(state.at.operations)),
            ("steps_behind", state.waiting.len() as u64),
            ("file_bytes", path.map_or(0, |path| files::bytes(&path))),
        ]
    }
}

impl Tree {
    /// What changes amount to after the end of the trail.
    fn compute(
        &self,
        trail: &Trail<Mark>,
        store: &Store,
        changes: Changes,
    ) -> Result<Computed, StateError> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store)?;
        if state.tip() != trail.mark().log {
            return Err(StateError::Protocol("the database is not where the trail ends"));
        }
        state.attempt(|state| {
            self.settle(state, store)?;
            let on = state.waiting.last().and_then(|last| last.work.computed.overlay.clone());
            let changes = Arc::new(changes);
            let overlay = state.database()?.compute(on, Arc::clone(&changes))?;
            Ok(Computed { log: log_of(&overlay), changes, overlay: Some(overlay) })
        })
    }

    /// Cuts the log if that is to be done.
    fn settle(&self, state: &mut State, store: &Store) -> Result<(), StateError> {
        let Some((step, batch)) = state.cut else { return Ok(()) };
        // Else the files might lack what the trail does not have any more.
        make_durable(store, batch, self.files.are_kept())?;
        state.at = state.database()?.go_back(state.base.operations)?;
        follow::expect(state.at, state.base)?;
        (state.done, state.cut) = (step, None);
        Ok(())
    }

    /// Commits the first blocks that wait.
    fn commit(&self, state: &mut State, count: usize) -> Result<(), StateError> {
        let Some(last) = count.checked_sub(1).and_then(|last| state.waiting.get(last)) else {
            return Ok(());
        };
        let Waits { step, work: Block { computed, undo_from }, .. } = last.clone();
        let overlay = computed.overlay;
        let overlay = overlay.ok_or(StateError::Protocol("a block was committed uncomputed"))?;
        // A crash leads back to what is durable, and from there blocks are taken back as they could be then.
        let needed = state.prunable(undo_from, self.files.options.file_operations);
        let database = state.database()?;
        database.apply(overlay)?;
        state.first = database.sync(needed)?;
        (state.at, state.base, state.done) = (computed.log, computed.log, step);
        state.waiting.take(count);
        Ok(())
    }
}
