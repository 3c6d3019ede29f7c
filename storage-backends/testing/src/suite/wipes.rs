//! Tests of contracts that are too large for an undo record, wiped and restored.

use super::{
    Driver, LayerFactory, STORE_IN_STEP,
    compare::{assert_rows, assert_state},
    driver::empty_engine,
    sessions::finish,
};
use crate::{History, Oracle, Seed};
use polytrie_kv_testing::{Fault, FaultEngine, set_row};
use polytrie_state::{SLOTS_A_PIECE, StateError, UndoRecord, WIPED_TABLE, undo_writes_in_full};
use std::{ops::ControlFlow, sync::Arc};

/// Checks that undo records remain small for any wipe, also if a block was discarded and run again; that they lead
/// back to exactly the earlier rows, from the head and in a fork; and that they can be read for earlier blocks.
pub fn large_contracts_are_wiped_and_come_back(factory: &dyn LayerFactory) {
    let history = History::large(Seed::or(41).value());
    let mut driver = Driver::in_memory(factory, history.genesis());
    let rows = |driver: &Driver<'_>| driver.rows().unwrap_or_else(|e| panic!("{e}"));
    let mut seen = vec![rows(&driver)];
    for (at, block) in history.blocks.iter().enumerate() {
        let context = format!("{}, seed {}", block.label, history.seed);
        let fail = |e: StateError| -> ! { panic!("{context}: {e}") };
        let session = driver.begin().unwrap_or_else(|e| fail(e));
        drop(finish(session, &block.txs).unwrap_or_else(|e| fail(e)));
        assert_state(&driver, &history.states[at], &format!("discarded: {context}"));
        driver.run(block).unwrap_or_else(|e| fail(e));
        assert_state(&driver, &history.states[at + 1], &context);
        seen.push(rows(&driver));
    }

    let layer = driver.layer();
    let undo_records = layer.undo_records();
    let mut state = Oracle::clone(&history.states[history.head()]);
    let records = driver.undo_rows().unwrap_or_else(|e| panic!("{e}"));
    for (at, (_, _, record)) in records.iter().enumerate().rev() {
        let label = &history.blocks[at].label;
        let fail = |e: StateError| -> ! { panic!("{label}: {e}") };
        // Other layers may store the changes of a block beside their own writes.
        if UndoRecord::decode(record).is_ok() {
            let length = record.len();
            assert!(length < SLOTS_A_PIECE * 32, "{label}: a record of {length} bytes");
        }
        let named = undo_records.writes(record, driver.store()).unwrap_or_else(|e| fail(e));
        assert!(named.slot_count() < 2 * SLOTS_A_PIECE, "{label}: all slots are listed");
        let writes = undo_writes_in_full(&**layer, record, driver.store());
        state.apply_set(&writes.unwrap_or_else(|e| fail(e)));
        assert!(state.accounts() == history.states[at].accounts(), "{label}: the past");
        for account in named.accounts().iter().map(|write| write.hash) {
            let Some(number) = named.apart(&account) else { continue };
            let slots = &history.states[at].accounts()[&account].slots;
            for (slot, value) in slots.iter().step_by(97) {
                let mut found = None;
                let mut visit = |slot, value| {
                    found = Some((slot, value));
                    Ok(ControlFlow::Break(()))
                };
                undo_records
                    .slots_apart(driver.store(), (number, &account), slot, &mut visit)
                    .unwrap_or_else(|e| fail(e));
                assert_eq!(found, Some((*slot, *value)), "{label}");
            }
        }
    }

    let mut fork = driver.fork().unwrap_or_else(|e| panic!("{e}"));
    for driver in [&mut fork, &mut driver] {
        for at in (0..history.head()).rev() {
            let context = format!("back at block {at}, seed {}", history.seed);
            driver.undo().unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_state(driver, &history.states[at], &context);
            if factory.state_decides_rows() {
                assert_rows(&rows(driver), &seen[at], &context);
            }
        }
    }
    assert_eq!(driver.wiped_rows().unwrap_or_else(|e| panic!("{e}")), []);
    for (at, block) in history.blocks.iter().enumerate() {
        driver.run(block).unwrap_or_else(|e| panic!("{}: {e}", block.label));
        assert_state(&driver, &history.states[at + 1], &format!("again: {}", block.label));
    }
}

