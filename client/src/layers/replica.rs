//! `replica`.

use super::{
    engines::{EngineError, EngineOptions, open_engine},
    flat_path,
    kind::{LayerKind, Parameters},
    options::LayerOptions,
};
use polytrie_kv::{Store, StoreOptions};
use polytrie_replica::{FlatStore, ReplicaLayer, ReplicaOptions, verify};
use polytrie_state::{StateError, StateLayer};
use std::sync::Arc;

pub(super) const KIND: LayerKind = LayerKind {
    name: "replica",
    about: "flat state to read from, beside the trie that workers build while the block executes",
    canonical: true,
    tables: ReplicaLayer::TABLES,
    open,
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    keeps_flat: true,
    settle: Some(|options, stamped| {
        // What was asked for is compared where the directory is opened.
        Ok(stamped.map_or_else(|| flat_path::parameters(options), Parameters::clone))
    }),
};

/// Opens it; its flat state may have a store of its own, under the same engine.
fn open(store: Store, options: &LayerOptions) -> Result<Arc<dyn StateLayer>, StateError> {
    let flat = match &options.replica_path {
        None => None,
        Some(dir) => {
            let tables = ReplicaLayer::FLAT_TABLES;
            let access = EngineOptions { read_only: options.read_only, ..EngineOptions::default() };
            let engine = open_engine(store.engine_name(), dir, tables, access);
            let engine = engine.map_err(|error| match error {
                EngineError::Store(error) => StateError::Store(error),
                EngineError::Unknown(error) => StateError::Corrupt(error.to_string()),
            })?;
            // The layer says when it is flushed: never before the store of the trie.
            let flush = StoreOptions {
                flush_every: u64::MAX,
                overlay_bytes: usize::MAX,
                ..StoreOptions::default()
            };
            Some(FlatStore(Store::open(engine, tables, flush)?))
        }
    };
    let default = ReplicaOptions::default();
    let options = ReplicaOptions {
        cache_bytes: options.trie_cache,
        workers: options.replica_workers.unwrap_or(default.workers),
        readers: options.replica_readers.unwrap_or(default.readers),
        queue: options.replica_queue.unwrap_or(default.queue),
        depth: options.replica_depth.unwrap_or(default.depth),
        flat,
    };
    Ok(ReplicaLayer::open(store, options)?)
}
