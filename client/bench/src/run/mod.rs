//! Runs: a fresh process and a fresh copy of the store for each, layers in turns.
//!
//! [`Comparison`] prepares what the runs need, starts one process after the other and gathers what they measured;
//! [`Job`] is what such a process gets, [`StoreBench`], [`TraceBench`] and [`ChainBench`] what it does.

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
pub use error::BenchError;
pub use job::{Job, Work};
pub use limit::{Keeper, MemoryLimit};
pub use store::{Mode, StoreBench};
pub use trace::TraceBench;
