//! The command line: one file per command.

mod access_lists;
mod args;
mod authrpc;
mod bench;
mod completions;
mod conformance;
mod db;
mod devnet;
mod engine;
mod exit;
mod export;
mod import;
mod init;
mod input;
mod logging;
mod output;
mod prefetch;
mod proof;
mod serving;
#[cfg(feature = "lvmt")]
mod setup;
mod shape;
mod signals;
mod witness;

pub use exit::Failure;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, builder::Resettable};
use polytrie_kv::KvError;
use std::{env, io, panic, path::Path, process::ExitCode};

/// An Ethereum execution client whose state layer is a part you can swap.
///
/// The same blocks run through the same EVM. --state chooses the layer that keeps the state and commits to it.
/// Logs and progress go to standard error, results to standard output.
///
/// Exit codes: 0 done; 1 a block or an input is invalid, or a comparison failed; 2 wrong usage; 3 the machine
/// failed (a file that cannot be read, a full disk, a damaged store); 130 interrupted, can be resumed.
#[derive(Debug, Parser)]
#[command(name = "polytrie", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    logging: logging::LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Devnet(Box<devnet::DevnetArgs>),
    Engine(Box<engine::EngineApiArgs>),
    Bench(bench::BenchArgs),
    Conformance(conformance::ConformanceArgs),
    #[cfg(feature = "lvmt")]
    #[command(subcommand)]
    Setup(setup::SetupCommand),
    #[command(subcommand)]
    Proof(proof::ProofCommand),
    #[command(subcommand)]
    Witness(witness::WitnessCommand),
    #[command(subcommand)]
    Db(db::DbCommand),
    Prefetch(prefetch::PrefetchArgs),
    Completions(completions::CompletionsArgs),
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    // The handlers come first, so that an early signal ends the process with the exit code of the contract.
    let watched = signals::watch();
    panic::set_hook(Box::new(exit::tell_panic));
    panic::catch_unwind(|| run(watched)).unwrap_or(ExitCode::from(exit::MACHINE))
}

fn run(watched: Result<(), Failure>) -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::DONE };
            let error = as_given(error);
            // If this cannot be printed, there is no other place to report it.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let serves = matches!(cli.command, Command::Devnet(_) | Command::Engine(_));
    let log = cli.logging.start(serves);
    let datadir = cli.command.datadir().map(Path::to_owned);
    let result = watched.and_then(|()| start_threads()).and_then(|()| match cli.command {
        Command::Init(args) => init::run(args),
        Command::Import(args) => import::run(args, &cli.logging),
        Command::Export(args) => export::run(args),
        Command::Devnet(args) => devnet::run(*args, &cli.logging),
        Command::Engine(args) => engine::run(*args, &cli.logging),
        Command::Bench(args) => bench::run(args),
        Command::Conformance(args) => conformance::run(args, &cli.logging),
        #[cfg(feature = "lvmt")]
        Command::Setup(command) => setup::run(command),
        Command::Proof(command) => proof::run(command),
        Command::Witness(command) => witness::run(command),
        Command::Db(command) => db::run(command),
        Command::Prefetch(args) => prefetch::run(args),
        Command::Completions(args) => completions::run(&args),
    });
    // Waiting log lines are written before the error.
    drop(log);
    exit::code(result.map_err(|failure| failure.within(datadir.as_deref())))
}

/// Starts the threads that all commands share. Started on first use, the pool would panic where the system
/// gives no threads.
fn start_threads() -> Result<(), Failure> {
    let threads = rayon::ThreadPoolBuilder::new().build_global();
    threads.map_err(|error| KvError::thread(io::Error::other(error)).into())
}

