//! The suite that every layer passes.

use polytrie_kv::{Store, Table};
use polytrie_lmpt::{Boundary, LmptLayer, LmptOptions, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier},
};
use std::{sync::Arc, time::Duration};

/// A layer with short intervals, such as 3 blocks: a history of some hundred blocks crosses a boundary all the time.
#[derive(Debug)]
struct Lmpt(LmptOptions);

fn every(interval: u64) -> Lmpt {
    Lmpt(LmptOptions { interval, ..LmptOptions::default() })
}

impl LayerFactory for Lmpt {
    fn tables(&self) -> Vec<Table> {
        LmptLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(LmptLayer::open(store, self.0)?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn state_decides_rows(&self) -> bool {
        false
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        let late = LmptOptions { merge_pause: Duration::from_millis(2), ..self.0 };
        let variants = [
            // The variants: no merge ahead of its block, late merges, a little memory, and none.
            LmptOptions { ahead_bytes: 0, ..self.0 },
            late,
            LmptOptions { memory_bytes: 20_000, ..self.0 },
            LmptOptions { memory_bytes: 0, ahead_bytes: 0, ..late },
            LmptOptions { read_ahead: true, ..self.0 },
            LmptOptions { read_ahead: true, cache_bytes: 10_000, ..self.0 },
            LmptOptions { cache_bytes: 0, ..self.0 },
        ];
        variants.map(|options| Box::new(Self(options)) as _).into()
    }
}

layer_suite!(every(3));

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&every(3));
}

#[test]
fn gathered_state_is_read_once() {
    suite::gathered_state_is_read_once(&every(3));
}

mod one_block {
    use super::every;
    polytrie_testing::layer_suite!(every(1));
}

mod five_blocks {
    use super::every;
    polytrie_testing::layer_suite!(every(5));
}

mod switched {
    use super::{Boundary, Lmpt, LmptOptions};
    polytrie_testing::layer_suite!(Lmpt(LmptOptions {
        interval: 3,
        boundary: Boundary::Switch,
        ..LmptOptions::default()
    }));
}

mod the_paper {
    use super::every;
    polytrie_testing::layer_suite!(every(1_000) =>
        adversarial_history, blocks_are_undone, reopened_in_memory, proofs_hold, readers_keep_their_block,
        discarded_blocks_leave_nothing, damage_is_found
    );
}
