//! The threads that read ahead, and the measurement of whether they help.

use polytrie_kv::{KvError, Panicked};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Nanoseconds above which a read counts as slow: a disk takes at least that long, and memory a few microseconds at
/// most.
const SLOW: u64 = 15_000;
/// One of this many reads is timed.
const SAMPLE: u64 = 8;

/// A layer's threads that read ahead, and the average time that its store takes to read a row.
///
/// Passing a read to another thread costs some microseconds. That helps if the read waits for a disk, and mostly only
/// then. The threads are started when a layer with a slow store needs them.
#[derive(Debug)]
pub struct Readers {
    most: usize,
    always: bool,
    reads: AtomicU64,
    /// Nanoseconds of a read, averaged over about the last 16 timed reads.
    average: AtomicU64,
    /// The threads; `None` if the system refused to start them.
    pool: OnceLock<Option<ThreadPool>>,
    panicked: OnceLock<KvError>,
}

impl Readers {
    /// Number of threads that is enough for any layer. Nearly all of the time they wait for the disk, which answers
    /// this many requests in a small multiple of the time that it takes for one.
    pub const MOST: usize = 16;

    /// Creates a reader of at most `most` threads, none of them started. With `always` the store counts as slow,
    /// whatever is measured; with 0 threads it never does.
    pub const fn new(most: usize, always: bool) -> Self {
        Self {
            most,
            always,
            reads: AtomicU64::new(0),
            average: AtomicU64::new(0),
            pool: OnceLock::new(),
            panicked: OnceLock::new(),
        }
    }

    /// Whether recent reads waited for a disk.
    pub fn is_slow(&self) -> bool {
        self.most > 0 && (self.always || self.average.load(Relaxed) > SLOW)
    }

    /// Reads from the store, and times the read now and then.
    pub fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        if !self.reads.fetch_add(1, Relaxed).is_multiple_of(SAMPLE) {
            return read();
        }
        let start = Instant::now();
        let found = read();
        self.took(start.elapsed(), 1);
        found
    }

    /// Adds a time that `reads` reads took together to the average.
    pub fn took(&self, time: Duration, reads: usize) {
        let Some(each) = (time.as_nanos() as u64).checked_div(reads as u64) else { return };
        // One read that the scheduler delayed says nothing about the disk: it must not reach `SLOW` by itself.
        let each = each.min(8 * SLOW);
        let before = self.average.load(Relaxed);
        self.average.store(before - before / 16 + each / 16, Relaxed);
    }

    /// Number of threads that may read at the same time: if the store is fast at most one, and only if it is idle.
    pub(super) fn threads(&self) -> usize {
        if self.is_slow() { self.most } else { 1 }
    }

    /// Runs work on a thread.
    pub(super) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        let own = self.is_slow().then(|| self.pool.get_or_init(|| start(self.most)).as_ref());
        match own.flatten() {
            Some(pool) => pool.spawn(work),
            None => rayon::spawn(work),
        }
    }

    /// Notes the panic of a thread.
    pub(super) fn panicked(&self, said: Panicked) {
        self.panicked.get_or_init(|| said.in_thread("a thread that reads ahead"));
    }

    /// Checks that no thread has panicked.
    ///
    /// # Errors
    ///
    /// [`KvError::Panicked`] if one of them has ever panicked.
    pub fn check(&self) -> Result<(), KvError> {
        self.panicked.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

fn start(threads: usize) -> Option<ThreadPool> {
    let name = |_| "read-ahead".to_owned();
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build();
    pool.inspect_err(|error| tracing::warn!("rows are read ahead by one thread: {error}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_that_waited_for_the_processor_does_not_make_the_store_slow() {
        let readers = Readers::new(1, false);
        let took = |micros, times| {
            (0..times).for_each(|_| readers.took(Duration::from_micros(micros), 1));
        };
        took(2, 100);
        took(5_000, 1);
        assert!(!readers.is_slow());
        took(100, 8);
        assert!(readers.is_slow(), "these waited for a disk");
        readers.took(Duration::from_micros(100), 0);
        took(2, 100);
        assert!(!readers.is_slow(), "and these did not");
    }

    #[test]
    fn without_threads_no_store_is_slow() {
        assert!(!Readers::new(0, true).is_slow());
        assert!(Readers::new(1, true).is_slow());
    }
}
