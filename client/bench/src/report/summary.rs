//! What the runs of one layer come to.

use super::{BASELINE, REFERENCE};
use crate::{
    Subject,
    measure::{Amplification, Percentiles, Schedule, Spread, TimeSplit},
    run::RunResult,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The runs of one layer on one engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayerSummary {
    /// Which.
    #[serde(flatten)]
    pub subject: Subject,
    /// How fast.
    pub throughput: Throughput,
    /// The median of [`Self::ratios_to_mpt`]; `None` if `mpt` was not measured on the same engine.
    pub ratio_to_mpt: Option<f64>,
    /// Its throughput divided by that of `mpt` on the same engine in the same turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios_to_mpt: Option<Ratios>,
    /// The median of [`Self::ratios_to_mpt_hash`]; `None` if `mpt-hash` was not measured on the same engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_mpt_hash: Option<f64>,
    /// Its throughput divided by that of `mpt-hash`, what the papers measured against, on the same engine in the same
    /// turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios_to_mpt_hash: Option<Ratios>,
    /// The run whose figures stand below: the one with the median throughput (of an even number, the lower).
    pub run: usize,
    /// Operations or transactions of it.
    pub operations: u64,
    /// Where its time went.
    pub time: TimeSplit,
    /// How long its blocks took.
    pub block_seconds: Percentiles,
    /// Reads and writes at the layer and at the engine.
    pub amplification: Amplification,
    /// What the layer counted of its own work, the warm-up's included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layer: BTreeMap<String, u64>,
    /// What other numbers of threads would make of the transactions, where they ran at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Bytes on disk after it.
    pub disk_bytes: u64,
    /// The most memory that any run ever held, pages of mapped files (MDBX) included.
    pub peak_rss_bytes: u64,
    /// Memory held at the end, such pages not included.
    pub own_rss_bytes: u64,
}

/// Operations or transactions a second.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Throughput {
    /// The unit: `ops/s`, `tx/s` or `blk/s`.
    pub unit: String,
    /// The throughput of each run, in the order of the turns.
    pub runs: Vec<f64>,
    /// The median, the least and the greatest of all runs.
    #[serde(flatten)]
    pub spread: Spread,
}

/// What the throughput of one layer is to that of another, turn by turn. Whatever made the machine slower or faster in
/// a turn did so to both of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ratios {
    /// Of each turn.
    pub runs: Vec<f64>,
    /// Of all.
    #[serde(flatten)]
    pub spread: Spread,
}

impl Ratios {
    /// Of the runs of two layers, in the order of their turns.
    pub(crate) fn of(runs: &[f64], reference: &[f64]) -> Self {
        let runs: Vec<f64> = runs.iter().zip(reference).map(|(run, other)| run / other).collect();
        Self { spread: Spread::of(runs.iter().copied()), runs }
    }
}

impl LayerSummary {
    /// The least and the greatest ratio to `mpt`, where that says anything: not of a single run, nor of `mpt` itself.
    pub fn ratio_range(&self) -> Option<(f64, f64)> {
        self.range(self.ratios_to_mpt.as_ref()?, REFERENCE)
    }

    /// Ratio to `mpt-hash`, the baseline of the papers, of the same turn.
    pub fn baseline_range(&self) -> Option<(f64, f64)> {
        self.range(self.ratios_to_mpt_hash.as_ref()?, BASELINE)
    }

    fn range(&self, ratios: &Ratios, reference: &str) -> Option<(f64, f64)> {
        let says_something = ratios.runs.len() > 1 && !self.subject.is_plain(reference);
        says_something.then_some((ratios.spread.min, ratios.spread.max))
    }

    /// Microseconds an operation or transaction, of seconds of the whole run.
    pub fn micros(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.operations.max(1) as f64
    }

    /// How many an operation or transaction, of a count of the whole run.
    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.operations.max(1) as f64
    }

    /// The layer, and the engine where that is not said elsewhere.
    pub fn name(&self) -> String {
        format!("{}/{}", self.subject.label(), self.subject.kv)
    }
}

/// One summary for each subject, in their order.
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

/// What the runs of a subject come to; `None` if it has none among these.
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
        // The machine is slower from turn to turn; the layer is always twice as fast.
        let ratios = Ratios::of(&[200.0, 160.0, 100.0], &[100.0, 80.0, 50.0]);
        assert_eq!(ratios.runs, [2.0, 2.0, 2.0]);
        assert_eq!((ratios.spread.median, ratios.spread.relative), (2.0, 0.0));
    }
}
