//! Whether the store is slow enough for reading ahead.

/// Transactions between two decisions.
const WINDOW: u64 = 512;

/// Decides from the number of slow reads a transaction. That number is about the same whether blocks are run ahead or
/// not: the reads are the same, other threads wait for them.
///
/// From one slow read in two transactions on, reading ahead pays. It ends below one in eight.
#[derive(Debug, Default)]
pub(super) struct Pace {
    slow: bool,
    /// Transactions since the last decision.
    transactions: u64,
    /// Slow reads until then.
    slow_reads: u64,
}

impl Pace {
    /// Whether the store was slow lately.
    pub(super) const fn is_slow(&self) -> bool {
        self.slow
    }

    /// Counts transactions that were executed; `slow_reads` tells how many reads were slow by now.
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

    /// Whether it is slow after each of some windows with so many slow reads.
    fn follow(windows: &[u64]) -> Vec<bool> {
        let (mut pace, mut reads) = (Pace::default(), 0);
        let window = |more: &u64| {
            reads += more;
            // Blocks of any size.
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