/// Parses the command line. An environment variable that is empty counts as not set.
fn parse() -> Result<Cli, clap::Error> {
    fn without_empty(command: clap::Command) -> clap::Command {
        let reset = |arg: clap::Arg| match arg.get_env().and_then(env::var_os) {
            Some(value) if value.is_empty() => arg.env(Resettable::Reset),
            _ => arg,
        };
        command.mut_args(reset).mut_subcommands(without_empty)
    }
    Cli::from_arg_matches(&without_empty(Cli::command()).try_get_matches()?)
}

/// The same error with a usage line that leaves out the options set by the environment.
fn as_given(error: clap::Error) -> clap::Error {
    fn without_environment(command: clap::Command) -> clap::Command {
        command.mut_args(|arg| arg.env(Resettable::Reset)).mut_subcommands(without_environment)
    }
    if !error.use_stderr() {
        return error;
    }
    match without_environment(Cli::command()).try_get_matches() {
        Err(given) if given.kind() == error.kind() => given,
        _ => error,
    }
}

impl Command {
    /// The data directory that the command works in, if it has one.
    fn datadir(&self) -> Option<&Path> {
        match self {
            Self::Init(args) => args.data.datadir.as_deref(),
            Self::Import(args) => args.data.datadir.as_deref(),
            Self::Export(args) => Some(&args.data.datadir),
            Self::Devnet(args) => args.data.datadir.as_deref(),
            Self::Engine(args) => args.data.datadir.as_deref(),
            Self::Proof(command) => command.datadir(),
            Self::Db(command) => Some(command.datadir()),
            Self::Prefetch(args) => Some(&args.data.datadir),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::{Command, CommandFactory};
    use std::collections::BTreeSet;

    /// Prefixes of the options under each heading. An option of another kind got there by the order of its fields.
    const HEADINGS: [(&str, &[&str]); 12] = [
        ("Data directory", &["datadir", "state", "kv", "replica.path"]),
        ("State layers", &["trie.", "binary.", "lmpt.", "mpt-hash.", "nomt.", "qmdb.", "rain."]),
        ("State layer replica", &["replica."]),
        ("LVMT", &["lvmt."]),
        ("JSON-RPC over HTTP and WebSocket", &["http.", "rpc."]),
        ("Engine API over HTTP and WebSocket", &["authrpc", "engine."]),
        ("Transaction pool", &["txpool."]),
        ("Logging", &["quiet", "verbose", "log"]),
        ("Output", &["json", "html", "csv", "svg", "markdown"]),
        (
            "Workload",
            &[
                "workload",
                "accounts",
                "senders",
                "txs",
                "block-txs",
                "new-recipients",
                "popularity",
                "seed",
            ],
        ),
        (
            "Comparison",
            &[
                "states",
                "kv",
                "cache",
                "cold",
                "memory-limit",
                "pin",
                "runs",
                "slow-down",
                "threads",
            ],
        ),
        ("State files, as anvil writes them", &["load-state", "dump-state", "state-file"]),
    ];

    /// Checks the options of a command and its subcommands, and collects their headings.
    fn check(command: &Command, found: &mut BTreeSet<String>) {
        for arg in command.get_arguments() {
            let (Some(name), Some(heading)) = (arg.get_long(), arg.get_help_heading()) else {
                continue;
            };
            found.insert(heading.to_owned());
            let known = HEADINGS.iter().find(|(known, _)| *known == heading);
            assert!(
                known.is_some_and(|(_, prefixes)| prefixes.iter().any(|p| name.starts_with(p))),
                "--{name} of {} stands under {heading}",
                command.get_name()
            );
        }
        command.get_subcommands().for_each(|command| check(command, found));
    }

    #[test]
    fn options_stand_under_the_heading_of_their_kind() {
        let mut found = BTreeSet::new();
        check(&Cli::command(), &mut found);
        // Headings of a layer's options exist only where the layer is compiled in.
        for (heading, _) in HEADINGS {
            let is_of_a_layer = heading.contains("replica") || heading == "LVMT";
            assert!(is_of_a_layer || found.contains(heading), "no option stands under {heading}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
