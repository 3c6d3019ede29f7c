//! Threads that read rows for the merge where the store is slow.

use parking_lot::Mutex;
use polytrie_trie::{LeafValue, MissingPaths, ReadPace, RowSource, RowsAhead, Timed, TrieError};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;

/// Threads when a block waits for its slice. Nearly all of the time they wait for the disk, which answers so many in a
/// small multiple of the time that it takes for one.
const THREADS: usize = 16;

/// Reads rows on other threads, in order or many at once, if the store is slow. Results do not depend on whether it is.
#[derive(Debug)]
pub(crate) struct Readers {
    pace: ReadPace,
    /// Started when first needed; `None` if the system gives no threads.
    pool: OnceLock<Option<ThreadPool>>,
    gathering: Mutex<Gathering>,
}

/// Whether it pays to go through rows in order.
#[derive(Debug, Default)]
struct Gathering {
    /// Whether it did the last time.
    pays: bool,
    /// For how many more slices it is not tried.
    wait: u32,
    /// For how many it was not tried after the last time.
    waited: u32,
}

/// Nanoseconds of a read from which on many rows are had faster in order.
const WORTH_GATHERING: u64 = 4_000;
/// Slices after which that is tried again at the latest.
const LONGEST_WAIT: u32 = 64;

impl Gathering {
    /// Whether to try, of a store that is slow enough or is not.
    const fn tries(&mut self, slow: bool) -> bool {
        if self.wait > 0 {
            self.wait -= 1;
            return false;
        }
        slow || self.pays
    }

    /// It was tried.
    fn tried(&mut self, pays: bool) {
        self.pays = pays;
        self.wait = if pays { 0 } else { (2 * self.waited + 1).min(LONGEST_WAIT) };
        self.waited = self.wait;
    }
}

impl Readers {
    /// No thread is started so far. With `always` the store counts as slow from the beginning.
    pub(crate) fn new(always: bool) -> Self {
        Self {
            pace: ReadPace::new(always),
            pool: OnceLock::new(),
            gathering: Mutex::new(Gathering::default()),
        }
    }

    /// Where to read while so many slices wait for their blocks; `None` if the store is fast. The more of them wait, the
    /// fewer threads read: they keep the disk from answering those who execute.
    pub(super) fn threads(&self, waiting: usize) -> Option<Threads<'_>> {
        let count = THREADS / (1 + waiting);
        let many = count >= 2 && self.pace.is_slow();
        let gathers = self.gathering.lock().tries(self.pace.takes(WORTH_GATHERING));
        if !many && !gathers {
            return None;
        }
        let pool = self.pool.get_or_init(start).as_ref()?;
        let gathering = gathers.then_some(&self.gathering);
        Some(Threads { pool, count: if many { count } else { 1 }, gathering })
    }

    /// The same rows; how long they take is noted.
    pub(super) const fn timed<R: RowSource>(&self, rows: R) -> Timed<'_, R> {
        self.pace.timed(rows)
    }
}

/// Some of the threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threads<'a> {
    pool: &'a ThreadPool,
    count: usize,
    /// Unless rows are not to be gone through in order.
    gathering: Option<&'a Mutex<Gathering>>,
}

impl Threads<'_> {
    pub(super) fn read<V: LeafValue>(
        self,
        paths: MissingPaths<'_, V>,
        rows: &impl RowSource,
    ) -> Result<RowsAhead, TrieError> {
        self.pool.install(|| self.read_here(paths, rows))
    }

    fn read_here<V: LeafValue>(
        self,
        paths: MissingPaths<'_, V>,
        rows: &impl RowSource,
    ) -> Result<RowsAhead, TrieError> {
        let Some(gathering) = self.gathering.filter(|_| !paths.is_empty()) else {
            return paths.read(self.count, rows);
        };
        let (mut found, rest) = paths.gather(rows)?;
        gathering.lock().tried(rest.is_empty());
        found.extend(rest.read(self.count, rows)?);
        Ok(found)
    }

    /// Reads while this thread does something else.
    pub(super) fn read_during<V: LeafValue, T>(
        self,
        paths: MissingPaths<'_, V>,
        rows: &impl RowSource,
        work: impl FnOnce() -> T,
    ) -> (Result<RowsAhead, TrieError>, T) {
        let mut found = Ok(RowsAhead::default());
        let done = self.pool.in_place_scope(|scope| {
            scope.spawn(|_| found = self.read_here(paths, rows));
            work()
        });
        (found, done)
    }
}

fn start() -> Option<ThreadPool> {
    let pool =
        ThreadPoolBuilder::new().num_threads(THREADS).thread_name(|_| "lmpt-read".into()).build();
    pool.inspect_err(|error| tracing::warn!("the merge reads on one thread: {error}")).ok()
}
