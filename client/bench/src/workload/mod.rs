//! Workloads: the genesis of a chain, and the content of its blocks.
//!
//! Each workload is a file (or folder) behind the trait [`Workload`]; [`WorkloadKind`] has their names for the command
//! line.

mod erc20;
mod mixed;
mod shape;
mod swap;
mod trace;
mod transfer;

pub use erc20::Erc20;
pub use mixed::Mixed;
pub use shape::{Popularity, Shape};
pub use swap::{Swap, Swaps};
pub use trace::{Field, Trace, TraceWrite};
pub use transfer::Transfer;
pub(crate) use transfer::genesis;

use super::{BlockPlan, CacheError, Wallet};
use alloy_consensus::{Header, Sealed};
use clap::ValueEnum;
use polytrie_chainspec::{GenesisPlan, InitialAccount};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Chain id of generated chains; no known network uses it.
pub const CHAIN_ID: u64 = 70_717;
/// Time of the genesis block: 2026-01-01. No client objects to a time in the past.
pub const GENESIS_TIME: u64 = 1_767_225_600;
/// Seconds between blocks, as on mainnet.
pub const BLOCK_TIME: u64 = 12;
/// Number of wei in one gwei.
pub const GWEI: u128 = 1_000_000_000;

/// A source of blocks: the genesis of the chain, and the plan of each block. [`Producer`](super::Producer) executes
/// the blocks and computes the other values.
///
/// Equal parameters always give the same chain. A new workload is a file with the implementation, and a line in
/// [`WorkloadKind`].
pub trait Workload: Debug {
    /// Returns the chain's forks and the fields of its genesis header.
    fn genesis(&self) -> GenesisPlan;

    /// Returns the accounts at genesis without the system contracts, each once, in any order.
    fn accounts(&self) -> Box<dyn Iterator<Item = InitialAccount<'_>> + '_>;

    /// Returns the wallet that signs.
    fn wallet(&self) -> &Wallet;

    /// Returns the plan of the block on top of `parent`, or `None` after the last block.
    fn next_block(&mut self, parent: &Sealed<Header>) -> Option<BlockPlan>;
}

/// The workloads by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Transfers of ether.
    Transfer,
    /// Transfers of a token: calls of an ERC-20 contract in which every account has a balance.
    Erc20,
    /// 15 % transfers of the token, the rest of ether; a tenth of the accounts in nine tenths of the cases.
    Mixed,
    /// Swaps on UniswapV2, all six functions: between tokens, and between a token and ether. Its contracts are fetched
    /// by `scripts/setup-uniswap`.
    Swap,
    /// The four of them with ether on one side.
    SwapEth,
    /// The two of them between tokens.
    SwapToken,
}

/// A workload with its parameters: everything that its chain depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Kind of the workload.
    pub workload: WorkloadKind,
    /// Seed of everything random.
    pub seed: u64,
    /// Size and shape of the workload.
    #[serde(flatten)]
    pub shape: Shape,
}

impl WorkloadSpec {
    /// Returns the number of accounts that sign.
    pub const fn accounts(&self) -> usize {
        self.shape.accounts
    }

    /// Returns the number of blocks without the genesis block.
    pub const fn blocks(&self) -> u64 {
        self.shape.txs.div_ceil(self.shape.block_txs)
    }

    /// Returns the workload; `wallet` must have its [`accounts`](Self::accounts).
    ///
    /// # Errors
    ///
    /// Fails if a file that the workload needs is missing.
    pub fn open(&self, wallet: Wallet) -> Result<Box<dyn Workload>, CacheError> {
        let shape = self.shape;
        Ok(match self.workload {
            WorkloadKind::Transfer => Box::new(Transfer::new(wallet, shape)),
            WorkloadKind::Erc20 => Box::new(Erc20::new(wallet, shape)),
            WorkloadKind::Mixed => Box::new(Mixed::new(wallet, shape)),
            WorkloadKind::Swap => Box::new(Swap::new(wallet, shape, Swaps::All)?),
            WorkloadKind::SwapEth => Box::new(Swap::new(wallet, shape, Swaps::Eth)?),
            WorkloadKind::SwapToken => Box::new(Swap::new(wallet, shape, Swaps::Token)?),
        })
    }

    /// Returns the parameters of its genesis accounts: chains that differ only in other parameters start from the same
    /// state.
    pub fn genesis_key(&self) -> (WorkloadKind, u64, usize) {
        let workload = match self.workload {
            WorkloadKind::Mixed => WorkloadKind::Erc20,
            WorkloadKind::SwapEth | WorkloadKind::SwapToken => WorkloadKind::Swap,
            other => other,
        };
        (workload, self.seed, self.accounts())
    }
}
