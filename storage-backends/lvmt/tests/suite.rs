//! The suite that every layer passes, with trees of height 4, so that keys lie on many levels.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_amt::{PowersOfTau, Setup};
use polytrie_kv::{Store, Table};
use polytrie_lvmt::{LvmtLayer, LvmtOptions, Proofs, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier},
};
use std::sync::{Arc, LazyLock};

static SETUP: LazyLock<Arc<Setup>> = LazyLock::new(|| {
    let powers = PowersOfTau::insecure_dev(4, "suite").unwrap();
    Arc::new(Setup::derive(&powers, true, &mut |_| {}))
});

#[derive(Debug)]
struct Lvmt(Proofs);

impl LayerFactory for Lvmt {
    fn tables(&self) -> Vec<Table> {
        LvmtLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(LvmtLayer::open(store, SETUP.clone(), LvmtOptions { proofs: self.0 })?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn state_decides_rows(&self) -> bool {
        false
    }

    fn verifier(&self) -> Option<Verifier> {
        (self.0 != Proofs::None).then_some(|of, address, slots, proof| {
            verify(SETUP.key(), of, proof)?.state.answer(address, slots)
        })
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        let shard = Proofs::Shard { shard: 1, of: 4 };
        [Proofs::None, shard].map(|proofs| Box::new(Self(proofs)) as _).into()
    }
}

layer_suite!(Lvmt(Proofs::Full));

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Lvmt(Proofs::None));
}
