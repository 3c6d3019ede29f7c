//! MDBX passes the suites, and fails as specified.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{
    Batch, Durability, Engine, KeyRange, KvError, MdbxEngine, MdbxOptions, Read as _, Store,
    StoreOptions, Table,
};
use polytrie_kv_testing::{
    Model, Mount, Random, TABLES, batch, engine_suite, entries, megabyte, store_suite,
};
use std::{path::Path, sync::Arc};
use tempfile::TempDir;

/// Returns options without syncs, which only some tests need, and with a full check at each opening.
fn options(path: &Path) -> MdbxOptions {
    MdbxOptions { durable: false, check: true, ..MdbxOptions::new(path, &TABLES) }
}

fn open(path: &Path) -> Arc<dyn Engine> {
    Arc::new(MdbxEngine::open(options(path)).unwrap())
}

#[test]
fn passes_the_engine_suite() {
    let dir = TempDir::new().unwrap();
    engine_suite(|| open(dir.path()));
}

#[test]
fn passes_the_store_suite() {
    let dir = TempDir::new().unwrap();
    store_suite(|| open(dir.path()));
}

/// Writes until a write fails. Returns the number of written batches, and the failure.
fn fill(engine: &dyn Engine) -> (u64, KvError) {
    for number in 0..10_000 {
        if let Err(error) = engine.write(&batch(megabyte(number))) {
            return (number, error);
        }
    }
    panic!("it never became full");
}

fn assert_holds(engine: Arc<dyn Engine>, batches: u64) {
    let store = Store::open(engine, &TABLES, StoreOptions::default()).unwrap();
    let mut expected: Vec<_> = (0..batches).flat_map(megabyte).collect();
    expected.sort();
    assert!(entries(&store, TABLES[0], KeyRange::ALL) == expected, "earlier batches are intact");
}

#[test]
fn grows_until_its_limit() {
    let dir = TempDir::new().unwrap();
    let options = MdbxOptions { max_bytes: Some(48 << 20), ..options(dir.path()) };
    let engine: Arc<dyn Engine> = Arc::new(MdbxEngine::open(options.clone()).unwrap());
    let small = engine.disk_bytes().unwrap();
    assert!(small < 1 << 20, "an empty store is small: {small} bytes");
    let (batches, error) = fill(&*engine);
    assert!(batches > 10, "{batches}");
    let text = error.to_string();
    assert!(matches!(error, KvError::DiskFull { .. }), "{text}");
    assert!(text.contains("may not exceed 50331648 bytes"), "{text}");
    assert!(engine.disk_bytes().unwrap() > 10 << 20);
    drop(engine);
    assert_holds(Arc::new(MdbxEngine::open(options).unwrap()), batches);
    // The next opening has a larger limit, and writing goes on.
    let engine = open(dir.path());
    engine.write(&batch(megabyte(batches))).unwrap();
    assert_holds(engine, batches + 1);
}

/// A row lies in a page with others or has pages for itself; whatever it was and becomes, it and the tally are right.
#[test]
fn rows_of_all_lengths_replace_each_other() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let dir = TempDir::new().unwrap();
    let mut model = Model::default();
    for round in 0..12 {
        let mut batch = Batch::new();
        if random.one_in(3) {
            let from = [random.next() as u8];
            batch.delete_range(TABLES[0], &from, Some(&[from[0].saturating_add(30)]));
        }
        for _ in 0..500 {
            let key = [random.next() as u8, random.below(3) as u8];
            let len = [70, 70, 70, 2_100, 9_000][random.below(5)];
            let value = vec![round; random.below(len)];
            match random.one_in(5) {
                true => batch.delete(TABLES[0], &key),
                false => batch.put(TABLES[0], &key, &value),
            }
        }
        let engine = open(dir.path());
        engine.write(&batch.to_sorted()).unwrap();
        drop(engine);
        model.apply(&batch);
        let store = Store::open(open(dir.path()), &TABLES, StoreOptions::default()).unwrap();
        assert!(Model::read(&store) == model, "round {round}, seed {seed}");
    }
}

