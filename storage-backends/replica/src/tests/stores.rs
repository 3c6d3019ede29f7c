//! Tests of the flat state in a second store.

use super::suites::{Printed, Replica};
use crate::{FlatStore, JOURNAL, META, PaperLayer, PaperOptions, ReplicaLayer, ReplicaOptions};
use alloy_primitives::B256;
use parking_lot::Mutex;
use polytrie_kv::{
    Batch, Changes, Durability, Engine, KeyRange, KvError, MemoryEngine, Store, StoreOptions,
};
use polytrie_kv_testing::{Fault, FaultEngine, Wrapped, entries, set_row};
use polytrie_state::{BlockRef, StateError, StateLayer};
use polytrie_testing::{
    History, Seed,
    follow::{assert_clean, problems},
    suite::{Driver, LayerFactory, STORE_IN_STEP, assert_state},
};
use std::sync::Arc;

/// Opens a store like the client does: it never flushes automatically.
fn flat_store(engine: Arc<dyn Engine>, flush_every: u64) -> Store {
    let (durability, overlay_bytes) = (Durability::ByHand, usize::MAX);
    let options = StoreOptions { durability, flush_every, overlay_bytes, ..STORE_IN_STEP };
    Store::open(engine, ReplicaLayer::FLAT_TABLES, options).expect("a store")
}

#[derive(Debug)]
struct Apart {
    engine: Arc<dyn Engine>,
    /// Number of changes after which the flat store should be flushed.
    flush_every: u64,
    is_printed: bool,
}

impl Apart {
    fn on(engine: Arc<dyn Engine>) -> Self {
        Self { engine, flush_every: u64::MAX, is_printed: false }
    }
}

impl LayerFactory for Apart {
    fn tables(&self) -> Vec<polytrie_kv::Table> {
        ReplicaLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        let flat = Some(FlatStore(flat_store(self.engine.clone(), self.flush_every)));
        if self.is_printed {
            return Ok(PaperLayer::open(store, PaperOptions { flat, ..Printed::default().0 })?);
        }
        Ok(ReplicaLayer::open(store, ReplicaOptions { flat, ..Replica::default().0 })?)
    }
}

/// The process ends at each write of either store, before it or after it: between the two stores and anywhere else.
/// After opening, the flat state is that of the trie.
#[test]
fn a_crash_between_the_two_stores_heals() {
    crash_between_the_two_stores(false);
}

#[test]
fn a_crash_between_the_two_stores_heals_in_the_mode_of_the_paper() {
    crash_between_the_two_stores(true);
}

fn crash_between_the_two_stores(is_printed: bool) {
    let seed = Seed::or(51);
    let history = History::random(seed.value(), 24);
    let options = StoreOptions { flush_every: 3, ..STORE_IN_STEP };
    // The flat store is flushed never, or every second change, and the write that fails is in one of the two stores.
    for (flush_every, is_flat) in [(u64::MAX, false), (2, false), (2, true)] {
        for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
            let context = format!(
                "flushed every {flush_every}, crash at write {at} ({fault:?}), flat {is_flat}, seed {}",
                history.seed
            );
            let [main, flat] = [(); 2].map(|()| Arc::new(MemoryEngine::new()) as Arc<dyn Engine>);
            let on =
                |engine: Arc<dyn Engine>| Apart { flush_every, is_printed, ..Apart::on(engine) };
            let inner = if is_flat { flat.clone() } else { main.clone() };
            let faulty = Arc::new(FaultEngine::new(inner, fault, at));
            let ended = match is_flat {
                true => go_on(&on(faulty.clone()), main.clone(), &options, &history, &context),
                false => go_on(&on(flat.clone()), faulty.clone(), &options, &history, &context),
            };
            assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
            go_on(&on(flat), main, &options, &history, &context)
                .unwrap_or_else(|e| panic!("{context}: {e}"));
            if !faulty.fired() {
                break;
            }
        }
    }
}

