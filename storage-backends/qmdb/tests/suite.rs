//! The suites that every layer passes, and that of layers whose files follow the chain's store.

use alloy_primitives::{hex, keccak256};
use parking_lot::Mutex;
use polytrie_kv::{Batch, Changes, Engine, KvError, MemoryEngine, Store, StoreOptions, Table};
use polytrie_kv_testing::{Fault, FaultEngine, Wrapped, wrapped};
use polytrie_qmdb::{QmdbLayer, QmdbOptions, verify};
use polytrie_state::{CommitmentKind, Horizon, StateError, StateLayer};
use polytrie_testing::{
    History,
    follow::{
        Kept, ROOMY, assert_clean, begun, digests, directory, figure, go_to, memory, opened,
        problems, strangers,
    },
    follow_suite, layer_suite,
    suite::{self, Driver, LayerFactory, STORE_IN_STEP, Verifier, assert_state},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};
use tempfile::TempDir;

/// A factory whose stores have their files in one directory, each with a separate number. The rows alone cannot
/// recreate the files, so they are kept while stores are closed and opened.
#[derive(Debug)]
struct Qmdb {
    options: QmdbOptions,
    /// The directory, if it should be removed with the factory.
    _dir: Option<Arc<TempDir>>,
}

impl Default for Qmdb {
    fn default() -> Self {
        let dir = directory();
        let mut kept = Self::in_dir(dir.path());
        (kept.options.cache_bytes, kept.options.file_operations) = (256 << 10, 1 << 10);
        Self { _dir: Some(Arc::new(dir)), ..kept }
    }
}

impl LayerFactory for Qmdb {
    fn tables(&self) -> Vec<Table> {
        QmdbLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(QmdbLayer::open(store, self.options.clone())?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn state_decides_rows(&self) -> bool {
        // The root depends on the history of the state.
        false
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|commitment, address, slots, proof| {
            verify(commitment.digest(), proof)?.answer(address, slots)
        })
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        let each_block = QmdbOptions { cache_bytes: 0, threads: 4, ..self.options.clone() };
        let many = QmdbOptions { cache_bytes: 64 << 20, ..self.options.clone() };
        let variant = |options| Self { options, _dir: self._dir.clone() };
        [each_block, many].map(|options| Box::new(variant(options)) as _).into()
    }
}

impl Kept for Qmdb {
    fn in_dir(dir: &Path) -> Self {
        let options = QmdbOptions {
            cache_bytes: 1 << 20,
            threads: 1,
            file_operations: 256,
            dir: Some(dir.join("qmdb")),
            temporary: dir.to_owned(),
            read_only: false,
        };
        Self { options, _dir: None }
    }

    fn with_room(mut self, keys: usize) -> Self {
        self.options.cache_bytes = keys << 10;
        self
    }

    fn read_only(&self) -> Self {
        let options = QmdbOptions { read_only: true, ..self.options.clone() };
        Self { options, _dir: None }
    }

    fn files(&self) -> &Path {
        self.options.dir.as_deref().expect("they are kept")
    }
}

layer_suite!(Qmdb::default());
follow_suite!(Qmdb);

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Qmdb::default());
}

/// Number of blocks that may be undone while files are pruned.
const WINDOW: usize = 20;

/// Runs the next block, after the layer got the horizon of the chain.
fn run_next(driver: &mut Driver<'_>, history: &History) {
    let at = driver.number();
    let undo_from = (at + 1).saturating_sub(WINDOW as u64);
    driver.layer().advance(Horizon { durable: at, undo_from });
    driver.run(&history.blocks[at as usize]).expect("a block");
}

