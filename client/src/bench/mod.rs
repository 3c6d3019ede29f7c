//! Workloads: chains made to measure, and to have something to import.
//!
//! A [`Workload`] plans: which accounts there are at genesis and what each block holds. A [`Producer`] makes blocks of
//! plans by executing them, so that headers carry the roots that every client computes. [`generate`] writes both down
//! as files that other clients import too.
//!
//! Everything random follows from a seed through [`Random`] and [`Wallet`]: the same parameters give the same bytes.

mod generate;
mod genesis;
mod plan;
mod producer;
mod random;
mod sample;
mod transfer;
mod wallet;
mod workload;

pub use generate::{CHAIN_FILE, GENESIS_FILE, GenerateError, Generated, GeneratedHead, generate};
pub use genesis::GenesisPlan;
pub use plan::{BlockPlan, Planned};
pub use producer::{ProduceError, Produced, Producer};
pub use random::Random;
pub use sample::Sample;
pub use transfer::{Popularity, Size, Transfer};
pub use wallet::Wallet;
pub use workload::Workload;
