//! Tests of writes that fail, and of processes that end between any two writes.

use super::{
    Driver, LayerFactory, STORE_IN_STEP,
    compare::{assert_rows, assert_state, dump},
    driver::empty_engine,
    sessions::finish,
};
use crate::{History, Seed};
use alloy_primitives::B256;
use polytrie_kv::{Engine, KvError, StoreOptions};
use polytrie_kv_testing::{Fault, FaultEngine};
use polytrie_state::{Commitment, StateError};
use std::sync::Arc;

/// Number of the last block that both branches have, where the branch changes.
const STAYS: usize = 5;

/// Checks that a crash at any write is survived: the process ends before or after each write to the engine in turn.
/// The state that is found then is that of some block, and continuing from there leads to the same result.
pub fn a_crash_at_any_write_is_survived(factory: &dyn LayerFactory) {
    let seed = Seed::or(16);
    let history = History::random(seed.value(), 24);
    let mut straight = Driver::in_memory(factory, history.genesis());
    let mut digests = vec![straight.layer().commitment().digest()];
    for block in &history.blocks {
        digests.push(straight.run(block).unwrap_or_else(|e| panic!("{e}")).digest());
    }
    let rows = straight.rows().unwrap_or_else(|e| panic!("{e}"));

    for (flush_every, background) in [(1, false), (5, false), (3, true)] {
        for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
            let context = format!("flushed every {flush_every}, crash at write {at} ({fault:?})");
            let memory = empty_engine(factory);
            let faulty = Arc::new(FaultEngine::new(memory.clone(), fault, at));
            let options = StoreOptions { flush_every, background, ..STORE_IN_STEP };
            // The ended layer is closed, because a layer's own files can be open only once.
            let ended = go_on(factory, faulty.clone(), &options, &history, &digests, &context);
            let ended = ended.map(drop);
            assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");

            let driver = go_on(factory, memory, &options, &history, &digests, &context)
                .unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_rows(&driver.rows().unwrap_or_else(|e| panic!("{e}")), &rows, &context);
            if !faulty.fired() {
                break;
            }
        }
    }
}

/// Opens the layer on the rows that exist and runs the history to its end.
fn go_on<'f>(
    factory: &'f dyn LayerFactory,
    engine: Arc<dyn Engine>,
    options: &StoreOptions,
    history: &History,
    digests: &[B256],
    context: &str,
) -> Result<Driver<'f>, StateError> {
    let mut driver = Driver::open_on(factory, engine, options)?;
    match driver.head() {
        None => {
            driver.load(history.genesis())?;
        }
        Some((number, digest)) => {
            let at = number as usize;
            assert_eq!(digest, digests[at], "{context}: the head row at block {at}");
            let found = driver.layer().commitment().digest();
            assert_eq!(found, digest, "{context}: layer and head row at block {at}");
            assert_state(&driver, &history.states[at], &context);
        }
    }
    for (n, block) in history.blocks.iter().enumerate().skip(driver.number() as usize) {
        assert_eq!(driver.run(block)?.digest(), digests[n + 1], "{context}: block {}", n + 1);
    }
    driver.flush()?;
    assert_state(&driver, &history.states[history.head()], &context);
    Ok(driver)
}

/// Checks that a crash around a change of branch is survived: blocks are undone and others run, with several of both in a
/// flush. The state that is found after a crash at any write is that of a block of either branch, and continuing from there
/// leads to the same result.
pub fn a_crash_around_a_change_of_branch_is_survived(factory: &dyn LayerFactory) {
    let seed = Seed::or(47);
    let old = History::random(seed.value(), 9);
    let new = old.fork(STAYS, seed.value(), 6);
    let mut straight = Driver::in_memory(factory, old.genesis());
    for block in old.blocks[..STAYS].iter().chain(&new.blocks) {
        straight.run(block).unwrap_or_else(|e| panic!("{e}"));
    }
    let expected = straight.layer().commitment();
    for (flush_every, background) in [(3, false), (4, true)] {
        let options = StoreOptions { flush_every, background, ..STORE_IN_STEP };
        for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
            let context = format!(
                "flushed every {flush_every}, crash at write {at} ({fault:?}), seed {}",
                seed.value()
            );
            let run = |engine: Arc<dyn Engine>| {
                let mut driver = Driver::open_on(factory, engine, &options)?;
                change_branch(&mut driver, &old, &new, &context)?;
                assert_eq!(driver.layer().commitment(), expected, "{context}");
                Ok::<_, StateError>(())
            };
            let memory = empty_engine(factory);
            let faulty = Arc::new(FaultEngine::new(memory.clone(), fault, at));
            let ended = run(faulty.clone());
            assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
            run(memory).unwrap_or_else(|e| panic!("{context}: {e}"));
            if !faulty.fired() {
                break;
            }
        }
    }
}

