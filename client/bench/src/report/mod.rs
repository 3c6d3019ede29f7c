//! The report of a comparison: everything as JSON, the essence as a table, and a page with plots.

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
    measure::Machine,
    run::{Comparison, MemoryLimit, RunResult},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The layer that the others are compared with.
pub const REFERENCE: &str = "mpt";

/// The layer that they are compared with beside it: what the papers measured against.
pub const BASELINE: &str = "mpt-hash";

/// What throughput is in where a chain has nothing but empty blocks.
pub const EMPTY_BLOCKS: &str = "blk/s";

/// The part of the machine's processor time from which on others disturb a run.
const DISTURBED: f64 = 0.1;

/// Raised when fields change their meaning or go away.
const FORMAT: u32 = 2;

/// The result of a comparison; serialises to the JSON of `--json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// `store`, `trace` or `chain`.
    pub bench: String,
    /// Version of this form.
    pub format: u32,
    /// Version of this program.
    pub version: String,
    /// The command that was given.
    #[serde(default)]
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// Seconds since 1970 at the end.
    pub finished_at: u64,
    /// What everything random follows from.
    pub seed: u64,
    /// The parameters of the benchmark.
    pub parameters: Value,
    /// Settings of layers and engines.
    pub settings: Value,
    /// Settings of those that have their own, by the name that [`Subject::variant`] gives.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub variants: Value,
    /// Threads that a run could use to work in parallel.
    pub threads: usize,
    /// Cores that runs were bound to; `None` if the system chose.
    #[serde(default)]
    pub pinned: Option<String>,
    /// What bounded the memory of each run; `None` if nothing did.
    #[serde(default)]
    pub memory_limit: Option<MemoryLimit>,
    /// Runs of each layer, in turns.
    pub runs: usize,
    /// Whether every run was proven cold.
    pub cold: bool,
    /// What throughput is in.
    pub unit: String,
    /// The layer that ratios are against.
    pub reference: String,
    /// What else there is to know about the runs.
    #[serde(default)]
    pub notes: Vec<String>,
    /// One entry a layer (and engine).
    pub layers: Vec<LayerSummary>,
    /// One entry a layer and run, in the order in which they ran.
    pub results: Vec<Entry>,
}

/// One run of one layer, with what it takes to understand it alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// The run.
    #[serde(flatten)]
    pub result: RunResult,
    /// What everything random follows from.
    pub seed: u64,
    /// The parameters of the benchmark.
    pub parameters: Value,
    /// Median throughput of all runs of this layer.
    pub median_throughput: f64,
    /// Throughput of this run divided by that of `mpt` on the same engine in the same turn; `None` without one.
    pub ratio_to_mpt: Option<f64>,
    /// Ratio to `mpt-hash`, the baseline of the papers, of the same turn.
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
            unit: unit.to_owned(),
            reference: REFERENCE.to_owned(),
            notes: comparison.notes.clone(),
            layers,
            results: entries,
            parameters,
        };
        report.notes.extend(report.disturbed());
        for kind in comparison.kinds() {
            let ended = report.last_block(kind.name);
            let put_off = ended.and_then(|last| kind.put_off(&comparison.settings.layer, last));
            report.notes.extend(put_off);
        }
        report
    }

    /// The essence for people: a few tables as text.
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// How many runs others disturbed, and how much, if any.
    pub fn disturbed(&self) -> Option<String> {
        disturbed(&self.results.iter().map(|entry| entry.result.others).collect::<Vec<_>>())
    }

    /// Whether what the papers measured against was measured, too.
    pub fn has_baseline(&self) -> bool {
        self.layers.iter().any(|layer| layer.ratio_to_mpt_hash.is_some())
    }

    /// What each run of a layer came to by itself, in the order of the turns.
    pub fn runs_of(&self, layer: &LayerSummary) -> Vec<LayerSummary> {
        let runs = self.results.iter().map(|entry| std::slice::from_ref(&entry.result));
        runs.filter_map(|run| summary::summary(&layer.subject, run, &self.unit)).collect()
    }

    /// The last block of a layer's runs.
    fn last_block(&self, layer: &str) -> Option<u64> {
        let runs = self.results.iter().map(|entry| &entry.result);
        let blocks = runs.filter(|run| run.subject.state == layer).flat_map(|run| &run.blocks);
        blocks.map(|block| block.number).max()
    }

    /// `transaction`, `block` or `operation`.
    pub fn operation(&self) -> &'static str {
        match self.bench.as_str() {
            "chain" if self.unit == EMPTY_BLOCKS => "block",
            "chain" => "transaction",
            _ => "operation",
        }
    }

    /// The unit of an operation, short enough for the head of a column.
    pub fn operation_unit(&self) -> &'static str {
        match self.operation() {
            "block" => "blk",
            "transaction" => "tx",
            _ => "op",
        }
    }
}

/// What bounded runs, a line each.
pub(crate) fn bounds(memory: Option<&MemoryLimit>, cores: Option<&str>) -> Vec<String> {
    let memory = memory.map(|limit| format!("memory of each run: {limit}"));
    let cores = cores.map(|cores| format!("runs bound to cores {cores}"));
    memory.into_iter().chain(cores).collect()
}

/// How many runs others disturbed, and how much, if any; given what part of the machine they took in each run, where that
/// is known.
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

/// How this program was called, without the path of it, as a shell takes it.
pub(crate) fn command() -> String {
    // A path need not be text.
    let args = std::env::args_os().skip(1).map(|arg| quoted(&arg.to_string_lossy()));
    std::iter::once("polytrie".to_owned()).chain(args).collect::<Vec<_>>().join(" ")
}

/// An argument, in quotes where a shell would make something else of it.
fn quoted(arg: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+./,:@%".contains(c);
    match !arg.is_empty() && arg.chars().all(is_plain) {
        true => arg.to_owned(),
        false => format!("'{}'", arg.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

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
