//! The changes from one report to another, and whether they are more than chance.

use super::{
    LayerSummary, OLDEST, Report, mebibytes,
    relative::{Relative, RelativeChange},
    verdict::{Verdict, enough_runs, p_value},
};
use crate::{Subject, measure::Spread};
use serde::Serialize;
use serde_json::Value;

/// Changes between two reports of the same benchmark, layer by layer.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// Version of this form.
    pub format: u32,
    /// `store` or `chain`.
    pub bench: String,
    /// Unit of the throughput.
    pub unit: String,
    /// Part of the throughput below which a change is never significant.
    pub threshold: f64,
    /// Common change of all layers, as the second throughput divided by the first: that of the machine, or of code
    /// that they share. `None` if the reports have one layer in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<f64>,
    /// Differences beside the results that may be their cause, and advice about the results.
    pub notes: Vec<String>,
    /// Changes of every layer that both reports have.
    pub layers: Vec<LayerChange>,
}

/// Change of one layer.
#[derive(Debug, Clone, Serialize)]
pub struct LayerChange {
    /// Layer that was measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Throughput in the first report.
    pub a: Spread,
    /// Throughput in the second report.
    pub b: Spread,
    /// Second median divided by the first.
    pub ratio: f64,
    /// Probability that runs of the same program differ as much (Mann and Whitney's exact test, two-sided).
    pub p: f64,
    /// Change of the layer beyond the common change; `None` if there is no other layer to compare it with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<RelativeChange>,
    /// Verdict from the relative change, or from the absolute one if there is no relative one.
    pub verdict: Verdict,
    /// Costs of the median run in both reports.
    pub costs: Vec<CostChange>,
}

/// A figure of a layer in both reports.
#[derive(Debug, Clone, Serialize)]
pub struct CostChange {
    /// Name of the figure, with its unit.
    pub name: &'static str,
    /// Figure in the first report.
    pub a: f64,
    /// Figure in the second report.
    pub b: f64,
}

impl Difference {
    /// Compares report `a` with the later report `b`; `threshold` is a part of the throughput, such as 0.05.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if the two did not measure the same thing.
    pub fn of(a: &Report, b: &Report, threshold: f64) -> Result<Self, String> {
        same_benchmark(a, b)?;
        let after = |before: &LayerSummary| b.layers.iter().find(|l| l.subject == before.subject);
        let pairs: Vec<_> =
            a.layers.iter().filter_map(|before| Some((before, after(before)?))).collect();
        if pairs.is_empty() {
            return Err("the reports have no layer in common; measure the same layers".into());
        }
        let (runs_a, runs_b): (Vec<&[f64]>, Vec<&[f64]>) = pairs
            .iter()
            .map(|(a, b)| (a.throughput.runs.as_slice(), b.throughput.runs.as_slice()))
            .unzip();
        let relative = Relative::of(&runs_a, &runs_b);
        let change = |(index, (before, after)): (usize, &(&LayerSummary, &LayerSummary))| {
            let beside = relative.as_ref().map(|all| (all.layers[index], all.layers.len()));
            LayerChange::of(before, after, beside, threshold)
        };
        let layers: Vec<_> = pairs.iter().enumerate().map(change).collect();
        let compared = relative.as_ref().map_or(1, |all| all.layers.len());
        let machine = relative.map(|all| all.machine);
        let mut notes = conditions(a, b);
        for (report, which) in [(a, "first"), (b, "second")] {
            notes.extend(report.disturbed().map(|text| format!("{which} report: {text}")));
        }
        notes.extend(left_out(a, b, "first"));
        notes.extend(left_out(b, a, "second"));
        notes.extend(together(machine, &layers));
        notes.extend(few_runs(&layers, compared));
        let (bench, unit) = (a.bench.clone(), a.unit.clone());
        Ok(Self { format: 1, bench, unit, threshold, machine, notes, layers })
    }

    /// Returns the layers that became slower.
    pub fn slower(&self) -> impl Iterator<Item = &LayerChange> {
        self.layers.iter().filter(|layer| layer.verdict == Verdict::Slower)
    }
}

impl LayerChange {
    /// Compares the summaries of a layer. `beside` is its change beyond the common one, with the number of layers that
    /// it was computed from.
    fn of(
        before: &LayerSummary,
        after: &LayerSummary,
        beside: Option<(RelativeChange, usize)>,
        threshold: f64,
    ) -> Self {
        let (runs_a, runs_b) = (&before.throughput.runs, &after.throughput.runs);
        let (a, b) = (before.throughput.spread, after.throughput.spread);
        let ratio = if a.median > 0.0 { b.median / a.median } else { 1.0 };
        let p = p_value(runs_a, runs_b);
        let runs = (runs_a.len(), runs_b.len());
        let verdict = match &beside {
            Some((change, layers)) => Verdict::of(change.ratio, change.p, runs, *layers, threshold),
            None => Verdict::of(ratio, p, runs, 1, threshold),
        };
        let relative = beside.map(|(change, _)| change);
        let subject = before.subject.clone();
        Self { subject, a, b, ratio, p, relative, verdict, costs: costs(before, after) }
    }

    /// Whether the second report shows another speed.
    fn changed(&self) -> bool {
        matches!(self.verdict, Verdict::Slower | Verdict::Faster)
    }
}

