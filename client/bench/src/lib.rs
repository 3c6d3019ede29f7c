//! Measuring state layers: workloads, runs that can be compared, and reports.
//!
//! | folder | what is in it |
//! |---|---|
//! | [`workload`] | what a chain starts from and what its blocks hold |
//! | [`generate`](mod@generate) | plans become blocks with canonical roots, and files that others import |
//! | [`mainnet`] | a state of mainnet's shape |
//! | [`worst`] | blocks that do one thing only, the hardest for a layer |
//! | [`given`] | the user's own blocks in place of a workload |
//! | [`fixture`] | stores and chains that are prepared once, cached, and copied for each run |
//! | [`run`] | one process a run, layers in turns |
//! | [`measure`] | what is counted and timed |
//! | [`paper`] | the figures and tables of the papers, on this machine |
//! | [`report`] | tables, JSON, a page with plots |
//!
//! Everything random follows from a seed through [`Random`] and [`Wallet`]: the same parameters give the same bytes.
//! `README.md` beside this file says what each workload does and how to read the results.

pub mod assembler;
pub mod fixture;
pub mod generate;
pub mod given;
pub mod mainnet;
pub mod measure;
pub mod paper;
mod random;
pub mod report;
pub mod run;
mod wallet;
pub mod workload;
pub mod worst;

pub use fixture::{
    Base, BaseSpec, CHAIN_FILE, Cache, CacheError, ChainLength, FixtureError, PreparedChain,
    Settings, SlotKeys, Subject, equip,
};
pub use generate::{
    BlockPlan, ChainFigures, GENESIS_FILE, GenerateError, Generated, GeneratedHead, GeneratedState,
    Planned, ProduceError, Produced, Producer, generate, generate_state,
};
pub use given::{GivenChain, GivenError, GivenPrestate};
pub use measure::Machine;
pub use random::Random;
pub use report::Report;
pub use run::{
    BenchError, ChainBench, Comparison, Keeper, MemoryLimit, Mode, Result, StoreBench, TraceBench,
};
pub use wallet::Wallet;
pub use workload::{
    Erc20, Popularity, Shape, Trace, Transfer, Workload, WorkloadKind, WorkloadSpec,
};
