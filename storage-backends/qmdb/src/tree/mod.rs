//! The crate's database, and the steps that it does not have yet.
//!
//! ```text
//! finish   waiting blocks ──► overlay: root and operations of the block, in memory
//! accept   waiting: … │ overlay of the block
//!          enough waits ──► the blocks that are durable in the chain's store are one commit, except for the newest ones
//! undo     the overlay is dropped; where no block waits any more, the log is marked to be cut, before the next block
//! open     the log is looked for in the trail: the steps that it lacks are applied one by one
//! ```
//!
//! A fork copies the files when it needs them, and is independent from then on. Its origin proves what both have.

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
use database::{Active, Database, Overlay, log_of};
use files::Files;
use parking_lot::Mutex;
use polytrie_kv::{DirLock, Sorter, Store};
use polytrie_state::{
    CheckReport, Horizon, Result, StateError, Trail, WriteSet,
    flat::FlatTables,
    foreign::{
        Changes, Foreign, Key, Limits, Next, Row, Waiting, Waits, changed, due, make_durable,
    },
};
use scrub::Scrub;
use std::{collections::VecDeque, sync::Arc};

/// Bytes that an overlay holds for a key; an estimate.
const BYTES_A_KEY: usize = 1 << 10;
/// Number of newest blocks that are not committed yet, as they may be undone: to go back below them, the log must
/// be opened again.
const NEWEST: usize = 32;
/// Bytes of cache for the copy of a fork.
const FORK_CACHE: usize = 16 << 20;

/// The result of a block in the database.
#[derive(Clone)]
pub struct Computed {
    /// The log after the block.
    log: Log,
    changes: Arc<Changes>,
    /// The overlay; `None` if it was computed on the database that a fork comes from.
    overlay: Option<Arc<Overlay>>,
}

polytrie_kv::debug_fields!(Computed { log });

/// The work of the database for a step.
#[derive(Debug)]
pub enum Work {
    /// A block.
    Block {
        /// The number of the block.
        number: u64,
        /// The result of the block.
        computed: Computed,
    },
    /// An undo to this mark.
    Back(Mark),
}

/// A block that the database does not have yet.
#[derive(Debug, Clone)]
struct Block {
    computed: Computed,
    /// The first block that could still be undone when this one came.
    undo_from: u64,
}

/// The data that must be kept to go back to a block.
#[derive(Debug, Clone, Copy)]
struct Kept {
    block: u64,
    operations: u64,
    /// Number of the first operation that is needed.
    first: u64,
}

/// The database as the layer drives it.
#[derive(Debug)]
pub struct Tree {
    // Fields drop in this order: the database is closed before copies of its files are removed.
    state: Mutex<State>,
    files: Files,
}

#[derive(Debug, Default)]
struct State {
    /// The open database, once it was needed. The lock is dropped after it.
    open: Option<(Database, DirLock)>,
    /// The failure after which the database is not used any more.
    failed: Option<StateError>,
    /// The log in the files.
    at: Log,
    /// The log below the waiting blocks. If it is not the log in the files, that one must be cut.
    base: Log,
    /// The step that led to the base, and its batch, if the log must be cut.
    cut: Option<(u64, u64)>,
    waiting: Waiting<Block>,
    /// Number of the last step that the files have.
    done: u64,
    /// Number of the first operation in the files.
    first: u64,
    /// The blocks since opening, as far as they can be undone.
    kept: VecDeque<Kept>,
    /// The first block that may still be undone.
    undo_from: u64,
    /// A token that is shared with the forks that have no files yet.
    forks: Arc<()>,
    /// The origin of a fork's files, until it has copied them.
    origin: Option<Origin>,
}

/// The database that a fork comes from.
#[derive(Debug)]
struct Origin {
    tree: Arc<Tree>,
    /// The chain's store of that database, and the end of the trail when the fork was made.
    store: Store,
    trail: Trail<Mark>,
    _fork: Arc<()>,
}

