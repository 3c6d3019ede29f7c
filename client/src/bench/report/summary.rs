//! What the runs of one layer come to.

use super::REFERENCE;
use crate::bench::{
    Subject,
    measure::{Amplification, Percentiles, Spread, TimeSplit},
    run::RunResult,
};
use serde::{Deserialize, Serialize};

/// The runs of one layer on one engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayerSummary {
    /// Which.
    #[serde(flatten)]
    pub subject: Subject,
    /// How fast.
    pub throughput: Throughput,
    /// Its median divided by that of `mpt` on the same engine; `None` if that was not measured.
    pub ratio_to_mpt: Option<f64>,
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
    /// What of, a second.
    pub unit: String,
    /// Of each run.
    pub runs: Vec<f64>,
    /// Of all.
    #[serde(flatten)]
    pub spread: Spread,
}

impl LayerSummary {
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
        format!("{}/{}", self.subject.state, self.subject.kv)
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
    let references: Vec<(String, f64)> = summaries
        .iter()
        .filter(|layer| layer.subject.state == REFERENCE)
        .map(|layer| (layer.subject.kv.clone(), layer.throughput.spread.median))
        .collect();
    for layer in &mut summaries {
        let reference = references.iter().find(|(kv, _)| *kv == layer.subject.kv);
        layer.ratio_to_mpt = reference.map(|(_, mpt)| layer.throughput.spread.median / mpt);
    }
    summaries
}

fn summary(subject: &Subject, results: &[RunResult], unit: &str) -> Option<LayerSummary> {
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
        run: *run,
        operations: measured.operations,
        time: measured.time,
        block_seconds: measured.block_seconds,
        amplification: measured.amplification,
        disk_bytes: measured.disk_bytes,
        peak_rss_bytes: peak.unwrap_or_default(),
        own_rss_bytes: measured.own_rss_bytes,
    })
}
