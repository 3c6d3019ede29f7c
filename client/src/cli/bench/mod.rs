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

impl From<FixtureError> for Failure {
    fn from(error: FixtureError) -> Self {
        match error {
            FixtureError::Cache(error) => error.into(),
            FixtureError::Unknown(error) => error.into(),
            FixtureError::Store(error) => error.into(),
            FixtureError::State(error) => error.into(),
            FixtureError::Fill(error) => (*error).into(),
        }
    }
}

impl From<GenerateError> for Failure {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::Disk(error) => error.into(),
            GenerateError::Write(error) => error.into(),
            GenerateError::Fixture(error) => error.into(),
            GenerateError::Genesis(error) => Self::Machine(error.to_string()),
            GenerateError::Produce(ProduceError::Broken(error)) => error.into(),
            GenerateError::Produce(error @ ProduceError::TooLarge { .. }) => {
                Self::Usage(error.to_string())
            }
            GenerateError::Produce(error) => Self::Machine(error.to_string()),
            GenerateError::Interrupted { .. } => Self::Interrupted(error.to_string()),
        }
    }
}

fails_as!(GivenError [Chain, Blocks, Cache, Prestate, Write] {
    E::NothingTo(_) => Usage,
    E::Nothing | E::Gap { .. } | E::Sender { .. } => Invalid,
});

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Disk(error) => error.into(),
            BenchError::Fixture(error) => error.into(),
            BenchError::Generate(error) => error.into(),
            BenchError::Given(error) => error.into(),
            BenchError::Blocks(error) => (*error).into(),
            BenchError::Chain(error) => (*error).into(),
            BenchError::Store(error) => error.into(),
            BenchError::State(error) => error.into(),
            BenchError::Usage(text) => Self::Usage(text),
            BenchError::Wrong(text) | BenchError::Refused(text) => Self::Invalid(text),
            BenchError::Child { code: Some(1), .. } => Self::Invalid(error.to_string()),
            BenchError::Child { code: Some(2), .. } => Self::Usage(error.to_string()),
            BenchError::Child { .. } | BenchError::Process { .. } | BenchError::Kept { .. } => {
                Self::Machine(error.to_string())
            }
            BenchError::Interrupted(_) => Self::Interrupted(error.to_string()),
        }
    }
}
