//! Logs: to standard error, as loud as asked for.

use clap::{ArgAction, Args, ValueEnum};
use polytrie_kv::expect_threads;
use std::{
    env,
    io::{self, IsTerminal},
};
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, fmt::writer::BoxMakeWriter};

/// Logging options, valid for every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(super) struct LogArgs {
    /// Log more: -v adds details, and each request to a devnet; -vv adds what the libraries log. RUST_LOG overrides this.
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,
    /// Log errors only.
    #[arg(short, long, alias = "silent", global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Form of the log lines.
    #[arg(
        id = "log.format",
        long,
        value_name = "FORMAT",
        default_value = "terminal",
        global = true
    )]
    format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people.
    Terminal,
    /// One JSON object a line.
    Json,
}

/// Lines that may wait for standard error.
const LINES: usize = 10_000;

/// What `-v` adds: what this program says, and not what its libraries do.
const OWN: &str = "polytrie=debug";

/// The driver of Cassandra tells of each connection, and the database of `qmdb` warns of each new one.
const LIBRARIES: [&str; 2] = ["scylla=warn", "commonware_storage=error"];

/// Whether log lines have colours: on a terminal, unless `NO_COLOR` is set to something.
fn has_colors() -> bool {
    io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl LogArgs {
    /// Starts to log. Where the process `serves` others, a standard error that is read slowly, or not at all, does not
    /// make it wait: lines that find no room are left out. Lines on their way when the process ends are written as the
    /// guard is dropped.
    pub(super) fn start(&self, serves: bool) -> Option<WorkerGuard> {
        let level = match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (false, 0 | 1) => LevelFilter::INFO,
            (false, _) => LevelFilter::TRACE,
        };
        let mut filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
        if env::var_os(EnvFilter::DEFAULT_ENV).is_none_or(|value| value.is_empty()) {
            let own = (self.verbose == 1).then_some(OWN);
            let libraries = (self.verbose <= 1 && !self.quiet).then_some(LIBRARIES);
            for directive in own.into_iter().chain(libraries.into_iter().flatten()) {
                filter = filter.add_directive(directive.parse().unwrap_or_else(|_| level.into()));
            }
        }
        // The library panics without a thread. What else needs one says so in a sentence.
        let (writer, guard) = match serves && expect_threads(1).is_ok() {
            false => (BoxMakeWriter::new(io::stderr), None),
            true => {
                let (writer, guard) =
                    NonBlockingBuilder::default().buffered_lines_limit(LINES).finish(io::stderr());
                (BoxMakeWriter::new(writer), Some(guard))
            }
        };
        // A line that cannot be written is left out: the library would say so on the same stream, and panic.
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(writer)
            .log_internal_errors(false);
        // A second subscriber in one process (tests) is refused; the first one stays.
        let _ = match self.format {
            LogFormat::Terminal => builder.with_ansi(has_colors()).with_target(false).try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
        guard
    }

    /// Whether progress may be drawn on the terminal.
    pub(super) fn can_draw(&self) -> bool {
        !self.quiet && self.format == LogFormat::Terminal && io::stderr().is_terminal()
    }

    pub(super) const fn is_quiet(&self) -> bool {
        self.quiet
    }
}
