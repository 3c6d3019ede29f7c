//! Execution of many tests, on several threads.

use super::{
    chain_test,
    error::ConformanceError,
    files,
    format::{ChainTest, Kind, Outline},
    mismatch::Mismatch,
    report::{FileReport, Outcome, Summary, TestReport},
    state_test::StateTest,
    superseded,
};
use crossbeam_channel::{Sender, bounded};
use polytrie_kv::caught;
use polytrie_layers::{LayerKind, LayerOptions};
use regex::Regex;
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Stack of a worker thread, in bytes: as much as the first thread of a process has, on which an import runs.
const STACK: usize = 8 << 20;

/// Options of a run of tests.
#[derive(Debug)]
pub struct ConformanceOptions {
    /// Files, and directories in which JSON files are read at any depth.
    pub places: Vec<PathBuf>,
    /// State layer of the run.
    pub layer: &'static LayerKind,
    /// Settings of the layer.
    pub layer_options: LayerOptions,
    /// Number of threads; at least one is used.
    pub jobs: usize,
    /// Pattern that `file::name` of a test must match.
    pub filter: Option<Regex>,
}

/// Runs the tests, and passes the results of each file to `receive` as soon as they are there.
///
/// If `receive` fails, its error ends the run: running tests are completed, and no other test is started.
///
/// # Errors
///
/// Fails if a file cannot be read, if there is no test, and with the error of `receive`.
pub fn run<E: From<ConformanceError>>(
    options: &ConformanceOptions,
    mut receive: impl FnMut(FileReport) -> Result<(), E>,
) -> Result<Summary, E> {
    let files = files::test_files(&options.places)?;
    let next = AtomicUsize::new(0);
    let (sender, results) = bounded(64);
    let mut summary = Summary::default();
    thread::scope(|scope| {
        // The receiver is dropped when this closure ends for any reason, and then the workers stop.
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
    // The messages of the chain about its blocks (such as a reorganisation) would hide the results of the tests.
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
    let entries = entries.into_iter();
    Ok(entries.flat_map(|(name, json)| run_entry(options, file, &name, json.get())).collect())
}

fn is_wanted(options: &ConformanceOptions, file: &Path, name: &str) -> bool {
    options.filter.as_ref().is_none_or(|filter| filter.is_match(&TestReport::id(file, name)))
}

fn run_entry(options: &ConformanceOptions, file: &Path, name: &str, json: &str) -> Vec<TestReport> {
    let outline = serde_json::from_str::<Outline>(json);
    let (network, kind) = match outline {
        Ok(outline) => {
            let kind = outline.kind();
            (outline.network, kind)
        }
        Err(_) => (None, Kind::Other("not a test: it is not an object")),
    };
    match kind {
        Kind::State => run_state_test(options, file, name, json),
        Kind::Chain => run_one(options, file, name, network, || {
            let test: ChainTest = serde_json::from_str(json).map_err(Mismatch::Format)?;
            if let Some(reason) = superseded::reason(name, test.last_block_hash) {
                return Err(Mismatch::Superseded(reason));
            }
            chain_test::run(name, &test, options.layer, &options.layer_options)
        })
        .into_iter()
        .collect(),
        Kind::Other(reason) if is_wanted(options, file, name) => {
            let outcome = Outcome::Skipped(reason.to_owned());
            let (file, name, time) = (file.to_owned(), name.to_owned(), Duration::ZERO);
            vec![TestReport { file, name, network, outcome, time }]
        }
        Kind::Other(_) => Vec::new(),
    }
}

/// Runs a state test, each transaction of which counts as a test. If there is only one, it has the name of the whole.
fn run_state_test(
    options: &ConformanceOptions,
    file: &Path,
    name: &str,
    json: &str,
) -> Vec<TestReport> {
    let test: StateTest = match serde_json::from_str(json) {
        Ok(test) => test,
        Err(error) => {
            let failed = || Err(Mismatch::Format(error));
            return run_one(options, file, name, None, failed).into_iter().collect();
        }
    };
    let several = test.subtests().nth(1).is_some();
    test.subtests()
        .filter_map(|subtest| {
            let name = if several { subtest.name(name) } else { name.to_owned() };
            run_one(options, file, &name, Some(subtest.network.to_owned()), || {
                subtest.run(&name, options.layer, &options.layer_options)
            })
        })
        .collect()
}

/// Runs a test if the filter matches it. A panic fails only this test.
fn run_one(
    options: &ConformanceOptions,
    file: &Path,
    name: &str,
    network: Option<String>,
    test: impl FnOnce() -> Result<(), Mismatch>,
) -> Option<TestReport> {
    if !is_wanted(options, file, name) {
        return None;
    }
    let start = Instant::now();
    let result = caught(test).unwrap_or_else(|said| Err(Mismatch::Panic(said.to_string())));
    let outcome = match result {
        Ok(()) => Outcome::Passed,
        Err(mismatch) if mismatch.is_skipped() => Outcome::Skipped(one_line(&mismatch.to_string())),
        Err(mismatch) => Outcome::Failed(one_line(&mismatch.to_string())),
    };
    let (file, name, time) = (file.to_owned(), name.to_owned(), start.elapsed());
    Some(TestReport { file, name, network, outcome, time })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