impl State {
    fn database(&self) -> Result<&Database> {
        let open = self.open.as_ref().map(|(database, _)| database);
        open.ok_or(StateError::Protocol("the database is closed"))
    }

    fn has_forks(&self) -> bool {
        Arc::strong_count(&self.forks) > 1
    }

    /// Returns the log after the waiting blocks.
    fn tip(&self) -> Log {
        self.waiting.back().map_or(self.base, |last| last.work.computed.log)
    }

    /// Runs work after whose failure the states of memory and files are unknown, so that the database is not used
    /// again.
    fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        work(self).inspect_err(|error| {
            self.open = None;
            self.failed = Some(error.clone());
        })
    }

    /// Goes back to an earlier log; `cut` is the number of this step of the trail and of its batch.
    fn go_back(&mut self, cut: (u64, u64), to: Log) {
        while self.tip() != to && self.waiting.pop_back().is_some() {}
        if self.tip() != to {
            (self.base, self.cut) = (to, Some(cut));
        }
        while self.kept.pop_back_if(|kept| kept.operations > to.operations).is_some() {}
    }

    /// Returns the first operation that is needed to go back to before the block `undo_from`, if a whole file is
    /// below it.
    fn prunable(&mut self, undo_from: u64, file: u64) -> Option<u64> {
        let passed = self.kept.partition_point(|kept| kept.block < undo_from);
        // Taking back the first possible block leads to the block before it.
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

    fn open(&self, trail: &Trail<Mark>, store: &Store) -> Result<()> {
        self.opened(&mut self.state.lock(), trail, store)
    }

    fn reserve(&self, old: &Mark) -> Result<Mark> {
        if self.state.lock().has_forks() {
            return Err(StateError::Protocol("a layer was filled while it had a fork"));
        }
        // Lost files must not be taken for the new ones.
        Ok(Mark { files: self.files.reserve(old.files)?, log: Log::default() })
    }

    fn clear(&self, old: &Mark) -> Result<()> {
        // The database is closed before its files are removed.
        *self.state.lock() = State::default();
        self.files.remove(old.files)
    }

    fn fill(&self, store: &Store, reserved: &Mark) -> Result<Mark> {
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
    ) -> Result<Option<Next<Self>>> {
        let changes = changed(&FLAT, store, writes, None)?;
        if changes.is_empty() {
            return Ok(None);
        }
        let computed = self.compute(from, store, changes)?;
        let mark = Mark { log: computed.log, ..from.mark() };
        let step = Step::Block(Arc::clone(&computed.changes));
        Ok(Some(Next { mark, step, work: Work::Block { number, computed } }))
    }

    /// Only the last step leads to the log before the block; the others change flat rows alone.
    fn back(
        &self,
        from: &Trail<Mark>,
        _: &Store,
        _: &WriteSet,
        to: Option<Mark>,
    ) -> Result<Option<Next<Self>>> {
        let to = to.filter(|to| *to != from.mark());
        Ok(to.map(|mark| Next { mark, step: Step::Back, work: Work::Back(mark) }))
    }

    fn accept(&self, store: &Store, step: u64, work: Work) -> Result<()> {
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
        state.waiting.push_back(Waits { step, batch, keys, work });
        state.attempt(|state| {
            let keys = self.files.options.cache_bytes / BYTES_A_KEY;
            let limits = Limits { keys, newest: NEWEST, is_kept: self.files.are_kept() };
            let count = due(&state.waiting, store, limits)?;
            self.commit(state, count)
        })
    }

    fn done(&self) -> u64 {
        self.state.lock().done
    }

    fn fork(self: &Arc<Self>, trail: &Trail<Mark>, store: &Store) -> Result<Self> {
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
        let (tree, store, forks) = (Arc::clone(self), store.clone(), Arc::clone(&state.forks));
        let origin = Origin { tree, store, trail: *trail, _fork: forks };
        let (base, done) = (state.base, state.done);
        let fork = State { base, waiting, done, origin: Some(origin), ..State::default() };
        Ok(Self { files: Files::new(options), state: Mutex::new(fork) })
    }

    fn prove(
        &self,
        trail: &Trail<Mark>,
        store: &Store,
        keys: Vec<Key>,
    ) -> Result<Option<Vec<Way>>> {
        let mut state = self.state.lock();
        // As long as neither a fork nor its origin has moved, no copy of the files is needed.
        if let Some(origin) = &state.origin
            && origin.trail.mark() == trail.mark()
            && state.tip() == trail.mark().log
            && let Some(ways) = origin.tree.prove(&origin.trail, &origin.store, keys.clone())?
        {
            return Ok(Some(ways));
        }
        self.opened(&mut state, trail, store)?;
        if state.tip() != trail.mark().log {
            return Ok(None);
        }
        self.level(&mut state, store)?;
        // A proof changes nothing, even if it cannot be read.
        let proofs = state.database()?.prove(keys)?;
        Ok(Some(proofs.into_iter().map(|proof| Way(proof.into())).collect()))
    }

    fn scrub(
        &self,
        trail: &Trail<Mark>,
        store: &Store,
        rows: Sorter<Row>,
        report: &mut CheckReport,
    ) -> Result<()> {
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
    /// Computes the step of changes after the end of the trail.
    fn compute(&self, trail: &Trail<Mark>, store: &Store, changes: Changes) -> Result<Computed> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store)?;
        if state.tip() != trail.mark().log {
            return Err(StateError::Protocol("the database is not where the trail ends"));
        }
        state.attempt(|state| {
            self.settle(state, store)?;
            let on = state.waiting.back().and_then(|last| last.work.computed.overlay.clone());
            let changes = Arc::new(changes);
            let overlay = state.database()?.compute(on, Arc::clone(&changes))?;
            Ok(Computed { log: log_of(&overlay), changes, overlay: Some(overlay) })
        })
    }

    /// Reads active operations for a check, from number `from` on, and compares them with the root at the end of the
    /// trail.
    fn active(&self, trail: &Trail<Mark>, store: &Store, from: u64, most: usize) -> Result<Active> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store)?;
        if state.tip() != trail.mark().log {
            return Err(StateError::Protocol("a block was accepted while a check was under way"));
        }
        self.level(&mut state, store)?;
        state.database()?.active(from, most, trail.mark().log.root)
    }

    /// Commits all waiting blocks.
    fn level(&self, state: &mut State, store: &Store) -> Result<()> {
        state.attempt(|state| {
            self.settle(state, store)?;
            if let Some(last) = state.waiting.back() {
                make_durable(store, last.batch, self.files.are_kept())?;
                self.commit(state, state.waiting.len())?;
            }
            Ok(())
        })
    }

    /// Cuts the log if it must be cut.
    fn settle(&self, state: &mut State, store: &Store) -> Result<()> {
        let Some((step, batch)) = state.cut else { return Ok(()) };
        // Otherwise the files might lack steps that the trail does not have any more.
        make_durable(store, batch, self.files.are_kept())?;
        state.at = state.database()?.go_back(state.base.operations)?;
        follow::expect(state.at, state.base)?;
        (state.done, state.cut) = (step, None);
        Ok(())
    }

    /// Commits the first `count` waiting blocks.
    fn commit(&self, state: &mut State, count: usize) -> Result<()> {
        let Some(last) = count.checked_sub(1).and_then(|last| state.waiting.get(last)) else {
            return Ok(());
        };
        let Waits { step, work: Block { computed, undo_from }, .. } = last.clone();
        let overlay = computed.overlay;
        let overlay = overlay.ok_or(StateError::Protocol("a block was committed uncomputed"))?;
        // A crash leads back to the last durable block, from which the blocks must be undoable that were so then.
        let needed = state.prunable(undo_from, self.files.options.file_operations);
        let database = state.database()?;
        database.apply(overlay)?;
        state.first = database.sync(needed)?;
        (state.at, state.base, state.done) = (computed.log, computed.log, step);
        state.waiting.drain(..count);
        Ok(())
    }
}
