//! The decision whether the store is slow enough to run blocks ahead.

/// Number of transactions between two decisions.
const WINDOW: u64 = 512;

/// Decider by the number of slow reads per transaction. The number hardly changes when blocks run ahead: the reads
/// are the same, only other threads wait for them.
///
/// Running ahead starts at one slow read in two transactions, where it gains time, and ends below one in eight.
#[derive(Debug, Default)]
pub(super) struct Pace {
    slow: bool,
    /// Number of transactions since the last decision.
    transactions: u64,
    /// Number of slow reads up to the last decision.
    slow_reads: u64,
}

impl Pace {
    /// Whether the store was slow at the last decision.
    pub(super) const fn is_slow(&self) -> bool {
        self.slow
    }

    /// Counts executed transactions; `slow_reads` returns the number of slow reads so far.
    pub(super) fn executed(&mut self, transactions: u64, slow_reads: impl FnOnce() -> u64) {
        self.transactions += transactions;
        if self.transactions < WINDOW {
            return;
        }
        let before = std::mem::replace(&mut self.slow_reads, slow_reads());
        let slow_reads = self.slow_reads.saturating_sub(before);
        let least = self.transactions / if self.slow { 8 } else { 2 };
        let slow = slow_reads >= least;
        if slow != self.slow {
            tracing::debug!(slow_reads, self.transactions, "reading ahead: {slow}");
        }
        self.slow = slow;
        self.transactions = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the store counts as slow after each of these windows, given their numbers of slow reads.
    fn follow(windows: &[u64]) -> Vec<bool> {
        let (mut pace, mut reads) = (Pace::default(), 0);
        let window = |more: &u64| {
            reads += more;
            // The windows consist of blocks of several sizes.
            for transactions in [0, 1, WINDOW - 2, 0] {
                pace.executed(transactions, || panic!("nothing is decided here yet"));
            }
            pace.executed(1, || reads);
            pace.is_slow()
        };
        windows.iter().map(window).collect()
    }

    #[test]
    fn it_takes_more_to_begin_than_to_go_on() {
        let (half, eighth) = (WINDOW / 2, WINDOW / 8);
        assert_eq!(follow(&[0, eighth, half - 1]), [false; 3]);
        let windows = [half, half - 1, eighth, eighth - 1, eighth];
        assert_eq!(follow(&windows), [true, true, true, false, false]);
        assert_eq!(follow(&[3 * WINDOW, 0, 3 * WINDOW]), [true, false, true]);
    }

    #[test]
    fn a_large_block_counts_as_what_it_is() {
        let mut pace = Pace::default();
        pace.executed(100 * WINDOW, || 50 * WINDOW - 1);
        assert!(!pace.is_slow());
        pace.executed(WINDOW, || 51 * WINDOW);
        assert!(pace.is_slow());
    }
}
