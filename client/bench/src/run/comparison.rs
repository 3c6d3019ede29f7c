//! The comparison of several layers, each run several times, in turns.

use super::{
    BenchError, ChainBench, Coldness, Job, Keeper, MemoryLimit, Result, StoreBench, TraceBench,
    Work,
    child::{self, Bounds},
    cold::{not_cold, prove, prove_tests, proven_tests},
    lists::lists,
    warm::warm_memory,
};
use crate::{
    Base, BaseSpec, Cache, GivenChain, GivenPrestate, PreparedChain, Report, Settings, Subject,
    Trace, WorkloadSpec,
    fixture::{
        copy::{copy_tree, forget_tree, recall_tree},
        kinds,
        store::{Prepared, prepared},
    },
    measure::{BlockFigures, Measured},
    report::{EMPTY_BLOCKS, bounds, disturbed, not_committed},
    worst::{self, Case, WorstBench, WorstReport, WorstRun, WorstSpec},
};
use alloy_primitives::B256;
use polytrie_chain::UNDO_BLOCKS;
use polytrie_layers::LayerKind;
use polytrie_node::process::{ProcessorTime, available_bytes};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What a report says of runs that changed the prepared stores themselves.
const IN_PLACE: &str = "each run changed the prepared store itself and took its blocks back (--in-place): after the first run, files have pages that were used before";

/// Layers to compare, and the conditions under which they run.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Layers on engines, in the order of the first turn; every second turn is in reverse order.
    pub subjects: Vec<Subject>,
    /// Number of runs of each subject.
    pub runs: usize,
    /// Settings with which layers and engines are opened.
    pub settings: Settings,
    /// Settings of subjects that have their own, by the name of the variant.
    pub variants: BTreeMap<String, Settings>,
    /// Whether runs must be cold.
    pub cold: bool,
    /// Threads that a run may use to work in parallel.
    pub threads: usize,
    /// The cores that runs are bound to, as `taskset` reads them; `None` for any.
    pub pinned: Option<String>,
    /// Limit of the memory of each run; `None` for no limit.
    pub memory_limit: Option<MemoryLimit>,
    /// A layer that is made slower by this part of its time, to test that `bench compare` finds it.
    pub slowed: Option<(String, f64)>,
    /// Time from which on a block of a chain gets a log line; `None` for no such lines.
    pub log_slow_blocks: Option<Duration>,
    /// Whether runs of a chain change the prepared stores themselves, and take their blocks back at the end.
    pub in_place: bool,
    /// Further notes for the report on the runs.
    pub notes: Vec<String>,
    /// Cache of prepared data: stores, chains and keys.
    pub cache: Arc<Cache>,
    /// Flag that another thread sets to stop the comparison.
    pub interrupt: Arc<AtomicBool>,
}

/// A run of one layer, with its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The layer and engine that were measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Number of the run, from 1.
    pub run: usize,
    /// Coldness of the run, if it had to be cold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<Coldness>,
    /// Part of the machine's processor time that other processes used during the run; `None` where the system does
    /// not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// Figures of the run.
    #[serde(flatten)]
    pub measured: Measured,
    /// Figures of each block; not part of reports.
    #[serde(skip)]
    pub blocks: Vec<BlockFigures>,
}

impl Comparison {
    /// A copy of this comparison whose settings suit a run of `measured` blocks after `warmup` others.
    fn suited(&self, warmup: u64, measured: u64) -> Self {
        let mut comparison = self.clone();
        for kind in self.kinds() {
            for settings in comparison.variants.values_mut() {
                kind.suit_run(&mut settings.layer, warmup, measured);
            }
            let note = kind.suit_run(&mut comparison.settings.layer, warmup, measured);
            comparison.notes.extend(note);
        }
        comparison
    }

    /// This comparison with a limit of memory for each run, in bytes, pages of files included. The caches of layer
    /// and engine are sized for it, and the system enforces it where this user may make a control group.
    #[must_use]
    pub fn within(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(MemoryLimit::of(bytes));
        self.settings = self.bounded(self.settings.clone());
        self
    }