/// Data is pruned that only blocks below the undoable ones needed, and the undoable ones are undone to the same
/// roots, by the same process and by the next one.
#[test]
fn what_is_pruned_is_not_needed() {
    let history = History::random(13, 200);
    let digests = digests::<Qmdb>(&history);
    let dir = directory();
    let mut factory = Qmdb::in_dir(dir.path()).with_room(0);
    factory.options.file_operations = 16;
    let engine = memory();
    let mut driver = begun(&factory, engine.clone(), &STORE_IN_STEP, &history);
    for at in 0..history.head() {
        run_next(&mut driver, &history);
        // This is like a restart, after which the layer does not know of earlier blocks.
        if at == 100 {
            drop(driver);
            driver = opened(&factory, &engine);
        }
    }
    let whole = {
        let dir = directory();
        let factory = Qmdb::in_dir(dir.path());
        let mut driver = Driver::in_memory(&factory, history.genesis());
        go_to(&mut driver, history.head(), &history, &digests, "unpruned").expect("blocks");
        assert_clean(&driver, "unpruned");
        figure(&driver, "operations")
    };
    let pruned = figure(&driver, "operations");
    assert!(pruned < whole, "{pruned} operations of {whole}");
    for turn in ["the same process", "the next one"] {
        let (from, to) = (history.head() - WINDOW, history.head());
        go_to(&mut driver, from, &history, &digests, turn).expect("blocks are taken back");
        drop(driver);
        driver = opened(&factory, &engine);
        assert_clean(&driver, "back");
        go_to(&mut driver, to, &history, &digests, turn).expect("blocks");
        assert_clean(&driver, "forward");
    }
}

/// An engine whose next write waits until the test opens a gate.
#[derive(Debug, Default)]
struct Gated {
    rows: MemoryEngine,
    gate: Mutex<Option<mpsc::Receiver<()>>>,
}

wrapped!(Gated);

impl Wrapped for Gated {
    fn inner(&self) -> &dyn Engine {
        &self.rows
    }

    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        let gate = self.gate.lock().take();
        if let Some(gate) = gate {
            // If the test is gone, the write does not wait.
            let _ = gate.recv();
        }
        self.rows.write(changes)
    }
}

/// Blocks that are not durable yet prune nothing: after a crash, the blocks can still be undone that could be
/// when the last durable one came.
#[test]
fn what_is_not_durable_prunes_nothing() {
    let history = History::random(16, 241);
    let digests = digests::<Qmdb>(&history);
    let dir = directory();
    let mut factory = Qmdb::in_dir(dir.path()).with_room(1 << 16);
    factory.options.file_operations = 16;
    let engine = Arc::new(Gated::default());
    let options = StoreOptions { flush_every: 180, background: true, ..STORE_IN_STEP };
    let mut driver = begun(&factory, engine.clone(), &options, &history);
    let before = driver.store().progress().durable;
    let (open, gate) = mpsc::channel();
    *engine.gate.lock() = Some(gate);
    for _ in 0..240 {
        run_next(&mut driver, &history);
    }
    assert_eq!(driver.store().progress().durable, before);
    open.send(()).expect("a write waits");
    while driver.store().progress().durable == before {
        thread::yield_now();
    }
    // This block finds that many are durable, and 60 are not.
    run_next(&mut driver, &history);
    assert!(figure(&driver, "steps_behind") < 128);
    drop(driver);
    let mut driver = Driver::open_on(&factory, engine, &options).expect("opens");
    let durable = driver.number() as usize;
    assert!((160..200).contains(&durable), "block {durable}");
    go_to(&mut driver, durable - WINDOW, &history, &digests, "back")
        .expect("they can be taken back");
    assert_clean(&driver, "back");
}

/// Files that are lost, or belong to another state, are not recreated: the error says what to do, and filling again
/// is one way.
#[test]
fn files_that_do_not_belong_are_refused() {
    let strangers = strangers::<Qmdb>();
    for (factory, says) in [(&strangers.lost, "put them back"), (&strangers.other, "does not know")]
    {
        let mut driver = opened(factory, &strangers.engine);
        let problems = problems(&driver);
        assert!(problems.iter().any(|problem| problem.contains(says)), "{problems:?}");
        assert!(driver.run(&strangers.history.blocks[0]).is_err());
        drop(driver);
        // The rows are all there.
        let reading = factory.read_only();
        assert_state(&opened(&reading, &strangers.engine), &strangers.history.states[6], &"rows");
    }
    let mut driver = opened(&strangers.lost, &strangers.engine);
    driver.load(strangers.history.genesis()).expect("it is filled again");
    driver.run(&strangers.history.blocks[0]).expect("a block");
    assert_clean(&driver, "filled again");
}

