//! What a workload is.

use super::{BlockPlan, GenesisPlan, Wallet};
use alloy_consensus::{Header, Sealed};
use alloy_genesis::GenesisAccount;
use alloy_primitives::Address;
use std::fmt::Debug;

/// A source of blocks: it says what the chain starts from and what each block holds. Executing the blocks and finding
/// out what follows from them is the business of [`Producer`](super::Producer).
///
/// The same parameters always give the same chain. To add one: a file with the implementation, and a line where the
/// command line names it.
pub trait Workload: Debug {
    /// The chain's forks and the fields of its genesis header.
    fn genesis(&self) -> GenesisPlan;

    /// The accounts that the chain starts with beside the system contracts, each once, in any order.
    fn accounts(&self) -> Box<dyn Iterator<Item = (Address, GenesisAccount)> + '_>;

    /// The keys that sign.
    fn wallet(&self) -> &Wallet;

    /// The block on top of `parent`, or `None` after the last one.
    fn next_block(&mut self, parent: &Sealed<Header>) -> Option<BlockPlan>;
}
