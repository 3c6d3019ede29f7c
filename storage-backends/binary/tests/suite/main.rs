//! The suite that every layer passes: with groups of the default depth, and the parts of it that touch rows with the
//! smallest and the largest ones. `layer.rs` compares the commitment with another implementation.

mod layer;

use polytrie_binary::{BinaryLayer, BinaryOptions, GroupDepth, Reads, verify};
use polytrie_kv::{Store, Table};
use polytrie_state::{CommitmentKind, PREIMAGE_TABLE, StateError, StateLayer};
use polytrie_testing::suite::{self, LayerFactory, Verifier};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Binary(BinaryOptions);

impl Binary {
    fn of_depth(levels: u8) -> Self {
        let group_depth = GroupDepth::new(levels).expect("a depth that there is");
        Self(BinaryOptions {
            group_depth,
            cache_bytes: 20_000,
            reads: Reads::Tree,
            ..BinaryOptions::default()
        })
    }
}

impl LayerFactory for Binary {
    fn tables(&self) -> Vec<Table> {
        [BinaryLayer::TABLES, &[PREIMAGE_TABLE]].concat()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(BinaryLayer::open(store, self.0)?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // The budgets keep nothing in memory, a little, and everything.
        let budgets = [0, 20_000, usize::MAX].into_iter();
        let options = budgets.flat_map(|cache_bytes| {
            // What is read ahead are flat rows, which no budget is for.
            let read_ahead = cache_bytes == 0;
            [Reads::Flat, Reads::Tree].map(|reads| BinaryOptions {
                cache_bytes,
                reads,
                read_ahead,
                ..self.0
            })
        });
        options.map(|options| Box::new(Self(options)) as _).collect()
    }
}

#[test]
fn gathered_state_is_read_once() {
    for reads in [Reads::Flat, Reads::Tree] {
        let options = BinaryOptions { reads, ..BinaryOptions::default() };
        suite::gathered_state_is_read_once(&Binary(options));
    }
}

#[test]
fn a_block_ends_with_few_requests() {
    // The stems, and some levels of the tree.
    suite::a_block_ends_with_few_requests(&Binary::default(), 8);
}

#[test]
fn a_block_is_undone_with_few_requests() {
    suite::a_block_is_undone_with_few_requests(&Binary::default(), 20);
}

mod default {
    use super::Binary;
    use polytrie_testing::layer_suite;

    layer_suite!(Binary::default());
}

mod smallest_groups {
    use super::Binary;
    use polytrie_testing::layer_suite;

    layer_suite! { Binary::of_depth(1) =>
        adversarial_history,
        blocks_are_undone,
        damage_is_found,
        loading_equals_building,
        readers_keep_their_block,
        wide_history,
    }
}

mod largest_groups {
    use super::Binary;
    use polytrie_testing::layer_suite;

    layer_suite! { Binary::of_depth(8) =>
        adversarial_history,
        blocks_are_undone,
        damage_is_found,
        loading_equals_building,
        readers_keep_their_block,
        wide_history,
    }
}
