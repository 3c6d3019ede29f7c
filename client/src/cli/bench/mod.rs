//! `polytrie bench`.

mod chain;
mod compare;
mod generate;
mod job;
mod measure;
mod output;
mod page;
mod paper;
mod store;
mod workload;
mod worst;

pub(super) use workload::user_cache;

use super::exit::{Failure, fails_as};
use crate::bench::{BenchError, CacheError, FixtureError, GenerateError, GivenError, ProduceError};
use clap::{Args, Subcommand};

/// Make workloads, and measure state layers with them.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Store(store::StoreArgs),
    Chain(chain::ChainArgs),
    Generate(generate::GenerateArgs),
    Compare(compare::CompareArgs),
    Page(page::PageArgs),
    Paper(paper::PaperArgs),
    Worst(worst::WorstArgs),
    #[command(hide = true)]
    RunJob,
}

pub(super) fn run(args: BenchArgs) -> Result<(), Failure> {
    match args.command {
        Command::Store(args) => store::run(&args),
        Command::Chain(args) => chain::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Page(args) => page::run(&args),
        Command::Paper(args) => paper::run(&args),
        Command::Worst(args) => worst::run(&args),
        Command::RunJob => job::run(),
    }
}

fails_as!(CacheError [] {
    E::Io { .. } | E::Needs(_) => Machine,
    E::Invalid { .. } => Invalid,
    E::Interrupted(_) => Interrupted,
});

fails_as!(FixtureError [Cache, Unknown, Store, State, Fill] {});

fails_as!(ProduceError [Broken] {
    E::TooLarge { .. } => Usage,
    _ => Machine,
});

fails_as!(GenerateError [Disk, Write, Fixture, Produce] {
    E::Genesis(_) => Machine,
    E::Interrupted { .. } => Interrupted,
});

fails_as!(GivenError [Chain, Blocks, Cache, Prestate, Write] {
    E::NothingTo(_) => Usage,
    E::Nothing | E::Gap { .. } | E::Changed | E::Sender { .. } => Invalid,
});

fails_as!(BenchError [Disk, Fixture, Generate, Given, Blocks, Chain, Store, State] {
    E::Usage(_) | E::Child { code: Some(2), .. } => Usage,
    E::Wrong(_) | E::Refused(_) | E::Child { code: Some(1), .. } => Invalid,
    E::Child { .. } | E::Process { .. } | E::Kept { .. } => Machine,
    E::Interrupted(_) => Interrupted,
});
