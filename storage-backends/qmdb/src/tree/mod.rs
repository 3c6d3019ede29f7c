//! The crate's database, and the steps that it does not have yet.
//!
//! ```text
//! finish   what waits ──► overlay: root and operations of the block, in memory
//! accept   waiting: … │ overlay of the block, and the number of the batch that it is part of
//!          enough waits ──► what is durable of it in the chain's store is one commit
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

pub(crate) use database::{CHUNK, DbKey, DbValue, VALUE};

use crate::{
    QmdbOptions,
    trail::{Mark, Trail},
};
use database::{Database, Overlay, mark_of};
use files::Files;
use parking_lot::Mutex;
use polytrie_kv::{DirLock, Store};
use polytrie_state::{
    StateError,
    foreign::{Changes, Key},
};
use std::{
    collections::VecDeque,
    fmt::{self, Debug},
    sync::Arc,
};

/// Bytes that an overlay holds for a key; an estimate.
const BYTES_A_KEY: usize = 1 << 10;
/// So many steps are worth a commit.
const STEPS: usize = 128;
/// Bytes of cache for the copy of a fork.
const FORK_CACHE: usize = 16 << 20;

/// What a block amounts to in the database.
#[derive(Clone)]
pub(crate) struct Computed {
    /// The log after it.
    pub(crate) mark: Mark,
    pub(crate) changes: Arc<Changes>,
    /// None where it was computed on the database that a fork comes from.
    overlay: Option<Arc<Overlay>>,
}

impl Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed").field("mark", &self.mark).finish_non_exhaustive()
    }
}

/// A block that the database does not have.
#[derive(Debug, Clone)]
struct Waiting {
    /// The number of its step in the trail.
    step: u64,
    /// The batch of the chain's store that it is part of.
    batch: u64,
    /// The first block that could still be taken back when it came.
    undo_from: u64,
    computed: Computed,
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
pub(crate) struct Tree {
    files: Files,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Once it was asked for. The lock goes after it.
    open: Option<(Database, DirLock)>,
    /// Why it is not used any more.
    failed: Option<StateError>,
    /// The log in the files.
    at: Mark,
    /// Where what waits begins: if that is not the log in the files, this one is to be cut.
    base: Mark,
    /// The step that led there, and its batch, if the log is to be cut.
    cut: Option<(u64, u64)>,
    waiting: VecDeque<Waiting>,
    /// Keys that it changes.
    keys: usize,
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
    fn tip(&self) -> Mark {
        self.waiting.back().map_or(self.base, |last| last.computed.mark)
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
}

impl Tree {
    /// A database that is opened when something asks for it.
    pub(crate) fn new(options: QmdbOptions) -> Self {
        Self { files: Files::new(options), state: Mutex::default() }
    }

    /// Whether it is to be opened at once: its files are kept, and may be behind.
    pub(crate) const fn follows_on_disk(&self) -> bool {
        self.files.are_kept() && !self.files.options.read_only
    }

    /// Opens it if it is not open, and brings it level with the trail. The chain's store must be at the end of that.
    pub(crate) fn open(&self, trail: &Trail, store: &Store) -> Result<(), StateError> {
        self.opened(&mut self.state.lock(), trail, store)
    }

    /// What changes amount to after the end of the trail.
    pub(crate) fn compute(
        &self,
        trail: &Trail,
        store: &Store,
        changes: Changes,
    ) -> Result<Computed, StateError> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store)?;
        if state.tip() != trail.mark {
            return Err(StateError::Protocol("the database is not where the trail ends"));
        }
        state.attempt(|state| {
            self.settle(state, store)?;
            let on = state.waiting.back().and_then(|last| last.computed.overlay.clone());
            let changes = Arc::new(changes);
            let overlay = state.database()?.compute(on, Arc::clone(&changes))?;
            Ok(Computed { mark: mark_of(&overlay), changes, overlay: Some(overlay) })
        })
    }

    /// Accepts a block, whose batch was written to `store`, and commits what waits if that is much.
    pub(crate) fn accept(
        &self,
        store: &Store,
        step: u64,
        block: u64,
        computed: Computed,
    ) -> Result<(), StateError> {
        let mut state = self.state.lock();
        let batch = store.progress().written;
        if let Some(overlay) = &computed.overlay {
            let first = *overlay.sync_boundary();
            state.kept.push_back(Kept { block, operations: computed.mark.operations, first });
        }
        state.keys += computed.changes.len();
        let undo_from = state.undo_from;
        state.waiting.push_back(Waiting { step, batch, undo_from, computed });
        let is_full = state.keys >= self.files.options.cache_bytes / BYTES_A_KEY;
        if !is_full && state.waiting.len() < STEPS {
            return Ok(());
        }
        state.attempt(|state| {
            // Memory is bounded, whatever the store gathers.
            let durable = if is_full { self.durable(store, batch)? } else { self.progress(store) };
            let count = state.waiting.partition_point(|next| next.batch <= durable);
            if is_full || count >= STEPS { self.commit(state, count) } else { Ok(()) }
        })
    }

