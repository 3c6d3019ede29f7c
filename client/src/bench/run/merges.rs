//! How often `lmpt` merges while it is measured.

use super::Comparison;
use crate::layers::DEFAULT_LMPT_INTERVAL;

/// The layer.
const STATE: &str = "lmpt";

/// The interval for a run that measures so many blocks after its warm-up.
///
/// A merge is half of the layer's work and begins when the first interval has ended, while a node that has run for days is
/// always merging. So that interval is the warm-up, and what is measured has two intervals at least.
pub(in crate::bench) fn lmpt_interval(warmup: u64, measured: u64) -> u64 {
    warmup.min(measured / 2).clamp(1, DEFAULT_LMPT_INTERVAL)
}

impl Comparison {
    /// The same, with an interval of `lmpt` for a run that measures so many blocks, if that layer is compared and none
    /// was given.
    pub(super) fn merging(&self, warmup: u64, measured: u64) -> Self {
        let mut comparison = self.clone();
        let is_there = self.subjects.iter().any(|subject| subject.state == STATE);
        if is_there && self.settings.layer.lmpt_interval.is_none() {
            let interval = lmpt_interval(warmup, measured);
            comparison.settings.layer.lmpt_interval = Some(interval);
            comparison.notes.push(format!(
                "lmpt merges in intervals of {interval} blocks, so that merges are measured (--lmpt.interval {interval})"
            ));
        }
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_measured() {
        for warmup in 1..40 {
            for measured in 2..200 {
                let interval = lmpt_interval(warmup, measured);
                assert!(
                    interval <= warmup,
                    "an interval is there to be merged from the first block on"
                );
                assert!(2 * interval <= measured, "two intervals are measured");
            }
        }
        assert_eq!(lmpt_interval(30, 270), 30);
    }

    #[test]
    fn long_runs_have_the_interval_of_a_node() {
        assert_eq!(lmpt_interval(1_000, 2_000), DEFAULT_LMPT_INTERVAL);
        assert_eq!(lmpt_interval(u64::MAX, u64::MAX), DEFAULT_LMPT_INTERVAL);
    }

    #[test]
    fn there_is_always_one() {
        assert_eq!([lmpt_interval(0, 0), lmpt_interval(7, 1), lmpt_interval(0, 9)], [1; 3]);
    }
}
