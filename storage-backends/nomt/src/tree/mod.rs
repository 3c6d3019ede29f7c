//! The crate's database, and the steps that it does not have yet.
//!
//! ```text
//! finish   session on the waiting steps ──► overlay: root and changed pages, in memory
//! accept   waiting: … │ overlay of the step, and its changes
//!          enough waits ──► the steps that are durable in the chain's store are one commit; later overlays are computed again
//! open     root of the database ──► the steps that it lacks by the trail, in one commit; or, not on the trail, filled anew
//! ```
//!
//! A fork continues with its own overlays, on the same database. Nothing is committed while there is a fork, as that
//! would change the database below it. So if many steps wait because of forks, these must end before another fork is
//! made.

mod files;
mod fill;
mod scrub;

use crate::{FLAT, NAME, NomtOptions, proof::Way, root::Root};
use alloy_primitives::B256;
use files::{Files, failure, only_read, reported};
use nomt::{
    KeyReadWrite, Nomt, Overlay, SessionParams,
    hasher::{Blake3Hasher, ValueHasher},
    trie::KeyPath,
};
use parking_lot::Mutex;
use polytrie_kv::{KvError, Sorter, Store};
use polytrie_state::{
    CheckReport, Lacking, Result, StateError, Touched, Trail, WriteSet, corrupt,
    flat::FlatTables,
    foreign::{
        Changes, Foreign, Key, Limits, Next, Row, Waiting, Waits, changed, current, due, is_full,
    },
};
use scrub::rows_are_there;
use std::{fmt::Display, sync::Arc};

/// The crate's database. Blake3 hashes its nodes and values.
pub(crate) type Db = Nomt<Blake3Hasher>;
/// A session of reads over the database and the waiting steps, which computes the next step.
pub(crate) type Session = nomt::Session<Blake3Hasher>;

/// Bytes of changed pages that an overlay holds for a key; an estimate.
const BYTES_A_KEY: usize = 8 << 10;

/// The result of a step in the trie.
#[derive(Clone)]
pub struct Computed {
    /// The root after the step.
    digest: B256,
    changes: Arc<Changes>,
    overlay: Arc<Overlay>,
}

polytrie_kv::debug_fields!(Computed { digest });

impl Computed {
    /// Returns the entry for the queue of waiting steps, given the number of the step and of its batch in the chain's
    /// store.
    fn waits(self, step: u64, batch: u64) -> Waits<Self> {
        Waits { step, batch, keys: self.changes.len(), work: self }
    }
}

/// The trie.
pub struct Tree {
    files: Arc<Files>,
    /// Whether steps that are durable in the chain's store are committed here.
    follows: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The database, once it was needed.
    db: Option<Arc<Db>>,
    /// The failure of a commit, after which the database is not used any more.
    failed: Option<StateError>,
    waiting: Waiting<Computed>,
    /// Number of the last committed step.
    done: u64,
    /// A token that is shared with all existing forks.
    forks: Arc<()>,
}

impl State {
    /// Returns the root of the database.
    fn root(&self) -> B256 {
        self.db.as_ref().map_or(B256::ZERO, |db| B256::new(db.root().into_inner()))
    }

    fn has_forks(&self) -> bool {
        Arc::strong_count(&self.forks) > 1
    }

    /// Returns the failure after which the database is not used any more, if there was one.
    fn usable(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Closes the database. The waiting steps are dropped first, since they refer to it.
    fn close(&mut self) {
        self.waiting = Waiting::default();
        (self.db, self.failed, self.done) = (None, None, 0);
    }
}

polytrie_kv::debug_fields!(Tree { files });

impl Foreign for Tree {
    const NAME: &'static str = NAME;
    const FLAT: FlatTables = FLAT;
    const TELLS_STATE: bool = true;
    const NODES: &'static str = "pages";

    type Options = NomtOptions;
    type Mark = B256;
    type Step = Touched;
    type Work = Computed;
    type Way = Way;

