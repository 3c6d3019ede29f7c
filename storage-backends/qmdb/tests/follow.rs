//! The crate's files follow the store of the chain, whenever the process ends.

use alloy_primitives::B256;
use polytrie_kv::{Engine, MemoryEngine, Store, StoreOptions, Table};
use polytrie_kv_testing::{Fault, FaultEngine};
use polytrie_qmdb::{QmdbLayer, QmdbOptions, verify};
use polytrie_state::{CommitmentKind, Horizon, StateError, StateLayer};
use polytrie_testing::{
    History, Seed,
    suite::{Driver, LayerFactory, STORE_IN_STEP, assert_state},
};
use std::{fs, path::Path, sync::Arc};
use tempfile::TempDir;

/// The layer with files that are kept.
#[derive(Debug)]
struct Kept(QmdbOptions);

impl Kept {
    fn in_dir(dir: &Path) -> Self {
        Self(QmdbOptions {
            cache_bytes: 1 << 20,
            threads: 1,
            file_operations: 256,
            dir: Some(dir.join("qmdb")),
            temporary: dir.to_owned(),
            read_only: false,
        })
    }

    fn read_only(&self) -> Self {
        Self(QmdbOptions { read_only: true, ..self.0.clone() })
    }
}

impl LayerFactory for Kept {
    fn tables(&self) -> Vec<Table> {
        QmdbLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(QmdbLayer::open(store, self.0.clone())?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn state_decides_rows(&self) -> bool {
        false
    }
}

/// In memory where that can be: the tests end processes, not machines.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.expect("a directory")
}

fn figure(driver: &Driver<'_>, name: &str) -> u64 {
    let figures = driver.layer().figures();
    figures.iter().find(|(found, _)| *found == name).expect("there is such a figure").1
}

fn problems(driver: &Driver<'_>) -> Vec<String> {
    driver.layer().check(&mut |_| {}).expect("it can be checked").problems
}

fn assert_clean(driver: &Driver<'_>, context: &str) {
    assert_eq!(problems(driver), Vec::<String>::new(), "{context}");
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

/// The commitments of a history, from the genesis on.
fn commitments(history: &History) -> Vec<B256> {
    let dir = directory();
    let factory = Kept::in_dir(dir.path());
    let mut driver = Driver::in_memory(&factory, history.genesis());
    let mut straight = vec![driver.layer().commitment().digest()];
    for block in &history.blocks {
        straight.push(driver.run(block).expect("a block").digest());
    }
    straight
}

/// At every write of the chain's store in turn the process ends, before it or after it, with the crate's files as they
/// are: forward, back and forward again.
#[test]
fn a_crash_between_the_two_stores_heals() {
    let history = History::random(Seed::or(61).value(), 10);
    let straight = commitments(&history);
    // Committed block by block, a few at a time, and only when it is opened.
    for (flush_every, cache_bytes) in [(1, 0), (3, 0), (3, 64 << 20)] {
        for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
            let context = format!(
                "flushed every {flush_every}, {cache_bytes} bytes, crash at write {at} ({fault:?}), seed {}",
                history.seed
            );
            let dir = directory();
            let mut factory = Kept::in_dir(dir.path());
            factory.0.cache_bytes = cache_bytes;
            let memory = memory();
            let faulty = Arc::new(FaultEngine::new(memory.clone(), fault, at));
            let options = StoreOptions { flush_every, ..STORE_IN_STEP };
            let ended = go_on(&factory, faulty.clone(), &options, &history, &straight, &context);
            assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
            // A command that only reads sees the same.
            if fault == Fault::After {
                let reading = factory.read_only();
                let driver = Driver::open_on(&reading, memory.clone(), &options)
                    .unwrap_or_else(|e| panic!("{context}: {e}"));
                if let Some((number, digest)) = driver.head() {
                    assert_eq!(digest, straight[number as usize], "{context}");
                    assert_clean(&driver, &context);
                }
            }
            go_on(&factory, memory, &options, &history, &straight, &context)
                .unwrap_or_else(|e| panic!("{context}: {e}"));
            if !faulty.fired() {
                break;
            }
        }
    }
}

fn go_on(
    factory: &Kept,
    engine: Arc<dyn Engine>,
    options: &StoreOptions,
    history: &History,
    straight: &[B256],
    context: &str,
) -> Result<(), StateError> {
    let mut driver = Driver::open_on(factory, engine, options)?;
    match driver.head() {
        None => drop(driver.load(history.genesis())?),
        Some((number, digest)) => {
            assert_eq!(digest, straight[number as usize], "{context}");
            assert_state(&driver, &history.states[number as usize], &context);
            assert_clean(&driver, context);
        }
    }
    let forward = |driver: &mut Driver<'_>| {
        for block in history.blocks.iter().skip(driver.number() as usize) {
            let found = driver.run(block)?.digest();
            assert_eq!(found, straight[driver.number() as usize], "{context}");
        }
        Ok::<_, StateError>(())
    };
    forward(&mut driver)?;
    for _ in 0..3 {
        driver.undo()?;
    }
    forward(&mut driver)?;
    driver.flush()?;
    assert_clean(&driver, context);
    Ok(())
}

