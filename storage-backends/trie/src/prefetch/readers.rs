//! Threads that read ahead, and whether that pays.

use polytrie_kv::{KvError, Panicked};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Nanoseconds that a read takes from a disk, at least. From memory it takes a few microseconds at most.
const SLOW: u64 = 15_000;
/// One of so many reads is timed.
const SAMPLE: u64 = 8;

/// Threads of a layer that read ahead, and how long its store takes to read a row.
///
/// Handing a read to another thread costs some microseconds. That pays where the read waits for a disk, and mostly only
/// there. The threads are started when a layer whose store is slow needs them.
#[derive(Debug)]
pub struct Readers {
    most: usize,
    always: bool,
    reads: AtomicU64,
    /// Nanoseconds, averaged over about the last 16 reads that were timed.
    average: AtomicU64,
    /// `None` if the system gives no threads.
    pool: OnceLock<Option<ThreadPool>>,
    panicked: OnceLock<KvError>,
}

impl Readers {
    /// Enough for any layer. Nearly all of the time the threads wait for the disk, which answers so many of them in a small
    /// multiple of the time that it takes for one.
    pub const MOST: usize = 16;

    /// So many threads at most, none of them started. With `always` the store counts as slow, whatever is seen; with no
    /// thread it never does.
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

    /// Whether the last reads waited for a disk.
    pub fn is_slow(&self) -> bool {
        self.most > 0 && (self.always || self.average.load(Relaxed) > SLOW)
    }

    /// Reads something of the store, and notes now and then how long that takes.
    pub fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        if !self.reads.fetch_add(1, Relaxed).is_multiple_of(SAMPLE) {
            return read();
        }
        let start = Instant::now();
        let found = read();
        self.took(start.elapsed(), 1);
        found
    }

    /// So many reads took this long together.
    pub(super) fn took(&self, time: Duration, reads: usize) {
        let Some(each) = (time.as_nanos() as u64).checked_div(reads as u64) else { return };
        // One read that met the scheduler says nothing about the disk: it must not reach `SLOW` by itself.
        let each = each.min(8 * SLOW);
        let before = self.average.load(Relaxed);
        self.average.store(before - before / 16 + each / 16, Relaxed);
    }

    /// Threads that may read at the same time: where the store is fast one at most, and only if it has nothing else to do.
    pub(super) fn threads(&self) -> usize {
        if self.is_slow() { self.most } else { 1 }
    }

    /// Has a thread do some work.
    pub(super) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        let own = self.is_slow().then(|| self.pool.get_or_init(|| start(self.most)).as_ref());
        match own.flatten() {
            Some(pool) => pool.spawn(work),
            None => rayon::spawn(work),
        }
    }

    /// Notes what a thread panicked with.
    pub(super) fn panicked(&self, said: Panicked) {
        self.panicked.get_or_init(|| said.in_thread("a thread that reads ahead"));
    }

    /// Whether all is well with the threads.
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