    fn new(options: NomtOptions) -> Self {
        let follows = !options.read_only;
        Self { files: Arc::new(Files::new(options)), follows, state: Mutex::default() }
    }

    fn follows_on_disk(&self) -> bool {
        self.follows && self.files.are_kept()
    }

    fn open(&self, trail: &Trail<B256>, store: &Store) -> Result<()> {
        self.opened(&mut self.state.lock(), trail, store).map(drop)
    }

    fn reserve(&self, _: &B256) -> Result<B256> {
        if self.state.lock().has_forks() {
            return Err(StateError::Protocol("a layer was filled while it had a fork"));
        }
        Ok(B256::ZERO)
    }

    fn clear(&self, _: &B256) -> Result<()> {
        // The files are removed when others are created in their place.
        self.state.lock().close();
        Ok(())
    }

    fn fill(&self, store: &Store, _: &B256) -> Result<B256> {
        let mut state = self.state.lock();
        self.make(&mut state, Some(store)).inspect_err(|_| state.close())
    }

    fn forward(
        &self,
        from: &Trail<B256>,
        store: &Store,
        _: u64,
        writes: &WriteSet,
    ) -> Result<Option<Next<Self>>> {
        let mut step = Touched::new();
        let changes = changed(&FLAT, store, writes, Some(&mut step))?;
        if changes.is_empty() {
            return Ok(None);
        }
        let session = self.session(from, store)?;
        if root_of(&session) != from.mark() {
            return Err(StateError::Protocol("the trie is not where the trail ends"));
        }
        let work = compute(session, changes)?;
        Ok(Some(Next { mark: work.digest, step, work }))
    }

    fn accept(&self, store: &Store, step: u64, work: Computed) -> Result<()> {
        let mut state = self.state.lock();
        // Where a commit has failed since the step was computed, this one would seem to be done.
        state.usable()?;
        state.waiting.push_back(work.waits(step, store.progress().written));
        match self.follows {
            true => self.commit_due(&mut state, store),
            false => self.merge_many(&mut state),
        }
    }

    fn done(&self) -> u64 {
        self.state.lock().done
    }

    fn fork(self: &Arc<Self>, trail: &Trail<B256>, store: &Store) -> Result<Self> {
        let mut state = self.state.lock();
        self.opened(&mut state, trail, store).map(drop)?;
        // Otherwise short-lived forks, of which one always exists when a step comes, would keep all steps waiting.
        self.commit_due(&mut state, store)?;
        if self.follows && state.has_forks() && is_full(&state.waiting, usize::MAX) {
            let reason = format!(
                "has {} blocks that wait for proofs under way, and begins no other one before these have ended; ask again in a moment",
                state.waiting.len()
            );
            return Err(StateError::Unsupported { layer: NAME, reason });
        }
        let db = state.db.clone();
        let State { waiting, done, forks, .. } = &*state;
        let (waiting, forks) = (waiting.clone(), Arc::clone(forks));
        let fork = State { db, failed: None, waiting, done: *done, forks };
        Ok(Self { files: Arc::clone(&self.files), follows: false, state: Mutex::new(fork) })
    }

    fn prove(
        &self,
        trail: &Trail<B256>,
        store: &Store,
        keys: Vec<Key>,
    ) -> Result<Option<Vec<Way>>> {
        let session = self.session(trail, store)?;
        if root_of(&session) != trail.mark() {
            return Ok(None);
        }
        keys.into_iter().map(|key| Way::to(&session, key)).collect::<Result<_, _>>().map(Some)
    }

