//! The crate's database, and the steps that it does not have yet.
//!
//! ```text
//! finish   session on what waits ──► overlay: root and changed pages, in memory
//! accept   waiting: … │ overlay of the step, its changes, and the number of the batch that it is part of
//!          enough waits ──► what is durable of it in the chain's store is one commit; overlays above are computed again
//! open     root of the database ──► what it lacks by the trail, in one commit; or, not on the trail, filled anew
//! ```
//!
//! A fork goes on with overlays of its own, on the same database. Nothing is committed while there is one, as that would
//! change what is below it.

mod files;
mod fill;

use crate::{FLAT, NomtOptions};
use alloy_primitives::B256;
use files::{Files, failure, reported};
use nomt::{KeyReadWrite, Nomt, Overlay, SessionParams, hasher::Blake3Hasher, trie::KeyPath};
use parking_lot::Mutex;
use polytrie_kv::{KvError, Store};
use polytrie_state::{
    StateError, Trail,
    foreign::{Changes, current},
};
use std::{
    collections::VecDeque,
    fmt::{self, Debug, Display},
    mem,
    sync::Arc,
};

/// The crate's database. Blake3 hashes its nodes and values.
pub(crate) type Db = Nomt<Blake3Hasher>;
/// Reads of the database with what waits, and the next step on it.
pub(crate) type Session = nomt::Session<Blake3Hasher>;

/// Bytes of changed pages that an overlay holds for a key; an estimate.
const BYTES_A_KEY: usize = 8 << 10;
/// So many steps are worth a commit.
const STEPS: usize = 128;

/// What a step amounts to in the trie.
#[derive(Clone)]
pub(crate) struct Computed {
    /// The root after it.
    pub(crate) digest: B256,
    changes: Arc<Changes>,
    overlay: Arc<Overlay>,
}

impl Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// A step that the database does not have.
#[derive(Debug, Clone)]
struct Waiting {
    /// Its number in the trail.
    step: u64,
    /// The batch of the chain's store that it is part of.
    batch: u64,
    computed: Computed,
}

/// The trie.
pub(crate) struct Tree {
    files: Arc<Files>,
    /// Whether what is durable in the chain's store is committed here.
    follows: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Once it was asked for.
    db: Option<Arc<Db>>,
    waiting: VecDeque<Waiting>,
    /// Keys that they change.
    keys: usize,
    /// The last step that is committed.
    done: u64,
    /// Shared with the forks there are.
    forks: Arc<()>,
}

impl State {
    fn push(&mut self, waiting: Waiting) {
        self.keys += waiting.computed.changes.len();
        self.waiting.push_back(waiting);
    }

    fn take(&mut self) -> VecDeque<Waiting> {
        self.keys = 0;
        mem::take(&mut self.waiting)
    }

    /// The root of the database.
    fn root(&self) -> B256 {
        self.db.as_ref().map_or(B256::ZERO, |db| B256::new(db.root().into_inner()))
    }

    fn has_forks(&self) -> bool {
        Arc::strong_count(&self.forks) > 1
    }
}

impl Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tree {
    /// A trie that is opened when something asks for it.
    pub(crate) fn new(options: NomtOptions) -> Self {
        let follows = !options.read_only;
        Self { files: Arc::new(Files::new(options)), follows, state: Mutex::default() }
    }

    /// Whether it is to be opened at once: its files are kept, and may be behind.
    pub(crate) fn follows_on_disk(&self) -> bool {
        self.follows && self.files.are_kept()
    }

    /// A session on the state at the end of the trail. The flat rows of `store` must be those of it.
    pub(crate) fn session(&self, trail: &Trail, store: &Store) -> Result<Session, StateError> {
        let mut state = self.state.lock();
        let db = self.open(&mut state, trail, store)?;
        begin(&db, &state.waiting)
    }

