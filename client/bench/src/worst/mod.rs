//! Worst cases: blocks that do one thing only, and that the thing a state layer finds hardest.
//!
//! ```text
//!  state ─► every layer's store    a state of mainnet's shape, and the contracts of the cases
//!  cases ─► blocks                 a case at a gas: some blocks on the genesis block, made once on `mpt`, and kept
//!  run                             for each test: layer opened anew (cold), blocks, taken back; blocks again (warm), taken back
//!  report                          Mgas/s, p50 and p99 of a block, times `mpt`, sorted by the worst ratio; a heat map
//! ```
//!
//! With `--cold` a test that is called cold has to be: see [`ReadBytes`].
//!
//! Blocks go the way of an import ([`Chain::insert`](polytrie_chain::Chain::insert)): gas, receipts and, where a layer has one,
//! the state root of every block are checked.

mod blocks;
mod cases;
mod heat;
mod mined;
mod report;
mod run;
mod state;

pub use blocks::{WorstTest, prepare};
pub use cases::Case;
pub use report::{Described, WorstCell, WorstReport, WorstRow, WorstRun};
pub use run::{ReadBytes, WorstBench, WorstFigures};

use serde::{Deserialize, Serialize};

/// What the state of the worst cases depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstSpec {
    /// What everything random follows from.
    pub seed: u64,
    /// Bytes of the state of mainnet's shape that lies around the contracts of the cases.
    pub size: u64,
    /// Slots of the largest contract: there is one of each power of ten from a thousand up to that.
    pub slots: u64,
    /// Contracts with code of 24 KiB.
    pub codes: u64,
    /// Blocks of a test.
    pub blocks: u64,
    /// The most gas that a block of any test uses, all that were merged into it together.
    pub most_gas: u64,
}
