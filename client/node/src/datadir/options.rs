//! Options for opening a data directory.

use alloy_consensus::{Header, Sealed};
use polytrie_chain::ChainOptions;
use polytrie_kv::{MemoryEngine, StoreOptions};
use polytrie_layers::{EngineOptions, LayerOptions};
use polytrie_state::Stamp;
use std::path::PathBuf;

/// Options for opening a data directory. `None` means the value of the directory, or the default for a new one.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The directory. The memory engine needs none, and refuses one that has a chain.
    pub datadir: Option<PathBuf>,
    /// The chain, as `--chain` names it.
    pub chain: Option<String>,
    /// The state layer, as `--state` names it.
    pub state: Option<String>,
    /// The engine, as `--kv` names it.
    pub kv: Option<String>,
    /// Settings of the layer.
    pub layer: LayerOptions,
    /// Settings of the engine.
    pub engine: EngineOptions,
    /// Settings of the store on the engine.
    pub store: StoreOptions,
    /// The number of blocks that become durable together, if `--flush-every` was given.
    pub flush_every: Option<u64>,
    /// Settings of the chain: its checks, and the records it keeps.
    pub chain_options: ChainOptions,
    /// The first block to import, with its file: a new directory is only made for the chain of this block.
    pub first_block: Option<(PathBuf, Sealed<Header>)>,
}

impl OpenOptions {
    /// Whether the options name the memory engine, which keeps nothing.
    pub fn is_in_memory(&self) -> bool {
        self.kv.as_deref() == Some(MemoryEngine::NAME)
    }

    /// Whether opening makes a new chain: in memory, or in a directory without a stamp.
    pub fn is_new(&self) -> bool {
        if self.is_in_memory() {
            return true;
        }
        self.datadir.as_deref().is_some_and(|dir| matches!(Stamp::read(dir), Ok(None)))
    }
}
