//! Several layers, several runs, in turns.

use super::{BenchError, ChainBench, Coldness, Job, StoreBench, Work, child, cold::prove};
use crate::bench::{
    Base, BaseSpec, Cache, PreparedChain, Report, Settings, Subject, WorkloadSpec,
    fixture::{
        copy::{copy_tree, forget_tree},
        store::prepared,
    },
    measure::Measured,
};
use serde::Serialize;
use serde_json::Value;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// What is compared, and how often.
#[derive(Debug)]
pub struct Comparison {
    /// The layers, in the order of their turns.
    pub subjects: Vec<Subject>,
    /// Runs of each.
    pub runs: usize,
    /// How layers and engines are opened.
    pub settings: Settings,
    /// Whether seams are counted.
    pub counters: bool,
    /// Whether runs must be cold.
    pub cold: bool,
    /// Threads that a run may use to work in parallel.
    pub threads: usize,
    /// Where prepared things are kept.
    pub cache: Arc<Cache>,
    /// Set from outside to stop.
    pub interrupt: Arc<AtomicBool>,
}

/// One run of one layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunResult {
    /// What was measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Number of the run, from 1.
    pub run: usize,
    /// The proof that it was cold, if it had to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<Coldness>,
    /// The figures.
    #[serde(flatten)]
    pub measured: Measured,
}

impl Comparison {
    /// The state layers alone.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub fn store(&self, bench: StoreBench) -> Result<Report, BenchError> {
        let base = Base::new(BaseSpec::Slots(bench.slot_keys()), Arc::clone(&self.cache));
        let results = self.run(&base, &Work::Store(bench))?;
        Ok(Report::new("store", "ops/s", bench.seed, serde_json::json!(bench), self, results))
    }

    /// A workload's chain through executor and layers.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub fn chain(&self, spec: &WorkloadSpec, bench: ChainBench) -> Result<Report, BenchError> {
        let base = Base::of_workload(spec, Arc::clone(&self.cache));
        let chain = PreparedChain::of(spec, &self.cache, &base, &self.interrupt)?;
        let work = Work::Chain { bench, chain: chain.dir().to_owned() };
        let results = self.run(&base, &work)?;
        let mut parameters = serde_json::json!(spec);
        if let (Value::Object(all), Value::Object(more)) =
            (&mut parameters, serde_json::json!(bench))
        {
            all.extend(more);
        }
        Ok(Report::new("chain", "tx/s", spec.seed, parameters, self, results))
    }

    fn run(&self, base: &Base, work: &Work) -> Result<Vec<RunResult>, BenchError> {
        if let Some(subject) = self.subjects.iter().find(|s| self.cold && s.is_in_memory()) {
            return Err(BenchError::Usage(format!(
                "--cold does not go with {subject}: there is no disk to read from; choose --kv mdbx or rocksdb"
            )));
        }
        for subject in self.subjects.iter().filter(|subject| !subject.is_in_memory()) {
            self.go_on("while stores were prepared")?;
            prepared(&self.cache, base, subject, &self.settings)?;
        }
        let mut results: Vec<RunResult> = Vec::new();
        for run in 1..=self.runs {
            for subject in &self.subjects {
                self.go_on("between runs")?;
                let measured = self.run_one(base, subject, work, run)?;
                tracing::info!(
                    "run {run} of {}: {subject}: {:.0} a second in {:.2} s",
                    self.runs,
                    measured.throughput,
                    measured.seconds
                );
                let mut result = RunResult { subject: subject.clone(), run, cold: None, measured };
                if self.cold {
                    result.cold = Some(prove(&result)?);
                }
                check_agreement(&results, &result)?;
                results.push(result);
            }
        }
        Ok(results)
    }

    fn run_one(
        &self,
        base: &Base,
        subject: &Subject,
        work: &Work,
        run: usize,
    ) -> Result<Measured, BenchError> {
        let scratch = self.cache.scratch()?;
        let mut job = Job {
            subject: subject.clone(),
            settings: self.settings.clone(),
            counters: self.counters,
            threads: self.threads,
            store: None,
            base: *base.spec(),
            cache: self.cache.dir().to_owned(),
            work: work.clone(),
        };
        if !subject.is_in_memory() {
            let store = scratch.path().join("store");
            let prepared = prepared(&self.cache, base, subject, &self.settings)?;
            copy_tree(&prepared.dir, &store)?;
            if self.cold {
                forget_tree(&store)?;
            }
            job.store = Some(store);
        }
        child::run(&job, run, &self.interrupt)
    }

    fn go_on(&self, place: &str) -> Result<(), BenchError> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted(place.to_owned()));
        }
        Ok(())
    }
}

/// The same layer comes to the same commitment in every run, all canonical layers to the same one, and all read the same
/// values.
fn check_agreement(earlier: &[RunResult], result: &RunResult) -> Result<(), BenchError> {
    for other in earlier {
        let (a, b) = (other.measured.commitment, result.measured.commitment);
        let comparable = other.subject.state == result.subject.state || a.canonical && b.canonical;
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
