//! Tests that blocks in a group give the same result as single blocks.

use super::{
    Driver, LayerFactory,
    compare::{assert_rows, assert_state},
};
use crate::{History, Seed};
use polytrie_state::{CommitmentKind, StateError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Checks that blocks in groups give the rows, undo records and commitment of a run one by one, and that each block
/// can be undone by itself. Skips layers with a commitment of their own kind.
pub fn groups_equal_blocks(factory: &dyn LayerFactory) {
    if factory.kind() != CommitmentKind::StateRoot {
        return;
    }
    let seed = Seed::or(31);
    let wide = History::wide(seed.value());
    follow(factory, &wide, || wide.head());
    for (n, longest) in [(0, 1), (1, 4), (2, 40)] {
        let seed = seed.value().wrapping_add(n);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        follow(factory, &History::adversarial(seed), || rng.random_range(1..=longest));
    }
}

fn follow(factory: &dyn LayerFactory, history: &History, mut length: impl FnMut() -> usize) {
    let mut grouped = Driver::in_memory(factory, history.genesis());
    let mut straight = Driver::in_memory(factory, history.genesis());
    let mut at = 0;
    while at < history.head() {
        let group = &history.blocks[at..history.head().min(at + length())];
        let context = format!("blocks {} to {}, seed {}", at + 1, at + group.len(), history.seed);
        let fail = |e: StateError| -> ! { panic!("{context}: {e}") };
        grouped.run_group(group).unwrap_or_else(|e| fail(e));
        for block in group {
            straight.run(block).unwrap_or_else(|e| fail(e));
        }
        at += group.len();
        assert_state(&grouped, &history.states[at], &context);
        let rows = |driver: &Driver<'_>| driver.rows().unwrap_or_else(|e| fail(e));
        if factory.state_decides_rows() {
            assert_rows(&rows(&grouped), &rows(&straight), &context);
        }
        let undo = |driver: &Driver<'_>| driver.undo_rows().unwrap_or_else(|e| fail(e));
        assert_rows(&undo(&grouped), &undo(&straight), &format!("undo records of {context}"));
    }
    for at in (0..history.head()).rev() {
        let context = format!("back at block {at}, seed {}", history.seed);
        grouped.undo().unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_state(&grouped, &history.states[at], &context);
    }
}