    /// The settings with their caches cut to the comparison's limit of memory, if it has one.
    pub(crate) fn bounded(&self, settings: Settings) -> Settings {
        match self.memory_limit {
            None => settings,
            Some(limit) => limit.bound(settings),
        }
    }

    /// Settings with which a subject is opened.
    fn settings_of(&self, subject: &Subject) -> &Settings {
        let own = subject.variant.as_ref().and_then(|name| self.variants.get(name));
        own.unwrap_or(&self.settings)
    }

    /// The kinds of layers that are compared, each once.
    pub fn kinds(&self) -> impl Iterator<Item = &'static LayerKind> {
        kinds(&self.subjects)
    }

    /// Measures the state layers alone.
    ///
    /// # Errors
    ///
    /// If there is no result: a run fails or is interrupted, or layers disagree.
    pub fn store(&self, bench: StoreBench) -> Result<Report> {
        let merging = self.suited(bench.warmup_blocks, bench.blocks);
        let base = Base::new(BaseSpec::Slots(bench.slot_keys()), Arc::clone(&self.cache));
        let results = merging.run(&base, &Work::Store(bench))?;
        Ok(Report::new("store", "ops/s", bench.seed, serde_json::json!(bench), &merging, results))
    }

    /// Measures the state layers alone on a trace of writes.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read, or there is no result as for [`Self::store`].
    pub fn trace(&self, bench: TraceBench) -> Result<Report> {
        let trace = Trace::read(&bench.file)?;
        let spec = BaseSpec::Trace { file: bench.file.clone(), hash: trace.hash };
        let bench = TraceBench { hash: trace.hash, ..bench };
        let blocks = bench.blocks(&trace);
        let measured = blocks.saturating_sub(bench.warmup_blocks);
        if measured == 0 {
            return Err(bench.nothing_left(blocks));
        }
        let merging = self.suited(bench.warmup_blocks, measured);
        let mut parameters = serde_json::json!(bench);
        // The path of the trace may differ on another machine, so only its name is reported.
        parameters["file"] = bench.file.file_name().map(|name| name.to_string_lossy()).into();
        parameters["transactions"] = trace.transactions().into();
        parameters["operations"] = trace.writes().into();
        let base = Base::new(spec, Arc::clone(&self.cache));
        let results = merging.run(&base, &Work::Trace(bench))?;
        Ok(Report::new("trace", "ops/s", 0, parameters, &merging, results))
    }

    /// Measures a workload's chain through executor and layers.
    ///
    /// # Errors
    ///
    /// If the chain cannot be made, or there is no result as for [`Self::store`].
    pub fn chain(&self, spec: &WorkloadSpec, bench: ChainBench) -> Result<Report> {
        // A chain may take hours to make, and a store too.
        if spec.blocks() <= bench.warmup_blocks {
            return Err(bench.nothing_left(spec.blocks()));
        }
        self.expect_to_be_restored(spec.blocks())?;
        let base = Base::of_workload(spec, Arc::clone(&self.cache));
        let chain = PreparedChain::of(spec, &self.cache, &base, &self.interrupt)?;
        self.prepared_chain(&base, &chain, bench, spec.seed, serde_json::json!(spec))
    }

    /// Measures the user's own chain through executor and layers.
    ///
    /// # Errors
    ///
    /// If the chain cannot be prepared, or there is no result as for [`Self::store`].
    pub fn given_chain(&self, given: &GivenChain, bench: ChainBench) -> Result<Report> {
        self.expect_to_be_restored(given.blocks())?;
        let base = Base::new(given.base(), Arc::clone(&self.cache));
        let chain = given.prepare(&self.cache)?;
        let report = self.prepared_chain(&base, &chain, bench, 0, given.parameters());
        report.map_err(|error| unchecked(error, "`polytrie import` of the same files"))
    }

    /// Measures real blocks on the part of a state that they touch.
    ///
    /// # Errors
    ///
    /// If the blocks cannot be prepared, or there is no result as for [`Self::store`].
    pub fn given_prestate(&self, given: &GivenPrestate, bench: ChainBench) -> Result<Report> {
        self.expect_to_be_restored(given.blocks())?;
        let base = Base::new(given.base(), Arc::clone(&self.cache));
        let chain = given.prepare(&self.cache)?;
        let report = self.prepared_chain(&base, &chain, bench, 0, given.parameters());
        report
            .map_err(|error| unchecked(error, "`polytrie import --prestate` of the same directory"))
    }

    fn prepared_chain(
        &self,
        base: &Base,
        chain: &PreparedChain,
        bench: ChainBench,
        seed: u64,
        mut parameters: Value,
    ) -> Result<Report> {
        let length = chain.length()?;
        let measured = length.blocks.saturating_sub(bench.warmup_blocks);
        if measured == 0 {
            return Err(bench.nothing_left(length.blocks));
        }
        if bench.recover {
            // Else the first run alone would read the blocks from the disk while its clock runs.
            recall_tree(chain.dir(), u64::MAX)?;
        }
        let mut merging = self.suited(bench.warmup_blocks, measured);
        merging.notes.extend(self.in_place.then(|| IN_PLACE.to_owned()));
        let lists = (self.subjects.iter().any(|subject| !subject.bal.is_off()))
            .then(|| lists(&self.cache, base, chain, &self.settings))
            .transpose()?;
        let above = chain.start()?.map_or(0, |start| start.number);
        let work = Work::Chain { bench, chain: chain.dir().to_owned(), above, lists };
        let results = merging.run(base, &work)?;
        if let (Value::Object(all), Value::Object(more)) =
            (&mut parameters, serde_json::json!(bench))
        {
            all.extend(more);
        }
        let unit = if length.is_empty_blocks() { EMPTY_BLOCKS } else { "tx/s" };
        Ok(Report::new("chain", unit, seed, parameters, &merging, results))
    }

    /// Measures worst cases, each with each amount of gas. `merge` consecutive blocks are taken as one.
    ///
    /// # Errors
    ///
    /// If the tests cannot be prepared, or there is no result as for [`Self::store`].
    pub fn worst(
        &self,
        spec: &WorstSpec,
        cases: &[Case],
        gas: &[u64],
        merge: u64,
    ) -> Result<WorstReport> {
        let base = Base::new(BaseSpec::Worst(*spec), Arc::clone(&self.cache));
        let tests = worst::prepare(spec, cases, gas, merge, &base, &self.cache)?;
        let work = Work::Worst(WorstBench { tests });
        self.prepare_stores(&base)?;
        let (mut results, mut others, mut most) = (Vec::new(), Vec::new(), 0);
        let (mut proven, mut waiting) = (0, Vec::new());
        for run in 1..=self.runs {
            for subject in turn(run, &self.subjects) {
                self.go_on("between runs")?;
                let ((tests, behind, peak), of_others): ((_, u64, u64), _) =
                    self.run_one(&base, subject, &work, run, most)?;
                if run == 1 {
                    waiting.extend(not_committed(&subject.to_string(), behind, spec.blocks));
                }
                others.push(of_others);
                most = most.max(peak);
                tracing::info!("run {run} of {}: {subject}: all tests", self.runs);
                let result = WorstRun { subject: subject.clone(), run, tests };
                if self.cold {
                    proven += prove_tests(&result)?;
                }
                results.push(result);
            }
        }
        let mut notes = bounds(self.memory_limit.as_ref(), self.pinned.as_deref());
        notes.extend(self.notes.iter().cloned());
        notes.extend(match self.cold {
            true => Some(proven_tests(proven, &results)),
            false => not_cold(&results),
        });
        notes.extend(disturbed(&others));
        // Each test begins on the genesis block and is taken back, so no run reaches a later block than that of one test.
        let put_off = |kind: &LayerKind| kind.put_off(&self.settings.layer, 0, spec.blocks);
        notes.extend(self.kinds().filter_map(put_off));
        notes.extend(waiting);
        Ok(WorstReport::new(*spec, merge, self.runs, cases, notes, results))
    }

    /// Refuses [`Self::in_place`] where stores cannot be restored after so many blocks, or an engine has none on a disk.
    fn expect_to_be_restored(&self, blocks: u64) -> Result<()> {
        if !self.in_place {
            return Ok(());
        }
        if let Some(subject) = self.subjects.iter().find(|subject| subject.is_in_memory()) {
            return Err(BenchError::Usage(format!(
                "--in-place does not go with {subject}: there is no prepared store on a disk; choose --kv mdbx or rocksdb, or leave out --in-place"
            )));
        }
        if blocks > UNDO_BLOCKS {
            return Err(BenchError::Usage(format!(
                "the chain has {blocks} blocks, and stores keep what it takes to go back {UNDO_BLOCKS}; choose fewer transactions, or more of them a block, or leave out --in-place"
            )));
        }
        Ok(())
    }

    /// Fills the stores of all subjects that are not in the cache yet.
    fn prepare_stores(&self, base: &Base) -> Result<()> {
        for subject in self.subjects.iter().filter(|subject| !subject.is_in_memory()) {
            self.go_on("while stores were prepared")?;
            prepared(&self.cache, base, subject, self.settings_of(subject))?;
        }
        Ok(())
    }

    fn run(&self, base: &Base, work: &Work) -> Result<Vec<RunResult>> {
        self.prepare_stores(base)?;
        let mut results: Vec<RunResult> = Vec::new();
        let mut restored = None;
        for run in 1..=self.runs {
            for subject in turn(run, &self.subjects) {
                self.go_on("between runs")?;
                let peak = results.iter().map(|result| result.measured.peak_rss_bytes).max();
                let (mut measured, others): (Measured, _) =
                    self.run_one(base, subject, work, run, peak.unwrap_or_default())?;
                let mut blocks = std::mem::take(&mut measured.each_block);
                for (number, block) in (work.first_block()..).zip(&mut blocks) {
                    block.number = number;
                }
                tracing::info!(
                    "run {run} of {}: {subject}: {:.0} a second in {:.2} s",
                    self.runs,
                    measured.throughput,
                    measured.seconds
                );
                let subject = subject.clone();
                let mut result = RunResult { subject, run, cold: None, others, measured, blocks };
                if self.cold {
                    result.cold = Some(prove(&result)?);
                }
                check_agreement(&results, &result)?;
                if let Some(held) = result.measured.restored.take() {
                    check_restored(&mut restored, run, &result.subject, held, self.cache.dir())?;
                }
                results.push(result);
            }
        }
        Ok(results)
    }

    /// Runs a job in a new process. Returns its figures, and the part of the processor time that other processes
    /// used. `peak` is the most memory in bytes that an earlier run took.
    fn run_one<T: DeserializeOwned>(
        &self,
        base: &Base,
        subject: &Subject,
        work: &Work,
        run: usize,
        peak: u64,
    ) -> Result<(T, Option<f64>)> {
        let scratch = self.cache.scratch()?;
        let mut job = Job {
            subject: subject.clone(),
            settings: self.settings_of(subject).clone(),
            threads: self.threads,
            slowed: match &self.slowed {
                Some((state, part)) if *state == subject.state => *part,
                _ => 0.0,
            },
            log_slow_blocks: self.log_slow_blocks,
            store: None,
            restore: None,
            base: base.spec().clone(),
            cache: self.cache.dir().to_owned(),
            work: work.clone(),
        };
        let mut taken = None;
        if !subject.is_in_memory() {
            let store = scratch.path().join("store");
            let Prepared { dir, commitment } =
                prepared(&self.cache, base, subject, self.settings_of(subject))?;
            if self.in_place {
                job.restore = Some(commitment);
                Cache::take(&dir, &store)?;
                taken = Some(dir);
            } else {
                copy_tree(&dir, &store)?;
            }
            // Pages that the copy left in the page cache would not count against the limit.
            let bounded = self.memory_limit.is_some_and(|limit| limit.by == Keeper::Cgroup);
            if self.cold || bounded {
                forget_tree(&store)?;
            } else if !matches!(work, Work::Worst(_)) {
                // Pages beyond the available memory would only evict others. `available_bytes` is 0 where the system
                // does not report it.
                let most = match available_bytes() {
                    0 => u64::MAX,
                    bytes => bytes,
                };
                recall_tree(&store, most)?;
            }
            job.store = Some(store);
        }
        warm_memory(peak);
        let bounds = Bounds { memory: self.memory_limit, cores: self.pinned.as_deref() };
        let before = ProcessorTime::now();
        let measured = child::run(&job, run, bounds, &self.interrupt)?;
        let others = before.zip(ProcessorTime::now()).map(|(before, now)| now.of_others(&before));
        // After a failure, what the store holds is not known. It goes with the scratch directory then.
        if let Some((dir, store)) = taken.zip(job.store) {
            Cache::put(&store, &dir)?;
        }
        Ok((measured, others))
    }

    fn go_on(&self, place: &str) -> Result<()> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted(place.to_owned()));
        }
        Ok(())
    }
}

