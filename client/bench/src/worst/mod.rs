//! Worst cases: blocks that repeat one operation, the most expensive one for a state layer.
//!
//! ```text
//!  state ─► every layer's store    a state of mainnet's shape, and the contracts of the cases
//!  cases ─► blocks                 a case at a gas: some blocks on the genesis block, made once on `mpt`, and kept
//!  run                             for each test: layer opened anew (cold), blocks, taken back; blocks again (warm), taken back
//!  report                          Mgas/s, p50 and p99 of a block, times `mpt`, sorted by the worst ratio; a heat map
//! ```
//!
//! A cold test must be proven cold with `--cold`: see [`ReadBytes`].
//!
//! Blocks are executed as in an import ([`Chain::insert`](polytrie_chain::Chain::insert)): the gas, the receipts and,
//! if the layer has one, the state root of every block are checked.

mod blocks;
mod cases;
mod heat;
mod mined;
mod report;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub use blocks::{WorstTest, prepare};
pub use cases::Case;
pub use report::{Described, WorstCell, WorstReport, WorstRow, WorstRun};
pub use run::{ReadBytes, WorstBench, WorstFigures};

use serde::{Deserialize, Serialize};

/// Parameters of the state of the worst cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstSpec {
    /// Seed of everything random.
    pub seed: u64,
    /// Size in bytes of the state of mainnet's shape around the contracts of the cases.
    pub size: u64,
    /// Number of slots of the largest contract: there is one contract for each power of ten from a thousand up to this.
    pub slots: u64,
    /// Number of contracts with code of 24 KiB.
    pub codes: u64,
    /// Number of blocks of a test.
    pub blocks: u64,
    /// Greatest gas of a block of any test, after blocks were merged.
    pub most_gas: u64,
}
