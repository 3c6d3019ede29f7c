//! The reads that a thread makes by itself, and so waits for.

use serde::Serialize;
use std::{
    cell::Cell,
    ops::{AddAssign, Sub},
};

thread_local! {
    static OWN: Cell<EngineReads> = const { Cell::new(EngineReads { requests: 0, rows: 0 }) };
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