fn costs(a: &LayerSummary, b: &LayerSummary) -> Vec<CostChange> {
    type Figure = (&'static str, fn(&LayerSummary) -> f64);
    const FIGURES: [Figure; 9] = [
        ("execution µs", |l| l.micros(l.time.execution)),
        ("structure µs", |l| l.micros(l.time.structure)),
        ("engine µs", |l| l.micros(l.time.engine)),
        ("engine reads", |l| l.each(l.amplification.engine_reads)),
        ("engine writes", |l| l.each(l.amplification.engine_writes)),
        ("bytes written", |l| l.each(l.amplification.engine_write_bytes)),
        ("p99 block ms", |l| l.block_seconds.p99 * 1e3),
        ("disk MiB", |l| mebibytes(l.disk_bytes)),
        ("own memory MiB", |l| mebibytes(l.own_rss_bytes)),
    ];
    FIGURES.iter().map(|(name, of)| CostChange { name, a: of(a), b: of(b) }).collect()
}

/// Checks that both reports have the same benchmark and parameters. Settings of the measurement may differ.
fn same_benchmark(a: &Report, b: &Report) -> Result<(), String> {
    if a.bench != b.bench {
        return Err(format!(
            "the first report is of `bench {}`, the second of `bench {}`; compare reports of the same benchmark",
            a.bench, b.bench
        ));
    }
    match different(&a.parameters, &b.parameters).first() {
        None => Ok(()),
        Some((name, a, b)) => Err(format!(
            "the reports measured different things: {name} is {a} in the first and {b} in the second; measure again with the same parameters"
        )),
    }
}

/// Returns the names of fields that differ, with both values.
fn different(a: &Value, b: &Value) -> Vec<(String, String, String)> {
    let (Value::Object(fields_a), Value::Object(fields_b)) = (a, b) else {
        return match a == b {
            true => Vec::new(),
            false => vec![(String::new(), a.to_string(), b.to_string())],
        };
    };
    let mut names: Vec<_> = fields_a.keys().chain(fields_b.keys()).collect();
    names.sort();
    names.dedup();
    let value = |fields: &serde_json::Map<String, Value>, name: &str| {
        fields.get(name).cloned().unwrap_or_default()
    };
    let mut all = Vec::new();
    for name in names {
        for (inner, a, b) in different(&value(fields_a, name), &value(fields_b, name)) {
            let path = if inner.is_empty() { name.clone() } else { format!("{name}.{inner}") };
            all.push((path, a, b));
        }
    }
    all
}

/// Returns a sentence for each condition that differs, because it may explain a change.
fn conditions(a: &Report, b: &Report) -> Vec<String> {
    let changes = other_conditions(a, b).into_iter();
    changes.map(|(name, a, b)| format!("{name} was {a}, is {b}")).collect()
}

/// Returns the names of conditions that differ, with both values.
pub(super) fn other_conditions(a: &Report, b: &Report) -> Vec<(String, String, String)> {
    let of = |report: &Report| {
        let is_of_all = report.format == OLDEST;
        let time = if is_of_all { "that of all threads" } else { "that of the executing thread" };
        serde_json::json!({
            "version": report.version,
            "the time of structure and engine, which cannot be compared,": time,
            "processor": report.machine.cpu,
            "cores": report.machine.cores,
            "GiB of memory": report.machine.memory_bytes >> 30,
            "system": report.machine.system,
            "settings": report.settings,
            "threads": report.threads,
            "pinned": report.pinned,
            "memory limit": report.memory_limit,
            "runs": report.runs,
            "cold": report.cold,
            "in place": report.in_place,
        })
    };
    different(&of(a), &of(b))
}

fn left_out(a: &Report, b: &Report, which: &str) -> Vec<String> {
    let missing = |layer: &&LayerSummary| !b.layers.iter().any(|l| l.subject == layer.subject);
    let layers = a.layers.iter().filter(missing);
    layers.map(|layer| format!("{} is only in the {which} report", layer.subject)).collect()
}

/// Returns notes about the common change.
fn together(machine: Option<f64>, layers: &[LayerChange]) -> Vec<String> {
    let Some(machine) = machine else {
        return vec![
            "one layer alone cannot be told from the machine: if that was slower, so is the layer; measure several in turns, as with --states mpt,raw".into(),
        ];
    };
    let percent = (machine - 1.0) * 100.0;
    let word = if percent < 0.0 { "slower" } else { "faster" };
    let mut notes = vec![match percent.abs() < 0.05 {
        true => "the machine was as fast in both reports".to_owned(),
        false => format!(
            "everything was {:.1} % {word} in the second report: the machine, or what all layers share; `beyond` is what a layer changed by beyond that, and the verdict follows from it",
            percent.abs()
        ),
    }];
    if let ([_, _], Some(changed)) = (layers, layers.iter().find(|layer| layer.changed())) {
        notes.push(format!(
            "two layers show that their ratio changed, not which of them did: {} is named because its own throughput changed more; measure a third one to be sure",
            changed.subject
        ));
    }
    notes
}

/// Returns a note about the necessary number of runs if there are too few. `compared` is the number of layers that
/// were compared with each other.
fn few_runs(layers: &[LayerChange], compared: usize) -> Option<String> {
    layers.iter().any(|layer| layer.verdict == Verdict::TooFewRuns).then(|| {
        format!(
            "so few runs lie apart by chance too often: it takes {} of each layer in both reports to tell change from chance; measure with --runs {0}",
            enough_runs(compared)
        )
    })
}
