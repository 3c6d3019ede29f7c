//! The suite that every layer passes.

use polytrie_kv::{Store, Table};
use polytrie_raw::RawLayer;
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Scrub},
};
use std::sync::Arc;

#[derive(Debug)]
struct Raw;

impl LayerFactory for Raw {
    fn tables(&self) -> Vec<Table> {
        RawLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(RawLayer::open(store)?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::None
    }

    fn scrub(&self) -> Scrub {
        Scrub::Undecodable
    }
}

layer_suite!(Raw);

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Raw);
}
