//! The library behind the `polytrie` binary: an Ethereum execution client whose state layer is a part
//! you can swap.

pub mod cli;

pub use polytrie_bench as bench;
pub use polytrie_chain::{self as chain, executor};
pub use polytrie_consensus as consensus;
pub use polytrie_devnet::{self as devnet, rpc};
pub use polytrie_files as blocks;
pub use polytrie_layers as layers;
pub use polytrie_node::{
    access_lists, conformance, convert, datadir, import, prefetch, prestate, process, state_dump,
    state_root, witness, words,
};