fn go_on(
    factory: &Apart,
    engine: Arc<dyn Engine>,
    options: &StoreOptions,
    history: &History,
    context: &str,
) -> Result<(), StateError> {
    let mut driver = Driver::open_on(factory, engine, options)?;
    match driver.head() {
        None => drop(driver.load(history.genesis())?),
        Some((number, _)) => {
            assert_state(&driver, &history.states[number as usize], &context);
            let report = driver.layer().check(&mut |_| {})?;
            assert_eq!(report.problems, Vec::<String>::new(), "{context}");
        }
    }
    for block in history.blocks.iter().skip(driver.number() as usize) {
        driver.run(block)?;
    }
    // Blocks are undone and run again: undoing is a change like any other.
    for _ in 0..5 {
        driver.undo()?;
    }
    for block in history.blocks.iter().skip(driver.number() as usize) {
        driver.run(block)?;
    }
    driver.flush()?;
    assert_state(&driver, &history.states[history.head()], &context);
    Ok(())
}

/// A write of the flat store fails: the layer reports it and does not go on; opening it again heals it.
#[test]
fn a_flat_store_that_fails_poisons_and_heals() {
    let seed = Seed::or(52);
    let history = History::random(seed.value(), 40);
    for is_printed in [false, true] {
        let [main, flat] = [(); 2].map(|()| Arc::new(MemoryEngine::new()) as Arc<dyn Engine>);
        let on =
            |engine: Arc<dyn Engine>| Apart { flush_every: 4, is_printed, ..Apart::on(engine) };
        let sound = on(flat.clone());
        let mut driver = Driver::open_on(&sound, main.clone(), &STORE_IN_STEP).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        drop(driver);
        for fault in [Fault::Before, Fault::After] {
            let factory = on(Arc::new(FaultEngine::new(flat.clone(), fault, 2)));
            let mut driver =
                Driver::open_on(&factory, main.clone(), &STORE_IN_STEP).expect("opens");
            let blocks = history.blocks.iter().skip(driver.number() as usize);
            let failed = blocks.map(|block| driver.run(block)).find_map(Result::err);
            let error = failed.expect("a flush of the flat store fails");
            assert!(error.to_string().contains("a fault was injected"), "{error}");
            let error = driver.begin().map(drop).expect_err("poisoned");
            assert!(matches!(error, StateError::Poisoned(_)), "{error:?}");
            drop(driver);
            let driver = Driver::open_on(&sound, main.clone(), &STORE_IN_STEP).expect("opens");
            let at = driver.number() as usize;
            assert_state(&driver, &history.states[at], &format!("healed at block {at}"));
        }
    }
}

/// Returns an engine with the rows that this one has of a flat store.
fn copy_of(engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
    let (from, mut rows) = (flat_store(engine, 1), Batch::new());
    for table in ReplicaLayer::FLAT_TABLES {
        for (key, value) in entries(&from, *table, KeyRange::ALL) {
            rows.put(*table, &key, &value);
        }
    }
    let copy: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    flat_store(copy.clone(), 1).engine_write(&rows).expect("a write");
    copy
}

/// If one of the two stores was repaired or replaced by an older copy, the journal does not lead from one to the
/// other: the flat state is made anew from the trie.
#[test]
fn a_flat_store_that_is_not_on_the_journal_is_made_anew() {
    let history = History::random(55, 20);
    for is_printed in [false, true] {
        let [main, flat] = [(); 2].map(|()| Arc::new(MemoryEngine::new()) as Arc<dyn Engine>);
        let on =
            |engine: Arc<dyn Engine>| Apart { flush_every: 4, is_printed, ..Apart::on(engine) };
        let factory = on(flat.clone());
        let mut driver = Driver::open_on(&factory, main.clone(), &STORE_IN_STEP).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        let behind = copy_of(flat.clone());
        for block in &history.blocks {
            driver.run(block).expect("a block");
        }
        drop(driver);
        let ahead = copy_of(flat);
        let mut batch = Batch::new();
        batch.put(META, b"seq", &1_000_u64.to_be_bytes());
        flat_store(ahead.clone(), 1).engine_write(&batch).expect("a write");
        for (flat, head) in [(behind, history.head()), (ahead, history.head() - 1)] {
            let factory = on(flat);
            let mut driver =
                Driver::open_on(&factory, main.clone(), &STORE_IN_STEP).expect("opens");
            assert_state(&driver, &history.states[head], &"made anew");
            assert_clean(&driver, "made anew");
            driver.undo().expect("a step back");
            assert_state(&driver, &history.states[head - 1], &"a step back");
        }
    }
}

