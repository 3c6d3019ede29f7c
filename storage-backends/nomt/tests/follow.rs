//! The crate's files follow the store of the chain, whenever the process ends.

use alloy_primitives::B256;
use polytrie_kv::{Engine, MemoryEngine, Store, StoreOptions, Table};
use polytrie_kv_testing::{Fault, FaultEngine};
use polytrie_nomt::{NomtLayer, NomtOptions, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    History, Seed,
    suite::{Driver, LayerFactory, STORE_IN_STEP, assert_state},
};
use std::{fs, path::Path, sync::Arc};
use tempfile::TempDir;

/// The layer with files that are kept.
#[derive(Debug)]
struct Kept(NomtOptions);

impl Kept {
    fn in_dir(dir: &Path) -> Self {
        let dir = Some(dir.join("nomt"));
        Self(NomtOptions { dir, ..NomtOptions::default() })
    }

    fn read_only(&self) -> Self {
        Self(NomtOptions { read_only: true, ..self.0.clone() })
    }
}

impl LayerFactory for Kept {
    fn tables(&self) -> Vec<Table> {
        NomtLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(NomtLayer::open(store, self.0.clone())?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
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

fn assert_clean(driver: &Driver<'_>, context: &str) {
    let report = driver.layer().check(&mut |_| {}).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(report.problems, Vec::<String>::new(), "{context}");
}

/// At every write of the chain's store in turn the process ends, before it or after it, with the crate's files as they
/// are: forward, back and forward again.
#[test]
fn a_crash_between_the_two_stores_heals() {
    let seed = Seed::or(61);
    let history = History::random(seed.value(), 10);
    let plain = Kept(NomtOptions::default());
    let mut driver = Driver::in_memory(&plain, history.genesis());
    let mut straight = vec![driver.layer().commitment().digest()];
    for block in &history.blocks {
        straight.push(driver.run(block).expect("a block").digest());
    }
    // Committed a few blocks at a time, and only when it is opened.
    for (flush_every, cache_bytes) in [(1, 1 << 20), (3, 1 << 20), (3, 64 << 20)] {
        for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
            let context = format!(
                "flushed every {flush_every}, {cache_bytes} bytes, crash at write {at} ({fault:?}), seed {}",
                history.seed
            );
            let dir = directory();
            let mut factory = Kept::in_dir(dir.path());
            factory.0.cache_bytes = cache_bytes;
            let memory: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
            let faulty = Arc::new(FaultEngine::new(memory.clone(), fault, at));
            let options = StoreOptions { flush_every, ..STORE_IN_STEP };
            let ended = go_on(&factory, faulty.clone(), &options, &history, &straight, &context);
            assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
            // A command that only reads sees the same, and leaves the files behind as they are.
            if fault == Fault::After && factory.0.dir.as_ref().is_some_and(|dir| dir.exists()) {
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
    let history = History::random(7, 30);
    let options = StoreOptions { flush_every: 1_000, ..STORE_IN_STEP };
    for cache_bytes in [64 << 20, 0] {
        let dir = directory();
        let mut factory = Kept::in_dir(dir.path());
        factory.0.cache_bytes = cache_bytes;
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let mut driver = Driver::open_on(&factory, engine.clone(), &options).expect("opens");
        let mut commitments = vec![driver.load(history.genesis()).expect("a genesis loads")];
        for (at, block) in history.blocks[..12].iter().enumerate() {
            if at == 10 {
                driver.flush().expect("flushes");
            }
            commitments.push(driver.run(block).expect("a block"));
        }
        assert_eq!(figure(&driver, "steps_behind") == 0, cache_bytes == 0);
        drop(driver);
        // The two blocks after the flush are gone if nothing made them durable, and nothing of them is there.
        let driver = Driver::open_on(&factory, engine, &options).expect("opens again");
        let at = driver.number() as usize;
        assert!((at == 10) == (cache_bytes > 0), "{cache_bytes} bytes: at block {at}");
        assert_eq!(driver.layer().commitment(), commitments[at]);
        assert_eq!(figure(&driver, "steps_behind"), 0);
        assert_clean(&driver, "after a crash");
    }
}

/// Many small steps are committed once they are durable, and those above them go on.
#[test]
fn steps_that_are_durable_are_one_commit() {
    let history = History::random(12, 300);
    let dir = directory();
    let factory = Kept::in_dir(dir.path());
    let options = StoreOptions { flush_every: 140, ..STORE_IN_STEP };
    let engine = Arc::new(MemoryEngine::new());
    let mut driver = Driver::open_on(&factory, engine, &options).expect("opens");
    driver.load(history.genesis()).expect("a genesis loads");
    let plain = Kept(NomtOptions::default());
    let mut plain = Driver::in_memory(&plain, history.genesis());
    let mut most = 0;
    for block in &history.blocks {
        let found = driver.run(block).expect("a block");
        assert_eq!(found, plain.run(block).expect("a block"), "{}", block.label);
        most = most.max(figure(&driver, "steps_behind"));
    }
    let behind = figure(&driver, "steps_behind");
    assert!(behind < 160 && most >= 128, "{behind} steps wait, {most} at most");
    assert_clean(&driver, "in the end");
}

/// Files that are lost, or of another state, are made anew.
#[test]
fn files_that_do_not_belong_are_made_anew() {
    let histories = [History::random(8, 6), History::random(9, 6)];
    let dirs = [(); 2].map(|()| directory());
    let engines = [(); 2].map(|()| Arc::new(MemoryEngine::new()) as Arc<dyn Engine>);
    for ((history, dir), engine) in histories.iter().zip(&dirs).zip(&engines) {
        let factory = Kept::in_dir(dir.path());
        let mut driver = Driver::open_on(&factory, engine.clone(), &STORE_IN_STEP).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        history.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
    }
    let other = Kept::in_dir(dirs[1].path());
    let lost = Kept::in_dir(&dirs[0].path().join("nowhere"));
    for factory in [lost, other] {
        let reading = factory.read_only();
        let driver = Driver::open_on(&reading, engines[0].clone(), &STORE_IN_STEP).expect("opens");
        let report = driver.layer().check(&mut |_| {}).map(drop).expect_err("nothing to look at");
        assert!(report.to_string().contains("make its files anew"), "{report}");
        drop(driver);
        let driver = Driver::open_on(&factory, engines[0].clone(), &STORE_IN_STEP).expect("opens");
        assert_state(&driver, &histories[0].states[6], &"made anew");
        assert_clean(&driver, "made anew");
    }
}

/// A fork, as a proof of an earlier block takes, is not disturbed by the blocks after it, and they are not by the fork.
#[test]
fn a_fork_waits_for_nothing_and_nothing_for_it() {
    let history = History::random(10, 20);
    let dir = directory();
    let mut factory = Kept::in_dir(dir.path());
    // Every block is committed where nothing is in the way.
    factory.0.cache_bytes = 0;
    let engine = Arc::new(MemoryEngine::new());
    let mut driver = Driver::open_on(&factory, engine, &STORE_IN_STEP).expect("opens");
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
    assert!(figure(&driver, "steps_behind") > 0);
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
    assert_eq!(figure(&driver, "steps_behind"), 0);
    assert_clean(&driver, "after a fork");
}

/// A table that becomes too small grows, with steps that wait and without.
#[test]
fn the_hash_table_grows() {
    let history = History::with_genesis_of(11, 4_000);
    let dir = directory();
    let mut factory = Kept::in_dir(dir.path());
    factory.0.buckets = 64;
    for flush_every in [1, 4] {
        let engine = Arc::new(MemoryEngine::new());
        let options = StoreOptions { flush_every, ..STORE_IN_STEP };
        let mut driver = Driver::open_on(&factory, engine, &options).expect("opens");
        driver.load(history.genesis()).expect("a genesis loads");
        for block in &history.blocks {
            driver.run(block).expect("a block");
        }
        assert!(figure(&driver, "buckets") > 64);
        assert_clean(&driver, "grown");
        drop(driver);
        fs::remove_dir_all(dir.path().join("nomt")).expect("the files are there");
    }
}
