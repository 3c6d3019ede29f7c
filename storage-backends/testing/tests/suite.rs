//! Runs the suite on the oracle itself: if it fails, one of the two is wrong.

use polytrie_kv::{Store, Table};
use polytrie_state::{StateError, StateLayer};
use polytrie_testing::{
    OracleLayer, layer_suite,
    suite::{LayerFactory, Verifier},
    verify_eip1186,
};
use std::sync::Arc;

#[derive(Debug)]
struct Oracle;

impl LayerFactory for Oracle {
    fn tables(&self) -> Vec<Table> {
        OracleLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(OracleLayer::open(store)?)
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(verify_eip1186)
    }
}

layer_suite!(Oracle);
