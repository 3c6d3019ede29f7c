//! Logging to standard error, with the level that the options set.

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

/// Log lines that may wait for standard error to take them.
const LINES: usize = 10_000;

/// Filter that `-v` adds: debug lines of this program, but not of its libraries.
const OWN: &str = "polytrie=debug";

/// Filters for noisy libraries: the driver of Cassandra logs each connection, and the database of `qmdb` warns of
/// each new one.
const LIBRARIES: [&str; 2] = ["scylla=warn", "commonware_storage=error"];

/// Whether log lines have colours: on a terminal, unless `NO_COLOR` has a value.
fn has_colors() -> bool {
    io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl LogArgs {
    /// Starts logging. Where the process `serves` others, a slow reader of standard error does not block it: lines
    /// beyond [`LINES`] are dropped. Dropping the guard writes the lines that still wait.
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
        // The library panics if it gets no thread. Other code that needs a thread fails with a message.
        let (writer, guard) = match serves && expect_threads(1).is_ok() {
            false => (BoxMakeWriter::new(io::stderr), None),
            true => {
                let (writer, guard) =
                    NonBlockingBuilder::default().buffered_lines_limit(LINES).finish(io::stderr());
                (BoxMakeWriter::new(writer), Some(guard))
            }
        };
        // A line that cannot be written is dropped: the library would report it on the same stream, and panic.
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(writer)
            .log_internal_errors(false);
        // A second subscriber in one process (in tests) is refused; the first one stays.
        let _ = match self.format {
            LogFormat::Terminal => builder.with_ansi(has_colors()).with_target(false).try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
        guard
    }

    /// Whether a progress bar may be drawn on the terminal.
    pub(super) fn can_draw(&self) -> bool {
        !self.quiet && self.format == LogFormat::Terminal && io::stderr().is_terminal()
    }

    pub(super) const fn is_quiet(&self) -> bool {
        self.quiet
    }
}
