//! A layer on a cluster passes the suite that it passes on every engine.
//!
//! `POLYTRIE_CASSANDRA` names some nodes of the cluster (`scripts/cluster test` starts one and runs this). Each test
//! makes a store for each of its engines; the cluster has only stores of the tests.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{Engine, MemoryEngine, Store, Table};
use polytrie_kv_cassandra::{CassandraEngine, CassandraOptions, Cluster};
use polytrie_mpt::{MptLayer, MptOptions, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::suite::{LayerFactory, Verifier};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

/// The connection to the cluster, if there is one.
static CLUSTER: LazyLock<Option<Arc<Cluster>>> = LazyLock::new(|| {
    let nodes = std::env::var("POLYTRIE_CASSANDRA").ok()?;
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    Some(Cluster::connect(&nodes, "polytrie_layer", Duration::from_secs(60), true).unwrap())
});

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
        let options = CassandraOptions::new(std::env::temp_dir(), tables);
        Arc::new(CassandraEngine::open_on(Arc::clone(cluster), &store, options).unwrap())
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }
}

polytrie_testing::layer_suite!(Mpt);
