//! The report of a comparison: all figures as JSON, the most important ones as a table, and a page with plots.

mod csv;
mod difference;
pub mod html;
pub mod plot;
mod read;
mod relative;
mod summary;
mod table;
mod verdict;

pub use csv::write_csv;
pub use difference::{Difference, LayerChange};
pub use read::{ReportError, read};
pub use summary::{LayerSummary, Ratios, Throughput};
pub use table::columns;
pub use verdict::Verdict;

use super::{
    measure::{Machine, Proofs},
    run::{Comparison, MemoryLimit, RunResult},
};
use polytrie_node::access_lists::AccessListMode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the layer that the others are compared with.
pub const REFERENCE: &str = "mpt";

/// Name of the second layer that the others are compared with: the papers' baseline.
pub const BASELINE: &str = "mpt-hash";

/// Unit of the throughput if all blocks of a chain are empty.
pub const EMPTY_BLOCKS: &str = "blk/s";

/// Part of the machine's processor time from which on other processes count as a disturbance.
const DISTURBED: f64 = 0.1;

/// Figure of a layer with files of its own: the number of blocks that these files lack.
pub(crate) const BEHIND: &str = "steps_behind";

/// Version of the form. It is raised when fields change their meaning or are removed.
const FORMAT: u32 = 3;
/// The oldest version that is read. In it, `structure` and `engine` are of what all threads waited for.
const OLDEST: u32 = 2;

/// Result of a comparison; serialises to the JSON of `--json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Name of the benchmark: `store`, `trace` or `chain`.
    pub bench: String,
    /// Version of this form.
    pub format: u32,
    /// Version of this program.
    pub version: String,
    /// Command line of the benchmark.
    #[serde(default)]
    pub command: String,
    /// Machine of the benchmark.
    pub machine: Machine,
    /// Time of the end, in seconds since 1970.
    pub finished_at: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// Parameters of the benchmark.
    pub parameters: Value,
    /// Settings of layers and engines.
    pub settings: Value,
    /// Settings of the variants, by the names in [`Subject::variant`](crate::Subject::variant).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub variants: Value,
    /// Number of threads that a run could use to work in parallel.
    pub threads: usize,
    /// Cores to which runs were bound; `None` if the system chose.
    #[serde(default)]
    pub pinned: Option<String>,
    /// Limit of each run's memory; `None` if there was none.
    #[serde(default)]
    pub memory_limit: Option<MemoryLimit>,
    /// Number of runs of each layer, in turns.
    pub runs: usize,
    /// Whether every run was proven cold.
    pub cold: bool,
    /// Whether the runs changed the prepared stores themselves; earlier builds did not say so.
    #[serde(default)]
    pub in_place: bool,
    /// Unit of the throughput.
    pub unit: String,
    /// Name of the layer that ratios refer to.
    pub reference: String,
    /// Further notes about the runs.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Summary of each layer on each engine.
    pub layers: Vec<LayerSummary>,
    /// Results of each layer and run, in the order of the runs.
    pub results: Vec<Entry>,
}

/// Result of one run of one layer, complete in itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Result of the run.
    #[serde(flatten)]
    pub result: RunResult,
    /// Seed of everything random.
    pub seed: u64,
    /// Parameters of the benchmark.
    pub parameters: Value,
    /// Median throughput of all runs of this layer.
    pub median_throughput: f64,
    /// Throughput of this run divided by that of `mpt` on the same engine in the same turn; `None` if there is none.
    pub ratio_to_mpt: Option<f64>,
    /// Ratio to `mpt-hash`, the baseline of the papers, in the same turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_mpt_hash: Option<f64>,
}

