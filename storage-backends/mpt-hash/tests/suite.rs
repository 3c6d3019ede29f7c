//! The suite that every layer passes, with old nodes dropped and with all of them kept.

use polytrie_kv::{Store, Table};
use polytrie_mpt_hash::{Cached, MptHashLayer, MptHashOptions, Pruning, verify};
use polytrie_state::{StateError, StateLayer};
use polytrie_testing::suite::{self, LayerFactory, Scrub, Verifier};
use std::sync::Arc;

#[derive(Debug, Default)]
struct MptHash(MptHashOptions);

impl MptHash {
    fn archive() -> Self {
        Self(MptHashOptions { pruning: Pruning::None, ..MptHashOptions::default() })
    }
}

impl LayerFactory for MptHash {
    fn tables(&self) -> Vec<Table> {
        MptHashLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(MptHashLayer::open(store, self.0)?)
    }

    fn state_decides_rows(&self) -> bool {
        self.0.pruning == Pruning::Replaced
    }

    fn scrub(&self) -> Scrub {
        match self.0.pruning {
            Pruning::Replaced => Scrub::AnyByte,
            Pruning::None => Scrub::Undecodable,
        }
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // The caches keep nothing in memory, a little, all written nodes, those of a block, and everything.
        let caches = [
            (0, Cached::Used),
            (20_000, Cached::Used),
            (usize::MAX, Cached::Written),
            (usize::MAX, Cached::Block),
            (usize::MAX, Cached::Used),
        ];
        caches
            .map(|(cache_bytes, cached)| {
                Box::new(Self(MptHashOptions { cache_bytes, cached, ..self.0 })) as _
            })
            .into()
    }
}

#[test]
fn gathered_state_is_read_once() {
    for cached in [Cached::Used, Cached::Written] {
        let options = MptHashOptions { cached, ..MptHashOptions::default() };
        suite::gathered_state_is_read_once(&MptHash(options));
    }
}

/// One request for each level of the longest path.
#[test]
fn a_block_is_undone_with_few_requests() {
    suite::a_block_is_undone_with_few_requests(&MptHash::default(), 25);
}

mod replaced {
    use super::MptHash;
    use polytrie_testing::{layer_suite, suite};

    layer_suite!(MptHash::default());

    #[test]
    fn a_large_contract_is_loaded_in_portions() {
        suite::a_large_contract_is_loaded_in_portions(&MptHash::default());
    }
}

mod archive {
    use super::MptHash;
    use polytrie_testing::layer_suite;

    layer_suite!(MptHash::archive());
}