/// Runs the old branch to its end, goes back, and runs the new one. If it has the state of a block of the new branch, it
/// goes on there.
fn change_branch(
    driver: &mut Driver<'_>,
    old: &History,
    new: &History,
    context: &str,
) -> Result<(), StateError> {
    if driver.head().is_none() {
        driver.load(old.genesis())?;
    }
    let (number, found) = (driver.number() as usize, dump(&**driver.layer())?);
    if number <= STAYS || found != *new.states[number - STAYS].accounts() {
        assert_eq!(found, *old.states[number].accounts(), "{context}: block {number}");
        for block in &old.blocks[number..] {
            driver.run(block)?;
        }
        while driver.number() as usize > STAYS {
            driver.undo()?;
        }
        // A flush in the background may have failed by now, which is no fault of the state.
        let found = dump(&**driver.layer())?;
        assert_eq!(found, *old.states[STAYS].accounts(), "{context}: block {STAYS}");
    }
    for block in &new.blocks[driver.number() as usize - STAYS..] {
        driver.run(block)?;
    }
    driver.flush()?;
    assert_state(driver, &new.states[new.head()], &context);
    Ok(())
}

/// Checks that after a failed write every later call fails with the reason, and that nothing continues as if the
/// write had succeeded.
pub fn a_failed_write_poisons(factory: &dyn LayerFactory) {
    let seed = Seed::or(17);
    let history = History::random(seed.value(), 12);
    let writes_to_load = {
        let memory = empty_engine(factory);
        let counting = Arc::new(FaultEngine::new(memory, Fault::Before, 0));
        let mut driver = Driver::open_on(factory, counting.clone(), &STORE_IN_STEP)
            .unwrap_or_else(|e| panic!("{e}"));
        driver.load(history.genesis()).unwrap_or_else(|e| panic!("{e}"));
        counting.writes()
    };
    for (fault, background) in
        [(Fault::Before, false), (Fault::After, false), (Fault::Before, true), (Fault::Panic, true)]
    {
        let context = format!("{fault:?}, background {background}");
        let memory = empty_engine(factory);
        let faulty = Arc::new(FaultEngine::new(memory, fault, writes_to_load + 3));
        let options = StoreOptions { background, ..STORE_IN_STEP };
        let mut driver = Driver::open_on(factory, faulty.clone(), &options)
            .unwrap_or_else(|e| panic!("{context}: {e}"));
        driver.load(history.genesis()).unwrap_or_else(|e| panic!("{context}: {e}"));
        let mut failure = None;
        for block in &history.blocks {
            if let Err(e) = driver.run(block).and_then(|_| driver.flush()) {
                failure = Some(e);
                break;
            }
        }
        assert!(faulty.fired(), "{context}: the fault never came");
        let Some(failure) = failure else { panic!("{context}: a failed write was swallowed") };
        says_why(Err::<(), _>(failure), &context);

        let layer = driver.layer();
        says_why(driver.begin().map(drop), &context);
        says_why(layer.reader().map(drop), &context);
        says_why(driver.undo().map(drop), &context);
        let mut genesis = history.genesis().genesis().map(Ok);
        says_why::<Commitment>(driver.layer().load(&mut genesis), &context);
        says_why(driver.layer().check(&mut |_| {}).map(drop), &context);
        says_why(driver.flush(), &context);

        let memory = empty_engine(factory);
        let faulty = Arc::new(FaultEngine::new(memory, fault, writes_to_load + 3));
        let driver =
            Driver::open_on(factory, faulty, &options).unwrap_or_else(|e| panic!("{context}: {e}"));
        an_outcome_is_refused(driver, &history, &context);
    }
}

/// Checks that a block finished before a failed write is not accepted after it.
fn an_outcome_is_refused(mut driver: Driver<'_>, history: &History, context: &str) {
    let outcome = (|| {
        driver.load(history.genesis())?;
        Ok::<_, StateError>(finish(driver.begin()?, &history.blocks[0].txs)?.outcome)
    })();
    let outcome = outcome.unwrap_or_else(|e| panic!("{context}: {e}"));
    while driver.touch().is_ok() {}
    says_why(outcome.accept(), context);
    says_why(driver.begin().map(drop), context);
}

fn says_why<T>(result: Result<T, StateError>, context: &str) {
    let Err(error) = result else { panic!("{context}: a call after a failed write succeeded") };
    let is_poisoned = match &error {
        StateError::Poisoned(_) | StateError::Store(KvError::Poisoned(_)) => true,
        StateError::Store(first) => matches!(first, KvError::Engine { .. }),
        _ => false,
    };
    assert!(is_poisoned, "{context}: {error:?}");
    assert!(error.to_string().contains("a fault was injected"), "{context}: {error}");
}
