//! Tests for layers that keep their commitment in files of their own. Those files commit separately from the chain's
//! store, and must follow it after any end of the process.

use crate::{
    History, Seed,
    suite::{Driver, LayerFactory, STORE_IN_STEP, assert_state},
};
use alloy_primitives::B256;
use polytrie_kv::{Durability, Engine, MemoryEngine, StoreOptions};
use polytrie_kv_testing::{Fault, FaultEngine};
use polytrie_state::StateError;
use std::{path::Path, sync::Arc};
use tempfile::TempDir;

/// Number of keys that is larger than the number of changes in any history here.
pub const ROOMY: usize = 1 << 13;

/// A layer with files that persist.
pub trait Kept: LayerFactory + Sized {
    /// Returns a factory with its files within a directory.
    fn in_dir(dir: &Path) -> Self;

    /// Returns the same files with room for `keys` changed keys that wait to be committed.
    #[must_use]
    fn with_room(self, keys: usize) -> Self;

    /// Returns the same files, opened as by a command that only reads.
    #[must_use]
    fn read_only(&self) -> Self;

    /// Returns the path of the files.
    fn files(&self) -> &Path;

    /// Whether the layer commits while there is a fork.
    fn commits_beside_forks(&self) -> bool {
        true
    }
}

/// Makes a test of each part of this suite. The argument is a type that implements [`Kept`](crate::follow::Kept).
#[macro_export]
macro_rules! follow_suite {
    ($kept:ty) => {
        $crate::follow_suite! { $kept =>
            a_crash_between_the_two_stores_heals,
            a_fork_waits_for_nothing_and_nothing_for_it,
            forks_without_end_keep_no_step_waiting,
            steps_that_are_durable_are_one_commit,
            the_files_are_never_ahead,
            who_flushes_by_hand_is_asked_to,
        }
    };
    ($kept:ty => $($test:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                $crate::follow::$test::<$kept>();
            }
        )+
    };
}

/// Creates a directory, in memory where possible: the tests end processes, not machines.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.expect("a directory")
}

/// Creates an engine that outlives the layers on it.
pub fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

/// Returns a figure of the layer by its name.
pub fn figure(driver: &Driver<'_>, name: &str) -> u64 {
    let figures = driver.layer().figures();
    figures.iter().find(|(found, _)| *found == name).expect("there is such a figure").1
}

/// Returns the problems that a check finds.
pub fn problems(driver: &Driver<'_>) -> Vec<String> {
    driver.layer().check(&mut |_| {}).expect("it can be checked").problems
}

/// Panics unless a check finds nothing.
pub fn assert_clean(driver: &Driver<'_>, context: &str) {
    let report = driver.layer().check(&mut |_| {}).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(report.problems, Vec::<String>::new(), "{context}");
}

/// Returns the digests of a history, from the genesis on.
pub fn digests<K: Kept>(history: &History) -> Vec<B256> {
    let dir = directory();
    let factory = K::in_dir(dir.path());
    let mut driver = Driver::in_memory(&factory, history.genesis());
    let mut digests = vec![driver.layer().commitment().digest()];
    for block in &history.blocks {
        digests.push(driver.run(block).expect("a block").digest());
    }
    digests
}

/// Opens a layer on an engine.
pub fn opened<'f>(factory: &'f dyn LayerFactory, engine: &Arc<dyn Engine>) -> Driver<'f> {
    Driver::open_on(factory, Arc::clone(engine), &STORE_IN_STEP).expect("opens")
}

/// Opens a layer on an engine and loads the genesis of a history.
pub fn begun<'f>(
    factory: &'f dyn LayerFactory,
    engine: Arc<dyn Engine>,
    options: &StoreOptions,
    history: &History,
) -> Driver<'f> {
    let mut driver = Driver::open_on(factory, engine, options).expect("opens");
    driver.load(history.genesis()).expect("a genesis loads");
    driver
}

/// Runs or undoes blocks one by one up to a number, and compares the digests.
///
/// # Errors
///
/// If the layer or the store fails.
pub fn go_to(
    driver: &mut Driver<'_>,
    number: usize,
    history: &History,
    digests: &[B256],
    context: &str,
) -> Result<(), StateError> {
    while driver.number() as usize != number {
        let at = driver.number() as usize;
        let (found, at) = if at < number {
            (driver.run(&history.blocks[at])?, at + 1)
        } else {
            (driver.undo()?, at - 1)
        };
        assert_eq!(found.digest(), digests[at], "block {at}, {context}");
    }
    Ok(())
}