/// Files that are ahead of the chain's store, which was repaired or replaced by an older copy, are cut to its end: for
/// a command that only reads in a copy, and for one that goes on.
#[test]
fn files_that_are_ahead_are_cut() {
    let history = History::random(22, 9);
    let digests = digests::<Qmdb>(&history);
    let [(ahead, _), (_behind, engine)] = [9, 6].map(|number| {
        let (dir, engine) = (directory(), memory());
        let factory = Qmdb::in_dir(dir.path()).with_room(0);
        let mut driver = begun(&factory, engine.clone(), &STORE_IN_STEP, &history);
        go_to(&mut driver, number, &history, &digests, "at first").expect("blocks");
        (dir, engine)
    });
    let factory = Qmdb::in_dir(ahead.path()).with_room(0);
    let before = content(factory.files());
    let reading = factory.read_only();
    let driver = opened(&reading, &engine);
    assert_clean(&driver, "only read");
    drop(driver);
    assert!(content(factory.files()) == before, "what is only read changes nothing");
    let mut driver = opened(&factory, &engine);
    assert_eq!(driver.layer().commitment().digest(), digests[6]);
    assert_clean(&driver, "cut");
    go_to(&mut driver, 9, &history, &digests, "again").expect("blocks");
    assert_clean(&driver, "again");
}

/// Wherever a crash comes while the log is cut back over several blocks, what it leaves is on the trail: files of the
/// log go one by one, the newest first.
#[test]
fn a_log_that_is_half_cut_is_on_the_trail() {
    let history = History::random(23, 12);
    let digests = digests::<Qmdb>(&history);
    let (dir, engine) = (directory(), memory());
    let factory = Qmdb::in_dir(dir.path()).with_room(0);
    let mut driver = begun(&factory, engine.clone(), &STORE_IN_STEP, &history);
    go_to(&mut driver, 9, &history, &digests, "at first").expect("blocks");
    drop(driver);
    let half = content(factory.files());
    let mut driver = opened(&factory, &engine);
    go_to(&mut driver, 12, &history, &digests, "forward").expect("blocks");
    go_to(&mut driver, 5, &history, &digests, "back").expect("blocks are taken back");
    drop(driver);
    fs::remove_dir_all(factory.files()).expect("the files are there");
    for (path, bytes) in &half {
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }
    let mut driver = opened(&factory, &engine);
    assert_eq!(driver.layer().commitment().digest(), digests[5]);
    assert_clean(&driver, "cut");
    go_to(&mut driver, 12, &history, &digests, "again").expect("blocks");
    assert_clean(&driver, "again");
}

/// Filling a layer again leaves no old files.
#[test]
fn old_files_go() {
    let history = History::random(14, 3);
    let dir = directory();
    let factory = Qmdb::in_dir(dir.path());
    let mut driver = Driver::open_on(&factory, memory(), &STORE_IN_STEP).expect("opens");
    for _ in 0..3 {
        driver.load(history.genesis()).expect("a genesis loads");
        assert_eq!(fs::read_dir(factory.files()).expect("a directory").count(), 1);
    }
    assert_clean(&driver, "in the end");
}

