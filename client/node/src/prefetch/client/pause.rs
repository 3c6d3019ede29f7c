//! The time in which no state is opened, after one could not be opened or read.

use std::time::{Duration, Instant};

/// The shortest pause.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest pause.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// The time in which no state is opened, after that failed.
#[derive(Debug)]
pub(super) struct Pause {
    pub(super) least: Duration,
    length: Duration,
    until: Option<Instant>,
}

impl Default for Pause {
    fn default() -> Self {
        Self { least: SHORTEST, length: Duration::ZERO, until: None }
    }
}

impl Pause {
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Returns the time until it is over.
    pub(super) fn rest(&self) -> Duration {
        let now = Instant::now();
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Begins a pause after an attempt that took so long, and returns its length. It is as long as that, or twice as long as
    /// the one before.
    pub(super) fn begin(&mut self, took: Duration) -> Duration {
        self.length = took.max(self.length.saturating_mul(2)).clamp(self.least, LONGEST);
        self.until = Some(Instant::now() + self.length);
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_as_long_as_what_failed_and_grow() {
        let (mut pause, seconds) = (Pause::default(), Duration::from_secs);
        assert!(pause.is_over(Instant::now()));
        let lengths = [0, 0, 0, 12, 1, 60].map(|took| pause.begin(seconds(took)).as_secs());
        assert_eq!(lengths, [1, 2, 4, 12, 24, 30]);
        assert!(!pause.is_over(Instant::now()));
        assert!(pause.is_over(Instant::now() + seconds(30)));
    }
}
