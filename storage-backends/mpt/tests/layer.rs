//! The suite that every layer passes.

use polytrie_kv::{Store, Table};
use polytrie_mpt::{MptLayer, MptOptions, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier},
};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Mpt(MptOptions);

impl LayerFactory for Mpt {
    fn tables(&self) -> Vec<Table> {
        MptLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(MptLayer::open(store, self.0)?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::StateRoot
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // Nothing kept between blocks; a little; everything.
        let budgets = [0, 20_000, usize::MAX];
        budgets.map(|cache_bytes| Box::new(Self(MptOptions { cache_bytes })) as _).into()
    }
}

layer_suite!(Mpt::default());

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Mpt::default());
}
