//! Which moments are still looked at.
//!
//! Writes are numbered. A snapshot taken after write number 7 needs, of each key, the newest version not
//! younger than 7. A version may go as soon as it is overwritten and no snapshot stands between it and its
//! successor.

use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// The numbers of all live snapshots, with how many share each.
#[derive(Debug, Default)]
pub(crate) struct LiveSet(Mutex<BTreeMap<u64, usize>>);

impl LiveSet {
    /// Keeps what is seen after write `seq` until the ticket is dropped.
    pub(crate) fn enter(self: &Arc<Self>, seq: u64) -> Ticket {
        *self.0.lock().entry(seq).or_default() += 1;
        Ticket { set: self.clone(), seq }
    }

    /// The set as it is now, held still.
    pub(crate) fn lock(&self) -> Live<'_> {
        Live(self.0.lock())
    }
}

/// A [`LiveSet`] that does not change meanwhile.
#[derive(Debug)]
pub(crate) struct Live<'a>(MutexGuard<'a, BTreeMap<u64, usize>>);

impl Live<'_> {
    /// Whether a version that was visible from write `span.start` until write `span.end` replaced it is
    /// still seen by someone.
    pub(crate) fn sees(&self, span: Range<u64>) -> bool {
        // Overwritten within one write: no snapshot ever saw it.
        span.start < span.end && self.0.range(span).next().is_some()
    }

    /// Number of the oldest live snapshot.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }
}

/// Membership in a [`LiveSet`].
#[derive(Debug)]
pub(crate) struct Ticket {
    set: Arc<LiveSet>,
    seq: u64,
}

impl Ticket {
    /// The number of the last write that is seen.
    pub(crate) fn seq(&self) -> u64 {
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
