//! Estimates of the transactions' time on other numbers of threads.

use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// Numbers of threads for which the time is estimated.
pub const SCHEDULED_THREADS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Estimates by a greedy schedule: the transactions of each block are assigned in order, each to the first free thread,
/// and a block ends before the next one starts. The work before and after the transactions, and the shared memory of
/// threads, are not taken into account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Seconds of all transactions in the EVM, one after the other.
    pub seconds: f64,
    /// Seconds of the longest transaction of each block, summed: a lower bound for any number of threads.
    pub longest: f64,
    /// Estimates for each number of threads. The time beside the transactions is taken as measured.
    pub threads: Vec<Scheduled>,
}

/// Estimate for a number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scheduled {
    /// Number of threads.
    pub threads: usize,
    /// Seconds until the transactions are done.
    pub seconds: f64,
    /// Operations per second of the whole run.
    pub throughput: f64,
}

impl Schedule {
    /// Computes the estimates from the times of each block's transactions, in a run of `operations` and `seconds` in
    /// which `used` threads ran them. Returns `None` if no block ran so.
    pub(super) fn of(
        blocks: &[Vec<Duration>],
        used: usize,
        operations: u64,
        seconds: f64,
    ) -> Option<Self> {
        if blocks.is_empty() {
            return None;
        }
        let on = |threads| blocks.iter().map(|block| greedy(block, threads)).sum::<Duration>();
        let longest = blocks.iter().filter_map(|block| block.iter().max()).sum::<Duration>();
        let rest = (seconds - on(used).as_secs_f64()).max(0.0);
        let scheduled = SCHEDULED_THREADS.map(|threads| {
            let seconds = on(threads).as_secs_f64();
            let throughput = operations as f64 / (rest + seconds).max(1e-9);
            Scheduled { threads, seconds, throughput }
        });
        let (seconds, longest) = (on(1).as_secs_f64(), longest.as_secs_f64());
        Some(Self { seconds, longest, threads: scheduled.to_vec() })
    }
}

/// Returns the time until all are done, if each is assigned to the first free thread.
fn greedy(times: &[Duration], threads: usize) -> Duration {
    let mut free: BinaryHeap<_> = vec![Reverse(Duration::ZERO); threads.max(1)].into();
    let mut end = Duration::ZERO;
    for time in times {
        let Reverse(start) = free.pop().unwrap_or_default();
        let done = start + *time;
        end = end.max(done);
        free.push(Reverse(done));
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seconds: &[u64]) -> Vec<Duration> {
        seconds.iter().map(|seconds| Duration::from_secs(*seconds)).collect()
    }

    #[test]
    fn the_next_one_goes_to_whoever_is_free_first() {
        let block = times(&[3, 1, 1, 1, 4]);
        let ends = [1, 2, 3, 4, 5, 6].map(|threads| greedy(&block, threads).as_secs());
        assert_eq!(ends, [10, 7, 5, 5, 4, 4]);
        assert_eq!(greedy(&[], 2), Duration::ZERO);
    }

    #[test]
    fn what_is_not_the_transactions_stays() {
        let blocks = [times(&[1, 1, 1, 1]), times(&[2, 2])];
        // On two threads the transactions took 4 of 10 seconds.
        let schedule = Schedule::of(&blocks, 2, 60, 10.0).unwrap_or_else(|| unreachable!());
        assert_eq!((schedule.seconds, schedule.longest), (8.0, 3.0));
        let found: Vec<_> = schedule.threads.iter().map(|s| (s.threads, s.seconds)).collect();
        assert_eq!(found, [(2, 4.0), (4, 3.0), (8, 3.0), (16, 3.0), (32, 3.0), (64, 3.0)]);
        assert_eq!(schedule.threads[0].throughput, 6.0);
        assert_eq!(Schedule::of(&[], 2, 60, 10.0), None);
    }
}