impl Report {
    pub(super) fn new(
        bench: &str,
        unit: &str,
        seed: u64,
        parameters: Value,
        comparison: &Comparison,
        results: Vec<RunResult>,
    ) -> Self {
        let layers = summary::summaries(&comparison.subjects, &results, unit);
        let entry = |result: &RunResult| {
            let summary = layers.iter().find(|layer| layer.subject == result.subject);
            let ratio_to = |reference: &str| {
                let same_turn = |other: &&RunResult| {
                    let subject = &other.subject;
                    other.run == result.run
                        && subject.is_plain(reference)
                        && subject.kv == result.subject.kv
                };
                let other = results.iter().find(same_turn)?;
                Some(result.measured.throughput / other.measured.throughput)
            };
            Entry {
                result: result.clone(),
                seed,
                parameters: parameters.clone(),
                median_throughput: summary.map_or(0.0, |layer| layer.throughput.spread.median),
                ratio_to_mpt: ratio_to(REFERENCE),
                ratio_to_mpt_hash: ratio_to(BASELINE),
            }
        };
        let entries = results.iter().map(entry).collect();
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut report = Self {
            bench: bench.to_owned(),
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command(),
            machine: Machine::this(),
            finished_at: since_1970.map_or(0, |time| time.as_secs()),
            seed,
            settings: serde_json::json!(comparison.settings),
            variants: match comparison.variants.is_empty() {
                true => Value::Null,
                false => serde_json::json!(comparison.variants),
            },
            threads: comparison.threads,
            pinned: comparison.pinned.clone(),
            memory_limit: comparison.memory_limit,
            runs: comparison.runs,
            cold: comparison.cold,
            in_place: comparison.in_place,
            unit: unit.to_owned(),
            reference: REFERENCE.to_owned(),
            notes: comparison.notes.clone(),
            layers,
            results: entries,
            parameters,
        };
        report.notes.extend(report.disturbed());
        for kind in comparison.kinds() {
            let put_off = report
                .span(kind.name)
                .and_then(|(above, last)| kind.put_off(&comparison.settings.layer, above, last));
            report.notes.extend(put_off);
        }
        let waiting = |result: &RunResult| {
            let behind = *result.measured.layer.get(BEHIND)?;
            not_committed(&result.subject.to_string(), behind, result.measured.blocks)
        };
        let first_turn = || results.iter().filter(|result| result.run == 1);
        report.notes.extend(first_turn().filter_map(waiting));
        report.notes.extend(first_turn().filter_map(without_lists));
        report
    }

    /// Returns the most important figures as text: a few tables.
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// Returns a sentence about the number of runs that other processes disturbed, if there are any.
    pub fn disturbed(&self) -> Option<String> {
        disturbed(&self.results.iter().map(|entry| entry.result.others).collect::<Vec<_>>())
    }

    /// Whether the papers' baseline was measured too.
    pub fn has_baseline(&self) -> bool {
        self.layers.iter().any(|layer| layer.ratio_to_mpt_hash.is_some())
    }

    /// Returns the summary of each run of a layer, in the order of the turns.
    pub fn runs_of(&self, layer: &LayerSummary) -> Vec<LayerSummary> {
        let runs = self.results.iter().map(|entry| std::slice::from_ref(&entry.result));
        runs.filter_map(|run| summary::summary(&layer.subject, run, &self.unit)).collect()
    }

    /// Returns the run with the median throughput of a layer, of which most figures of its summary are.
    pub(crate) fn median_run(&self, layer: &LayerSummary) -> Option<&RunResult> {
        let mut runs = self.results.iter().map(|entry| &entry.result);
        runs.find(|run| run.subject == layer.subject && run.run == layer.run)
    }

    /// Returns the bytes that a layer's median run wrote to devices for each operation; `None` where the system does not
    /// report them.
    pub(crate) fn device_write_bytes(&self, layer: &LayerSummary) -> Option<f64> {
        Some(layer.each(self.median_run(layer)?.measured.device?.write_bytes))
    }

    /// Returns the figures of the proofs in a layer's median run; `None` if it made none.
    pub(crate) fn proofs(&self, layer: &LayerSummary) -> Option<Proofs> {
        self.median_run(layer)?.measured.proofs
    }

    /// Whether a layer made proofs.
    pub(crate) fn has_proofs(&self) -> bool {
        self.layers.iter().any(|layer| self.proofs(layer).is_some())
    }

    /// Returns the numbers of the block on which a layer's runs began, and of their last one.
    fn span(&self, layer: &str) -> Option<(u64, u64)> {
        let run = self.results.iter().find(|entry| entry.result.subject.state == layer)?;
        let blocks = &run.result.blocks;
        let warmup = self.parameters.get("warmup_blocks").and_then(Value::as_u64)?;
        Some((blocks.first()?.number.saturating_sub(warmup + 1), blocks.last()?.number))
    }

