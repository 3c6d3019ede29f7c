//! The layer suite with all numbers of workers, with and without injected failures.

use super::Trouble;
use crate::{PaperLayer, PaperOptions, ReplicaLayer, ReplicaOptions, verify};
use polytrie_kv::{Store, Table};
use polytrie_mpt_hash::MptHashOptions;
use polytrie_state::{StateError, StateLayer};
use polytrie_testing::suite::{self, LayerFactory, Verifier};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Replica(pub(super) ReplicaOptions);

impl Default for Replica {
    fn default() -> Self {
        Self(ReplicaOptions { workers: 1, readers: 2, cache_bytes: 1 << 20, ..Default::default() })
    }
}

impl Replica {
    pub(super) fn workers(workers: usize) -> Self {
        Self(ReplicaOptions { workers, ..Self::default().0 })
    }

    /// Creates a layer whose blocks are streamed from their third change on.
    fn streaming(workers: usize) -> Self {
        let trouble = Some(Trouble::streaming_from(3));
        Self(ReplicaOptions { trouble, ..Self::workers(workers).0 })
    }

    /// Creates a layer with late workers, lost hints, a queue for one hint, and readers for all reads.
    fn in_trouble(workers: usize) -> Self {
        let trouble = Trouble::new(workers as u64, 100, 50, true);
        Self(ReplicaOptions { queue: 1, trouble: Some(trouble), ..Self::workers(workers).0 })
    }
}

impl LayerFactory for Replica {
    fn tables(&self) -> Vec<Table> {
        ReplicaLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(ReplicaLayer::open(store, self.0.clone())?)
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // All variants are compared with the default, and so is every other setting.
        if self.0.workers != Self::default().0.workers || self.0.trouble.is_some() {
            return vec![Box::new(Self::default())];
        }
        let mut variants: Vec<Box<dyn LayerFactory>> = Vec::new();
        for cache_bytes in [0, 20_000, usize::MAX] {
            for workers in [0, 1, 4] {
                let options = ReplicaOptions { cache_bytes, ..Self::workers(workers).0 };
                variants.push(Box::new(Self(options)));
                let options = ReplicaOptions { cache_bytes, ..Self::in_trouble(workers).0 };
                variants.push(Box::new(Self(options)));
            }
        }
        variants
    }
}

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Replica::default());
}

#[test]
fn a_block_is_undone_with_few_requests() {
    suite::a_block_is_undone_with_few_requests(&Replica::default(), 20);
}

mod one_worker {
    polytrie_testing::layer_suite!(super::Replica::default());
}

mod no_worker {
    polytrie_testing::layer_suite!(super::Replica::workers(0));
}

mod four_workers {
    polytrie_testing::layer_suite!(super::Replica::workers(4));
}

mod streaming_begins_within_blocks {
    polytrie_testing::layer_suite!(super::Replica::streaming(4));
}

mod one_worker_in_trouble {
    polytrie_testing::layer_suite!(super::Replica::in_trouble(1));
}

mod four_workers_in_trouble {
    polytrie_testing::layer_suite!(super::Replica::in_trouble(4));
}

/// The scheme of the paper: nothing fetched, one thread and a queue for one path, several threads.
#[derive(Debug)]
pub(super) struct Printed(pub(super) PaperOptions);

impl Default for Printed {
    fn default() -> Self {
        Self(PaperOptions { trie: MptHashOptions::default(), workers: 1, queue: 1, flat: None })
    }
}

impl LayerFactory for Printed {
    fn tables(&self) -> Vec<Table> {
        ReplicaLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(PaperLayer::open(store, self.0.clone())?)
    }

    fn verifier(&self) -> Option<Verifier> {
        Replica::default().verifier()
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        let variant = |(workers, queue, cache_bytes)| {
            let trie = MptHashOptions { cache_bytes, ..self.0.trie };
            Box::new(Self(PaperOptions { trie, workers, queue, flat: None })) as _
        };
        [(0, 1, 0), (1, 1, 20_000), (4, 64, usize::MAX)].map(variant).into()
    }
}

mod printed {
    polytrie_testing::layer_suite!(super::Printed::default());
}
