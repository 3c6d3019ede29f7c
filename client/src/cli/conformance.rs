//! `polytrie conformance`: the official tests of execution.

use super::{
    args::{LAYER_NAME, core_count},
    exit::{Failure, fails_as},
    logging::LogArgs,
    output,
    signals::on_interrupt_of,
};
use crate::{
    blocks::OutputFile,
    conformance::{
        self, ConformanceError, ConformanceOptions, ConformanceReport, FileReport, Outcome,
        Summary, TestReport,
    },
    layers::{self, DEFAULT_LAYER, LayerNeeds, LayerOptions},
};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regex::Regex;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// Time between two lines of progress where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(8);

/// Run the official tests of execution.
///
/// Takes the BlockchainTests of ethereum/tests and its legacy tests, and the blockchain_tests, blockchain_tests_engine
/// and state_tests of execution-spec-tests, also mixed: files are recognised by their content. Blocks and payloads run as in
/// an import, on a store in memory; the transaction of a state test runs by itself, and each counts as a test. Other files
/// are skipped. Exits with 1 if a test fails.
#[derive(Debug, Args)]
pub(super) struct ConformanceArgs {
    /// Directories of tests (every .json file at any depth), or single files.
    #[arg(required = true, value_name = "DIR")]
    places: Vec<PathBuf>,
    /// State layer.
    #[arg(long, value_name = "LAYER", default_value = DEFAULT_LAYER, value_parser = LAYER_NAME)]
    state: String,
    /// Tests run at the same time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Run only tests whose `file::name` matches this regular expression.
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Write every test and its result as JSON to this file; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    needs: LayerNeeds,
}

pub(super) fn run(args: ConformanceArgs, logging: &LogArgs) -> Result<(), Failure> {
    if let Some(json) = &args.json {
        // A place that cannot be searched is an error of the run.
        let tests = conformance::test_files(&args.places).unwrap_or_default();
        let tests: Vec<&Path> = tests.iter().map(PathBuf::as_path).collect();
        output::expect_apart(&[("--json", Some(json.as_path()))], &tests)?;
    }
    let layer = layers::layer(&args.state)?;
    let mut layer_options = LayerOptions::from(args.needs);
    // A setting that the layer lacks is reported once, not by every test.
    layer.settle_parameters(&mut layer_options, None)?;
    let options = ConformanceOptions {
        places: args.places,
        layer,
        layer_options,
        jobs: args.jobs.map_or_else(core_count, usize::from),
        filter: args.filter,
    };
    // An interrupt removes the unfinished file. Without a file a signal ends the command at once.
    let interrupt = args.json.as_deref().map(on_interrupt_of).unwrap_or_default();
    let json = args.json.as_deref().map(OutputFile::create).transpose()?;
    let start = Instant::now();
    let mut progress = Progress::new(logging);
    let mut tests = Vec::new();
    let json_to_stdout = output::takes_stdout(args.json.as_deref());
    // The process that reads our output may close it; the exit code is still that of all tests.
    let mut written = Ok(());
    let summary = conformance::run(&options, |file| {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted("interrupted; there is no result".to_owned()));
        }
        progress.show(&file);
        for test in &file.tests {
            if written.is_ok() {
                written = progress.result(test, json_to_stdout);
            }
        }
        if args.json.is_some() {
            tests.extend(file.tests);
        }
        Ok(())
    });
    progress.bar.finish_and_clear();
    let summary = summary?;
    let seconds = start.elapsed().as_secs_f64();
    tracing::info!(state = options.layer.name, seconds = format!("{seconds:.1}"), "{summary}");
    if let Some(file) = json {
        tests.sort_unstable_by(|a, b| (&a.file, &a.name).cmp(&(&b.file, &b.name)));
        let report = ConformanceReport { state: options.layer.name, summary, seconds, tests };
        written = output::write_json(file, &report).and(written);
    }
    if !json_to_stdout {
        written = written.and_then(|()| output::line(&summary.to_string()));
    }
    let found = match summary.failed {
        0 => Ok(()),
        failed => Err(Failure::Invalid(format!(
            "{failed} of {} tests failed under {}",
            failed + summary.passed,
            options.layer.name
        ))),
    };
    Failure::decide(found, written)
}

/// Progress of the tests: a bar on a terminal, else a log line every [`LINE_EVERY`].
struct Progress {
    bar: ProgressBar,
    draws: bool,
    files: usize,
    counts: Summary,
    shown: Instant,
}

impl Progress {
    fn new(logging: &LogArgs) -> Self {
        let draws = logging.can_draw();
        let bar = if draws { bar() } else { ProgressBar::hidden() };
        Self { bar, draws, files: 0, counts: Summary::default(), shown: Instant::now() }
    }

    fn show(&mut self, file: &FileReport) {
        self.files += 1;
        for test in &file.tests {
            self.counts.add(&test.outcome);
        }
        if self.draws {
            self.bar.set_length(file.files as u64);
            self.bar.set_position(self.files as u64);
            self.bar.set_message(self.counts.to_string());
        } else if self.shown.elapsed() >= LINE_EVERY {
            tracing::info!("file {} of {}: {}", self.files, file.files, self.counts);
            self.shown = Instant::now();
        }
    }

    /// Prints a failure to standard output, or logs it as a warning where the JSON goes there. Other results
    /// are logged only.
    fn result(&self, test: &TestReport, json_to_stdout: bool) -> Result<(), Failure> {
        match &test.outcome {
            Outcome::Failed(_) if json_to_stdout => tracing::warn!("{test}"),
            Outcome::Failed(_) => {
                let print = || writeln!(io::stdout(), "{test}");
                self.bar.suspend(print).map_err(|e| Failure::output(&e))?;
            }
            Outcome::Skipped(_) => tracing::debug!("{test}"),
            Outcome::Passed => tracing::trace!("{test}"),
        }
        Ok(())
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("[{elapsed}] {bar:24} {pos}/{len} files  {msg}  ETA {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fails_as!(ConformanceError [] {
    // Without a filter it is what the places hold that is wrong.
    E::NoTests { ref filter, .. } if filter.is_empty() => Invalid,
    E::NoTests { .. } => Usage,
    E::Read { .. } | E::Thread(_) => Machine,
});
