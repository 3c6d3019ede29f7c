//! The suites that every layer passes, and that of layers whose files follow the chain's store.

use polytrie_kv::{Store, StoreOptions, Table};
use polytrie_nomt::{NomtLayer, NomtOptions, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    History,
    follow::{
        Kept, assert_clean, begun, digests, directory, figure, go_to, memory, opened, strangers,
    },
    follow_suite, layer_suite,
    suite::{self, Driver, LayerFactory, STORE_IN_STEP, Verifier, assert_state},
};
use std::{fs, path::Path, sync::Arc};

#[derive(Debug)]
struct Nomt(NomtOptions);

impl Default for Nomt {
    /// Returns options that keep the files in memory if possible: each opening creates some, and a disk syncs each of
    /// them.
    fn default() -> Self {
        let options = NomtOptions::default();
        let memory = Path::new("/dev/shm");
        let temporary = if memory.is_dir() { memory.to_owned() } else { options.temporary };
        Self(NomtOptions { temporary, ..options })
    }
}

impl LayerFactory for Nomt {
    fn tables(&self) -> Vec<Table> {
        NomtLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(NomtLayer::open(store, self.0.clone())?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|commitment, address, slots, proof| {
            verify(commitment.digest(), proof)?.answer(address, slots)
        })
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        let options = NomtOptions { cache_bytes: 0, buckets: 256, threads: 4, ..self.0.clone() };
        vec![Box::new(Self(options))]
    }
}

impl Kept for Nomt {
    fn in_dir(dir: &Path) -> Self {
        Self(NomtOptions { dir: Some(dir.join("nomt")), ..NomtOptions::default() })
    }

    fn with_room(self, keys: usize) -> Self {
        Self(NomtOptions { cache_bytes: keys << 13, ..self.0 })
    }

    fn read_only(&self) -> Self {
        Self(NomtOptions { read_only: true, ..self.0.clone() })
    }

    fn files(&self) -> &Path {
        self.0.dir.as_deref().expect("they are kept")
    }

    fn commits_beside_forks(&self) -> bool {
        false
    }
}

layer_suite!(Nomt::default());
follow_suite!(Nomt);

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Nomt::default());
}

/// Files that are lost, or belong to another state, are created again.
#[test]
fn files_that_do_not_belong_are_made_anew() {
    let strangers = strangers::<Nomt>();
    let reading = strangers.lost.read_only();
    let driver = opened(&reading, &strangers.engine);
    driver.layer().check(&mut |_| {}).map(drop).expect_err("nothing to look at");
    drop(driver);
    assert!(!strangers.lost.files().exists(), "a command that only reads has created files");
    for factory in [&strangers.lost, &strangers.other] {
        // This is the directory that a crash leaves while files are created again.
        let old = factory.files().with_extension("old");
        fs::create_dir_all(old.join("bbn")).expect("a directory");
        let reading = factory.read_only();
        let driver = opened(&reading, &strangers.engine);
        let report = driver.layer().check(&mut |_| {}).map(drop);
        let report = report.expect_err("nothing to look at").to_string();
        assert!(report.contains("make its files anew"), "{report}");
        drop(driver);
        let driver = opened(factory, &strangers.engine);
        assert_state(&driver, &strangers.history.states[6], &"made anew");
        assert_clean(&driver, "made anew");
        assert!(!old.exists(), "{} is left", old.display());
    }
}

/// A hash table that becomes too small grows, with and without waiting steps.
#[test]
fn the_hash_table_grows() {
    let history = History::with_genesis_of(11, 4_000);
    let dir = directory();
    let mut factory = Nomt::in_dir(dir.path());
    factory.0.buckets = 64;
    for flush_every in [1, 4] {
        let options = StoreOptions { flush_every, ..STORE_IN_STEP };
        let mut driver = begun(&factory, memory(), &options, &history);
        for block in &history.blocks {
            driver.run(block).expect("a block");
        }
        assert!(figure(&driver, "buckets") > 64);
        assert_clean(&driver, "grown");
        drop(driver);
        fs::remove_dir_all(factory.files()).expect("the files are there");
    }
}

/// A crash while the crate notes that its hash table grows leaves files that open.
#[test]
fn a_note_of_growth_that_is_not_whole_is_dropped() {
    let history = History::random(24, 3);
    for length in [0, 7, 16] {
        let (dir, engine) = (directory(), memory());
        let factory = Nomt::in_dir(dir.path());
        drop(begun(&factory, engine.clone(), &STORE_IN_STEP, &history));
        fs::write(factory.files().join("ht.rehashing-marker"), vec![0; length]).expect("a file");
        let mut driver = opened(&factory, &engine);
        driver.run(&history.blocks[0]).expect("a block");
        assert_clean(&driver, "opened");
    }
}

/// A commit that fails when a fork is made ends the layer, until it is opened again. Nothing is lost.
#[test]
fn a_commit_that_fails_for_a_fork_ends_the_layer() {
    let history = History::with_genesis_of(24, 1);
    let above = history.fork(history.head(), 25, 100);
    let prove = |driver: &Driver<'_>| {
        let proofs = driver.layer().proofs().expect("it makes proofs");
        proofs.prove(&history.addresses()[0], &[]).map(drop)
    };
    let (dir, engine) = (directory(), memory());
    let mut factory = Nomt::in_dir(dir.path()).with_room(0);
    factory.0.buckets = 64;
    let mut driver = begun(&factory, engine.clone(), &STORE_IN_STEP, &history);
    history.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
    let fork = driver.fork().expect("a fork");
    above.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
    drop(fork);
    // Without this file the hash table cannot grow.
    let [log, aside] = [factory.files(), dir.path()].map(|dir| dir.join("wal"));
    fs::rename(&log, &aside).expect("the log");
    driver.fork().map(drop).expect_err("the hash table cannot grow");
    fs::rename(&aside, &log).expect("the log");
    prove(&driver).expect_err("the layer has ended");
    drop(driver);
    let driver = opened(&factory, &engine);
    prove(&driver).expect("a proof");
    assert_clean(&driver, "opened again");
}

/// A fork that goes far back does not keep the pages of each step.
#[test]
fn a_fork_makes_one_step_of_many() {
    let history = History::random(25, 60);
    let digests = digests::<Nomt>(&history);
    let dir = directory();
    let factory = Nomt::in_dir(dir.path()).with_room(16);
    let mut driver = begun(&factory, memory(), &STORE_IN_STEP, &history);
    go_to(&mut driver, history.head(), &history, &digests, "forward").expect("blocks");
    let (mut fork, mut most) = (driver.fork().expect("a fork"), 0);
    for number in (0..history.head()).rev() {
        go_to(&mut fork, number, &history, &digests, "back").expect("a step back");
        most = most.max(figure(&fork, "steps_behind"));
    }
    assert!(most < 40, "{most} steps wait");
    assert_clean(&fork, "in the end");
}
