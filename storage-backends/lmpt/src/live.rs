//! Who reads at which block, and so which versions of a key are still seen.

use parking_lot::Mutex;
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// The numbers of all live readers, with how many share each.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<BTreeMap<u64, usize>>);

impl Live {
    /// Keeps what is seen after change `seq` until the ticket is dropped.
    pub(crate) fn enter(self: &Arc<Self>, seq: u64) -> Ticket {
        *self.0.lock().entry(seq).or_default() += 1;
        Ticket { live: self.clone(), seq }
    }

    /// Whether a reader sees what stood between two changes.
    pub(crate) fn sees(&self, span: Range<u64>) -> bool {
        span.start < span.end && self.0.lock().range(span).next().is_some()
    }

    /// Whether there is a reader of an earlier state than that after change `seq`.
    pub(crate) fn sees_before(&self, seq: u64) -> bool {
        self.sees(0..seq)
    }
}

/// A live reader.
#[derive(Debug)]
pub(crate) struct Ticket {
    live: Arc<Live>,
    /// The last change that is seen.
    pub(crate) seq: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut live = self.live.0.lock();
        if let Some(count) = live.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.seq);
            }
        }
    }
}
