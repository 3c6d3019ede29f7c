//! The reads that a thread makes by itself, and so waits for.

use serde::Serialize;
use std::{
    cell::Cell,
    ops::{AddAssign, Sub},
    time::{Duration, Instant},
};

thread_local! {
    static OWN: Cell<EngineReads> = const { Cell::new(EngineReads { requests: 0, rows: 0 }) };
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Reads that reached the engines of stores with counters. Those of a fork count where they reach the engine of its store.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EngineReads {
    /// Number of requests: reads of one row, of many together, or of a range.
    pub requests: u64,
    /// Number of rows that were asked for, or visited in ranges.
    pub rows: u64,
}

impl EngineReads {
    /// Returns those that this thread has made so far.
    pub fn of_this_thread() -> Self {
        OWN.get()
    }

    /// Returns the time that this thread has waited for engines so far: in its own gets, estimated from one in 61, and in
    /// [`Self::waiting`].
    pub fn time_of_this_thread() -> Duration {
        WAITED.get()
    }

    /// Does work that waits until other threads have read. All its time counts as that of a read of this thread.
    pub fn waiting<T>(work: impl FnOnce() -> T) -> T {
        let (before, start) = (WAITED.get(), Instant::now());
        let result = work();
        // Own reads meanwhile are a part of this time.
        WAITED.set(before + start.elapsed());
        result
    }

    /// Adds the time of a read of this thread.
    pub(crate) fn took(time: Duration) {
        WAITED.set(WAITED.get() + time);
    }

    /// Counts a request of this thread.
    pub(crate) fn count(rows: usize) {
        let Self { requests, rows: before } = OWN.get();
        OWN.set(Self { requests: requests + 1, rows: before + rows as u64 });
    }
}

impl AddAssign for EngineReads {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.rows += more.rows;
    }
}

impl Sub for EngineReads {
    type Output = Self;

    /// Returns the reads between `earlier` and `self`.
    fn sub(self, earlier: Self) -> Self {
        Self { requests: self.requests - earlier.requests, rows: self.rows - earlier.rows }
    }
}
