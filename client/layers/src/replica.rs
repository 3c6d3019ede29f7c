//! `replica`.

use super::{
    flat_path,
    kind::{Hooks, LayerKind, Parameters},
    options::LayerOptions,
    place::Place,
};
use crate::values::{MOST_THREADS, at_most};
use clap::Args;
use polytrie_replica::{FlatStore, ReplicaLayer, ReplicaOptions, verify};
use polytrie_state::{StateError, StateLayer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a user can set about `replica`; `None` is the layer's own default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layer replica")]
pub struct ReplicaSettings {
    /// Threads that keep the tries; with 0 the trie is built when the block ends [default: one a core but one, four at
    /// most]
    #[arg(id = "replica.workers", long = "replica.workers", value_name = "N", value_parser = at_most(MOST_THREADS))]
    pub workers: Option<usize>,
    /// Threads that read rows ahead of the workers where the store is slow [default: 8]
    #[arg(id = "replica.readers", long = "replica.readers", value_name = "N", value_parser = at_most(MOST_THREADS))]
    pub readers: Option<usize>,
    /// Hints that may wait for each worker; what comes while the queue is full is dropped [default: 4096]
    #[arg(id = "replica.queue", long = "replica.queue", value_name = "N", value_parser = at_most(1 << 20))]
    pub queue: Option<usize>,
    /// Blocks that may be executed on top of one whose root is still being computed; nothing is written before its
    /// root is verified; 0 waits for each root, as in the paper [default: 4]
    #[arg(id = "replica.depth", long = "replica.depth", value_name = "N", value_parser = at_most(1024))]
    pub depth: Option<usize>,
}

pub(super) const KIND: LayerKind = LayerKind {
    name: ReplicaLayer::NAME,
    about: "flat state to read from, beside the trie that workers build while the block executes",
    canonical: true,
    tables: ReplicaLayer::TABLES,
    open,
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    hooks: Hooks {
        flat: Some(ReplicaLayer::FLAT_TABLES),
        settle: Some(|options, stamped| {
            // What was asked for is compared where the directory is opened.
            Ok(stamped.map_or_else(|| flat_path::parameters(options), Parameters::clone))
        }),
        ..Hooks::NONE
    },
};

/// Opens it; its flat state may have a store of its own.
fn open(place: Place, options: &LayerOptions) -> Result<Arc<dyn StateLayer>, StateError> {
    let flat = place.own_store(ReplicaLayer::FLAT_TABLES)?.map(FlatStore);
    let default = ReplicaOptions::default();
    let ReplicaSettings { workers, readers, queue, depth } = options.replica;
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
