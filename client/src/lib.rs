//! The library behind the `polytrie` binary: an Ethereum execution client whose state layer is a part
//! you can swap.

pub mod bench;
pub mod chain;
pub mod cli;
pub mod conformance;
pub mod convert;
pub mod datadir;
pub mod devnet;
pub mod executor;
pub mod import;
pub mod layers;
pub mod process;
pub mod rpc;
mod state_root;
mod values;
pub mod witness;

pub use polytrie_consensus as consensus;
pub use polytrie_files as blocks;

#[cfg(all(test, feature = "lvmt"))]
mod testsetup;
