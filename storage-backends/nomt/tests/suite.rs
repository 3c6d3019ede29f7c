//! The suite that every layer passes.

use polytrie_kv::{Store, Table};
use polytrie_nomt::{NomtLayer, NomtOptions, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier},
};
use std::{path::Path, sync::Arc};

#[derive(Debug)]
struct Nomt(NomtOptions);

impl Default for Nomt {
    /// Memory holds the files where it can: each opening makes some, and a disk syncs each of them.
    fn default() -> Self {
        let options = NomtOptions::default();
        let memory = Path::new("/dev/shm");
        let temporary = if memory.is_dir() { memory.to_owned() } else { options.temporary };
        Self(NomtOptions { temporary, ..options })
    }
}

impl LayerFactory for Nomt {
    fn tables(&self) -> Vec<Table> {
        NomtLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(NomtLayer::open(store, self.0.clone())?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|commitment, address, slots, proof| {
            verify(commitment.digest(), proof)?.answer(address, slots)
        })
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        let options = NomtOptions { cache_bytes: 0, buckets: 256, threads: 4, ..self.0.clone() };
        vec![Box::new(Self(options))]
    }
}

layer_suite!(Nomt::default());

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Nomt::default());
}
