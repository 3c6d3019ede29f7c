//! Options for opening a data directory.

use alloy_consensus::{Header, Sealed};
use polytrie_chain::ChainOptions;
use polytrie_kv::StoreOptions;
use polytrie_layers::{EngineOptions, LayerOptions};
use polytrie_state::Stamp;
use std::path::PathBuf;

/// Options for opening a data directory. `None` means whatever it holds, or the default for a new one.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The directory; not needed by the memory engine, under which it must not hold a chain.
    pub datadir: Option<PathBuf>,
    /// `--chain`.
    pub chain: Option<String>,
    /// `--state`.
    pub state: Option<String>,
    /// `--kv`.
    pub kv: Option<String>,
    /// Settings of the layer.
    pub layer: LayerOptions,
    /// Settings of the engine.
    pub engine: EngineOptions,
    /// Settings of the store above it.
    pub store: StoreOptions,
    /// `--flush-every`, if it was given: the blocks that become durable together.
    pub flush_every: Option<u64>,
    /// What the chain checks and keeps.
    pub chain_options: ChainOptions,
    /// The first block that is to come, with the file that it is in: no directory is made for another chain than its own.
    pub first_block: Option<(PathBuf, Sealed<Header>)>,
}

impl OpenOptions {
    /// Whether there is nothing to be opened yet: in memory, or in a directory without a stamp.
    pub fn is_new(&self) -> bool {
        if self.kv.as_deref() == Some("memory") {
            return true;
        }
        self.datadir.as_deref().is_some_and(|dir| matches!(Stamp::read(dir), Ok(None)))
    }
}
