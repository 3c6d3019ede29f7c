//! The library behind the `polytrie` binary: an Ethereum execution client whose state layer is a part
//! you can swap.

pub mod bench;
pub mod blocks;
pub mod chain;
pub mod conformance;
pub mod consensus;
pub mod executor;
pub mod cli;
pub mod layers;
pub mod import;
pub mod datadir;

#[cfg(test)]
mod testdata;
