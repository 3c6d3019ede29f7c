//! The clock from which the next block takes its time.

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock in seconds, as users of a development node adjust it: shifted, set for the next block, or replaced
/// with a fixed interval between blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// Seconds by which this clock is ahead of the wall clock.
    offset: i64,
    /// Time that was set for the next block, in seconds since 1970.
    next: Option<u64>,
    /// Fixed number of seconds between blocks, which overrides the clock.
    interval: Option<u64>,
}

impl Clock {
    /// Returns the time of this clock in seconds since 1970.
    pub fn now(&self) -> u64 {
        wall().saturating_add_signed(self.offset)
    }

    /// Returns the time of a block whose parent has the time `parent`. It is always later than `parent`.
    pub fn next(&self, parent: u64) -> u64 {
        let time = match (self.next, self.interval) {
            (Some(next), _) => next,
            (None, Some(interval)) => parent.saturating_add(interval),
            (None, None) => self.now(),
        };
        time.max(parent.saturating_add(1))
    }

    /// Notes that a block with this time was made. If the time was set with [`Self::set_next`], the clock
    /// continues from it.
    pub fn made(&mut self, time: u64) {
        if self.next.take().is_some() {
            self.set(time);
        }
    }

    /// Moves the clock by some seconds; returns how many seconds it is then ahead of the wall clock.
    pub fn shift(&mut self, seconds: i64) -> i64 {
        self.offset = self.offset.saturating_add(seconds);
        self.offset
    }

    /// Sets the clock to `time`, from which it continues.
    pub fn set(&mut self, time: u64) {
        self.offset = i64::try_from(i128::from(time) - i128::from(wall())).unwrap_or(i64::MAX);
    }

    /// Sets the time of the next block only.
    pub const fn set_next(&mut self, time: u64) {
        self.next = Some(time);
    }

    /// Sets the seconds between blocks, and returns those before; `None` returns to the clock.
    pub const fn set_interval(&mut self, seconds: Option<u64>) -> Option<u64> {
        std::mem::replace(&mut self.interval, seconds)
    }
}

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_never_of_the_same_time() {
        let clock = Clock::default();
        let now = clock.now();
        assert_eq!(clock.next(now + 100), now + 101);
        assert!(clock.next(5) >= now);
    }

    #[test]
    fn a_time_for_the_next_block_stays() {
        let mut clock = Clock::default();
        let future = clock.now() + 1_000_000;
        clock.set_next(future);
        assert_eq!(clock.next(1), future);
        clock.made(future);
        assert!((future..future + 100).contains(&clock.now()));
        assert!(clock.next(future) > future);
    }

    #[test]
    fn an_interval_counts_from_the_parent() {
        let mut clock = Clock::default();
        clock.set_interval(Some(12));
        assert_eq!(clock.next(100), 112);
        clock.set_interval(None);
        assert!(clock.next(100) > 112);
    }
}
