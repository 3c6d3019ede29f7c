//! Logs: to standard error, as loud as asked for.

use clap::{ArgAction, Args, ValueEnum};
use std::{
    env,
    io::{self, IsTerminal},
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Logging options, valid for every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(super) struct LogArgs {
    /// Say more (-vv for even more); RUST_LOG overrides this.
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,
    /// Say nothing but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
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

/// Whether log lines have colours: on a terminal, unless `NO_COLOR` is set to something.
fn has_colors() -> bool {
    io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl LogArgs {
    pub(super) fn start(&self) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (false, 0) => LevelFilter::INFO,
            (false, 1) => LevelFilter::DEBUG,
            (false, _) => LevelFilter::TRACE,
        };
        let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
        // A second subscriber in one process (tests) is refused; the first one stays.
        let _ = match self.format {
            LogFormat::Terminal => builder.with_ansi(has_colors()).with_target(false).try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
    }

    /// Whether progress may be drawn on the terminal.
    pub(super) fn can_draw(&self) -> bool {
        !self.quiet && self.format == LogFormat::Terminal && io::stderr().is_terminal()
    }

    pub(super) const fn is_quiet(&self) -> bool {
        self.quiet
    }
}
