//! The flat state in a store of its own.

use super::suites::{Printed, Replica};
use crate::{FlatStore, PaperLayer, PaperOptions, ReplicaLayer, ReplicaOptions};
use polytrie_kv::{Engine, MemoryEngine, Store, StoreOptions};
use polytrie_kv_testing::{Fault, FaultEngine};
use polytrie_state::{StateError, StateLayer};
use polytrie_testing::{
    History, Seed,
    suite::{Driver, LayerFactory, STORE_IN_STEP, assert_state},
};
use std::sync::Arc;

/// As the client opens it: it never flushes by itself.
fn flat_store(engine: Arc<dyn Engine>) -> Store {
    let options =
        StoreOptions { flush_every: u64::MAX, overlay_bytes: usize::MAX, ..STORE_IN_STEP };
    Store::open(engine, ReplicaLayer::FLAT_TABLES, options).expect("a store")
}

#[derive(Debug)]
struct Apart {
    engine: Arc<dyn Engine>,
    is_printed: bool,
}

impl LayerFactory for Apart {
    fn tables(&self) -> Vec<polytrie_kv::Table> {
        ReplicaLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        let flat = Some(FlatStore(flat_store(self.engine.clone())));
        if self.is_printed {
            return Ok(PaperLayer::open(store, PaperOptions { flat, ..Printed::default().0 })?);
        }
        Ok(ReplicaLayer::open(store, ReplicaOptions { flat, ..Replica::default().0 })?)
    }

    fn kind(&self) -> polytrie_state::CommitmentKind {
        polytrie_state::CommitmentKind::StateRoot
    }
}

/// The process ends at every write of the main store in turn, before it or after it: that is, between the
/// two stores and anywhere else. On opening the flat state is where the trie is.
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
    for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let context = format!("crash at write {at} ({fault:?}), seed {}", history.seed);
        let main: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let flat: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let faulty = Arc::new(FaultEngine::new(main.clone(), fault, at));
        let factory = Apart { engine: flat, is_printed };
        let options = StoreOptions { flush_every: 3, ..STORE_IN_STEP };
        let ended = go_on(&factory, faulty.clone(), &options, &history, &context);
        assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
        go_on(&factory, main, &options, &history, &context)
            .unwrap_or_else(|e| panic!("{context}: {e}"));
        if !faulty.fired() {
            return;
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
    // Back a little and forward again: undoing is a change like any other.
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

/// The flat store's own writes fail: the layer says so and does not go on; opening again heals it.
#[test]
fn a_flat_store_that_fails_poisons_and_heals() {
    let seed = Seed::or(52);
    let history = History::random(seed.value(), 1_100);
    let main: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let flat: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    // Its writes are those of the genesis, then one after 1,024 blocks.
    for fault in [Fault::Before, Fault::After] {
        let faulty = Arc::new(FaultEngine::new(flat.clone(), fault, 4));
        let factory = Apart { engine: faulty.clone(), is_printed: false };
        let mut driver = Driver::open_on(&factory, main.clone(), &STORE_IN_STEP).expect("opens");
        if driver.head().is_none() {
            driver.load(history.genesis()).expect("a genesis loads");
        }
        let failed = history
            .blocks
            .iter()
            .skip(driver.number() as usize)
            .find_map(|block| driver.run(block).err());
        if let Some(error) = failed {
            assert!(error.to_string().contains("a fault was injected"), "{error}");
            let error = driver.begin().map(drop).expect_err("poisoned");
            assert!(matches!(error, StateError::Poisoned(_)), "{error:?}");
        }
        drop(driver);
        let factory = Apart { engine: flat.clone(), is_printed: false };
        let driver = Driver::open_on(&factory, main.clone(), &STORE_IN_STEP).expect("opens");
        let at = driver.number() as usize;
        assert_state(&driver, &history.states[at], &format!("healed at block {at}"));
    }
}

/// Two stores that do not belong together, or one that is missing, are not used.
#[test]
fn stores_that_do_not_belong_together_are_refused() {
    let history = History::random(1, 2);
    let engines: Vec<Arc<dyn Engine>> =
        (0..4).map(|_| Arc::new(MemoryEngine::new()) as _).collect();
    for pair in engines.chunks(2) {
        let factory = Apart { engine: pair[1].clone(), is_printed: false };
        let mut driver = Driver::open_on(&factory, pair[0].clone(), &STORE_IN_STEP).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
    }
    let error = Driver::open_on(
        &Apart { engine: engines[3].clone(), is_printed: false },
        engines[0].clone(),
        &STORE_IN_STEP,
    )
    .expect_err("another's flat state");
    assert!(error.to_string().contains("does not belong"), "{error}");
    let error = Driver::open_on(&Replica::default(), engines[0].clone(), &STORE_IN_STEP)
        .expect_err("no flat state");
    assert!(error.to_string().contains("--replica.path"), "{error}");
}
