//! Forks of a store.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{Batch, Entry, KeyRange, MemoryEngine, Read as _, Store, StoreOptions, Table};
use polytrie_kv_testing::{KeepsRows, Remote, Requests, entries};
use std::sync::Arc;

const TABLE: Table = Table::new(1, "Rows", 8);

fn write(store: &Store, fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    fill(&mut batch);
    store.write(batch).unwrap();
}

fn rows(store: &Store) -> Vec<Entry> {
    entries(store, TABLE, KeyRange::ALL)
}

fn row(key: &[u8], value: &[u8]) -> Entry {
    (key.to_vec(), value.to_vec())
}

#[test]
fn goes_its_own_way() {
    let store = Store::memory(&[TABLE]).unwrap();
    write(&store, |batch| {
        batch.put(TABLE, b"a", b"1");
        batch.put(TABLE, b"b", b"1");
    });
    store.flush().unwrap();
    write(&store, |batch| batch.put(TABLE, b"c", b"1"));
    let fork = store.fork().unwrap();
    write(&fork, |batch| {
        batch.put(TABLE, b"a", b"2");
        batch.delete_range(TABLE, b"b", Some(b"c"));
    });
    write(&store, |batch| batch.delete(TABLE, b"c"));
    store.flush().unwrap();
    assert_eq!(rows(&store), [row(b"a", b"1"), row(b"b", b"1")]);
    assert_eq!(rows(&fork), [row(b"a", b"2"), row(b"c", b"1")]);
    drop(store);
    let again = fork.fork().unwrap();
    fork.flush().unwrap();
    write(&fork, |batch| batch.delete(TABLE, b"a"));
    fork.checkpoint().unwrap();
    assert_eq!(rows(&again), [row(b"a", b"2"), row(b"c", b"1")]);
    assert_eq!(rows(&fork), [row(b"c", b"1")]);
    assert_eq!(fork.get(TABLE, b"a").unwrap(), None);
}

/// A layer on the fork then reads many rows together, as the layer on the first store does.
#[test]
fn a_fork_has_its_rows_where_the_first_store_has_them() {
    let engine = Requests::new(MemoryEngine::new());
    let made = engine.made();
    let engine = KeepsRows(Remote(engine), 1 << 20);
    let store = Store::open(Arc::new(engine), &[TABLE], StoreOptions::default()).unwrap();
    write(&store, |batch| batch.put(TABLE, b"a", b"1"));
    store.flush().unwrap();
    let fork = store.fork().unwrap();
    for value in [b"1", b"2"] {
        write(&fork, |batch| batch.put(TABLE, b"b", value));
        fork.flush().unwrap();
        assert!(fork.snapshot().is_remote() && fork.snapshot().gathers());
    }
    let before = made.all();
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let found = fork.get_many(TABLE, &keys).unwrap();
    assert_eq!(found, [Some(b"1".to_vec()), Some(b"2".to_vec()), None]);
    // What one request has brought is there.
    assert_eq!(fork.get(TABLE, b"a").unwrap(), found[0]);
    assert_eq!(fork.get(TABLE, b"c").unwrap(), None);
    assert_eq!(made.all() - before, 1);

    let store = Store::memory(&[TABLE]).unwrap();
    assert!(!store.fork().unwrap().snapshot().is_remote());
    let engine = Arc::new(Remote(MemoryEngine::new()));
    let store = Store::open(engine, &[TABLE], StoreOptions::default()).unwrap();
    let fork = store.fork().unwrap().snapshot();
    assert!(fork.is_remote() && !fork.gathers(), "nothing would keep the rows");
}
