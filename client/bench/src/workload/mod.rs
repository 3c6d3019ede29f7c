//! Workloads: what a chain starts from, and what its blocks hold.
//!
//! One file (or folder) a workload behind the trait [`Workload`]; [`WorkloadKind`] names them for the command line.

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

use super::{BlockPlan, CacheError, Wallet};
use alloy_consensus::{Header, Sealed};
use clap::ValueEnum;
use polytrie_chainspec::{GenesisPlan, InitialAccount};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Chain id of generated chains; no network is known to use it.
pub const CHAIN_ID: u64 = 70_717;
/// 2026-01-01. A date in the past keeps every client content.
pub const GENESIS_TIME: u64 = 1_767_225_600;
/// Seconds between blocks, as on mainnet.
pub const BLOCK_TIME: u64 = 12;
/// Wei in one.
pub const GWEI: u128 = 1_000_000_000;

/// A source of blocks: it says what the chain starts from and what each block holds. Executing the blocks and finding
/// out what follows from them is the business of [`Producer`](super::Producer).
///
/// Equal parameters always give the same chain. To add one: a file with the implementation, and a line in
/// [`WorkloadKind`].
pub trait Workload: Debug {
    /// The chain's forks and the fields of its genesis header.
    fn genesis(&self) -> GenesisPlan;

    /// The accounts that the chain starts with beside the system contracts, each once, in any order.
    fn accounts(&self) -> Box<dyn Iterator<Item = InitialAccount<'_>> + '_>;

    /// The keys that sign.
    fn wallet(&self) -> &Wallet;

    /// The block on top of `parent`, or `None` after the last one.
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
    /// Which one.
    pub workload: WorkloadKind,
    /// What everything random follows from.
    pub seed: u64,
    /// Its size and shape.
    #[serde(flatten)]
    pub shape: Shape,
}

impl WorkloadSpec {
    /// How many accounts sign.
    pub const fn accounts(&self) -> usize {
        self.shape.accounts
    }

    /// How many blocks the chain has beside the genesis block.
    pub const fn blocks(&self) -> u64 {
        self.shape.txs.div_ceil(self.shape.block_txs)
    }

    /// The workload; `wallet` holds its [`accounts`](Self::accounts).
    ///
    /// # Errors
    ///
    /// If it needs something that is not there.
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

    /// What its genesis accounts depend on: chains that differ in other things start from the same state.
    pub fn genesis_key(&self) -> (WorkloadKind, u64, usize) {
        let workload = match self.workload {
            WorkloadKind::Mixed => WorkloadKind::Erc20,
            WorkloadKind::SwapEth | WorkloadKind::SwapToken => WorkloadKind::Swap,
            other => other,
        };
        (workload, self.seed, self.accounts())
    }
}
