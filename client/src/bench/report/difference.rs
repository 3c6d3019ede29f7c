//! What changed from one report to another, and whether that is more than chance.

use super::{LayerSummary, Report};
use crate::bench::{Subject, measure::Spread};
use serde::Serialize;
use serde_json::Value;

/// Runs that either report must have of a layer before anything is called significant.
pub const ENOUGH_RUNS: usize = 3;
/// Chance below which a difference does not count as chance.
const SIGNIFICANT: f64 = 0.05;

/// Two reports that measured the same thing, layer by layer.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// Version of this form.
    pub format: u32,
    /// `store` or `chain`.
    pub bench: String,
    /// What throughput is in.
    pub unit: String,
    /// Changes below this part of the throughput are never significant.
    pub threshold: f64,
    /// What differs beside the results, and may be their cause.
    pub notes: Vec<String>,
    /// One entry for every layer that both reports have.
    pub layers: Vec<LayerChange>,
}

/// What changed for one layer.
#[derive(Debug, Clone, Serialize)]
pub struct LayerChange {
    /// Which.
    #[serde(flatten)]
    pub subject: Subject,
    /// Throughput in the first report.
    pub a: Spread,
    /// Throughput in the second report.
    pub b: Spread,
    /// Second median divided by the first.
    pub ratio: f64,
    /// How likely it is that runs of one and the same thing come out so far apart (Mann and Whitney's exact test, both
    /// directions).
    pub p: f64,
    /// What follows.
    pub verdict: Verdict,
    /// What the median run needed, in the first report and in the second.
    pub costs: Vec<CostChange>,
}

/// One figure of a layer in both reports.
#[derive(Debug, Clone, Serialize)]
pub struct CostChange {
    /// What it counts, with its unit.
    pub name: &'static str,
    /// In the first report.
    pub a: f64,
    /// In the second report.
    pub b: f64,
}

/// What a comparison of runs shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second is slower, and that is not chance.
    Slower,
    /// The second is faster, and that is not chance.
    Faster,
    /// No difference that could not be chance, or one below the threshold.
    Same,
    /// Fewer than [`ENOUGH_RUNS`] runs in one of the reports.
    TooFewRuns,
}

impl Difference {
    /// From report `a` to report `b`; `threshold` is a part of the throughput, as 0.05.
    ///
    /// # Errors
    ///
    /// A sentence, if the two did not measure the same thing.
    pub fn of(a: &Report, b: &Report, threshold: f64) -> Result<Self, String> {
        same_benchmark(a, b)?;
        let layers: Vec<_> = a
            .layers
            .iter()
            .filter_map(|before| {
                let after = b.layers.iter().find(|after| after.subject == before.subject)?;
                Some(LayerChange::of(before, after, threshold))
            })
            .collect();
        if layers.is_empty() {
            return Err("the reports have no layer in common; measure the same layers".into());
        }
        let mut notes = conditions(a, b);
        notes.extend(left_out(a, b, "first"));
        notes.extend(left_out(b, a, "second"));
        notes.extend(drift(&layers));
        let (bench, unit) = (a.bench.clone(), a.unit.clone());
        Ok(Self { format: 1, bench, unit, threshold, notes, layers })
    }

    /// Layers that became slower.
    pub fn slower(&self) -> impl Iterator<Item = &LayerChange> {
        self.layers.iter().filter(|layer| layer.verdict == Verdict::Slower)
    }
}

impl LayerChange {
    fn of(before: &LayerSummary, after: &LayerSummary, threshold: f64) -> Self {
        let (runs_a, runs_b) = (&before.throughput.runs, &after.throughput.runs);
        let (a, b) = (before.throughput.spread, after.throughput.spread);
        let ratio = if a.median > 0.0 { b.median / a.median } else { 1.0 };
        let p = p_value(runs_a, runs_b);
        // Three runs against three can show no less than one in ten: then they must all lie apart.
        let level = SIGNIFICANT.max(least_p(runs_a.len(), runs_b.len()) * 1.000_001);
        let verdict = if runs_a.len().min(runs_b.len()) < ENOUGH_RUNS {
            Verdict::TooFewRuns
        } else if p > level || (ratio - 1.0).abs() < threshold {
            Verdict::Same
        } else if ratio < 1.0 {
            Verdict::Slower
        } else {
            Verdict::Faster
        };
        let subject = before.subject.clone();
        Self { subject, a, b, ratio, p, verdict, costs: costs(before, after) }
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
        ("disk MiB", |l| l.disk_bytes as f64 / f64::from(1 << 20)),
        ("own memory MiB", |l| l.own_rss_bytes as f64 / f64::from(1 << 20)),
    ];
    FIGURES.iter().map(|(name, of)| CostChange { name, a: of(a), b: of(b) }).collect()
}

