//! Filling a layer from a genesis.

use super::{
    Driver, Ground, LayerFactory, STORE_IN_STEP,
    compare::{assert_commitment, assert_rows, assert_state},
};
use crate::{Block, History, Oracle, Seed};
use polytrie_kv::{
    Engine, MemoryEngine,
    testing::{Fault, FaultEngine},
};
use polytrie_state::{StateError, TxWrites};
use std::sync::Arc;

/// A genesis of no, one, two, a few and many accounts: loaded in one pass it is what blocks build from
/// nothing, and blocks follow on it.
pub fn loading_equals_building(factory: &dyn LayerFactory) {
    let seed = Seed::or(13);
    for accounts in [0, 1, 2, 17, 5_000] {
        let history = History::with_genesis_of(seed.value(), accounts);
        let context = format!("a genesis of {accounts} accounts");
        let mut loaded = Driver::in_memory(factory, history.genesis());
        assert_state(&loaded, history.genesis(), &context);

        let mut built = Driver::in_memory(factory, &Oracle::default());
        for accounts in history.genesis.accounts.chunks(500) {
            let txs = vec![TxWrites { accounts: accounts.to_vec() }];
            let block = Block { label: context.clone(), txs };
            built.run(&block).unwrap_or_else(|e| panic!("{context}: {e}"));
        }
        assert_state(&built, history.genesis(), &context);
        same(&loaded, &built, &context);
        for (block, state) in history.blocks.iter().zip(&history.states[1..]) {
            for driver in [&mut loaded, &mut built] {
                driver.run(block).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert_state(driver, state, &context);
            }
        }
        same(&loaded, &built, &context);
    }
}

fn same(loaded: &Driver<'_>, built: &Driver<'_>, context: &str) {
    if loaded.factory().state_decides_rows() {
        assert_eq!(loaded.layer().commitment(), built.layer().commitment(), "{context}");
        let rows = |driver: &Driver<'_>| driver.rows().unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_rows(&rows(loaded), &rows(built), &context);
    }
}

/// A load that ends in an error, or is cut off at any of its writes, is simply done again, also over what is
/// there already.
pub fn an_interrupted_load_is_repeated(factory: &dyn LayerFactory) {
    let seed = Seed::or(14);
    let large = History::with_genesis_of(seed.value(), 2_000);
    let small = History::with_genesis_of(seed.value() ^ 1, 40);
    let straight = Driver::in_memory(factory, small.genesis());

    for stop in [0, 1, 1_000, 1_999] {
        let ground = Ground::memory();
        let driver = open(factory, &ground);
        let mine = StateError::Protocol("an error of the source");
        let accounts = large.genesis().genesis().map(Ok).take(stop);
        let found = driver.layer().load(&mut accounts.chain([Err(mine.clone())]));
        let Err(found) = found else { panic!("the source's error was swallowed") };
        assert_eq!(found.to_string(), mine.to_string());
        drop(driver);
        again(factory, &ground, &small, &straight, &format!("stopped after {stop} accounts"));
    }

    for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let memory: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let faulty = Arc::new(FaultEngine::new(memory.clone(), fault, at));
        let mut driver = Driver::open_on(factory, faulty.clone(), &STORE_IN_STEP)
            .unwrap_or_else(|e| panic!("{e}"));
        let loaded = driver.load(large.genesis());
        drop(driver);
        assert_eq!(loaded.is_err(), faulty.fired(), "a failed write was swallowed");
        let context = format!("cut off at write {at} ({fault:?})");
        again(factory, &Ground::Memory(memory), &small, &straight, &context);
        if !faulty.fired() {
            break;
        }
    }
}

/// Loads another genesis over what an interrupted load left.
fn again(
    factory: &dyn LayerFactory,
    ground: &Ground,
    history: &History,
    straight: &Driver<'_>,
    context: &str,
) {
    let mut driver = open(factory, ground);
    let found = driver.load(history.genesis()).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_commitment(factory, &found, history.genesis(), &context);
    assert_eq!(found, straight.layer().commitment(), "{context}");
    let mut driver = driver.reopen(ground).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_state(&driver, history.genesis(), &context);
    let rows = |driver: &Driver<'_>| driver.rows().unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_rows(&rows(&driver), &rows(straight), &context);
    for (block, state) in history.blocks.iter().zip(&history.states[1..]) {
        driver.run(block).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_state(&driver, state, &context);
    }
}

fn open<'f>(factory: &'f dyn LayerFactory, ground: &Ground) -> Driver<'f> {
    Driver::open(factory, ground, &STORE_IN_STEP).unwrap_or_else(|e| panic!("{e}"))
}
