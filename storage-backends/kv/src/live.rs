//! Who reads at which write, and so which versions are still seen.

use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// After which writes the live readers came, and how many share each.
#[derive(Debug, Default)]
pub struct LiveSet(Mutex<BTreeMap<u64, usize>>);

impl LiveSet {
    /// Keeps what is seen after write `seq` until the ticket is dropped.
    pub fn enter(self: &Arc<Self>, seq: u64) -> Ticket {
        *self.0.lock().entry(seq).or_default() += 1;
        Ticket { set: self.clone(), seq }
    }

    /// The set as it is now, held still.
    pub fn lock(&self) -> Live<'_> {
        Live(self.0.lock())
    }
}

/// A [`LiveSet`] that does not change meanwhile.
#[derive(Debug)]
pub struct Live<'a>(MutexGuard<'a, BTreeMap<u64, usize>>);

impl Live<'_> {
    /// Whether a reader still sees a version that write `span.start` made and write `span.end` replaced.
    pub fn sees(&self, span: Range<u64>) -> bool {
        // Overwritten within one write: no reader ever saw it.
        span.start < span.end && self.0.range(span).next().is_some()
    }

    /// The write after which the oldest live reader came.
    pub fn oldest(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }
}

/// Membership in a [`LiveSet`].
#[derive(Debug)]
pub struct Ticket {
    set: Arc<LiveSet>,
    seq: u64,
}

impl Ticket {
    /// The number of the last write that is seen.
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
