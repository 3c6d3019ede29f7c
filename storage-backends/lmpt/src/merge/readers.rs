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

/// When to go through rows in order.
#[derive(Debug, Default)]
struct Gathering {
    /// For how many more slices that is not tried.
    wait: u32,
    /// For how many it was not tried after the last time.
    waited: u32,
    /// How often in a row it was done.
    done: u32,
}

/// Slices after which it is tried again at the latest, and after which one is read without it, to see how slow the store is.
const LONGEST: u32 = 64;

impl Gathering {
    /// Whether to try.
    const fn tries(&mut self) -> bool {
        let now = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        now
    }

    /// It was tried, and what was missing was found or was not.
    fn tried(&mut self, found: bool) {
        self.done = if found { self.done + 1 } else { 0 };
        self.wait = match found {
            true => u32::from(self.done.is_multiple_of(LONGEST)),
            false => (2 * self.waited + 1).min(LONGEST),
        };
        self.waited = if found { 0 } else { self.wait };
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
        if !self.pace.is_slow() {
            return None;
        }
        let count = THREADS / (1 + waiting);
        let gathers = self.gathering.lock().tries();
        if count < 2 && !gathers {
            return None;
        }
        let pool = self.pool.get_or_init(start).as_ref()?;
        let gathering = gathers.then_some(&self.gathering);
        Some(Threads { pool, count: count.max(1), gathering })
    }

    /// The same rows; how long they take is noted, but not of those that a gathering has left out: they are mostly not
    /// flushed, and say nothing about the disk.
    pub(super) fn timed<R: RowSource>(
        &self,
        rows: R,
        threads: Option<Threads<'_>>,
    ) -> Timed<'_, R> {
        let gathered = threads.is_some_and(|threads| threads.gathering.is_some());
        if gathered { Timed::unnoted(rows) } else { self.pace.timed(rows) }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices that are read without trying, before the next one that tries.
    fn skipped(gathering: &mut Gathering) -> usize {
        (0..).take_while(|_| !gathering.tries()).count()
    }

    #[test]
    fn what_did_not_pay_is_tried_less_and_less_often() {
        let mut gathering = Gathering::default();
        assert_eq!(skipped(&mut gathering), 0);
        let after = [1, 3, 7, 15, 31, 63, 64, 64];
        for expected in after {
            gathering.tried(false);
            assert_eq!(skipped(&mut gathering), expected);
        }
        gathering.tried(true);
        assert_eq!(skipped(&mut gathering), 0);
        gathering.tried(false);
        assert_eq!(skipped(&mut gathering), 1);
    }

    #[test]
    fn how_slow_the_store_is_is_seen_now_and_then() {
        let mut gathering = Gathering::default();
        let mut skips = 0;
        for _ in 0..3 * LONGEST {
            skips += skipped(&mut gathering);
            gathering.tried(true);
        }
        assert_eq!(skips, 2);
    }
}
