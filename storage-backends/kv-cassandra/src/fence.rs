//! Who has lost the store to another process finds out before it takes a missing row for the truth.
//!
//! One that may write looks into the head while it reads, every two seconds. Who takes the store over removes nothing for
//! longer than that. So what the one before reads was still there, or it has looked since and is out. Commits need none of
//! this: their compare-and-set names owner and epoch.

use crate::error::failed;
use polytrie_kv::KvError;
use std::time::{Duration, Instant, SystemTime};

/// How often one that may write looks whether it still has the store, while it reads.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long a new owner of the store removes nothing. The clocks of two machines need not show the same time, only run
/// about as fast.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// When one that may write has begun to look whether it has the store, by two clocks: [`Instant`] stands still while the
/// machine sleeps, and the other one may be set back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look(Instant, SystemTime);

impl Look {
    pub(crate) fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }

    /// Whether what this look found still holds at a later one.
    pub(crate) fn holds_at(self, later: Self) -> bool {
        let asleep_too = later.1.duration_since(self.1).unwrap_or_default();
        (later.0 - self.0).max(asleep_too) < LOOK_EVERY
    }
}

/// Another process has the store by now. What this one was about to commit may be there, if the answer was lost.
pub(crate) fn lost(action: &'static str, store: &str) -> KvError {
    let reason = format!(
        "another process has opened the store `{store}` for writing since, and goes on from what was committed; this one is out, end one of the two"
    );
    failed(action, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_holds_until_either_clock_says_that_it_is_old() {
        assert!(LOOK_EVERY < GRACE);
        let Look(awake, wall) = Look::now();
        let look = Look(awake, wall);
        let (short, long) = (LOOK_EVERY / 2, LOOK_EVERY);
        assert!(look.holds_at(look));
        assert!(look.holds_at(Look(awake + short, wall + short)));
        assert!(!look.holds_at(Look(awake + long, wall + short)), "the clock was set back");
        assert!(!look.holds_at(Look(awake + short, wall + long)), "the machine slept");
        assert!(look.holds_at(Look(awake + short, wall - long)));
    }
}