/// Two chains with files that do not belong to each other.
#[derive(Debug)]
pub struct Strangers<K> {
    /// The history that the first chain ran.
    pub history: History,
    /// The rows of the first chain.
    pub engine: Arc<dyn Engine>,
    /// Files that do not exist.
    pub lost: K,
    /// The files of the other chain.
    pub other: K,
    _dirs: [TempDir; 2],
}

/// Runs two chains of six blocks each and closes them.
pub fn strangers<K: Kept>() -> Strangers<K> {
    let [(first, dir, engine), (_, other, _)] = [8, 9].map(|seed| {
        let (history, dir, engine) = (History::random(seed, 6), directory(), memory());
        let factory = K::in_dir(dir.path());
        let mut driver = begun(&factory, engine.clone(), &STORE_IN_STEP, &history);
        history.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
        (history, dir, engine)
    });
    Strangers {
        history: first,
        engine,
        lost: K::in_dir(&dir.path().join("nowhere")),
        other: K::in_dir(other.path()),
        _dirs: [dir, other],
    }
}

/// Checks that the layer recovers when the process ends between the two stores: before or after each write to the
/// chain's store in turn, with the files as they are, while it runs blocks, undoes them and runs them again.
pub fn a_crash_between_the_two_stores_heals<K: Kept>() {
    let seed = Seed::or(61);
    let history = History::random(seed.value(), 10);
    let digests = digests::<K>(&history);
    // Committed block by block, in small groups, and only when the layer is opened.
    for (flush_every, room) in [(1, 0), (3, 128), (3, ROOMY)] {
        for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
            let context = format!(
                "flushed every {flush_every}, room for {room} keys, crash at write {at} ({fault:?}), seed {}",
                history.seed
            );
            let dir = directory();
            let factory = K::in_dir(dir.path()).with_room(room);
            let memory = memory();
            let faulty = Arc::new(FaultEngine::new(memory.clone(), fault, at));
            let options = StoreOptions { flush_every, ..STORE_IN_STEP };
            let ended = go_on(&factory, faulty.clone(), &options, &history, &digests, &context);
            assert_eq!(ended.is_err(), faulty.fired(), "{context}: a failed write was swallowed");
            // A command that only reads has the same state.
            if fault == Fault::After && factory.files().exists() {
                let reading = factory.read_only();
                let driver = Driver::open_on(&reading, memory.clone(), &options)
                    .unwrap_or_else(|e| panic!("{context}: {e}"));
                if let Some((number, digest)) = driver.head() {
                    assert_eq!(digest, digests[number as usize], "{context}");
                    assert_clean(&driver, &context);
                }
            }
            go_on(&factory, memory, &options, &history, &digests, &context)
                .unwrap_or_else(|e| panic!("{context}: {e}"));
            if !faulty.fired() {
                break;
            }
        }
    }
}

fn go_on(
    factory: &dyn LayerFactory,
    engine: Arc<dyn Engine>,
    options: &StoreOptions,
    history: &History,
    digests: &[B256],
    context: &str,
) -> Result<(), StateError> {
    let mut driver = Driver::open_on(factory, engine, options)?;
    match driver.head() {
        None => drop(driver.load(history.genesis())?),
        Some((number, digest)) => {
            assert_eq!(digest, digests[number as usize], "{context}");
            assert_state(&driver, &history.states[number as usize], &context);
            assert_clean(&driver, context);
        }
    }
    for number in [history.head(), history.head() - 3, history.head()] {
        go_to(&mut driver, number, history, digests, context)?;
    }
    driver.flush()?;
    assert_clean(&driver, context);
    Ok(())
}

/// Checks that the files hold nothing that is not durable in the chain's store, and that the number of waiting
/// changes is bounded: the store is flushed when there are more.
pub fn the_files_are_never_ahead<K: Kept>() {
    let history = History::random(7, 12);
    let digests = digests::<K>(&history);
    let options = StoreOptions { flush_every: 1_000, ..STORE_IN_STEP };
    for room in [ROOMY, 0] {
        let dir = directory();
        let factory = K::in_dir(dir.path()).with_room(room);
        let engine = memory();
        let mut driver = begun(&factory, engine.clone(), &options, &history);
        for (at, block) in history.blocks.iter().enumerate() {
            if at == 10 {
                driver.flush().expect("flushes");
            }
            driver.run(block).expect("a block");
        }
        assert_eq!(figure(&driver, "steps_behind") == 0, room == 0);
        drop(driver);
        // If nothing made them durable, the two blocks after the flush are lost, and the files hold nothing of them.
        let driver = Driver::open_on(&factory, engine, &options).expect("opens again");
        let at = driver.number() as usize;
        assert!((at == 10) == (room > 0), "room for {room} keys: at block {at}");
        assert_eq!(driver.layer().commitment().digest(), digests[at]);
        assert_eq!(figure(&driver, "steps_behind"), 0);
        assert_clean(&driver, "after a crash");
    }
}