    /// Computes the root from the rows, without the crate's trie, and looks up each row in the crate's trie.
    fn scrub(
        &self,
        trail: &Trail<B256>,
        store: &Store,
        mut rows: Sorter<Row>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let mut root = Root::default();
        for row in rows.drain()? {
            let Row(key, row) = row?;
            root.add(key, Blake3Hasher::hash_value(&row));
        }
        drop(rows);
        let (found, expected) = (B256::new(root.end()), trail.mark());
        if found != expected {
            report.problem(format!("the rows have the root {found}, expected {expected}"));
            return Ok(());
        }
        rows_are_there(store, &self.session(trail, store)?, expected, report)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
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
}

impl Tree {
    /// Begins a session on the state at the end of the trail.
    fn session(&self, trail: &Trail<B256>, store: &Store) -> Result<Session> {
        let mut state = self.state.lock();
        let db = self.opened(&mut state, trail, store)?;
        begin(&db, &state.waiting)
    }

    /// Returns the database, level with the end of the trail except for waiting steps.
    fn opened(&self, state: &mut State, trail: &Trail<B256>, store: &Store) -> Result<Arc<Db>> {
        state.usable()?;
        if state.db.is_none() {
            state.db = Some(Arc::new(self.files.open()?));
            // The next call should find the same error.
            self.catch_up(state, trail, store).inspect_err(|_| state.close())?;
            state.done = trail.last();
        }
        state.db.clone().ok_or(StateError::Protocol("the trie is closed"))
    }

    fn catch_up(&self, state: &mut State, trail: &Trail<B256>, store: &Store) -> Result<()> {
        let found = state.root();
        match trail.since::<Touched>(store, &found)? {
            Some(lacking) if lacking.is_empty() => Ok(()),
            Some(lacking) => {
                let changes = current(&FLAT, store, &touched(lacking))?;
                if self.follows {
                    // The content of a store at opening is durable.
                    self.write(state, changes)?;
                    return expect(state.root(), trail);
                }
                let Some(db) = &state.db else { return Ok(()) };
                let computed = compute(begin(db, &state.waiting)?, changes)?;
                expect(computed.digest, trail)?;
                state.waiting.push_back(computed.waits(trail.last(), u64::MAX));
                Ok(())
            }
            None => {
                if !self.follows && self.files.are_kept() {
                    return Err(only_read());
                }
                if self.files.are_kept() && !found.is_zero() {
                    tracing::warn!("the files of nomt are not of this state: they are made anew");
                }
                // Rows at the empty root were left by an interrupted load, and are ignored.
                let rows = (!trail.mark().is_zero()).then_some(store);
                expect(self.make(state, rows)?, trail)
            }
        }
    }

    /// Commits the steps that are due, if no fork prevents it.
    fn commit_due(&self, state: &mut State, store: &Store) -> Result<()> {
        if !self.follows || state.has_forks() {
            return Ok(());
        }
        // An undo is a step like any other, so the newest steps need not wait.
        let limits = Limits { keys: self.room(), newest: 0, is_kept: self.files.are_kept() };
        let count = due(&state.waiting, store, limits)?;
        // The crate's memory and its files may differ after a failure.
        self.commit(state, count).inspect_err(|error| {
            state.close();
            state.failed = Some(error.clone());
        })
    }

    /// Returns the number of keys that fit into memory while they wait.
    fn room(&self) -> usize {
        self.files.options.cache_bytes / BYTES_A_KEY
    }

    /// Makes one step of all that wait in a fork, if they are many: no commit ends them, and each has a copy of all
    /// pages that it changes.
    fn merge_many(&self, state: &mut State) -> Result<()> {
        let State { waiting, db: Some(db), .. } = state else { return Ok(()) };
        let above: usize = waiting.iter().skip(1).map(|next| next.keys).sum();
        let (Some(first), Some(last)) = (waiting.front(), waiting.back()) else { return Ok(()) };
        let (step, batch) = (last.step, last.batch);
        // So a key is computed again only a few times, however many steps come.
        if waiting.len() == 1 || above < first.keys.max(self.room()) {
            return Ok(());
        }
        let mut changes = Changes::new();
        for Waits { work, .. } in waiting.drain(..) {
            changes.extend(Arc::unwrap_or_clone(work.changes));
        }
        let computed = compute(begin(db, waiting)?, changes)?;
        waiting.push_back(computed.waits(step, batch));
        Ok(())
    }

