//! RocksDB passes the suites, and fails as specified.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::{RocksEngine, RocksOptions};
use polytrie_kv::{Batch, Engine, KeyRange, KvError, Read as _, Store, StoreOptions, Table};
use polytrie_kv_testing::{
    Mount, TABLES, batch, engine_suite, entries, megabyte, skipped, store_suite,
};
use rocksdb::properties;
use std::{path::Path, sync::Arc};
use tempfile::TempDir;

/// Returns options without syncs, which only some tests need.
fn options(path: &Path) -> RocksOptions {
    RocksOptions { durable: false, ..RocksOptions::new(path, &TABLES) }
}

fn open(path: &Path) -> Arc<dyn Engine> {
    Arc::new(RocksEngine::open(options(path)).unwrap())
}

#[test]
fn passes_the_engine_suite() {
    let dir = TempDir::new().unwrap();
    engine_suite(|| open(dir.path()));
}

#[test]
fn passes_the_engine_suite_with_little_memory_and_direct_io() {
    let dir = TempDir::new().unwrap();
    let options = RocksOptions {
        direct_io: true,
        cache_bytes: 1 << 20,
        write_buffer_bytes: 256 << 10,
        ..options(dir.path())
    };
    // The engine is dropped at once: a directory is opened by one engine at a time.
    if let Err(error) = RocksEngine::open(options.clone()).map(drop) {
        skipped(format_args!("no direct I/O in the temporary directory: {error}"));
        return;
    }
    engine_suite(|| Arc::new(RocksEngine::open(options.clone()).unwrap()));
}

#[test]
fn passes_the_store_suite() {
    let dir = TempDir::new().unwrap();
    store_suite(|| open(dir.path()));
}

#[test]
fn a_full_disk_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let Some(_mount) = Mount::new(dir.path().into(), "48m") else { return };
    let path = dir.path().join("db");
    // A file that the test deletes, as a user would, to free space.
    let reserve = dir.path().join("reserve");
    std::fs::write(&reserve, vec![1; 24 << 20]).unwrap();

    let durable = || Arc::new(RocksEngine::open(RocksOptions::new(&path, &TABLES)).unwrap());
    let engine = durable();
    let (batches, error) = (0..1_000)
        .find_map(|i| engine.write(&batch(megabyte(i))).err().map(|error| (i, error)))
        .unwrap();
    assert!(batches > 2, "{batches}");
    assert!(matches!(error, KvError::DiskFull { .. }), "{error}");
    drop(engine);
    std::fs::remove_file(&reserve).unwrap();
    let store = Store::open(durable(), &TABLES, StoreOptions::default()).unwrap();
    let mut expected: Vec<_> = (0..batches).flat_map(megabyte).collect();
    expected.sort();
    assert!(entries(&store, TABLES[0], KeyRange::ALL) == expected, "earlier batches are intact");
    assert!(store.disk_bytes().unwrap() > 1 << 20);
    assert!(store.table_stats(TABLES[0]).unwrap().bytes > 1 << 20);
}

#[test]
fn read_only_reads_and_refuses_to_write() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a").join("db");
    let read_only = || RocksEngine::open(RocksOptions { read_only: true, ..options(&path) });
    let text = read_only().map(drop).unwrap_err().to_string();
    assert!(text.starts_with("cannot open ") && text.contains("CURRENT"), "{text}");
    assert!(!path.exists(), "nothing was created");

    let one =
        RocksEngine::open(RocksOptions { tables: vec![TABLES[0]], ..options(&path) }).unwrap();
    one.write(&batch([(b"key".to_vec(), b"value".to_vec())])).unwrap();
    drop(one);
    let engine = Arc::new(read_only().unwrap());
    let text = engine.write(&batch([])).unwrap_err().to_string();
    assert!(text.starts_with("cannot write to ") && text.contains("read-only; check"), "{text}");
    let store = Store::open(engine, &TABLES, StoreOptions::default()).unwrap();
    assert_eq!(store.get(TABLES[0], b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(store.get(TABLES[1], b"key").unwrap(), None, "a table that is not there is empty");
    assert_eq!(entries(&store, TABLES[1], KeyRange::ALL), []);
    assert_eq!(store.table_stats(TABLES[1]).unwrap().entries, 0);
}

#[test]
fn refuses_what_it_cannot_use() {
    let dir = TempDir::new().unwrap();
    let first = open(dir.path());
    let error = RocksEngine::open(options(dir.path())).map(drop).unwrap_err();
    assert!(matches!(error, KvError::InUse { .. }), "{error}");
    let unknown = Table::new(3, "unknown", 9);
    let mut batch = Batch::new();
    batch.put(unknown, b"", b"");
    assert!(matches!(first.write(&batch), Err(KvError::UnknownTable("unknown"))));
    assert!(matches!(first.table_stats(unknown), Err(KvError::UnknownTable("unknown"))));
    drop(first);

    std::fs::write(dir.path().join("CURRENT"), b"MANIFEST-nonsense\n").unwrap();
    let error = RocksEngine::open(options(dir.path())).map(drop).unwrap_err();
    assert!(matches!(error, KvError::Corrupt(_) | KvError::Engine { .. }), "{error}");

    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let text = RocksEngine::open(options(&file.join("below"))).map(drop).unwrap_err().to_string();
    assert!(text.starts_with("cannot create "), "{text}");
    let twice = [TABLES[0], Table::new(1, "first", 9)];
    let result = RocksEngine::open(RocksOptions::new(dir.path().join("x"), &twice));
    assert!(matches!(result, Err(KvError::DuplicateTable("first", "first"))));
}

#[test]
fn what_is_settled_leaves_no_work() {
    let dir = TempDir::new().unwrap();
    let little = RocksOptions { write_buffer_bytes: 256 << 10, ..options(dir.path()) };
    let engine = Arc::new(RocksEngine::open(little).unwrap());
    let store = Store::open(engine.clone(), &TABLES, StoreOptions::default()).unwrap();
    for number in 0..16 {
        store.engine_write(&batch(megabyte(number))).unwrap();
    }
    store.settle().unwrap();
    let family = engine.db.family(TABLES[0]).unwrap().unwrap();
    for property in [
        properties::NUM_ENTRIES_ACTIVE_MEM_TABLE,
        properties::NUM_IMMUTABLE_MEM_TABLE,
        properties::NUM_RUNNING_FLUSHES,
        properties::COMPACTION_PENDING,
        properties::NUM_RUNNING_COMPACTIONS,
    ] {
        let value = engine.db.db.property_int_value_cf(family, property).unwrap();
        assert_eq!(value, Some(0), "{property:?}");
    }
}

/// A view holds the database open until it is dropped.
#[test]
fn views_outlive_the_engine() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    engine.write(&batch([(b"key".to_vec(), b"value".to_vec())])).unwrap();
    let view = engine.view().unwrap();
    drop(engine);
    let mut out = Vec::new();
    assert!(view.get_into(TABLES[0], b"key", &mut out).unwrap());
    assert_eq!(out, b"value");
    let error = RocksEngine::open(options(dir.path())).map(drop).unwrap_err();
    assert!(matches!(error, KvError::InUse { .. }), "{error}");
    drop(view);
    open(dir.path());
}
