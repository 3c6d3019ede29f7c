//! Whether it pays to read rows ahead.

use crate::{
    Nibbles, RowSource, TrieError,
    rows::{PickPath, VisitRow},
};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

/// How long the store takes to read a row.
///
/// Handing a path to another thread costs some microseconds. That pays where a read waits for a disk, and
/// only there; who reads a row changes nothing but the time.
#[derive(Debug)]
pub struct ReadPace {
    /// Nanoseconds, averaged over about the last 16 reads.
    average: AtomicU64,
    /// Whether the answer is always yes.
    always: bool,
}

/// Slower than this is slow.
const SLOW: u64 = 15_000;

impl ReadPace {
    /// No read was seen so far. With `always` the store counts as slow, whatever is seen.
    pub const fn new(always: bool) -> Self {
        Self { average: AtomicU64::new(0), always }
    }

    /// So many reads took so many nanoseconds together.
    pub fn took(&self, nanos: u64, reads: u64) {
        let Some(each) = nanos.checked_div(reads) else { return };
        let before = self.average.load(Relaxed);
        // One read that met the scheduler says nothing about the disk: it must not reach `SLOW` by itself.
        let each = each.min(8 * SLOW);
        self.average.store(before - before / 16 + each / 16, Relaxed);
    }

    /// The same rows; how long they take is noted.
    pub const fn timed<R: RowSource>(&self, rows: R) -> Timed<'_, R> {
        Timed { rows, pace: Some(self) }
    }

    /// Whether the last reads waited for a disk.
    pub fn is_slow(&self) -> bool {
        self.always || self.average.load(Relaxed) > SLOW
    }
}

/// Rows, and how long they take.
#[derive(Debug)]
pub struct Timed<'a, R> {
    rows: R,
    pace: Option<&'a ReadPace>,
}

impl<R> Timed<'_, R> {
    /// The same, nothing noted.
    pub const fn unnoted(rows: R) -> Self {
        Self { rows, pace: None }
    }
}

impl<R: RowSource> RowSource for Timed<'_, R> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        let Some(pace) = self.pace else { return self.rows.load(path, out) };
        let start = Instant::now();
        let found = self.rows.load(path, out);
        pace.took(start.elapsed().as_nanos() as u64, 1);
        found
    }

    /// Not timed: a row that comes with many others says nothing about one that is asked for.
    fn gather(
        &self,
        from: &Nibbles,
        last: &Nibbles,
        pick: &mut PickPath<'_>,
        visit: &mut VisitRow<'_>,
    ) -> Result<bool, TrieError> {
        self.rows.gather(from, last, pick, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_that_waited_for_the_processor_does_not_make_the_store_slow() {
        let pace = ReadPace::new(false);
        for _ in 0..100 {
            pace.took(2_000, 1);
        }
        pace.took(5_000_000, 1);
        assert!(!pace.is_slow());
        for _ in 0..8 {
            pace.took(100_000, 1);
        }
        assert!(pace.is_slow(), "these waited for a disk");
    }
}