/// What is measured must be the same; how it is measured may differ.
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

/// Names of fields that differ, with both values.
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

/// Conditions that may explain a difference.
fn conditions(a: &Report, b: &Report) -> Vec<String> {
    let of = |report: &Report| {
        serde_json::json!({
            "version": report.version,
            "processor": report.machine.cpu,
            "cores": report.machine.cores,
            "memory": report.machine.memory_bytes >> 30,
            "system": report.machine.system,
            "settings": report.settings,
            "threads": report.threads,
            "pinned": report.pinned,
            "memory limit": report.memory_limit,
            "counted": report.counted,
            "cold": report.cold,
        })
    };
    let changes = different(&of(a), &of(b)).into_iter();
    changes.map(|(name, a, b)| format!("{name} was {a}, is {b}")).collect()
}

fn left_out(a: &Report, b: &Report, which: &str) -> Vec<String> {
    let missing = |layer: &&LayerSummary| !b.layers.iter().any(|l| l.subject == layer.subject);
    let layers = a.layers.iter().filter(missing);
    layers.map(|layer| format!("{} is only in the {which} report", layer.subject)).collect()
}

/// Says so if all layers changed alike: then something under them did.
fn drift(layers: &[LayerChange]) -> Option<String> {
    let first = layers.first().filter(|_| layers.len() > 2)?.verdict;
    let alike = layers.iter().all(|layer| layer.verdict == first);
    let word = match first {
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::Same | Verdict::TooFewRuns => return None,
    };
    alike.then(|| {
        format!("every layer became {word}: look at the machine and at what they share before you look at a layer")
    })
}

/// The chance that two samples of one distribution are at least so far apart: Mann and Whitney's test, counted exactly.
fn p_value(a: &[f64], b: &[f64]) -> f64 {
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    // Twice the number of pairs in order, so that a tie is a whole number.
    let in_order: usize = pairs
        .map(|(x, y)| match x.total_cmp(y) {
            std::cmp::Ordering::Less => 2,
            std::cmp::Ordering::Equal => 1,
            std::cmp::Ordering::Greater => 0,
        })
        .sum();
    let all = a.len() * b.len();
    let distance = in_order.abs_diff(all);
    let ways = arrangements(a.len(), b.len());
    let total: f64 = ways.iter().sum();
    let as_far: f64 = ways
        .iter()
        .enumerate()
        .filter(|(pairs, _)| (2 * pairs).abs_diff(all) >= distance)
        .map(|(_, ways)| ways)
        .sum();
    as_far / total
}

/// The least that [`p_value`] can be for so many runs.
fn least_p(a: usize, b: usize) -> f64 {
    2.0 / arrangements(a, b).iter().sum::<f64>()
}

/// How many orders of `a` and `b` values have how many pairs in order.
fn arrangements(a: usize, b: usize) -> Vec<f64> {
    // ways[j][u]: with i values of the first and j of the second kind, u pairs are in order.
    let mut ways = vec![vec![0.0; a * b + 1]; b + 1];
    for row in &mut ways {
        row[0] = 1.0;
    }
    for _ in 0..a {
        for j in 1..=b {
            let (before, here) = ways.split_at_mut(j);
            let (fewer, row) = (&before[j - 1], &mut here[0]);
            // The last value is of the first kind and behind all j, or of the second kind.
            for pairs in (0..row.len()).rev() {
                row[pairs] = fewer[pairs] + if pairs >= j { row[pairs - j] } else { 0.0 };
            }
        }
    }
    ways.swap_remove(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_are_counted() {
        assert_eq!(arrangements(1, 1), [1.0, 1.0]);
        assert_eq!(arrangements(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(arrangements(3, 3).iter().sum::<f64>(), 20.0);
        assert_eq!(arrangements(5, 4).iter().sum::<f64>(), 126.0);
    }

    #[test]
    fn chances_are_those_of_the_tables() {
        assert_eq!(p_value(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1);
        assert_eq!(p_value(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]), 0.1);
        let five = p_value(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((five - 2.0 / 252.0).abs() < 1e-12, "{five}");
        assert_eq!(p_value(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]), 1.0);
        assert_eq!(least_p(3, 3), 0.1);
    }
}