/// Wherever a process ends that fills a layer again, the next filling leaves none of the old files, nor of those of
/// that process.
#[test]
fn old_files_go_after_a_crash() {
    let history = History::random(14, 3);
    for (at, fault) in (1..).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let (dir, engine) = (directory(), memory());
        let factory = Qmdb::in_dir(dir.path());
        drop(begun(&factory, engine.clone(), &STORE_IN_STEP, &history));
        let faulty = Arc::new(FaultEngine::new(engine.clone(), fault, at));
        let mut driver = Driver::open_on(&factory, faulty.clone(), &STORE_IN_STEP).expect("opens");
        let ended = driver.load(history.genesis()).map(drop);
        assert_eq!(ended.is_err(), faulty.fired(), "write {at} ({fault:?})");
        drop(driver);
        let mut driver = opened(&factory, &engine);
        driver.load(history.genesis()).expect("it is filled");
        assert_clean(&driver, "filled again");
        let numbers = fs::read_dir(factory.files()).expect("a directory");
        // A number that was only reserved has no files.
        let there = numbers.filter(|number| {
            number.as_ref().is_ok_and(|number| number.path().join(".hold").exists())
        });
        assert_eq!(there.count(), 1, "write {at} ({fault:?})");
        if !faulty.fired() {
            break;
        }
    }
}

/// Nothing is lost if a layer cannot be filled: while there is a fork, and if the accounts come with an error.
#[test]
fn what_cannot_be_filled_is_left() {
    let history = History::random(17, 3);
    let dir = directory();
    let factory = Qmdb::in_dir(dir.path());
    let mut driver = begun(&factory, memory(), &STORE_IN_STEP, &history);
    let fork = driver.fork().expect("a fork");
    let refused = driver.load(history.genesis()).map(drop).expect_err("there is a fork");
    assert!(refused.to_string().contains("while it had a fork"), "{refused}");
    driver.run(&history.blocks[0]).expect("it goes on");
    assert_clean(&driver, "refused");
    drop(fork);
    let broken = StateError::Protocol("it breaks off");
    let mut accounts = history.genesis().genesis().map(Ok).take(1).chain([Err(broken)]);
    driver.layer().load(&mut accounts).map(drop).expect_err("it broke off");
    driver.load(history.genesis()).expect("it is filled");
    driver.run(&history.blocks[0]).expect("a block");
    assert_clean(&driver, "filled");
}

/// Returns the files below a directory.
fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(content(&path));
        } else {
            let bytes = fs::read(&path).expect("a file");
            found.insert(path, bytes);
        }
    }
    found
}

/// A command that only reads changes no file, whether the files lack blocks or have undone ones.
#[test]
fn reading_changes_nothing() {
    let history = History::random(19, 12);
    for room in [ROOMY, 0] {
        let (dir, engine) = (directory(), memory());
        let factory = Qmdb::in_dir(dir.path()).with_room(room);
        let mut driver = begun(&factory, engine.clone(), &STORE_IN_STEP, &history);
        history.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
        assert_eq!(figure(&driver, "steps_behind") > 0, room > 0);
        for _ in 0..3 {
            driver.undo().expect("a step back");
        }
        drop(driver);
        let before = content(factory.files());
        let reading = factory.read_only();
        let driver = opened(&reading, &engine);
        assert_clean(&driver, "only read");
        drop(driver);
        assert!(content(factory.files()) == before, "room for {room} keys");
        assert_clean(&opened(&factory, &engine), "in the end");
    }
}

/// Copies of the files lie beside them, and are removed: with the reader, or, after a crash, at the next opening.
#[test]
fn copies_lie_beside_the_files_and_go() {
    let history = History::random(21, 3);
    let (dir, engine) = (directory(), memory());
    let factory = Qmdb::in_dir(dir.path());
    drop(begun(&factory, engine.clone(), &STORE_IN_STEP, &history));
    let there = || fs::read_dir(factory.files()).expect("a directory").count();
    let reading = factory.read_only();
    let reader = opened(&reading, &engine);
    assert_clean(&reader, "only read");
    assert_eq!(there(), 2, "the files and a copy");
    let left = factory.files().join("polytrie-qmdb-left");
    fs::create_dir_all(left.join("qmdb/nodes")).expect("a directory");
    let mut driver = opened(&factory, &engine);
    driver.run(&history.blocks[0]).expect("a block");
    assert!(!left.exists(), "what a crash has left");
    assert_eq!(there(), 2, "a copy that is in use stays");
    let mut fork = driver.fork().expect("a fork");
    let prove = |fork: &Driver<'_>| {
        let proofs = fork.layer().proofs().expect("it makes proofs");
        proofs.prove(&history.addresses()[0], &[]).map(drop).expect("a proof");
    };
    prove(&fork);
    assert_eq!(there(), 2, "a fork that has not moved needs no copy");
    fork.undo().expect("a step back");
    prove(&fork);
    assert_eq!(there(), 3, "a fork has a copy of its own");
    drop((reader, fork));
    assert_eq!(there(), 1);
}

