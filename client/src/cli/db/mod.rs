//! `polytrie db`: commands that read and change stored data.

mod check;
mod convert;
mod drop;
mod dump;
mod prune;
mod repair;
mod stats;
mod unwind;

use super::exit::Failure;
use clap::Subcommand;
use std::path::Path;

/// Look at a data directory, check it, take blocks back, repair it, convert it, or remove it.
#[derive(Debug, Subcommand)]
pub(super) enum DbCommand {
    Stats(stats::StatsArgs),
    Check(check::CheckArgs),
    Dump(dump::DumpArgs),
    Unwind(unwind::UnwindArgs),
    Prune(prune::PruneArgs),
    Repair(repair::RepairArgs),
    Convert(Box<convert::ConvertArgs>),
    Drop(drop::DropArgs),
}

impl DbCommand {
    /// The data directory that the command works on.
    pub(super) fn datadir(&self) -> &Path {
        match self {
            Self::Stats(args) => &args.data.datadir,
            Self::Check(args) => &args.data.datadir,
            Self::Dump(args) => &args.data.datadir,
            Self::Unwind(args) => &args.data.datadir,
            Self::Prune(args) => &args.data.datadir,
            Self::Repair(args) => &args.data.datadir,
            Self::Convert(args) => &args.datadir,
            Self::Drop(args) => &args.datadir,
        }
    }
}

pub(super) fn run(command: DbCommand) -> Result<(), Failure> {
    match command {
        DbCommand::Stats(args) => stats::run(args),
        DbCommand::Check(args) => check::run(args),
        DbCommand::Dump(args) => dump::run(args),
        DbCommand::Unwind(args) => unwind::run(args),
        DbCommand::Prune(args) => prune::run(args),
        DbCommand::Repair(args) => repair::run(args),
        DbCommand::Convert(args) => convert::run(*args),
        DbCommand::Drop(args) => drop::run(args),
    }
}
