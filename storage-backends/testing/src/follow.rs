//! What a layer must pass that keeps its commitment in files of its own, which commit by themselves: they follow the store of
//! the chain, whenever the process ends.

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

/// Room for more keys than any history here changes.
pub const ROOMY: usize = 1 << 13;

/// A layer with files that are kept.
pub trait Kept: LayerFactory + Sized {
    /// One whose files are within a directory.
    fn in_dir(dir: &Path) -> Self;

    /// These files with room for so many changed keys that wait to be committed.
    #[must_use]
    fn with_room(self, keys: usize) -> Self;

    /// These files as a command opens them that only reads.
    #[must_use]
    fn read_only(&self) -> Self;

    /// Where the files are.
    fn files(&self) -> &Path;

    /// Whether it commits while there is a fork.
    fn commits_beside_forks(&self) -> bool {
        true
    }
}

/// Makes a test of each part of this suite. The argument is a type that is [`Kept`](crate::follow::Kept).
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

/// A directory, in memory where that can be: the tests end processes, not machines.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.expect("a directory")
}

/// An engine that outlives the layers on it.
pub fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

/// What a layer counts under a name.
pub fn figure(driver: &Driver<'_>, name: &str) -> u64 {
    let figures = driver.layer().figures();
    figures.iter().find(|(found, _)| *found == name).expect("there is such a figure").1
}

/// What a check finds.
pub fn problems(driver: &Driver<'_>) -> Vec<String> {
    driver.layer().check(&mut |_| {}).expect("it can be checked").problems
}

/// A check finds nothing.
pub fn assert_clean(driver: &Driver<'_>, context: &str) {
    let report = driver.layer().check(&mut |_| {}).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(report.problems, Vec::<String>::new(), "{context}");
}

/// The digests of a history, from the genesis on.
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

/// A layer that was opened on an engine.
pub fn opened<'f>(factory: &'f dyn LayerFactory, engine: &Arc<dyn Engine>) -> Driver<'f> {
    Driver::open_on(factory, Arc::clone(engine), &STORE_IN_STEP).expect("opens")
}

/// A layer that was opened on an engine and filled with the genesis of a history.
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

/// Block by block forward or back to a number, with these digests.
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

/// Two chains whose files do not belong to each other.
#[derive(Debug)]
pub struct Strangers<K> {
    /// What the first one ran.
    pub history: History,
    /// Its rows.
    pub engine: Arc<dyn Engine>,
    /// Files that are not there.
    pub lost: K,
    /// The files of the other one.
    pub other: K,
    _dirs: [TempDir; 2],
}

/// Two chains with six blocks each, closed.
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

/// At every write of the chain's store in turn the process ends, before it or after it, with the files as they are: forward,
/// back and forward again.
pub fn a_crash_between_the_two_stores_heals<K: Kept>() {
    let seed = Seed::or(61);
    let history = History::random(seed.value(), 10);
    let digests = digests::<K>(&history);
    // Committed block by block, a few at a time, and only when it is opened.
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
            // A command that only reads sees the same.
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

/// What is not durable in the chain's store is not in the files. What waits is bounded, and made durable where it is more.
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
        // The two blocks after the flush are gone if nothing made them durable, and nothing of them is there.
        let driver = Driver::open_on(&factory, engine, &options).expect("opens again");
        let at = driver.number() as usize;
        assert!((at == 10) == (room > 0), "room for {room} keys: at block {at}");
        assert_eq!(driver.layer().commitment().digest(), digests[at]);
        assert_eq!(figure(&driver, "steps_behind"), 0);
        assert_clean(&driver, "after a crash");
    }
}

/// Many small steps are committed once they are durable, and those above them go on.
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

/// Forks of which each begins before the one before it has ended do not have all steps wait for ever.
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

/// Where the chain's store is flushed by hand, no block becomes durable before that, however many wait.
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

/// A fork, as a proof of an earlier block takes, is not disturbed by the blocks after it, and they are not by the fork.
pub fn a_fork_waits_for_nothing_and_nothing_for_it<K: Kept>() {
    let history = History::random(10, 20);
    for room in [0, ROOMY] {
        let dir = directory();
        // Without room every block is committed where nothing is in the way.
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