    /// Returns the name of an operation: `transaction`, `block` or `operation`.
    pub fn operation(&self) -> &'static str {
        match self.bench.as_str() {
            "chain" if self.unit == EMPTY_BLOCKS => "block",
            "chain" => "transaction",
            _ => "operation",
        }
    }

    /// Returns the unit of an operation, short enough for the head of a column.
    pub fn operation_unit(&self) -> &'static str {
        match self.operation() {
            "block" => "blk",
            "transaction" => "tx",
            _ => "op",
        }
    }
}

/// Returns a note about the last blocks of a run, which a layer with files of its own has not committed to them, if these
/// are more than a quarter of the blocks that were measured.
pub(crate) fn not_committed(layer: &str, behind: u64, blocks: u64) -> Option<String> {
    (behind > blocks / 4).then(|| {
        format!(
            "{layer} commits several blocks together to files of its own, and has not committed the last {behind} when {blocks} blocks were measured; with more blocks, what is left out is a smaller part of its figures"
        )
    })
}

/// Returns a note about a run whose blocks were to run by their access lists, if some ran as without them.
fn without_lists(result: &RunResult) -> Option<String> {
    let RunResult { subject, measured, .. } = result;
    let is_by_list = matches!(subject.bal, AccessListMode::Trie | AccessListMode::Parallel);
    (is_by_list && measured.by_list < measured.blocks).then(|| {
        format!(
            "{subject}: {} of {} blocks ran by their access lists, the others as with `hints`, as blocks do that have no transactions, are from before Cancun, or run on a part of a state",
            measured.by_list, measured.blocks
        )
    })
}

/// Returns a line for each limit of the runs.
pub(crate) fn bounds(memory: Option<&MemoryLimit>, cores: Option<&str>) -> Vec<String> {
    let memory = memory.map(|limit| format!("memory of each run: {limit}"));
    let cores = cores.map(|cores| format!("runs bound to cores {cores}"));
    memory.into_iter().chain(cores).collect()
}

/// Returns a sentence about the number of disturbed runs, if there are any. `others` is the part of the machine that
/// other processes took in each run, if it is known.
pub(crate) fn disturbed(others: &[Option<f64>]) -> Option<String> {
    let count = others.iter().flatten().filter(|others| **others >= DISTURBED).count();
    let most = others.iter().flatten().copied().fold(0.0, f64::max);
    (count > 0).then(|| {
        format!(
            "in {count} of {} runs other processes took a tenth of the machine or more, up to {:.0} %; layers that use several threads suffer most; measure when nothing else runs",
            others.len(),
            most * 100.0
        )
    })
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub(crate) fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Returns the command line of this program in the form for a shell, without the program's path.
pub(crate) fn command() -> String {
    // A path need not be valid text.
    let args = std::env::args_os().skip(1).map(|arg| quoted(&arg.to_string_lossy()));
    std::iter::once("polytrie".to_owned()).chain(args).collect::<Vec<_>>().join(" ")
}

/// Returns an argument, in quotes if a shell would change it otherwise.
fn quoted(arg: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+./,:@%".contains(c);
    match !arg.is_empty() && arg.chars().all(is_plain) {
        true => arg.to_owned(),
        false => format!("'{}'", arg.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::{not_committed, quoted};

    #[test]
    fn what_is_not_committed_is_named() {
        assert_eq!(not_committed("nomt on mdbx", 0, 0), None);
        assert_eq!(not_committed("nomt on mdbx", 25, 100), None);
        let note = not_committed("nomt on mdbx", 26, 100).unwrap_or_default();
        assert!(note.starts_with("nomt on mdbx ") && note.contains("the last 26 "), "{note}");
    }

    #[test]
    fn a_command_can_be_given_again() {
        for arg in ["--states", "mpt,raw", "lmpt=10", "dir/a.json", "90/10", "1G"] {
            assert_eq!(quoted(arg), arg);
        }
        assert_eq!(
            ["", "a b", "^s|t", "it's"].map(quoted),
            ["''", "'a b'", "'^s|t'", "'it'\\''s'"]
        );
    }
}
