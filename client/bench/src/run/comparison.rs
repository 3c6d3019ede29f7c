//! Several layers, several runs, in turns.

use super::{
    BenchError, ChainBench, Coldness, Job, Keeper, MemoryLimit, StoreBench, TraceBench, Work,
    child::{self, Bounds},
    cold::{prove, prove_tests, proven_tests},
    lists::lists,
    warm::warm_memory,
};
use crate::{
    Base, BaseSpec, Cache, GivenChain, GivenPrestate, PreparedChain, Report, Settings, Subject,
    Trace, WorkloadSpec,
    fixture::{
        copy::{copy_tree, forget_tree, recall_tree},
        kinds,
        store::prepared,
    },
    measure::{BlockFigures, Measured},
    report::{EMPTY_BLOCKS, bounds, disturbed},
    worst::{self, Case, WorstBench, WorstReport, WorstRun, WorstSpec},
};
use polytrie_layers::LayerKind;
use polytrie_node::process::{ProcessorTime, available_bytes};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What is compared, and how often.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The layers, in the order of their first turn; every second turn is in reverse.
    pub subjects: Vec<Subject>,
    /// Runs of each.
    pub runs: usize,
    /// How layers and engines are opened.
    pub settings: Settings,
    /// How those are opened that have settings of their own, by the name of the settings.
    pub variants: BTreeMap<String, Settings>,
    /// Whether runs must be cold.
    pub cold: bool,
    /// Threads that a run may use to work in parallel.
    pub threads: usize,
    /// The cores that runs are bound to, as `taskset` reads them; `None` for any.
    pub pinned: Option<String>,
    /// What bounds the memory of each run.
    pub memory_limit: Option<MemoryLimit>,
    /// A layer that is made slower by this part of its time, to see that comparing reports finds it.
    pub slowed: Option<(String, f64)>,
    /// From how long on the log has a line for a block of a chain; `None` for no such lines.
    pub log_slow_blocks: Option<Duration>,
    /// What else the report should say about the runs.
    pub notes: Vec<String>,
    /// Where prepared things are kept.
    pub cache: Arc<Cache>,
    /// Set from outside to stop.
    pub interrupt: Arc<AtomicBool>,
}

/// One run of one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// What was measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Number of the run, from 1.
    pub run: usize,
    /// The proof that it was cold, if it had to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<Coldness>,
    /// The part of the machine's processor time that other processes took meanwhile; `None` where the system does not
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// The figures.
    #[serde(flatten)]
    pub measured: Measured,
    /// Each block; not part of reports.
    #[serde(skip)]
    pub blocks: Vec<BlockFigures>,
}

impl Comparison {
    /// This comparison with settings that suit a run of `measured` blocks after `warmup` others.
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

    /// This comparison with so many bytes of memory for each run, pages of files included: the caches of layer and engine
    /// are sized for them, and the system enforces it where this user may make a control group.
    #[must_use]
    pub fn within(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(MemoryLimit::of(bytes));
        self.settings = self.bounded(self.settings.clone());
        self
    }

    /// Settings with no more in memory than the limit of this comparison leaves room for, if it has one.
    pub(crate) fn bounded(&self, settings: Settings) -> Settings {
        match self.memory_limit {
            None => settings,
            Some(limit) => limit.bound(settings),
        }
    }

    /// How a subject is opened.
    fn settings_of(&self, subject: &Subject) -> &Settings {
        let own = subject.variant.as_ref().and_then(|name| self.variants.get(name));
        own.unwrap_or(&self.settings)
    }

