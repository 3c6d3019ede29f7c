//! The report of all runs: a table, and all figures as JSON.

use super::{Case, WorstFigures, WorstSpec, heat};
use crate::{
    Subject,
    measure::{Machine, Percentiles, Spread},
    report::{REFERENCE, columns, plot::short},
};
use polytrie_node::words::counted;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A run of one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorstRun {
    /// Layer that was measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Number of the run, from 1.
    pub run: usize,
    /// Figures of each test.
    pub tests: Vec<WorstFigures>,
}

/// Result of the benchmark; serialises to the JSON of `--json`.
#[derive(Debug, Clone, Serialize)]
pub struct WorstReport {
    /// Version of this program.
    pub version: String,
    /// Machine of the benchmark.
    pub machine: Machine,
    /// Parameters of the state.
    #[serde(flatten)]
    pub spec: WorstSpec,
    /// Number of blocks that were merged into one.
    pub merge: u64,
    /// Number of runs of each layer.
    pub runs: usize,
    /// Further notes about the runs.
    pub notes: Vec<String>,
    /// Cases in their order.
    pub cases: Vec<Described>,
    /// Tests, the one with the worst ratio first.
    pub tests: Vec<WorstRow>,
    /// Results of each run.
    pub results: Vec<WorstRun>,
}

/// Description of a case.
#[derive(Debug, Clone, Serialize)]
pub struct Described {
    /// Name of the case.
    pub name: String,
    /// Description of its blocks.
    pub about: String,
}

/// A test: a case with an amount of gas, cold or warm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstRow {
    /// Name of the case.
    pub case: String,
    /// Gas of a block.
    pub gas_limit: u64,
    /// Whether its blocks had been executed just before.
    pub warm: bool,
    /// Layers, the slowest first.
    pub layers: Vec<WorstCell>,
}

/// A test on a layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstCell {
    /// Layer that was measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Millions of gas per second, until the blocks are durable: the median of all runs.
    pub mgas_per_second: f64,
    /// Time of the median block of all runs, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the blocks' times of all runs, in milliseconds.
    pub p99_ms: f64,
    /// Median of the ratios to `mpt` on the same engine in the same turn; `None` without `mpt`.
    pub ratio_to_mpt: Option<f64>,
}

impl WorstRow {
    /// Returns the name of the test in tables.
    pub fn name(&self) -> String {
        let warm = if self.warm { "warm" } else { "cold" };
        format!("{} {}M {warm}", self.case, self.gas_limit / 1_000_000)
    }

    /// Returns the worst ratio of a layer.
    fn worst(&self) -> f64 {
        let ratios = self.layers.iter().filter_map(|cell| cell.ratio_to_mpt);
        ratios.fold(f64::INFINITY, f64::min)
    }
}

impl WorstReport {
    /// Summarises the results.
    pub fn new(
        spec: WorstSpec,
        merge: u64,
        runs: usize,
        cases: &[Case],
        notes: Vec<String>,
        results: Vec<WorstRun>,
    ) -> Self {
        let described =
            |case: &Case| Described { name: case.name.clone(), about: case.about.clone() };
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: Machine::this(),
            spec,
            merge,
            runs,
            notes,
            cases: cases.iter().map(described).collect(),
            tests: rows(&results),
            results,
        }
    }

    /// Returns the tables and lines of the report.
    pub fn table(&self) -> String {
        let WorstSpec { seed, size, slots, codes, blocks, .. } = self.spec;
        let (machine, mut text) = (&self.machine, String::new());
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "bench worst: size {size}, slots {slots}, codes {codes}, blocks {blocks}, merge {}; {} of each in turns; seed {seed}",
            self.merge,
            counted(self.runs, "run")
        );
        let _ = writeln!(
            text,
            "{} ({} cores), {}; polytrie {}",
            machine.cpu, machine.cores, machine.system, self.version
        );
        self.notes.iter().for_each(|note| _ = writeln!(text, "{note}"));
        let heads = ["test", "layer", "Mgas/s", "p50 ms", "p99 ms", "x mpt"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for row in &self.tests {
            for (at, cell) in row.layers.iter().enumerate() {
                rows.push(vec![
                    if at == 0 { row.name() } else { String::new() },
                    name(&cell.subject, self),
                    short(cell.mgas_per_second),
                    short(cell.p50_ms),
                    short(cell.p99_ms),
                    cell.ratio_to_mpt.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                ]);
            }
        }
        text + "\n" + &columns(&rows)
    }

    /// Returns the ratio to `mpt` of each layer in each test, as a heat map.
    pub fn heat_map(&self) -> String {
        heat::draw(self)
    }

    /// Returns the measured layers, in the order of the first turn.
    pub(super) fn subjects(&self) -> Vec<&Subject> {
        let first_turn = self.results.iter().filter(|result| result.run == 1);
        first_turn.map(|result| &result.subject).collect()
    }
}

/// Returns the name of a subject: the layer, with its engine if there are several.
pub(super) fn name(subject: &Subject, report: &WorstReport) -> String {
    let one = report.results.iter().all(|result| result.subject.kv == subject.kv);
    if one { subject.state.clone() } else { subject.to_string() }
}