/// A key alone does not say where to look: it is that of an account, or the hash of the key of a slot.
#[test]
fn rows_that_the_files_do_not_agree_with_are_named_with_their_tables() {
    let (factory, history) = (Qmdb::default(), History::random(18, 1));
    let driver = begun(&factory, memory(), &STORE_IN_STEP, &history);
    let table_of = |name: &str| {
        let tables = factory.tables();
        tables.into_iter().find(|table| table.name == name).expect("a table")
    };
    let [accounts, slots] = ["QmdbAccounts", "QmdbSlots"].map(table_of);
    let row_of = |table: Table| driver.rows_of(table).expect("rows").swap_remove(0);
    let change = |table: Table, key: &[u8], value: Option<&[u8]>| {
        let mut batch = Batch::new();
        match value {
            Some(value) => batch.put(table, key, value),
            None => batch.delete(table, key),
        }
        driver.store().write(batch).expect("it can be written");
    };
    let expect = |words: String| {
        let problems = problems(&driver);
        assert!(problems.iter().any(|problem| problem.contains(&words)), "{words}: {problems:?}");
    };
    for table in [accounts, slots] {
        let (_, mut key, value) = row_of(table);
        if let Some(last) = key.last_mut() {
            *last ^= 1;
        }
        change(table, &key, Some(&value));
        expect(if table == accounts {
            format!("the row of QmdbAccounts with the key {}", hex::encode_prefixed(&key))
        } else {
            format!("the row of QmdbSlots whose key has the hash {}", keccak256(&key))
        });
        change(table, &key, None);
    }
    let (_, key, value) = row_of(slots);
    change(slots, &key, None);
    expect(format!("the key {}, which no row has", keccak256(&key)));
    change(slots, &key, Some(&value));
    assert_clean(&driver, "as before");
}

/// Damage in the files is found by a check, wherever it is, or is harmless: the layer opens, the check ends, and all
/// roots stay the same, back and forward again.
#[test]
fn damaged_files_are_found() {
    let history = History::random(18, 12);
    let digests = digests::<Qmdb>(&history);
    let mut found = 0;
    for at in 0.. {
        let (dir, engine) = (directory(), memory());
        let factory = Qmdb::in_dir(dir.path());
        let mut driver = begun(&factory, engine.clone(), &STORE_IN_STEP, &history);
        history.blocks.iter().for_each(|block| drop(driver.run(block).expect("a block")));
        assert_clean(&driver, "whole");
        drop(driver);
        // Beside the directories of its files there are locked ones.
        let mut files = content(factory.files());
        files.retain(|file, _| {
            file.strip_prefix(factory.files()).is_ok_and(|within| within.components().count() > 2)
        });
        let Some((file, bytes)) = files.iter_mut().nth(at) else { break };
        if bytes.is_empty() {
            continue;
        }
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(file, bytes).expect("a file");
        let mut driver = Driver::open_on(&factory, engine, &STORE_IN_STEP)
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        found += usize::from(!problems(&driver).is_empty());
        for number in [0, history.head()] {
            let context = file.display().to_string();
            if go_to(&mut driver, number, &history, &digests, &context).is_err() {
                break;
            }
        }
    }
    assert!(found > 0);
}

/// A fork whose layer was undone and took another branch before the fork had its files reports that.
#[test]
fn a_fork_needs_what_it_comes_from() {
    let history = History::random(15, 8);
    let dir = directory();
    let factory = Qmdb::in_dir(dir.path()).with_room(0);
    let mut driver = begun(&factory, memory(), &STORE_IN_STEP, &history);
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
    assert!(error.contains("ask again"), "{error}");
    prove(&early).expect("what is below is still there");
}