/// Checks that an undo of wiped contracts survives a crash: the process ends at each write of the undo in turn, and
/// the undo continues from there to the same result.
pub fn a_crash_on_the_way_back_is_survived(factory: &dyn LayerFactory) {
    let history = History::large(Seed::or(42).value());
    let memory = empty_engine(factory);
    for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let context = format!("crash at write {at} ({fault:?}), seed {}", history.seed);
        let fail = |e: StateError| -> ! { panic!("{context}: {e}") };
        let mut driver =
            Driver::open_on(factory, memory.clone(), &STORE_IN_STEP).unwrap_or_else(|e| fail(e));
        // The way back after the last crash has ended at the genesis.
        if driver.head().is_none() {
            driver.load(history.genesis()).unwrap_or_else(|e| fail(e));
        }
        for block in &history.blocks[..3] {
            driver.run(block).unwrap_or_else(|e| fail(e));
        }
        drop(driver);
        let faulty = Arc::new(FaultEngine::new(memory.clone(), fault, at));
        let mut driver =
            Driver::open_on(factory, faulty.clone(), &STORE_IN_STEP).unwrap_or_else(|e| fail(e));
        let ended = (0..3).try_for_each(|_| driver.undo().map(drop));
        assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
        drop(driver);
        let mut driver =
            Driver::open_on(factory, memory.clone(), &STORE_IN_STEP).unwrap_or_else(|e| fail(e));
        let head = driver.number() as usize;
        assert_state(&driver, &history.states[head], &context);
        for number in (0..head).rev() {
            driver.undo().unwrap_or_else(|e| fail(e));
            assert_state(&driver, &history.states[number], &context);
        }
        if !faulty.fired() {
            break;
        }
    }
}

/// Checks that missing or damaged pieces of an undo record are noticed before anything changes.
pub fn damaged_pieces_are_refused(factory: &dyn LayerFactory) {
    let history = History::large(Seed::or(43).value());
    let mut driver = Driver::in_memory(factory, history.genesis());
    for block in &history.blocks[..2] {
        driver.run(block).unwrap_or_else(|e| panic!("{}: {e}", block.label));
    }
    let pieces = driver.wiped_rows().unwrap_or_else(|e| panic!("{e}"));
    for (_, key, value) in &pieces {
        for damaged in [None, Some([&value[..40], &[value[40] ^ 1], &value[41..]].concat())] {
            set_row(driver.store(), WIPED_TABLE, key, damaged.as_deref());
            let record = &driver.undo_rows().unwrap_or_else(|e| panic!("{e}"))[1].2;
            let read = undo_writes_in_full(&**driver.layer(), record, driver.store());
            assert!(damaged.is_none() || read.is_err(), "a damaged piece was read");
            // A layer that needs no pieces can undo without them.
            if driver.layer().undo_records().steps(record, driver.store()).is_ok() {
                driver.undo().unwrap_or_else(|e| panic!("{e}"));
                assert_state(&driver, &history.states[1], &"back without pieces");
                driver.run(&history.blocks[1]).unwrap_or_else(|e| panic!("{e}"));
            } else {
                assert!(driver.undo().is_err(), "a damaged piece was taken");
                assert_state(&driver, &history.states[2], &"a damaged piece");
            }
            set_row(driver.store(), WIPED_TABLE, key, Some(value));
        }
    }
    driver.undo().unwrap_or_else(|e| panic!("{e}"));
    assert_state(&driver, &history.states[1], &"pieces as they were");
}