    /// Commits the first `count` waiting steps as one, and computes the others again.
    fn commit(&self, state: &mut State, count: usize) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let (mut changes, mut done) = (Changes::new(), state.done);
        for Waits { step, work, .. } in state.waiting.drain(..count) {
            done = step;
            changes.extend(Arc::unwrap_or_clone(work.changes));
        }
        // The overlays of the other steps are dropped before the database below them changes.
        let again = |Waits { step, batch, work, .. }: Waits<Computed>| (step, batch, work.changes);
        let rest: Vec<_> = state.waiting.drain(..).map(again).collect();
        self.write(state, changes)?;
        state.done = done;
        for (step, batch, changes) in rest {
            let Some(db) = &state.db else { break };
            let computed = compute(begin(db, &state.waiting)?, Arc::unwrap_or_clone(changes))?;
            state.waiting.push_back(computed.waits(step, batch));
        }
        Ok(())
    }

    /// Commits changes to the database; no overlay may exist on it.
    fn write(&self, state: &mut State, changes: Changes) -> Result<()> {
        self.make_room(state, changes.len())?;
        let Some(db) = state.db.as_deref().filter(|_| !changes.is_empty()) else { return Ok(()) };
        let session = begin(db, &state.waiting)?;
        let committed = reported(|| session.finish(written(changes))?.commit(db));
        committed.map_err(|said| failure(&self.files.path().unwrap_or_default(), "write to", said))
    }

    /// Grows the hash table if `keys` new keys might fill it too far.
    fn make_room(&self, state: &mut State, keys: usize) -> Result<()> {
        let Some(db) = &state.db else { return Ok(()) };
        let table = db.hash_table_utilization();
        // A page is only stored if it has 20 keys.
        let is_roomy = (table.occupied + keys / 4) * 5 < table.capacity * 3;
        // If another thread is about to begin a session, the table grows another time.
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

/// Returns all keys that some steps touched.
fn touched(lacking: Vec<Lacking<B256, Touched>>) -> Touched {
    let mut touched = Touched::new();
    for (account, slots) in lacking.into_iter().flat_map(|next| next.step) {
        touched.entry(account).or_default().extend(slots);
    }
    touched
}

/// Returns the root of the state that a session is on.
fn root_of(session: &Session) -> B256 {
    B256::new(session.prev_root().into_inner())
}

/// Computes the step of changes on the state of a session.
fn compute(session: Session, changes: Changes) -> Result<Computed> {
    let actuals = written(changes.clone());
    let overlay = run("compute the root", || session.finish(actuals))?.into_overlay();
    let digest = B256::new(overlay.root().into_inner());
    Ok(Computed { digest, changes: Arc::new(changes), overlay: Arc::new(overlay) })
}

fn written(changes: Changes) -> Vec<(KeyPath, KeyReadWrite)> {
    changes.into_iter().map(|(key, value)| (key, KeyReadWrite::Write(value))).collect()
}

/// Runs a read of the crate.
pub(crate) fn run<T, E: Display>(
    action: &'static str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    reported(work)
        .map_err(|reason| StateError::Store(KvError::Engine { engine: NAME, action, reason }))
}

fn begin(db: &Db, waiting: &Waiting<Computed>) -> Result<Session> {
    let overlays = waiting.iter().rev().map(|next| &*next.work.overlay);
    let params = SessionParams::default()
        .overlay(overlays)
        .map_err(|_| StateError::Protocol("steps of the trie are not in order"))?;
    Ok(db.begin_session(params))
}

/// Checks that the trie of the flat rows has the root that the chain's store has for it.
fn expect(found: B256, trail: &Trail<B256>) -> Result<()> {
    let expected = trail.mark();
    if found == expected {
        return Ok(());
    }
    Err(corrupt!("the flat rows have the root {found}, and the chain's store says {expected}"))
}