/// What is not durable in the chain's store is not in the crate's files. What waits is bounded, and made durable where it
/// is more.
#[test]
fn the_files_are_never_ahead() {
    let history = History::random(7, 12);
    let straight = commitments(&history);
    let options = StoreOptions { flush_every: 1_000, ..STORE_IN_STEP };
    for cache_bytes in [64 << 20, 0] {
        let dir = directory();
        let mut factory = Kept::in_dir(dir.path());
        factory.0.cache_bytes = cache_bytes;
        let engine = memory();
        let mut driver = Driver::open_on(&factory, engine.clone(), &options).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        for (at, block) in history.blocks.iter().enumerate() {
            if at == 10 {
                driver.flush().expect("flushes");
            }
            driver.run(block).expect("a block");
        }
        assert_eq!(figure(&driver, "steps_behind") == 0, cache_bytes == 0);
        drop(driver);
        // The two blocks after the flush are gone if nothing made them durable, and nothing of them is there.
        let driver = Driver::open_on(&factory, engine, &options).expect("opens again");
        let at = driver.number() as usize;
        assert!((at == 10) == (cache_bytes > 0), "{cache_bytes} bytes: at block {at}");
        assert_eq!(driver.layer().commitment().digest(), straight[at]);
        assert_eq!(figure(&driver, "steps_behind"), 0);
        assert_clean(&driver, "after a crash");
    }
}

/// Many small steps are committed once they are durable, and those above them go on.
#[test]
fn steps_that_are_durable_are_one_commit() {
    let history = History::random(12, 300);
    let straight = commitments(&history);
    let dir = directory();
    let mut factory = Kept::in_dir(dir.path());
    factory.0.cache_bytes = 64 << 20;
    let options = StoreOptions { flush_every: 140, ..STORE_IN_STEP };
    let mut driver = Driver::open_on(&factory, memory(), &options).expect("opens");
    driver.load(history.genesis()).expect("a genesis loads");
    let mut most = 0;
    for (block, expected) in history.blocks.iter().zip(&straight[1..]) {
        assert_eq!(driver.run(block).expect("a block").digest(), *expected, "{}", block.label);
        most = most.max(figure(&driver, "steps_behind"));
    }
    let behind = figure(&driver, "steps_behind");
    assert!(behind < 160 && most >= 128, "{behind} steps wait, {most} at most");
    assert_clean(&driver, "in the end");
}

/// What blocks below the last ones that may be taken back needed goes, and these are taken back to the same roots,
/// by the same process and by the next one.
#[test]
fn what_is_pruned_is_not_needed() {
    const WINDOW: usize = 20;
    let history = History::random(13, 200);
    let straight = commitments(&history);
    let dir = directory();
    let mut factory = Kept::in_dir(dir.path());
    factory.0.cache_bytes = 0;
    factory.0.file_operations = 16;
    let engine = memory();
    let mut driver = Driver::open_on(&factory, engine.clone(), &STORE_IN_STEP).expect("opens");
    driver.load(history.genesis()).expect("a genesis loads");
    for (at, block) in history.blocks.iter().enumerate() {
        let undo_from = (at + 1).saturating_sub(WINDOW) as u64;
        driver.layer().advance(Horizon { durable: at as u64, undo_from });
        driver.run(block).expect("a block");
        // As after a restart, which does not know of earlier blocks.
        if at == 100 {
            drop(driver);
            driver = Driver::open_on(&factory, engine.clone(), &STORE_IN_STEP).expect("opens");
        }
    }
    let whole = {
        let dir = directory();
        let factory = Kept::in_dir(dir.path());
        let mut driver = Driver::in_memory(&factory, history.genesis());
        history.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
        assert_clean(&driver, "unpruned");
        figure(&driver, "operations")
    };
    let pruned = figure(&driver, "operations");
    assert!(pruned < whole, "{pruned} operations of {whole}");
    for turn in 0..2 {
        for at in (history.head() - WINDOW..history.head()).rev() {
            assert_eq!(driver.undo().expect("a step back").digest(), straight[at], "turn {turn}");
        }
        drop(driver);
        driver = Driver::open_on(&factory, engine.clone(), &STORE_IN_STEP).expect("opens");
        assert_clean(&driver, "back");
        for (block, expected) in
            history.blocks.iter().zip(&straight[1..]).skip(history.head() - WINDOW)
        {
            assert_eq!(driver.run(block).expect("a block").digest(), *expected, "turn {turn}");
        }
        assert_clean(&driver, "forward");
    }
}

