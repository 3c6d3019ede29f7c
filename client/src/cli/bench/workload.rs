//! Options for the workload and for the cache of prepared data.

use super::Failure;
use crate::{
    bench::{Cache, Popularity, Shape, WorkloadKind, WorkloadSpec},
    layers,
};
use clap::Args;
use std::path::{Path, PathBuf};

/// Which chain.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkloadArgs {
    /// The kind of transactions.
    #[arg(long, value_name = "NAME", default_value = "mixed")]
    workload: WorkloadKind,
    /// Accounts at genesis [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    accounts: Option<u32>,
    /// Transactions in all blocks together [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    txs: Option<u64>,
    /// Transactions in a block [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=50_000))]
    block_txs: Option<u64>,
    /// How often each account takes part: all equally often, or a tenth of them in nine tenths of the cases [default:
    /// uniform; 90/10 for mixed]
    #[arg(long, value_name = "HOW")]
    popularity: Option<Popularity>,
    /// Percentage of transfers whose recipient had nothing before [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=100))]
    new_recipients: Option<u64>,
    /// Accounts that send: the first so many [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    senders: Option<u32>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl WorkloadArgs {
    /// The value of --accounts; 0 if it was not given.
    pub(super) fn accounts(&self) -> u64 {
        self.accounts.map_or(0, u64::from)
    }

    /// The workload with its parameters. Those without an option here have defaults.
    pub(super) fn spec(&self) -> Result<WorkloadSpec, Failure> {
        let Self { workload, seed, .. } = *self;
        let popularity = match workload {
            WorkloadKind::Mixed => Popularity::Hot,
            _ => Popularity::Uniform,
        };
        let default = Shape { popularity, ..Shape::default() };
        let shape = Shape {
            accounts: self.accounts.map_or(default.accounts, |accounts| accounts as usize),
            txs: self.txs.unwrap_or(default.txs),
            block_txs: self.block_txs.unwrap_or(default.block_txs),
            popularity: self.popularity.unwrap_or(default.popularity),
            new_recipients: self.new_recipients.unwrap_or(default.new_recipients),
            senders: self.senders.map_or(0, |senders| senders as usize),
        };
        if shape.senders > shape.accounts {
            return Err(Failure::Usage(format!(
                "--senders {} is more than there are accounts ({}); choose fewer, or more --accounts",
                shape.senders, shape.accounts
            )));
        }
        Ok(WorkloadSpec { workload, seed, shape })
    }
}

/// The user's cache directory for prepared data; `None` without a home directory.
pub(in crate::cli) fn user_cache() -> Option<PathBuf> {
    Some(layers::user_cache()?.join("bench"))
}

/// Where prepared things are kept.
#[derive(Debug, Args)]
pub(super) struct CacheArg {
    /// Directory that keeps prepared data (keys, genesis states, chains) for later runs; you may delete its contents at any
    /// time [default: polytrie/bench in $XDG_CACHE_HOME or ~/.cache; `bench generate` keeps nothing]
    #[arg(long, value_name = "DIR", env = "POLYTRIE_BENCH_CACHE")]
    cache: Option<PathBuf>,
}

impl CacheArg {
    /// The directory of --cache, if it was given.
    pub(super) fn named(&self) -> Option<&Path> {
        self.cache.as_deref()
    }

    /// The directory of --cache, or the user's. Fails if there is neither.
    fn directory(&self) -> Result<PathBuf, Failure> {
        self.cache.clone().or_else(user_cache).ok_or_else(|| {
            Failure::Usage(
                "--cache is needed: there is no home directory to keep prepared things in".into(),
            )
        })
    }

    /// Opens the cache in [`Self::directory`].
    pub(super) fn open(&self) -> Result<Cache, Failure> {
        Ok(Cache::open(&self.directory()?)?)
    }
}