/// A damaged row of the journal is found in either mode.
#[test]
fn a_damaged_row_of_the_journal_is_found() {
    let history = History::random(54, 3);
    for is_printed in [false, true] {
        let [main, flat] = [(); 2].map(|()| Arc::new(MemoryEngine::new()) as Arc<dyn Engine>);
        let factory = Apart { is_printed, ..Apart::on(flat) };
        let mut driver = Driver::open_on(&factory, main, &STORE_IN_STEP).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        for block in &history.blocks {
            driver.run(block).expect("a block");
        }
        assert_clean(&driver, "as it was written");
        set_row(driver.store(), JOURNAL, &2_u64.to_be_bytes(), Some(&[0xff]));
        assert_eq!(problems(&driver).len(), 1);
    }
}

/// If the main store is flushed by hand, the flat one requests that flush and waits for it, and is never ahead.
#[test]
fn a_main_store_that_is_flushed_by_hand_is_asked_for_it() {
    let history = History::random(53, 30);
    let [main, flat] = [(); 2].map(|()| Arc::new(MemoryEngine::new()) as Arc<dyn Engine>);
    let factory = Apart { flush_every: 4, ..Apart::on(flat) };
    let durability = Durability::ByHand;
    let options = StoreOptions { durability, flush_every: 1_000, ..STORE_IN_STEP };
    let mut driver = Driver::open_on(&factory, main.clone(), &options).expect("opens");
    driver.load(history.genesis()).expect("a genesis loads");
    let flushes = driver.run_by_hand(&history.blocks);
    assert!(flushes > 3, "{flushes} flushes");
    drop(driver);
    let driver = Driver::open_on(&factory, main, &options).expect("opens again");
    let at = driver.number() as usize;
    assert_state(&driver, &history.states[at], &format!("after a crash, at block {at}"));
}

/// Two stores that do not belong together, or a missing one, are refused.
#[test]
fn stores_that_do_not_belong_together_are_refused() {
    let history = History::random(1, 2);
    let engines: Vec<Arc<dyn Engine>> =
        (0..4).map(|_| Arc::new(MemoryEngine::new()) as _).collect();
    for pair in engines.chunks(2) {
        let factory = Apart::on(pair[1].clone());
        let mut driver = Driver::open_on(&factory, pair[0].clone(), &STORE_IN_STEP).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
    }
    let error = Driver::open_on(&Apart::on(engines[3].clone()), engines[0].clone(), &STORE_IN_STEP)
        .expect_err("another's flat state");
    assert!(error.to_string().contains("does not belong"), "{error}");
    let error = Driver::open_on(&Replica::default(), engines[0].clone(), &STORE_IN_STEP)
        .expect_err("no flat state");
    assert!(error.to_string().contains("--replica.path"), "{error}");
}

/// An engine that begins a block while it writes.
#[derive(Debug, Default)]
struct BeginsBlocks {
    inner: MemoryEngine,
    layer: Mutex<Option<Arc<dyn StateLayer>>>,
    /// The number of blocks that were begun, and of those that were refused.
    asked: Mutex<[u64; 2]>,
}

polytrie_kv_testing::wrapped!(BeginsBlocks);

impl Wrapped for BeginsBlocks {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }

    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        let layer = self.layer.lock().clone();
        if let Some(layer) = layer {
            let begun = layer.begin(BlockRef { number: 0, hash: B256::ZERO });
            self.asked.lock()[usize::from(begun.is_err())] += 1;
        }
        self.inner.write(changes)
    }
}

/// A block begins when the flat store has the change before it, not as soon as the trie has it.
#[test]
fn no_block_begins_between_the_two_stores() {
    let history = History::random(56, 30);
    for is_printed in [false, true] {
        let flat = Arc::new(BeginsBlocks::default());
        let factory = Apart { flush_every: 1, is_printed, ..Apart::on(flat.clone()) };
        let durability = Durability::ByHand;
        let options = StoreOptions { durability, flush_every: 1_000, ..STORE_IN_STEP };
        let main = Arc::new(MemoryEngine::new());
        let mut driver = Driver::open_on(&factory, main, &options).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        *flat.layer.lock() = Some(driver.layer().clone());
        driver.run_by_hand(&history.blocks);
        *flat.layer.lock() = None;
        let [begun, refused] = *flat.asked.lock();
        assert_eq!(begun, 0);
        assert!(refused > 3, "{refused} writes of the flat store within blocks");
    }
}