    /// The layers that are compared, each once.
    pub fn kinds(&self) -> impl Iterator<Item = &'static LayerKind> {
        kinds(&self.subjects)
    }

    /// The state layers alone.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub fn store(&self, bench: StoreBench) -> Result<Report, BenchError> {
        let merging = self.suited(bench.warmup_blocks, bench.blocks);
        let base = Base::new(BaseSpec::Slots(bench.slot_keys()), Arc::clone(&self.cache));
        let results = merging.run(&base, &Work::Store(bench))?;
        Ok(Report::new("store", "ops/s", bench.seed, serde_json::json!(bench), &merging, results))
    }

    /// A trace on the state layers alone.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub fn trace(&self, bench: TraceBench) -> Result<Report, BenchError> {
        let trace = Trace::read(&bench.file)?;
        let spec = BaseSpec::Trace { file: bench.file.clone(), hash: trace.hash };
        let bench = TraceBench { hash: trace.hash, ..bench };
        let measured = bench.blocks(&trace).saturating_sub(bench.warmup_blocks);
        let merging = self.suited(bench.warmup_blocks, measured);
        let mut parameters = serde_json::json!(bench);
        // A trace may be elsewhere on another machine.
        parameters["file"] = bench.file.file_name().map(|name| name.to_string_lossy()).into();
        parameters["transactions"] = trace.transactions().into();
        parameters["operations"] = trace.writes().into();
        let base = Base::new(spec, Arc::clone(&self.cache));
        let results = merging.run(&base, &Work::Trace(bench))?;
        Ok(Report::new("trace", "ops/s", 0, parameters, &merging, results))
    }

    /// A workload's chain through executor and layers.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub fn chain(&self, spec: &WorkloadSpec, bench: ChainBench) -> Result<Report, BenchError> {
        let base = Base::of_workload(spec, Arc::clone(&self.cache));
        let chain = PreparedChain::of(spec, &self.cache, &base, &self.interrupt)?;
        self.prepared_chain(&base, &chain, bench, spec.seed, serde_json::json!(spec))
    }

    /// A chain that was given through executor and layers.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub fn given_chain(&self, given: &GivenChain, bench: ChainBench) -> Result<Report, BenchError> {
        let base = Base::new(given.base(), Arc::clone(&self.cache));
        let chain = given.prepare(&self.cache)?;
        let report = self.prepared_chain(&base, &chain, bench, 0, given.parameters());
        report.map_err(|error| unchecked(error, "`polytrie import` of the same files"))
    }

    /// Real blocks on the part of a state that they touch.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub fn given_prestate(
        &self,
        given: &GivenPrestate,
        bench: ChainBench,
    ) -> Result<Report, BenchError> {
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
    ) -> Result<Report, BenchError> {
        let length = chain.length()?;
        let measured = length.blocks.saturating_sub(bench.warmup_blocks);
        let merging = self.suited(bench.warmup_blocks, measured);
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

    /// Worst cases at each gas, `merge` consecutive blocks as one.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub fn worst(
        &self,
        spec: &WorstSpec,
        cases: &[Case],
        gas: &[u64],
        merge: u64,
    ) -> Result<WorstReport, BenchError> {
        let base = Base::new(BaseSpec::Worst(*spec), Arc::clone(&self.cache));
        let tests = worst::prepare(spec, cases, gas, merge, &base, &self.cache)?;
        let work = Work::Worst(WorstBench { tests });
        self.prepare_stores(&base)?;
        let (mut results, mut others, mut most) = (Vec::new(), Vec::new(), 0);
        let mut proven = 0;
        for run in 1..=self.runs {
            for subject in turn(run, &self.subjects) {
                self.go_on("between runs")?;
                let ((tests, peak), of_others): ((_, u64), _) =
                    self.run_one(&base, subject, &work, run, most)?;
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
        notes.extend(self.cold.then(|| proven_tests(proven, &results)));
        notes.extend(disturbed(&others));
        Ok(WorstReport::new(*spec, merge, self.runs, cases, notes, results))
    }

    /// Fills the stores of all layers, unless they are in the cache already.
    fn prepare_stores(&self, base: &Base) -> Result<(), BenchError> {
        for subject in self.subjects.iter().filter(|subject| !subject.is_in_memory()) {
            self.go_on("while stores were prepared")?;
            prepared(&self.cache, base, subject, self.settings_of(subject))?;
        }
        Ok(())
    }

    fn run(&self, base: &Base, work: &Work) -> Result<Vec<RunResult>, BenchError> {
        self.prepare_stores(base)?;
        let mut results: Vec<RunResult> = Vec::new();
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
                results.push(result);
            }
        }
        Ok(results)
    }

    /// What one run measured, and what part of the machine others took meanwhile. `peak`: the most memory that any run
    /// before took.
    fn run_one<T: DeserializeOwned>(
        &self,
        base: &Base,
        subject: &Subject,
        work: &Work,
        run: usize,
        peak: u64,
    ) -> Result<(T, Option<f64>), BenchError> {
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
            base: base.spec().clone(),
            cache: self.cache.dir().to_owned(),
            work: work.clone(),
        };
        if !subject.is_in_memory() {
            let store = scratch.path().join("store");
            let prepared = prepared(&self.cache, base, subject, self.settings_of(subject))?;
            copy_tree(&prepared.dir, &store)?;
            // What the copy left in the page cache would not count against the limit.
            let bounded = self.memory_limit.is_some_and(|limit| limit.by == Keeper::Cgroup);
            if self.cold || bounded {
                forget_tree(&store)?;
            } else if !matches!(work, Work::Worst(_)) {
                // What does not fit would only drive out what does. Where the system does not tell, that is 0.
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
        Ok((measured, others))
    }

    fn go_on(&self, place: &str) -> Result<(), BenchError> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted(place.to_owned()));
        }
        Ok(())
    }
}

/// The error of a run of blocks that were not checked before.
fn unchecked(error: BenchError, by: &str) -> BenchError {
    match error {
        BenchError::Child { code: Some(1), run, subject, text } => {
            let text = format!("{text}; whether the blocks are valid, {by} tells");
            BenchError::Child { code: Some(1), run, subject, text }
        }
        error => error,
    }
}

/// The order of a turn: every second one goes backwards. Where a layer stands, and a machine that becomes slower or
/// faster as it goes, then help a layer in one turn as much as they harm it in the next.
fn turn(run: usize, subjects: &[Subject]) -> Vec<&Subject> {
    let mut order: Vec<_> = subjects.iter().collect();
    if run.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// Checks that a layer with the same settings comes to one commitment in every run, all canonical layers to the same one, and that all read the
/// same values.
fn check_agreement(earlier: &[RunResult], result: &RunResult) -> Result<(), BenchError> {
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