    /// Accepts a way back, whose batch was written to `store`.
    pub(crate) fn go_back(&self, store: &Store, step: u64, to: Mark) -> Result<(), StateError> {
        let mut state = self.state.lock();
        while state.tip() != to
            && let Some(gone) = state.waiting.pop_back()
        {
            state.keys -= gone.computed.changes.len();
        }
        if state.tip() != to {
            state.base = to;
            state.cut = Some((step, store.progress().written));
        }
        while state.kept.pop_back_if(|kept| kept.operations > to.operations).is_some() {}
        Ok(())
    }

    /// The last step that the files have, durably.
    pub(crate) fn done(&self) -> u64 {
        self.state.lock().done
    }

    /// Blocks before this one are not taken back any more.
    pub(crate) fn advance(&self, undo_from: u64) {
        self.state.lock().undo_from = undo_from;
    }

    /// Another one that begins here, and goes its own way with files of its own.
    pub(crate) fn fork(self: &Arc<Self>, trail: &Trail, store: &Store) -> Result<Self, StateError> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store)?;
        let options = QmdbOptions {
            dir: None,
            cache_bytes: self.files.options.cache_bytes.min(FORK_CACHE),
            ..self.files.options.clone()
        };
        let mut waiting = state.waiting.clone();
        waiting.iter_mut().for_each(|next| next.computed.overlay = None);
        let origin = Origin { tree: Arc::clone(self), _fork: Arc::clone(&state.forks) };
        let (base, keys, done) = (state.base, state.keys, state.done);
        let fork = State { base, waiting, keys, done, origin: Some(origin), ..State::default() };
        Ok(Self { files: Files::new(options), state: Mutex::new(fork) })
    }

    /// For each key the proof of its value, or of that it is not there, at the end of the trail; `None` if another step was
    /// accepted meanwhile.
    pub(crate) fn prove(
        &self,
        trail: &Trail,
        store: &Store,
        keys: Vec<Key>,
    ) -> Result<Option<Vec<Vec<u8>>>, StateError> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store)?;
        if state.tip() != trail.mark {
            return Ok(None);
        }
        state.attempt(|state| {
            self.settle(state, store)?;
            if let Some(last) = state.waiting.back() {
                self.durable(store, last.batch)?;
                self.commit(state, state.waiting.len())?;
            }
            Ok(())
        })?;
        // Nothing changes with a proof, not even if it cannot be read.
        state.database()?.prove(keys).map(Some)
    }

    /// What there is to count.
    pub(crate) fn figures(&self) -> Vec<(&'static str, u64)> {
        let state = self.state.lock();
        let path = state.database().ok().map(|database| database.path.clone());
        vec![
            ("operations", state.at.operations - state.first.min(state.at.operations)),
            ("steps_behind", state.waiting.len() as u64),
            ("file_bytes", path.map_or(0, |path| files::bytes(&path))),
        ]
    }

    /// Makes a directory for the files of what is to be filled, and returns its number, which is above this one: lost files
    /// are not those to come.
    pub(crate) fn reserve(&self, above: u64) -> Result<u64, StateError> {
        if self.state.lock().has_forks() {
            return Err(StateError::Protocol("a layer was filled while it had a fork"));
        }
        self.files.reserve(above)
    }

    /// Removes the files of a number; nothing happens if there are none.
    pub(crate) fn remove(&self, files: u64) -> Result<(), StateError> {
        let mut state = self.state.lock();
        // Closed before its files go.
        *state = State::default();
        self.files.remove(files)
    }

    /// The last batch of the chain's store on which files may be built.
    fn progress(&self, store: &Store) -> u64 {
        if self.files.are_kept() { store.progress().durable } else { u64::MAX }
    }

    /// The same once this batch is among them.
    fn durable(&self, store: &Store, batch: u64) -> Result<u64, StateError> {
        if self.progress(store) < batch {
            store.flush()?;
        }
        Ok(self.progress(store))
    }

    /// Cuts the log if that is to be done.
    fn settle(&self, state: &mut State, store: &Store) -> Result<(), StateError> {
        let Some((step, batch)) = state.cut else { return Ok(()) };
        // Else the files might lack what the trail does not have any more.
        self.durable(store, batch)?;
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
        let (step, mark, overlay) = (last.step, last.computed.mark, last.computed.overlay.clone());
        let overlay = overlay.ok_or(StateError::Protocol("a block was committed uncomputed"))?;
        // A crash leads back to what is durable, and from there blocks are taken back as they could be then.
        let undo_from = last.undo_from;
        let needed = state.prunable(undo_from, self.files.options.file_operations);
        let database = state.database()?;
        database.apply(overlay)?;
        state.first = database.sync(needed)?;
        (state.at, state.base, state.done) = (mark, mark, step);
        for gone in state.waiting.drain(..count) {
            state.keys -= gone.computed.changes.len();
        }
        Ok(())
    }
}

impl State {
    /// The first operation that is needed to go back to before the block `undo_from`, if a whole file is below it.
    fn prunable(&mut self, undo_from: u64, file: u64) -> Option<u64> {
        let passed = self.kept.partition_point(|kept| kept.block < undo_from);
        // The block before the first one that may be taken back is where the way leads to.
        self.kept.drain(..passed.saturating_sub(1));
        let oldest = self.kept.front().filter(|_| passed > 0 && !self.has_forks())?;
        (oldest.first >= self.first + file).then_some(oldest.first)
    }
}
