//! The layer `replica`: its options and its entry in the list of layers.

use super::{
    flat_path,
    kind::{Hooks, LayerKind, Parameters},
    options::LayerOptions,
    place::Place,
};
use crate::values::{MOST_THREADS, at_most};
use clap::{Args, ValueEnum};
use polytrie_replica::{
    FlatStore, PaperLayer, PaperOptions, ReplicaLayer, ReplicaOptions, TrieOptions, verify,
};
use polytrie_state::{Result, StateLayer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a user can set about `replica`; `None` is the layer's own default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layer replica")]
pub struct ReplicaSettings {
    /// Threads that keep the tries; with 0 the trie is built when the block ends [default: one for each core but one, four
    /// at most]
    #[arg(id = "replica.workers", long = "replica.workers", value_name = "N", value_parser = at_most(MOST_THREADS))]
    pub workers: Option<usize>,
    /// Threads that read rows ahead of the workers where the store is slow [default: 8]
    #[arg(id = "replica.readers", long = "replica.readers", value_name = "N", value_parser = at_most(MOST_THREADS))]
    pub readers: Option<usize>,
    /// Hints that may wait for each worker; while the queue is full, hints are dropped [default: 4096]
    #[arg(id = "replica.queue", long = "replica.queue", value_name = "N", value_parser = at_most(1 << 20))]
    pub queue: Option<usize>,
    /// Blocks that may be executed on top of one whose root is still being computed; nothing is written before its
    /// root is verified; 0 waits for each root, as in the paper [default: 4]
    #[arg(id = "replica.depth", long = "replica.depth", value_name = "N", value_parser = at_most(1024))]
    pub depth: Option<usize>,
    /// How it works: `default`, or `paper`, as printed: every SLOAD and SSTORE asks --replica.workers for its path and waits
    /// while --replica.queue is full, and the trie of `mpt-hash` is changed and hashed when the block ends. Belongs to the
    /// data: a directory keeps the mode that it was made with.
    #[arg(id = "replica.mode", long = "replica.mode", value_name = "MODE")]
    pub mode: Option<Mode>,
}

/// How `replica` works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Workers keep the trie while the block executes.
    Default,
    /// As the paper prints it.
    Paper,
}

/// Parameter of the stamp with the mode.
const MODE: &str = "replica.mode";

pub(super) const KIND: LayerKind = LayerKind {
    name: ReplicaLayer::NAME,
    about: "flat state to read from, beside the trie that workers build while the block executes",
    canonical: true,
    tables: ReplicaLayer::TABLES,
    open,
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    hooks: Hooks {
        flat: Some(ReplicaLayer::FLAT_TABLES),
        settle: Some(settle),
        // The client of the paper writes each block by itself, and so does `mpt-hash`, with which this mode is
        // compared.
        flushes_each_block: |options| options.replica.mode == Some(Mode::Paper),
        ..Hooks::NONE
    },
};

#[expect(clippy::unnecessary_wraps, reason = "as the table wants it")]
fn settle(options: &mut LayerOptions, stamped: Option<&Parameters>) -> Result<Parameters> {
    // The path is compared with that of the stamp where the directory is opened.
    let mut parameters = stamped.map_or_else(|| flat_path::parameters(options), Parameters::clone);
    let stamped = parameters.get(MODE);
    let made_with = stamped.and_then(|mode| Mode::from_str(mode, false).ok());
    let asked = options.replica.mode.get_or_insert(made_with.unwrap_or(Mode::Default));
    let mode = if *asked == Mode::Paper { "paper" } else { "default" };
    parameters.insert(MODE.to_owned(), mode.to_owned());
    Ok(parameters)
}

/// Opens the layer; its flat state may have another store.
fn open(place: Place, options: &LayerOptions) -> Result<Arc<dyn StateLayer>> {
    let flat = place.own_store(ReplicaLayer::FLAT_TABLES)?.map(FlatStore);
    let default = ReplicaOptions::default();
    let ReplicaSettings { workers, readers, queue, depth, mode } = options.replica;
    if mode == Some(Mode::Paper) {
        let options = PaperOptions {
            trie: trie_of_paper(options),
            workers: workers.unwrap_or(default.workers),
            queue: queue.unwrap_or(default.queue),
            flat,
        };
        return Ok(PaperLayer::open(place.store, options)?);
    }
    let options = ReplicaOptions {
        cache_bytes: options.trie_cache,
        workers: workers.unwrap_or(default.workers),
        readers: readers.unwrap_or(default.readers),
        queue: queue.unwrap_or(default.queue),
        depth: depth.unwrap_or(default.depth),
        flat,
    };
    Ok(ReplicaLayer::open(place.store, options)?)
}

/// Returns the options of the trie in the paper's mode: it has the cache of `mpt-hash`, with which this mode is
/// compared.
#[cfg_attr(not(feature = "mpt-hash"), expect(unused_variables, reason = "the cache has no option"))]
fn trie_of_paper(options: &LayerOptions) -> TrieOptions {
    TrieOptions {
        #[cfg(feature = "mpt-hash")]
        cache_bytes: options.mpt_hash.cache,
        ..TrieOptions::default()
    }
}
