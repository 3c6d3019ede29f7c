//! A layer on a cluster passes those tests of the suite in which the engine has a part.
//!
//! `POLYTRIE_CASSANDRA` names some nodes of the cluster (`scripts/cluster test` starts one and runs this). Each test
//! makes a store for each of its engines, which is a prefix of keys in the same tables; the cluster has only stores of
//! the tests.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{Engine, MemoryEngine, Store, Table};
use polytrie_kv_cassandra::{Access, CassandraEngine, CassandraOptions, Cluster};
use polytrie_kv_testing::Wrapped;
use polytrie_mpt::{MptLayer, MptOptions, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::suite::{LayerFactory, Verifier};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tempfile::TempDir;

/// The connection to the cluster, if there is one.
static CLUSTER: LazyLock<Option<Arc<Cluster>>> = LazyLock::new(|| {
    let nodes = std::env::var("POLYTRIE_CASSANDRA").ok()?;
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    let (access, patience) = (Access::default(), Duration::from_secs(60));
    Some(Cluster::connect(&nodes, "polytrie_layer", &access, patience, true).unwrap())
});

/// An engine with a directory for itself: opening a store removes the scratch data that others have left in it.
#[derive(Debug)]
struct InDir {
    engine: CassandraEngine,
    _dir: TempDir,
}

polytrie_kv_testing::wrapped!(InDir);

impl Wrapped for InDir {
    fn inner(&self) -> &dyn Engine {
        &self.engine
    }
}

/// `mpt` on the cluster; without a cluster, on a memory engine, which is quick.
#[derive(Debug)]
struct Mpt;

impl LayerFactory for Mpt {
    fn tables(&self) -> Vec<Table> {
        MptLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(MptLayer::open(store, MptOptions::default())?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::StateRoot
    }

    fn memory(&self, tables: &[Table]) -> Arc<dyn Engine> {
        let Some(cluster) = &*CLUSTER else { return Arc::new(MemoryEngine::new()) };
        let store = format!("layer-{:016x}", rand::random::<u64>());
        let dir = TempDir::new().unwrap();
        let options = CassandraOptions::new(dir.path(), tables);
        let engine = CassandraEngine::open_on(Arc::clone(cluster), &store, options).unwrap();
        Arc::new(InDir { engine, _dir: dir })
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }
}

// Batches that are cut off and failed, views of earlier versions, stores that are opened again, and all known difficult
// cases as on MDBX, row by row. The other tests of the suite look at the layer alone. They list the whole state hundreds of
// times, which takes a request for nearly each account and is slow here without telling more of the engine.
polytrie_testing::layer_suite!(Mpt =>
    a_crash_at_any_write_is_survived,
    a_failed_write_poisons,
    flushing_changes_nothing,
    readers_keep_their_block,
    reopened_in_memory,
);