    /// Accepts a step, whose batch was written to `store`, and commits what waits if that is much.
    pub(crate) fn accept(
        &self,
        store: &Store,
        step: u64,
        computed: Computed,
    ) -> Result<(), StateError> {
        let mut state = self.state.lock();
        let batch = store.progress().written;
        state.push(Waiting { step, batch, computed });
        let is_full = state.keys >= self.files.options.cache_bytes / BYTES_A_KEY;
        let is_much = is_full || state.waiting.len() >= STEPS;
        if !self.follows || !is_much || state.has_forks() {
            return Ok(());
        }
        if is_full && store.progress().durable < batch {
            // Memory is bounded, whatever the store gathers.
            store.flush()?;
        }
        let durable = store.progress().durable;
        let count = state.waiting.partition_point(|next| next.batch <= durable);
        if is_full || count >= STEPS { self.commit(&mut state, count) } else { Ok(()) }
    }

    /// The last step that is committed, durably.
    pub(crate) fn done(&self) -> u64 {
        self.state.lock().done
    }

    /// Another one that begins here and commits nothing.
    pub(crate) fn fork(&self, trail: &Trail, store: &Store) -> Result<Self, StateError> {
        let mut state = self.state.lock();
        let db = self.open(&mut state, trail, store)?;
        let State { waiting, keys, done, forks, .. } = &*state;
        let (waiting, forks) = (waiting.clone(), Arc::clone(forks));
        let fork = State { db: Some(db), waiting, keys: *keys, done: *done, forks };
        Ok(Self { files: Arc::clone(&self.files), follows: false, state: Mutex::new(fork) })
    }

    /// What there is to count.
    pub(crate) fn figures(&self) -> Vec<(&'static str, u64)> {
        let state = self.state.lock();
        let table = state.db.as_ref().map(|db| db.hash_table_utilization());
        let (pages, buckets) = table.map_or((0, 0), |table| (table.occupied, table.capacity));
        let dir = self.files.path();
        vec![
            ("pages", pages as u64),
            ("buckets", buckets as u64),
            ("steps_behind", state.waiting.len() as u64),
            ("file_bytes", dir.map_or(0, |dir| polytrie_kv::dir_bytes(&dir).unwrap_or(0))),
        ]
    }

    /// The database, level with the end of the trail.
    fn open(&self, state: &mut State, trail: &Trail, store: &Store) -> Result<Arc<Db>, StateError> {
        if state.db.is_none() {
            state.db = Some(Arc::new(self.files.open()?));
            if let Err(error) = self.catch_up(state, trail, store) {
                // The next call is to find the same error.
                state.db = None;
                return Err(error);
            }
            state.done = trail.last();
        }
        state.db.clone().ok_or(StateError::Protocol("the trie is closed"))
    }

    fn catch_up(&self, state: &mut State, trail: &Trail, store: &Store) -> Result<(), StateError> {
        let found = state.root();
        match trail.since(store, &found)? {
            Some(touched) if touched.is_empty() => Ok(()),
            Some(touched) if self.follows => {
                // What is found when a store is opened is durable.
                self.write(state, current(&FLAT, store, &touched)?)?;
                expect(state.root(), trail)
            }
            Some(touched) => {
                let Some(db) = &state.db else { return Ok(()) };
                let computed =
                    compute(begin(db, &state.waiting)?, current(&FLAT, store, &touched)?)?;
                expect(computed.digest, trail)?;
                state.push(Waiting { step: trail.last(), batch: u64::MAX, computed });
                Ok(())
            }
            None => {
                if !self.follows && self.files.are_kept() {
                    let reason = "has to make its files anew, which a command that only reads does not; run one that writes, such as `import`, first";
                    let layer = crate::NAME;
                    return Err(StateError::Unsupported { layer, reason: reason.to_owned() });
                }
                if self.files.are_kept() && !found.is_zero() {
                    tracing::warn!("the files of nomt are not of this state: they are made anew");
                }
                // Rows without a trail are what a load left that was stopped: they say nothing.
                let rows = (!trail.digest().is_zero()).then_some(store);
                expect(self.fill(state, rows)?, trail)
            }
        }
    }

