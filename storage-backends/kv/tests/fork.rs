//! Forks of a store.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{Batch, Entry, KeyRange, Read as _, Store, Table};
use polytrie_kv_testing::entries;

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
