//! The summary of one layer's runs.

use super::{BASELINE, REFERENCE};
use crate::{
    Subject,
    measure::{Amplification, Percentiles, Schedule, Spread, TimeSplit},
    run::RunResult,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Summary of the runs of one layer on one engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayerSummary {
    /// Layer that was measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Throughput of the runs.
    pub throughput: Throughput,
    /// Median of [`Self::ratios_to_mpt`]; `None` if `mpt` was not measured on the same engine.
    pub ratio_to_mpt: Option<f64>,
    /// Throughput divided by that of `mpt` on the same engine in the same turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios_to_mpt: Option<Ratios>,
    /// Median of [`Self::ratios_to_mpt_hash`]; `None` if `mpt-hash` was not measured on the same engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_mpt_hash: Option<f64>,
    /// Throughput divided by that of `mpt-hash`, the papers' baseline, on the same engine in the same turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios_to_mpt_hash: Option<Ratios>,
    /// Number of the run of the following figures: the one with the median throughput (for an even number of runs, the
    /// lower of the two).
    pub run: usize,
    /// Number of its operations or transactions.
    pub operations: u64,
    /// Parts of its time.
    pub time: TimeSplit,
    /// Percentiles of its blocks' times, in seconds.
    pub block_seconds: Percentiles,
    /// Reads and writes at the layer and at the engine.
    pub amplification: Amplification,
    /// Figures of the layer about its own work, with the warm-up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layer: BTreeMap<String, u64>,
    /// Estimated throughput with other numbers of threads, if transactions ran at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Bytes on disk after it.
    pub disk_bytes: u64,
    /// Greatest memory of any run, in bytes, with pages of mapped files (MDBX).
    pub peak_rss_bytes: u64,
    /// Memory at its end, in bytes, without such pages.
    pub own_rss_bytes: u64,
}

/// Operations or transactions per second.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Throughput {
    /// Unit: `ops/s`, `tx/s` or `blk/s`.
    pub unit: String,
    /// Throughput of each run, in the order of the turns.
    pub runs: Vec<f64>,
    /// Median, least and greatest value of all runs.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Throughput of one layer divided by that of another, turn by turn. A change of the machine in a turn affects both
/// layers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ratios {
    /// Ratio of each turn.
    pub runs: Vec<f64>,
    /// Median, least and greatest ratio.
    #[serde(flatten)]
    pub spread: Spread,
}

impl Ratios {
    /// Computes the ratios of two layers' runs, in the order of their turns.
    pub(crate) fn of(runs: &[f64], reference: &[f64]) -> Self {
        let runs: Vec<f64> = runs.iter().zip(reference).map(|(run, other)| run / other).collect();
        Self { spread: Spread::of(runs.iter().copied()), runs }
    }
}

impl LayerSummary {
    /// Returns the least and the greatest ratio to `mpt`; `None` if they mean nothing: for a single run, and for `mpt`
    /// itself.
    pub fn ratio_range(&self) -> Option<(f64, f64)> {
        self.range(self.ratios_to_mpt.as_ref()?, REFERENCE)
    }

    /// Returns the least and the greatest ratio to `mpt-hash`, under the same conditions.
    pub fn baseline_range(&self) -> Option<(f64, f64)> {
        self.range(self.ratios_to_mpt_hash.as_ref()?, BASELINE)
    }

    fn range(&self, ratios: &Ratios, reference: &str) -> Option<(f64, f64)> {
        let says_something = ratios.runs.len() > 1 && !self.subject.is_plain(reference);
        says_something.then_some((ratios.spread.min, ratios.spread.max))
    }

    /// Converts seconds of the whole run into microseconds per operation or transaction.
    pub fn micros(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.operations.max(1) as f64
    }

    /// Converts a count of the whole run into one per operation or transaction.
    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.operations.max(1) as f64
    }

    /// Returns the name of the layer and its engine.
    pub fn name(&self) -> String {
        format!("{}/{}", self.subject.label(), self.subject.kv)
    }
}

/// Returns a summary for each subject, in their order.
pub(super) fn summaries(
    subjects: &[Subject],
    results: &[RunResult],
    unit: &str,
) -> Vec<LayerSummary> {
    let mut summaries: Vec<_> =
        subjects.iter().filter_map(|subject| summary(subject, results, unit)).collect();
    let references: Vec<(Subject, Vec<f64>)> = summaries
        .iter()
        .filter(|layer| [REFERENCE, BASELINE].iter().any(|state| layer.subject.is_plain(state)))
        .map(|layer| (layer.subject.clone(), layer.throughput.runs.clone()))
        .collect();
    for layer in &mut summaries {
        let ratios_to = |state: &str| {
            let is_it = |(subject, _): &&(Subject, Vec<f64>)| {
                subject.state == state && subject.kv == layer.subject.kv
            };
            let (_, runs) = references.iter().find(is_it)?;
            Some(Ratios::of(&layer.throughput.runs, runs))
        };
        let median = |ratios: &Option<Ratios>| ratios.as_ref().map(|ratios| ratios.spread.median);
        (layer.ratios_to_mpt, layer.ratios_to_mpt_hash) =
            (ratios_to(REFERENCE), ratios_to(BASELINE));
        layer.ratio_to_mpt = median(&layer.ratios_to_mpt);
        layer.ratio_to_mpt_hash = median(&layer.ratios_to_mpt_hash);
    }
    summaries
}

/// Summarises the runs of a subject; `None` if there are none.
pub(super) fn summary(
    subject: &Subject,
    results: &[RunResult],
    unit: &str,
) -> Option<LayerSummary> {
    let mut runs: Vec<_> = results.iter().filter(|result| result.subject == *subject).collect();
    let throughputs: Vec<f64> = runs.iter().map(|result| result.measured.throughput).collect();
    runs.sort_by(|a, b| a.measured.throughput.total_cmp(&b.measured.throughput));
    let RunResult { run, measured, .. } = runs.get(runs.len().checked_sub(1)? / 2)?;
    let peak = runs.iter().map(|result| result.measured.peak_rss_bytes).max();
    Some(LayerSummary {
        subject: subject.clone(),
        throughput: Throughput {
            unit: unit.to_owned(),
            spread: Spread::of(throughputs.iter().copied()),
            runs: throughputs,
        },
        ratio_to_mpt: None,
        ratios_to_mpt: None,
        ratio_to_mpt_hash: None,
        ratios_to_mpt_hash: None,
        run: *run,
        operations: measured.operations,
        time: measured.time,
        block_seconds: measured.block_seconds,
        amplification: measured.amplification,
        layer: measured.layer.clone(),
        schedule: measured.schedule.clone(),
        disk_bytes: measured.disk_bytes,
        peak_rss_bytes: peak.unwrap_or_default(),
        own_rss_bytes: measured.own_rss_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_within_a_turn() {
        // The machine is slower in each turn; the layer is always twice as fast.
        let ratios = Ratios::of(&[200.0, 160.0, 100.0], &[100.0, 80.0, 50.0]);
        assert_eq!(ratios.runs, [2.0, 2.0, 2.0]);
        assert_eq!((ratios.spread.median, ratios.spread.relative), (2.0, 0.0));
    }
}
