//! The check by which an engine notices that another process removes the rows that it reads, before it takes a removed
//! row for a missing one.
//!
//! Each engine reads the head every two seconds while it reads rows. One that may write looks whether it still owns the
//! store, one that only reads whether the floor is above its version. A new owner removes no row for longer than that, and
//! no writer does for as long after it has raised the floor. So either the rows that an engine reads are still there, or
//! it has read the head since and fails. Commits need no such check: their compare-and-set names owner and epoch.

use crate::error::failed;
use polytrie_kv::KvError;
use std::time::{Duration, Instant, SystemTime};

/// Interval at which an engine checks the head while it reads rows.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Time for which a new owner of the store removes no rows, and between raising the floor and removing the rows below it.
/// The clocks of two machines need not show the same time, they only have to run at about the same rate.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// The start of a check, by two clocks: [`Instant`] stands still while the machine sleeps, and [`SystemTime`] may be
/// set back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look(Instant, SystemTime);

impl Look {
    pub(crate) fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }

    /// Whether the result of this check still holds at the time of `later`.
    pub(crate) fn holds_at(self, later: Self) -> bool {
        let asleep_too = later.1.duration_since(self.1).unwrap_or_default();
        (later.0 - self.0).max(asleep_too) < LOOK_EVERY
    }
}

/// Returns the error after another process has taken the store over. A batch whose commit was not answered may be
/// committed.
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
