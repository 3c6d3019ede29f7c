//! Running many tests, on several threads.

use super::{
    error::ConformanceError,
    files,
    format::{BlockchainTest, Kind},
    report::{FileReport, Outcome, Summary, TestReport},
    test::{self, Mismatch},
};
use crate::layers::{LayerKind, LayerOptions};
use crossbeam_channel::{Sender, bounded};
use regex::Regex;
use serde_json::value::RawValue;
use std::{
    any::Any,
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Stack of a worker, in bytes: that of a process's first thread, which is what an import runs on.
const STACK: usize = 8 << 20;

/// Which tests to run, and how.
#[derive(Debug)]
pub struct ConformanceOptions {
    /// Files, and directories whose JSON files are taken, at any depth.
    pub places: Vec<PathBuf>,
    /// The state layer.
    pub layer: &'static LayerKind,
    /// Its settings.
    pub layer_options: LayerOptions,
    /// Number of threads; at least one is used.
    pub jobs: usize,
    /// Only tests whose `file::name` matches.
    pub filter: Option<Regex>,
}

/// Runs the tests and hands over the results file by file, as they come.
///
/// If `receive` fails, its error ends the run: the tests under way are completed, no other is begun.
///
/// # Errors
///
/// If a file cannot be read, or there is no test; what `receive` returns.
pub fn run<E: From<ConformanceError>>(
    options: &ConformanceOptions,
    mut receive: impl FnMut(FileReport) -> Result<(), E>,
) -> Result<Summary, E> {
    let files = files::find(&options.places)?;
    let next = AtomicUsize::new(0);
    let (sender, results) = bounded(64);
    let mut summary = Summary::default();
    thread::scope(|scope| {
        // Dropped when this closure ends, however it ends: then nobody listens and the workers stop.
        let results = results;
        for _ in 0..options.jobs.max(1) {
            let (sender, files, next) = (sender.clone(), &files, &next);
            thread::Builder::new()
                .name("conformance".into())
                .stack_size(STACK)
                .spawn_scoped(scope, move || work(options, files, next, &sender))
                .map_err(ConformanceError::Thread)?;
        }
        drop(sender);
        for tests in results.iter() {
            let tests = tests?;
            for test in &tests {
                summary.add(&test.outcome);
            }
            receive(FileReport { files: files.len(), tests })?;
        }
        Ok::<_, E>(())
    })?;
    if summary.passed + summary.failed == 0 {
        let places: Vec<_> = options.places.iter().map(|p| p.display().to_string()).collect();
        let filter = options.filter.as_ref();
        return Err(ConformanceError::NoTests {
            places: places.join(", "),
            filter: filter.map_or_else(String::new, |f| format!(" whose name matches `{f}`")),
        }
        .into());
    }
    Ok(summary)
}

type FileResult = Result<Vec<TestReport>, ConformanceError>;

fn work(
    options: &ConformanceOptions,
    files: &[PathBuf],
    next: &AtomicUsize,
    results: &Sender<FileResult>,
) {
    // What the chain has to say of its blocks (a reorganisation, for one) would drown what there is to say of the tests.
    let _quiet = (!tracing::enabled!(tracing::Level::DEBUG))
        .then(|| tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new()));
    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        if results.send(run_file(options, file)).is_err() {
            return;
        }
    }
}

fn run_file(options: &ConformanceOptions, file: &Path) -> FileResult {
    let bytes = fs::read(file)
        .map_err(|source| ConformanceError::Read { path: file.to_owned(), source })?;
    let whole_file = |outcome| {
        let name = String::new();
        let report = TestReport {
            file: file.to_owned(),
            name,
            network: None,
            outcome,
            time: Duration::ZERO,
        };
        Ok(if is_wanted(options, file, "") { vec![report] } else { Vec::new() })
    };
    let json: &RawValue = match serde_json::from_slice(&bytes) {
        Ok(json) => json,
        Err(error) => return whole_file(Outcome::Failed(format!("the file is not JSON: {error}"))),
    };
    let Ok(entries) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json.get()) else {
        let reason = "not a file of tests: it is not an object with one entry a test";
        return whole_file(Outcome::Skipped(reason.to_owned()));
    };
    let wanted = entries.into_iter().filter(|(name, _)| is_wanted(options, file, name));
    Ok(wanted.map(|(name, json)| run_entry(options, file, name, json.get())).collect())
}

fn is_wanted(options: &ConformanceOptions, file: &Path, name: &str) -> bool {
    options.filter.as_ref().is_none_or(|filter| filter.is_match(&TestReport::id(file, name)))
}

fn run_entry(options: &ConformanceOptions, file: &Path, name: String, json: &str) -> TestReport {
    let start = Instant::now();
    let kind = serde_json::from_str::<Kind>(json);
    let (network, outcome) = match kind {
        Err(_) => (None, Outcome::Skipped("not a blockchain test: it is not an object".to_owned())),
        Ok(kind) => match kind.other_than_blockchain_test() {
            Some(reason) => (kind.network, Outcome::Skipped(reason.to_owned())),
            None => (kind.network, outcome(run_test(options, &name, json))),
        },
    };
    TestReport { file: file.to_owned(), name, network, outcome, time: start.elapsed() }
}

fn outcome(result: Result<(), Mismatch>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(undecidable @ Mismatch::Undecidable { .. }) => {
            Outcome::Skipped(one_line(&undecidable.to_string()))
        }
        Err(mismatch) => Outcome::Failed(one_line(&mismatch.to_string())),
    }
}

/// A panic fails its own test and no other.
fn run_test(options: &ConformanceOptions, name: &str, json: &str) -> Result<(), Mismatch> {
    let test: BlockchainTest = serde_json::from_str(json).map_err(Mismatch::Format)?;
    catch_unwind(AssertUnwindSafe(|| test::run(name, &test, options.layer, &options.layer_options)))
        .unwrap_or_else(|payload| Err(Mismatch::Panic(panic_message(&*payload))))
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