/// Checks that many small steps are committed together once they are durable, while the steps above them continue to
/// wait.
pub fn steps_that_are_durable_are_one_commit<K: Kept>() {
    let history = History::random(12, 300);
    let digests = digests::<K>(&history);
    let dir = directory();
    let factory = K::in_dir(dir.path()).with_room(ROOMY);
    let options = StoreOptions { flush_every: 140, ..STORE_IN_STEP };
    let mut driver = begun(&factory, memory(), &options, &history);
    let mut most = 0;
    for number in 1..=history.head() {
        go_to(&mut driver, number, &history, &digests, "forward").expect("a block");
        most = most.max(figure(&driver, "steps_behind"));
    }
    let behind = figure(&driver, "steps_behind");
    assert!(behind < 160 && most >= 128, "{behind} steps wait, {most} at most");
    assert_clean(&driver, "in the end");
}

/// Checks that overlapping forks, each of which begins before the previous one has ended, do not keep all steps
/// waiting.
pub fn forks_without_end_keep_no_step_waiting<K: Kept>() {
    let history = History::random(20, 400);
    let dir = directory();
    let factory = K::in_dir(dir.path()).with_room(ROOMY);
    let mut driver = begun(&factory, memory(), &STORE_IN_STEP, &history);
    let (mut fork, mut refused, mut most) = (None, 0, 0);
    for block in &history.blocks {
        fork = match driver.fork() {
            Ok(next) => Some(next),
            Err(error) => {
                assert!(error.to_string().contains("ask again"), "{error}");
                refused += 1;
                None
            }
        };
        driver.run(block).expect("a block");
        most = most.max(figure(&driver, "steps_behind"));
    }
    drop(fork);
    assert!(most <= 256, "{most} steps wait");
    assert_eq!(refused > 0, !factory.commits_beside_forks(), "{refused} refused");
    assert_clean(&driver, "in the end");
}

/// Checks that, with a store that is flushed by hand, no block becomes durable before a flush, whatever number of
/// steps wait.
pub fn who_flushes_by_hand_is_asked_to<K: Kept>() {
    let history = History::random(12, 300);
    let dir = directory();
    let factory = K::in_dir(dir.path()).with_room(512);
    let durability = Durability::ByHand;
    let options = StoreOptions { durability, flush_every: 1_000, ..STORE_IN_STEP };
    let mut driver = begun(&factory, memory(), &options, &history);
    let flushes = driver.run_by_hand(&history.blocks);
    let behind = figure(&driver, "steps_behind");
    assert!(flushes > 3 && behind < 256, "{flushes} flushes, {behind} steps wait");
    assert_clean(&driver, "in the end");
}

/// Checks that a fork, such as the one for a proof of an earlier block, and the blocks after it do not affect each
/// other.
pub fn a_fork_waits_for_nothing_and_nothing_for_it<K: Kept>() {
    let history = History::random(10, 20);
    for room in [0, ROOMY] {
        let dir = directory();
        // Without room every block is committed where nothing prevents it.
        let factory = K::in_dir(dir.path()).with_room(room);
        let verify = factory.verifier().expect("it makes proofs");
        let mut driver = begun(&factory, memory(), &STORE_IN_STEP, &history);
        let mut commitments = vec![driver.layer().commitment()];
        for block in &history.blocks[..10] {
            commitments.push(driver.run(block).expect("a block"));
        }
        let mut fork = driver.fork().expect("a fork");
        for block in &history.blocks[10..15] {
            driver.run(block).expect("a block");
        }
        let waits = room > 0 || !factory.commits_beside_forks();
        assert_eq!(figure(&driver, "steps_behind") > 0, waits);
        let address = history.addresses()[0];
        for at in (0..10).rev() {
            fork.undo().expect("a step back");
            assert_eq!(fork.layer().commitment(), commitments[at]);
            let proofs = fork.layer().proofs().expect("it makes proofs");
            let proof = proofs.prove(&address, &[]).expect("a proof");
            let expected = history.states[at].account(&address);
            let proven = verify(&commitments[at], &address, &[], &proof);
            assert_eq!(proven, Ok((expected, Vec::new())));
        }
        drop(fork);
        for block in &history.blocks[15..] {
            driver.run(block).expect("a block");
        }
        assert_eq!(figure(&driver, "steps_behind") > 0, room > 0);
        assert_clean(&driver, "after a fork");
    }
}
