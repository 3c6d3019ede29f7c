//! Threads that read rows for the merge where the store is slow.

use polytrie_trie::{LeafValue, MissingPaths, ReadPace, RowSource, RowsAhead, Timed, TrieError};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;

/// Threads when a block waits for its slice. Nearly all of the time they wait for the disk, which answers so many in a
/// small multiple of the time that it takes for one.
const THREADS: usize = 16;

/// Reads rows on many threads if the store is slow. Results do not depend on whether it is.
#[derive(Debug)]
pub(crate) struct Readers {
    pace: ReadPace,
    /// Started when first needed; `None` if the system gives no threads.
    pool: OnceLock<Option<ThreadPool>>,
}

impl Readers {
    /// No thread is started so far. With `always` the store counts as slow from the beginning.
    pub(crate) const fn new(always: bool) -> Self {
        Self { pace: ReadPace::new(always), pool: OnceLock::new() }
    }

    /// Where to read while so many slices wait for their blocks; `None` if the store is fast. The more of them wait, the
    /// fewer threads read: they keep the disk from answering those who execute.
    pub(super) fn threads(&self, waiting: usize) -> Option<Threads<'_>> {
        let count = THREADS / (1 + waiting);
        if count < 2 || !self.pace.is_slow() {
            return None;
        }
        let pool = self.pool.get_or_init(start).as_ref()?;
        Some(Threads { pool, count })
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
}

impl Threads<'_> {
    pub(super) fn read<V: LeafValue>(
        self,
        paths: &MissingPaths<'_, V>,
        rows: &impl RowSource,
    ) -> Result<RowsAhead, TrieError> {
        self.pool.install(|| paths.read(self.count, rows))
    }

    /// Reads while this thread does something else.
    pub(super) fn read_during<V: LeafValue, T>(
        self,
        paths: &MissingPaths<'_, V>,
        rows: &impl RowSource,
        work: impl FnOnce() -> T,
    ) -> (Result<RowsAhead, TrieError>, T) {
        let mut found = Ok(RowsAhead::default());
        let done = self.pool.in_place_scope(|scope| {
            scope.spawn(|_| found = paths.read(self.count, rows));
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