/// Adds to the error of a run that its blocks were not verified before.
fn unchecked(error: BenchError, by: &str) -> BenchError {
    match error {
        BenchError::Child { code: Some(1), run, subject, text } => {
            let text = format!("{text}; whether the blocks are valid, {by} tells");
            BenchError::Child { code: Some(1), run, subject, text }
        }
        error => error,
    }
}

/// The order of the subjects in a run: every second run goes backwards. A machine that becomes slower or faster over
/// time then favours a layer in one run as much as it harms it in the next.
fn turn(run: usize, subjects: &[Subject]) -> Vec<&Subject> {
    let mut order: Vec<_> = subjects.iter().collect();
    if run.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// Checks that a layer with the same settings has one commitment in all runs, that all canonical layers have the same
/// one, and that all read the same values.
fn check_agreement(earlier: &[RunResult], result: &RunResult) -> Result<()> {
    for other in earlier {
        let (a, b) = (other.measured.commitment, result.measured.commitment);
        let is_same = |of: fn(&Subject) -> (&String, &Option<String>)| {
            of(&other.subject) == of(&result.subject)
        };
        let comparable =
            is_same(|subject| (&subject.state, &subject.variant)) || a.canonical && b.canonical;
        let different = if comparable && a != b {
            format!("commitments: {} and {}", a.digest, b.digest)
        } else if other.measured.checksum != result.measured.checksum {
            "values".to_owned()
        } else {
            continue;
        };
        return Err(BenchError::Wrong(format!(
            "run {} of {} and run {} of {} came to different {different}; one of the layers is wrong",
            other.run, other.subject, result.run, result.subject
        )));
    }
    Ok(())
}

/// Checks that the accounts of the last blocks hold in this store, when all blocks are taken back, what they hold in the
/// first one then. `raw` has no commitment that could be compared, and that of another layer need not cover all its rows.
/// Both stores are back in `cache` by now.
fn check_restored(
    first: &mut Option<(String, B256)>,
    run: usize,
    subject: &Subject,
    held: B256,
    cache: &Path,
) -> Result<()> {
    let name = format!("run {run} of {subject}");
    let (other, expected) = first.get_or_insert_with(|| (name.clone(), held));
    if held == *expected {
        return Ok(());
    }
    Err(BenchError::Wrong(format!(
        "{other} and {name} came to different values when all blocks were taken back; one of the layers is wrong. Remove its store from {}, or both if neither is known to be right: the next benchmark fills them anew",
        cache.display()
    )))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The commitment of `raw` does not depend on the state.
    #[test]
    fn a_store_that_was_not_restored_is_noticed_without_a_commitment() {
        let [raw, mpt] = ["raw", "mpt"].map(|state| Subject::new(state, "mdbx"));
        let mut first = None;
        let mut check = |run, subject, held| {
            let held = B256::repeat_byte(held);
            check_restored(&mut first, run, subject, held, Path::new("cache"))
                .map_err(|error| error.to_string())
        };
        for (run, subject) in [(1, &mpt), (1, &raw), (2, &mpt)] {
            assert_eq!(check(run, subject, 1), Ok(()));
        }
        let text = check(2, &raw, 2).unwrap_err();
        assert!(text.starts_with("run 1 of mpt on mdbx and run 2 of raw on mdbx"), "{text}");
        assert!(text.contains("store from cache"), "{text}");
    }
}