fn rate(figures: &WorstFigures) -> f64 {
    figures.gas as f64 / 1e6 / figures.seconds.max(1e-9)
}

/// Returns the figures of a test on a layer, of one run or of all.
fn figures<'r>(
    results: &'r [WorstRun],
    test: &WorstFigures,
    subject: &Subject,
    run: Option<usize>,
) -> Vec<&'r WorstFigures> {
    let is_test = |other: &&WorstFigures| {
        (&other.case, other.gas_limit, other.warm) == (&test.case, test.gas_limit, test.warm)
    };
    let runs = results.iter().filter(|result| result.subject == *subject);
    let runs = runs.filter(|result| run.is_none_or(|run| result.run == run));
    runs.filter_map(|result| result.tests.iter().find(is_test)).collect()
}

/// Returns the tests with the medians of their layers, the one with the worst ratio first.
fn rows(results: &[WorstRun]) -> Vec<WorstRow> {
    let Some(first) = results.first() else { return Vec::new() };
    let mut subjects: Vec<&Subject> = results.iter().map(|result| &result.subject).collect();
    subjects.sort();
    subjects.dedup();
    let mut rows = Vec::new();
    // All runs have the same tests, except those on an engine in memory, which has no cold ones.
    let longest = results.iter().max_by_key(|result| result.tests.len()).unwrap_or(first);
    for test in &longest.tests {
        let cell = |subject: &&Subject| -> Option<WorstCell> {
            let of = |subject: &Subject, run| figures(results, test, subject, run);
            let all = of(subject, None);
            if all.is_empty() {
                return None;
            }
            let blocks: Vec<f64> = all.iter().flat_map(|it| it.blocks.clone()).collect();
            let percentiles = Percentiles::of(&blocks);
            let reference = Subject::new(REFERENCE, &*subject.kv);
            let turns = results.iter().filter(|result| result.subject == **subject);
            let ratios: Vec<f64> = turns
                .filter_map(|result| {
                    let of_mpt = of(&reference, Some(result.run)).first().map(|it| rate(it))?;
                    Some(rate(of(subject, Some(result.run)).first()?) / of_mpt)
                })
                .collect();
            Some(WorstCell {
                subject: (*subject).clone(),
                mgas_per_second: Spread::of(all.iter().map(|it| rate(it))).median,
                p50_ms: percentiles.p50 * 1e3,
                p99_ms: percentiles.p99 * 1e3,
                ratio_to_mpt: (!ratios.is_empty()).then(|| Spread::of(ratios).median),
            })
        };
        let mut layers: Vec<WorstCell> = subjects.iter().filter_map(cell).collect();
        layers.sort_by(|a, b| a.mgas_per_second.total_cmp(&b.mgas_per_second));
        let (case, gas_limit, warm) = (test.case.clone(), test.gas_limit, test.warm);
        rows.push(WorstRow { case, gas_limit, warm, layers });
    }
    rows.sort_by(|a, b| a.worst().total_cmp(&b.worst()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(state: &str, run: usize, seconds: [f64; 2]) -> WorstRun {
        let test = |case: &str, seconds: f64| WorstFigures {
            case: case.to_owned(),
            gas_limit: 30_000_000,
            warm: false,
            gas: 30_000_000,
            seconds,
            blocks: vec![seconds / 2.0; 2],
            first_block: None,
        };
        let subject = Subject::new(state, "mdbx");
        WorstRun { subject, run, tests: vec![test("a", seconds[0]), test("b", seconds[1])] }
    }

    #[test]
    fn the_worst_ratio_comes_first() {
        let results = vec![
            run("mpt", 1, [1.0, 1.0]),
            run("raw", 1, [0.5, 4.0]),
            run("mpt", 2, [2.0, 2.0]),
            run("raw", 2, [1.0, 8.0]),
        ];
        let rows = rows(&results);
        assert_eq!(rows.iter().map(|row| &row.case[..]).collect::<Vec<_>>(), ["b", "a"]);
        let ratios = |row: &WorstRow| {
            let cells = row.layers.iter();
            cells.map(|cell| (cell.subject.state.clone(), cell.ratio_to_mpt)).collect::<Vec<_>>()
        };
        assert_eq!(ratios(&rows[0]), [("raw".into(), Some(0.25)), ("mpt".into(), Some(1.0))]);
        assert_eq!(ratios(&rows[1]), [("mpt".into(), Some(1.0)), ("raw".into(), Some(2.0))]);
    }

    /// A contract that is destroyed takes little gas and much time: its million gas a second are far below one.
    #[test]
    fn small_figures_are_no_zeros() {
        let spec = WorstSpec { seed: 1, size: 0, slots: 1_000, codes: 1, blocks: 2, most_gas: 1 };
        let mut destroyed = run("mpt", 1, [1.0, 1.0]);
        for test in &mut destroyed.tests {
            (test.gas, test.blocks) = (26_000, vec![0.000_04, 1.0]);
        }
        let table = WorstReport::new(spec, 1, 1, &[], Vec::new(), vec![destroyed]).table();
        let row = table.lines().last().unwrap_or_default();
        assert!(row.contains(" 0.026 ") && row.contains(" 0.04 "), "{table}");
    }
}