    /// Commits the first steps that wait as one, and computes the others again.
    fn commit(&self, state: &mut State, count: usize) -> Result<(), StateError> {
        let mut waiting = state.take();
        let rest = waiting.split_off(count);
        let (mut changes, mut done) = (Changes::new(), state.done);
        for Waiting { step, computed, .. } in waiting {
            done = step;
            changes.extend(Arc::unwrap_or_clone(computed.changes));
        }
        // Their overlays go before what is below them changes.
        let again = |Waiting { step, batch, computed }| (step, batch, computed.changes);
        let rest: Vec<_> = rest.into_iter().map(again).collect();
        self.write(state, changes)?;
        state.done = done;
        for (step, batch, changes) in rest {
            let Some(db) = &state.db else { break };
            let computed = compute(begin(db, &state.waiting)?, Arc::unwrap_or_clone(changes))?;
            state.push(Waiting { step, batch, computed });
        }
        Ok(())
    }

    /// Commits changes to the database; there must be no overlay on it.
    fn write(&self, state: &mut State, changes: Changes) -> Result<(), StateError> {
        self.make_room(state, changes.len())?;
        let Some(db) = state.db.as_deref().filter(|_| !changes.is_empty()) else { return Ok(()) };
        let session = begin(db, &state.waiting)?;
        let committed = reported(|| session.finish(written(changes))?.commit(db));
        committed.map_err(|said| failure(&self.files.path().unwrap_or_default(), "write to", said))
    }

    /// Grows the hash table if so many new keys may fill it too far.
    fn make_room(&self, state: &mut State, keys: usize) -> Result<(), StateError> {
        let Some(db) = &state.db else { return Ok(()) };
        let table = db.hash_table_utilization();
        // A page is kept only where it has 20 keys.
        let is_roomy = (table.occupied + keys / 4) * 5 < table.capacity * 3;
        // Where another thread is about to begin a session, it grows another time.
        if is_roomy || Arc::strong_count(db) > 1 {
            return Ok(());
        }
        state.db = None;
        let wanted = (table.capacity * 4).max(keys * 2);
        self.files.grow(u32::try_from(wanted).unwrap_or(u32::MAX))?;
        state.db = Some(Arc::new(self.files.open()?));
        Ok(())
    }
}

/// What a step amounts to on the state of a session.
pub(crate) fn compute(session: Session, changes: Changes) -> Result<Computed, StateError> {
    let actuals = written(changes.clone());
    let overlay = run("compute the root", || session.finish(actuals))?.into_overlay();
    let digest = B256::new(overlay.root().into_inner());
    Ok(Computed { digest, changes: Arc::new(changes), overlay: Arc::new(overlay) })
}

fn written(changes: Changes) -> Vec<(KeyPath, KeyReadWrite)> {
    changes.into_iter().map(|(key, value)| (key, KeyReadWrite::Write(value))).collect()
}

/// Has the crate read something.
pub(crate) fn run<T, E: Display>(
    action: &'static str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, StateError> {
    reported(work).map_err(|reason| {
        StateError::Store(KvError::Engine { engine: crate::NAME, action, reason })
    })
}

fn begin(db: &Db, waiting: &VecDeque<Waiting>) -> Result<Session, StateError> {
    let overlays = waiting.iter().rev().map(|next| &*next.computed.overlay);
    let params = SessionParams::default()
        .overlay(overlays)
        .map_err(|_| StateError::Protocol("steps of the trie are not in order"))?;
    Ok(db.begin_session(params))
}

/// The trie of the flat rows must have the root that the chain's store knows.
fn expect(found: B256, trail: &Trail) -> Result<(), StateError> {
    let expected = trail.digest();
    if found == expected {
        return Ok(());
    }
    Err(StateError::Corrupt(format!(
        "the flat rows have the root {found}, and the chain's store says {expected}"
    )))
}
