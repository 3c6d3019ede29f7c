//! Tests of scrubbing: no false alarm, and no undetected damage.

use super::{
    Driver, Ground, LayerFactory, STORE_IN_STEP, Scrub,
    driver::{NEVER_DELETED, Row},
};
use crate::{History, Oracle, Seed};
use alloy_primitives::hex;
use polytrie_kv::{Batch, Table};
use polytrie_state::{CheckReport, StateError};
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// Number of rows of each table that are damaged, one after the other.
const SAMPLE: usize = 120;
/// Number of ways in which a row is damaged. They are drawn, so that each way comes to half of the rows.
const WAYS: usize = 3;

/// Checks that an undamaged layer is reported as such, with the right numbers, at any block and after undoing.
pub fn clean_layers_check_clean(factory: &dyn LayerFactory) {
    let seed = Seed::or(21);
    let history = History::adversarial(seed.value());
    let mut driver = Driver::in_memory(factory, history.genesis());
    assert_clean(&driver, history.genesis(), "genesis");
    for (n, block) in history.blocks.iter().enumerate() {
        driver.run(block).unwrap_or_else(|e| panic!("{}: {e}", block.label));
        assert_clean(&driver, &history.states[n + 1], &block.label);
    }
    for at in (0..history.head()).rev() {
        driver.undo().unwrap_or_else(|e| panic!("{e}"));
        if at % 10 == 0 {
            assert_clean(&driver, &history.states[at], "after an undo");
        }
    }
}

fn assert_clean(driver: &Driver<'_>, state: &Oracle, context: &str) {
    let mut last = 0;
    let report = driver.layer().check(&mut |done| {
        assert!(done >= last, "{context}: progress went back from {last} to {done}");
        last = done;
    });
    let report = report.unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(report.problems, Vec::<String>::new(), "{context}");
    assert_eq!(report.accounts, state.accounts().len() as u64, "{context}: accounts");
    let slots = state.accounts().values().map(|entry| entry.slots.len() as u64).sum::<u64>();
    assert_eq!(report.slots, slots, "{context}: slots");
    assert!(last <= report.accounts, "{context}: progress beyond the end");
}

/// Checks that damage is found: each row in turn is damaged, and the layer opened on it and checked. Opening may
/// fail, and checking may fail or report it, but the check must neither pass nor panic.
pub fn damage_is_found(factory: &dyn LayerFactory) {
    let seed = Seed::or(22);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let history = History::with_genesis_of(seed.value(), 60);
    let ground = Ground::of(factory);
    let mut driver = open(factory, &ground).unwrap_or_else(|e| panic!("{e}"));
    driver.load(history.genesis()).unwrap_or_else(|e| panic!("{e}"));
    for block in &history.blocks {
        driver.run(block).unwrap_or_else(|e| panic!("{e}"));
    }
    drop(driver);

    let mut unseen = Vec::new();
    for table in factory.tables() {
        let driver = open(factory, &ground).unwrap_or_else(|e| panic!("{e}"));
        let mut rows = driver.rows_of(table).unwrap_or_else(|e| panic!("{e}"));
        drop(driver);
        rows.shuffle(&mut rng);
        for row in rows.iter().take(SAMPLE) {
            let mut damages = damages(factory, &mut rng, table, row);
            damages.shuffle(&mut rng);
            for (what, damage) in damages.into_iter().take(WAYS) {
                if !is_seen(factory, &ground, &damage, table) {
                    let (name, key, value) = row;
                    let (key, value) = (hex::encode(key), hex::encode(value));
                    unseen.push(format!("{name} {key} -> {value}: {what}"));
                }
            }
        }
    }
    assert!(unseen.is_empty(), "damage that check does not see:\n{}", unseen.join("\n"));
}

/// Returns ways to damage a row that the layer has to notice.
fn damages(
    factory: &dyn LayerFactory,
    rng: &mut ChaCha8Rng,
    table: Table,
    (_, key, value): &Row,
) -> Vec<(String, Batch)> {
    let mut damages: Vec<(String, Batch)> = Vec::new();
    // Each of these rows can be checked by itself, but it is not known whether there should be another one.
    let is_kept = NEVER_DELETED.contains(&table);
    let mut put = |what: &str, value: &[u8]| {
        let mut batch = Batch::new();
        batch.put(table, key, value);
        damages.push((what.to_owned(), batch));
    };
    put("its value of no meaning", &[0xff; 80]);
    if factory.scrub() == Scrub::AnyByte || is_kept {
        if !value.is_empty() {
            let mut flipped = value.clone();
            flipped[rng.random_range(0..value.len())] ^= rng.random_range(1..=255u8);
            put(&format!("its value changed to {}", hex::encode(&flipped)), &flipped);
            put("its last byte cut off", &value[..value.len() - 1]);
        }
        put("a byte added to it", &[&value[..], &[0]].concat());
    } else {
        put("its value cut off", &[]);
    }
    if factory.scrub() == Scrub::AnyByte && !is_kept {
        let mut batch = Batch::new();
        batch.delete(table, key);
        damages.push(("it was removed".to_owned(), batch));
        let mut moved = key.clone();
        if let Some(byte) = moved.last_mut() {
            *byte ^= 1;
            let mut batch = Batch::new();
            batch.delete(table, key);
            batch.put(table, &moved, value);
            damages.push(("it was moved to another key".to_owned(), batch));
        }
    }
    damages
}

/// Whether opening or checking notices the damage. The damage is repaired afterwards.
fn is_seen(factory: &dyn LayerFactory, ground: &Ground, damage: &Batch, table: Table) -> bool {
    let before = open(factory, ground).unwrap_or_else(|e| panic!("{e}"));
    let rows = before.rows_of(table).unwrap_or_else(|e| panic!("{e}"));
    before.store().write(damage.clone()).unwrap_or_else(|e| panic!("{e}"));
    let damaged = before.rows_of(table).unwrap_or_else(|e| panic!("{e}"));
    let store = before.store().clone();
    drop(before);

    let checked: Result<CheckReport, StateError> =
        open(factory, ground).and_then(|driver| driver.layer().check(&mut |_| {}));
    let seen = checked.map_or(true, |report| !report.problems.is_empty());

    let mut repair = Batch::new();
    // Both lists are in the order of the keys.
    for (_, extra, _) in damaged.iter().filter(|row| rows.binary_search(row).is_err()) {
        repair.delete(table, extra);
    }
    // A row that takes the place of another one does away with that, too.
    for (_, key, value) in rows.iter().filter(|row| damaged.binary_search(row).is_err()) {
        repair.put(table, key, value);
    }
    store.write(repair).unwrap_or_else(|e| panic!("{e}"));
    seen
}

fn open<'f>(factory: &'f dyn LayerFactory, ground: &Ground) -> Result<Driver<'f>, StateError> {
    Driver::open(factory, ground, &STORE_IN_STEP)
}
