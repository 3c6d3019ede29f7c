//! The set of live readers by write number, which decides which versions are still needed.

use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// The live readers: for each write number, how many readers see the store as it was after that write.
#[derive(Debug, Default)]
pub struct LiveSet(Mutex<BTreeMap<u64, usize>>);

impl LiveSet {
    /// Registers a reader of write `seq`. Versions seen after that write are kept until the ticket is dropped.
    pub fn enter(self: &Arc<Self>, seq: u64) -> Ticket {
        *self.0.lock().entry(seq).or_default() += 1;
        Ticket { set: self.clone(), seq }
    }

    /// Locks the set and returns it as it is now.
    pub fn lock(&self) -> Live<'_> {
        Live(self.0.lock())
    }
}

/// A locked [`LiveSet`].
#[derive(Debug)]
pub struct Live<'a>(MutexGuard<'a, BTreeMap<u64, usize>>);

impl Live<'_> {
    /// Whether a live reader sees a version that write `span.start` made and write `span.end` replaced.
    pub fn sees(&self, span: Range<u64>) -> bool {
        // Overwritten within one write: no reader ever saw it.
        span.start < span.end && self.0.range(span).next().is_some()
    }

    /// The write number of the oldest live reader.
    pub fn oldest(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }
}

/// The membership of one reader in a [`LiveSet`]; dropping it removes the reader.
#[derive(Debug)]
pub struct Ticket {
    set: Arc<LiveSet>,
    seq: u64,
}

impl Ticket {
    /// The number of the last write that the reader sees.
    pub const fn seq(&self) -> u64 {
        self.seq
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut live = self.set.0.lock();
        if let Some(count) = live.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.seq);
            }
        }
    }
}