#[test]
fn gives_pages_back_when_views_go() {
    let dir = TempDir::new().unwrap();
    let options = StoreOptions { durability: Durability::EveryWrite, ..StoreOptions::default() };
    let store = Store::open(open(dir.path()), &TABLES, options).unwrap();
    let rewrite = |n: u64| {
        for i in 0..n {
            let rows = megabyte(0).into_iter().map(|(key, _)| (key, vec![i as u8; 230]));
            store.write(batch(rows)).unwrap();
        }
    };
    rewrite(10);
    let bytes = store.disk_bytes().unwrap();
    rewrite(60);
    let later = store.disk_bytes().unwrap();
    assert!(later <= bytes * 2, "rewriting the same rows grew it from {bytes} to {later} bytes");
}

#[test]
fn a_full_disk_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let Some(_mount) = Mount::new(dir.path().into(), "12m") else { return };
    let path = dir.path().join("db");
    let durable = || Arc::new(MdbxEngine::open(MdbxOptions::new(&path, &TABLES)).unwrap());
    // Files that the test deletes, as a user would, to free space.
    let reserves = ["reserve 1", "reserve 2"].map(|name| dir.path().join(name));
    for reserve in &reserves {
        std::fs::write(reserve, vec![1; 256 << 10]).unwrap();
    }
    let engine = durable();
    let (batches, error) = fill(&*engine);
    assert!(batches > 2, "{batches}");
    assert!(matches!(error, KvError::DiskFull { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("the disk is full: ") && text.contains("run the same command again"),
        "{text}"
    );
    drop(engine);
    // With no free space the engine cannot even be opened, for reading neither; but it reports an error, and the
    // process is not killed.
    let filler = dir.path().join("filler");
    std::fs::write(&filler, vec![1; 12 << 20]).unwrap_err();
    for read_only in [false, true] {
        let options = MdbxOptions { read_only, ..MdbxOptions::new(&path, &TABLES) };
        let error = MdbxEngine::open(options).map(drop).unwrap_err();
        assert!(matches!(error, KvError::DiskFull { .. }), "{error}");
    }
    std::fs::remove_file(&filler).unwrap();
    std::fs::remove_file(&reserves[0]).unwrap();
    assert_holds(durable(), batches);

    // A store on a full disk is poisoned, and still readable.
    let options = StoreOptions { flush_every: 2, ..StoreOptions::default() };
    let store = Store::open(durable(), &TABLES, options).unwrap();
    let failure = (0..10_000)
        .find_map(|i| store.write(batch(megabyte(batches + i))).err().map(|error| (i, error)));
    let (more, error) = failure.unwrap();
    assert!(matches!(error, KvError::DiskFull { .. } | KvError::Poisoned(_)), "{error}");
    assert!(matches!(store.poisoned(), Some(KvError::DiskFull { .. })));
    assert!(matches!(store.flush(), Err(KvError::Poisoned(_))));
    let (key, value) = megabyte(batches + more - 1).swap_remove(7);
    assert_eq!(store.get(TABLES[0], &key).unwrap(), Some(value), "what was taken is still seen");
    drop(store);
    std::fs::remove_file(&reserves[1]).unwrap();
    assert_holds(durable(), batches);
}

#[test]
fn a_disk_that_is_full_from_the_start_is_an_error() {
    let dir = TempDir::new().unwrap();
    let Some(_mount) = Mount::new(dir.path().into(), "64k") else { return };
    let path = dir.path().join("db");
    // The disk has every amount of free space, so that opening fails at every place where it can.
    let mut opened = 0;
    for free in (0..=64).step_by(4) {
        if path.exists() {
            std::fs::remove_dir_all(&path).unwrap();
        }
        std::fs::write(dir.path().join("filler"), vec![1; (64 - free) << 10]).unwrap();
        match MdbxEngine::open(MdbxOptions::new(&path, &TABLES)) {
            Ok(_) => opened += 1,
            Err(error) => {
                assert_eq!(opened, 0, "{free} KiB free do not suffice where less did: {error}");
                assert!(matches!(error, KvError::DiskFull { .. }), "{free} KiB free: {error}");
            }
        }
    }
    assert!((1..16).contains(&opened), "{opened}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_cannot_say_so_is_told_what_to_do() {
    use std::{fs, os::unix::fs::PermissionsExt};

    let dir = TempDir::new().unwrap();
    let path = dir.path().join("db");
    drop(MdbxEngine::open(options(&path)).unwrap());
    let lock = path.join("mdbx.lck");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().append(true).open(&lock).is_ok() {
        // Root may write everywhere, so this cannot be tested.
        return;
    }
    let read_only = || MdbxEngine::open(MdbxOptions { read_only: true, ..options(&path) });
    let text = read_only().map(drop).unwrap_err().to_string();
    assert!(text.contains("mdbx.lck") && text.contains("a copy of the directory"), "{text}");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(path.join("mdbx.dat"), fs::Permissions::from_mode(0o444)).unwrap();
    read_only().unwrap();
}

#[test]
fn read_only_reads_and_refuses_to_write() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a").join("db");
    let read_only = || MdbxEngine::open(MdbxOptions { read_only: true, ..options(&path) });
    let text = read_only().map(drop).unwrap_err().to_string();
    assert!(text.starts_with("cannot open ") && text.contains("mdbx.dat"), "{text}");
    assert!(!path.exists(), "nothing was created");

    let one = MdbxEngine::open(MdbxOptions { tables: vec![TABLES[0]], ..options(&path) }).unwrap();
    one.write(&batch([(b"key".to_vec(), b"value".to_vec())])).unwrap();
    drop(one);
    let engine = Arc::new(read_only().unwrap());
    let text = engine.write(&batch([])).unwrap_err().to_string();
    assert!(text.starts_with("cannot write to ") && text.contains("read-only; check"), "{text}");
    assert_eq!(engine.table_stats(TABLES[0]).unwrap().entries, 1);
    assert_eq!(engine.table_stats(TABLES[1]).unwrap().entries, 0);
    let store = Store::open(engine, &TABLES, StoreOptions::default()).unwrap();
    assert_eq!(store.get(TABLES[0], b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(store.get(TABLES[1], b"key").unwrap(), None, "a table that is not there is empty");
    assert_eq!(entries(&store, TABLES[1], KeyRange::ALL), []);
}

#[test]
fn refuses_what_it_cannot_use() {
    let dir = TempDir::new().unwrap();
    let first = open(dir.path());
    let error = MdbxEngine::open(options(dir.path())).map(drop).unwrap_err();
    assert!(matches!(error, KvError::InUse { .. }), "{error}");
    drop(first);

    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("mdbx.dat"), vec![7; 1 << 20]).unwrap();
    let error = MdbxEngine::open(options(&other)).map(drop).unwrap_err();
    assert!(matches!(error, KvError::Corrupt(_)), "{error}");

    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    for path in [&file, &file.join("below")] {
        let text = MdbxEngine::open(options(path)).map(drop).unwrap_err().to_string();
        assert!(text.starts_with("cannot create "), "{text}");
    }

    let twice = [TABLES[0], Table::new(1, "first", 9)];
    let result = MdbxEngine::open(MdbxOptions::new(dir.path().join("x"), &twice));
    assert!(matches!(result, Err(KvError::DuplicateTable("first", "first"))));

    let engine = open(dir.path());
    let unknown = Table::new(3, "unknown", 9);
    let mut batch = Batch::new();
    batch.put(unknown, b"", b"");
    assert!(matches!(engine.write(&batch), Err(KvError::UnknownTable("unknown"))));
    assert!(matches!(engine.table_stats(unknown), Err(KvError::UnknownTable("unknown"))));
}