/// Files that are lost, or of another state, are not made up: what can be done is said, and filling is one of it.
#[test]
fn files_that_do_not_belong_are_refused() {
    let histories = [History::random(8, 6), History::random(9, 6)];
    let dirs = [(); 2].map(|()| directory());
    let engines = [(); 2].map(|()| memory());
    for ((history, dir), engine) in histories.iter().zip(&dirs).zip(&engines) {
        let factory = Kept::in_dir(dir.path());
        let mut driver = Driver::open_on(&factory, engine.clone(), &STORE_IN_STEP).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        history.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
    }
    let lost = Kept::in_dir(&dirs[0].path().join("nowhere"));
    let other = Kept::in_dir(dirs[1].path());
    for (factory, says) in [(lost, "put them back"), (other, "does not know")] {
        let mut driver =
            Driver::open_on(&factory, engines[0].clone(), &STORE_IN_STEP).expect("opens");
        let problems = problems(&driver);
        assert!(problems.iter().any(|problem| problem.contains(says)), "{problems:?}");
        assert!(driver.run(&histories[0].blocks[0]).is_err());
        // The rows are all there.
        let reading = factory.read_only();
        drop(driver);
        driver = Driver::open_on(&reading, engines[0].clone(), &STORE_IN_STEP).expect("opens");
        assert_state(&driver, &histories[0].states[6], &"rows");
    }
    let factory = Kept::in_dir(&dirs[0].path().join("nowhere"));
    let mut driver = Driver::open_on(&factory, engines[0].clone(), &STORE_IN_STEP).expect("opens");
    driver.load(histories[0].genesis()).expect("it is filled again");
    driver.run(&histories[0].blocks[0]).expect("a block");
    assert_clean(&driver, "filled again");
}

/// What is filled again leaves nothing of before.
#[test]
fn old_files_go() {
    let history = History::random(14, 3);
    let dir = directory();
    let factory = Kept::in_dir(dir.path());
    let mut driver = Driver::open_on(&factory, memory(), &STORE_IN_STEP).expect("opens");
    for _ in 0..3 {
        driver.load(history.genesis()).expect("a genesis loads");
        let count = fs::read_dir(dir.path().join("qmdb")).expect("a directory").count();
        assert_eq!(count, 1);
    }
    assert_clean(&driver, "in the end");
}

/// A fork, as a proof of an earlier block takes, is not disturbed by the blocks after it, and they are not by the fork.
#[test]
fn a_fork_waits_for_nothing_and_nothing_for_it() {
    let history = History::random(10, 20);
    for cache_bytes in [0, 64 << 20] {
        let dir = directory();
        let mut factory = Kept::in_dir(dir.path());
        factory.0.cache_bytes = cache_bytes;
        let mut driver = Driver::open_on(&factory, memory(), &STORE_IN_STEP).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        let mut commitments = vec![driver.layer().commitment()];
        for block in &history.blocks[..10] {
            driver.run(block).expect("a block");
            commitments.push(driver.layer().commitment());
        }
        let mut fork = driver.fork().expect("a fork");
        for block in &history.blocks[10..15] {
            driver.run(block).expect("a block");
        }
        let address = history.addresses()[0];
        for at in (0..10).rev() {
            fork.undo().expect("a step back");
            assert_eq!(fork.layer().commitment(), commitments[at]);
            let proofs = fork.layer().proofs().expect("it makes proofs");
            let proof = proofs.prove(&address, &[]).expect("a proof");
            let proven = verify(commitments[at].digest(), &proof).expect("it holds");
            let expected = history.states[at].account(&address);
            assert_eq!(proven.answer(&address, &[]), Ok((expected, Vec::new())));
        }
        drop(fork);
        for block in &history.blocks[15..] {
            driver.run(block).expect("a block");
        }
        assert_clean(&driver, "after a fork");
    }
}

/// A fork whose layer went back and on another way before it had files of its own says so.
#[test]
fn a_fork_needs_what_it_comes_from() {
    let history = History::random(15, 8);
    let dir = directory();
    let mut factory = Kept::in_dir(dir.path());
    factory.0.cache_bytes = 0;
    let mut driver = Driver::open_on(&factory, memory(), &STORE_IN_STEP).expect("opens");
    driver.load(history.genesis()).expect("a genesis loads");
    history.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
    let [late, mut early] = [(); 2].map(|()| driver.fork().expect("a fork"));
    for _ in 0..4 {
        driver.undo().expect("a step back");
        early.undo().expect("a step back in a fork");
    }
    early.undo().expect("a step back in a fork");
    let other = history.fork(4, 1, 1);
    driver.run(&other.blocks[0]).expect("another block");
    let address = history.addresses()[0];
    let prove = |fork: &Driver<'_>| {
        fork.layer().proofs().expect("it makes proofs").prove(&address, &[]).map(drop)
    };
    let error = prove(&late).expect_err("its log is gone").to_string();
    assert!(error.contains("gone back below it"), "{error}");
    prove(&early).expect("what is below is still there");
}
