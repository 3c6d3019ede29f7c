//! Tests of undoing blocks.

use super::{
    Driver, LayerFactory, Row,
    compare::{assert_maps, assert_reads, assert_rows, assert_state},
};
use crate::{History, Oracle, Seed};
use polytrie_state::{Commitment, undo_writes_in_full};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Runs and undoes blocks by random depths through all difficult cases, and at last undoes all of them: the state,
/// the commitment and every row must be those of a layer that never ran the later blocks.
pub fn blocks_are_undone(factory: &dyn LayerFactory) {
    let seed = Seed::or(11);
    let history = History::adversarial(seed.value());
    let mut driver = Driver::in_memory(factory, history.genesis());
    // State of the layer when each block was reached for the first time.
    let mut seen = vec![remember(&driver)];
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let mut at = 0;
    while at < history.head() {
        let target = (at + rng.random_range(1..12)).min(history.head());
        while at < target {
            run(&mut driver, &history, at);
            at += 1;
            if seen.len() == at {
                seen.push(remember(&driver));
            }
            compare(&driver, &seen[at], &format!("block {at} again"));
        }
        let depth = rng.random_range(0..=at.min(8));
        for _ in 0..depth {
            undo(&mut driver, &history, at);
            at -= 1;
            compare(&driver, &seen[at], &format!("back to block {at}"));
            assert_state(&driver, &history.states[at], &format!("back to block {at}"));
        }
        // Progress is certain, because undone blocks are run again at once.
        for _ in 0..depth {
            run(&mut driver, &history, at);
            at += 1;
            compare(&driver, &seen[at], &format!("block {at} once more"));
        }
    }
    while at > 0 {
        undo(&mut driver, &history, at);
        at -= 1;
        compare(&driver, &seen[at], &format!("on the way back to the genesis, block {at}"));
    }
    assert_state(&driver, history.genesis(), &"back at the genesis");
}

/// Checks that other blocks can follow an undo, as after a change of branch, and that the result is the same as if
/// they had been run at first.
pub fn other_blocks_follow_an_undo(factory: &dyn LayerFactory) {
    let seed = Seed::or(12);
    let history = History::adversarial(seed.value());
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let mut driver = Driver::in_memory(factory, history.genesis());
    let mut straight = Driver::in_memory(factory, history.genesis());
    for at in 0..history.head() {
        if rng.random_bool(0.2) {
            let fork = history.fork(at, rng.random(), rng.random_range(1..6));
            for n in 0..fork.head() {
                run(&mut driver, &fork, n);
                assert_state(&driver, &fork.states[n + 1], &format!("block {n} of a fork"));
            }
            for n in (1..=fork.head()).rev() {
                undo(&mut driver, &fork, n);
                assert_state(&driver, &fork.states[n - 1], &format!("block {n} of a fork undone"));
            }
            compare(&driver, &remember(&straight), &format!("after a fork at block {at}"));
            let reader = driver.layer().reader().unwrap_or_else(|e| panic!("{e}"));
            assert_reads(&*reader, &history.states[at], &history, &"after a fork");
        }
        run(&mut driver, &history, at);
        run(&mut straight, &history, at);
        compare(&driver, &remember(&straight), &format!("block {}", at + 1));
    }
}

/// Checks that damaged undo records, which come from the disk, are refused, and that the layer continues.
pub fn damaged_undo_records_are_refused(factory: &dyn LayerFactory) {
    let seed = Seed::or(25);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let history = History::random(seed.value(), 12);
    let mut driver = Driver::in_memory(factory, history.genesis());
    for (at, block) in history.blocks.iter().enumerate() {
        run(&mut driver, &history, at);
        let record = &undo_rows(&driver)[at].2;
        let noise = (0..rng.random_range(1..200)).map(|_| rng.random()).collect();
        let cut = record.get(..record.len() / 2).map(<[u8]>::to_vec).unwrap_or_default();
        let longer = [&record[..], &[0]].concat();
        for damaged in [noise, cut, longer] {
            if damaged == *record {
                continue;
            }
            let found = driver.layer().undo(&damaged);
            assert!(found.is_err(), "a record of {} bytes of no meaning was taken", damaged.len());
            assert_state(&driver, &history.states[at + 1], &block.label);
        }
    }
}

/// Checks that an undo record leads from the state after its block to the one before it, even after the layer has run
/// many more blocks, undone them, and run others on another branch. Reads at earlier blocks rely on this.
pub fn undo_records_tell_the_past(factory: &dyn LayerFactory) {
    let history = History::adversarial(Seed::or(26).value());
    let mut driver = Driver::in_memory(factory, history.genesis());
    for at in 0..history.head() {
        run(&mut driver, &history, at);
    }
    let (records, rows) = (undo_rows(&driver), driver.store().snapshot());
    let back_to = history.head() / 2;
    while driver.number() as usize > back_to {
        driver.undo().unwrap_or_else(|e| panic!("undo to block {back_to}: {e}"));
    }
    for block in &history.fork(back_to, Seed::or(28).value(), 30).blocks {
        driver.run(block).unwrap_or_else(|e| panic!("{}: {e}", block.label));
    }
    let mut state = Oracle::clone(&history.states[history.head()]);
    for (at, (_, _, record)) in records.iter().enumerate().rev() {
        let label = &history.blocks[at].label;
        let writes = undo_writes_in_full(&**driver.layer(), record, &rows);
        let writes = writes.unwrap_or_else(|e| panic!("{label}: {e}"));
        for write in writes.accounts() {
            let before = history.states[at].accounts().get(&write.hash).map(|entry| entry.account);
            assert_eq!(write.after, before, "{label}: account {}", write.hash);
        }
        state.apply_set(&writes);
        assert_maps(state.accounts(), history.states[at].accounts(), label);
    }
    let nonsense = driver.layer().undo_records().writes(b"no record", &rows);
    assert!(nonsense.is_err(), "nonsense was taken for a record");
}

type Memory = (Commitment, Vec<Row>);

fn undo_rows(driver: &Driver<'_>) -> Vec<Row> {
    driver.undo_rows().unwrap_or_else(|e| panic!("{e}"))
}

fn remember(driver: &Driver<'_>) -> Memory {
    let rows = driver.rows().unwrap_or_else(|e| panic!("{e}"));
    (driver.layer().commitment(), rows)
}

fn compare(driver: &Driver<'_>, expected: &Memory, context: &str) {
    let (commitment, rows) = remember(driver);
    assert_eq!(commitment, expected.0, "{context}");
    if driver.factory().state_decides_rows() {
        assert_rows(&rows, &expected.1, &context);
    }
}

fn run(driver: &mut Driver<'_>, history: &History, at: usize) {
    let block = &history.blocks[at];
    let done = driver.run(block);
    done.unwrap_or_else(|e| panic!("block {} ({}): {e}", at + 1, block.label));
}

fn undo(driver: &mut Driver<'_>, history: &History, at: usize) {
    let block = &history.blocks[at - 1];
    driver.undo().unwrap_or_else(|e| panic!("undo of block {at} ({}): {e}", block.label));
}
