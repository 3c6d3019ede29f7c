//! Runs of benchmarks: each has a new process and a new copy of the store, and layers take turns.
//!
//! [`Comparison`] prepares what the runs need, starts one process after the other and collects their figures. [`Job`]
//! is the input of such a process; [`StoreBench`], [`TraceBench`] and [`ChainBench`] are kinds of work.

mod afterwards;
mod chain;
mod child;
mod cold;
mod comparison;
mod durable;
mod error;
mod job;
mod limit;
mod lists;
mod store;
mod trace;
mod warm;

pub use chain::ChainBench;
pub(crate) use chain::candidates;
pub use cold::Coldness;
pub use comparison::{Comparison, RunResult};
pub use error::{BenchError, Result};
pub use job::{Job, Work};
pub use limit::{Keeper, MemoryLimit};
pub use store::{Mode, StoreBench};
pub use trace::TraceBench;
