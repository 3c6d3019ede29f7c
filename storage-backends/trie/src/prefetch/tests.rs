#![expect(clippy::unwrap_used, reason = "tests")]

use super::{Prefetcher, ReadAhead, Readers, Reading};
use crate::{
    SlotValue, Trie, TrieTables,
    rows::RowSink,
    tests::{Model, built, key, oracle_root, value},
};
use alloy_primitives::{B256, U256};
use parking_lot::Mutex;
use polytrie_kv::{Batch, Store, Table};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::yield_now,
};

const ACCOUNTS: Table = Table::new(1, "Accounts", 64);
const STORAGE: Table = Table::new(2, "Storage", 96);
const TABLES: TrieTables = TrieTables::new(ACCOUNTS, STORAGE);
const OWNERS: [Option<B256>; 3] =
    [None, Some(B256::repeat_byte(0x11)), Some(B256::repeat_byte(0xee))];

/// Builds a store in which each of the tries holds `model`; returns their root and the store.
fn stored(model: &Model) -> (B256, Store) {
    let (root, rows) = built(model);
    let store = Store::memory(&[ACCOUNTS, STORAGE]).unwrap();
    for owner in OWNERS {
        let mut sink = match owner {
            None => TABLES.account_sink(Batch::new()),
            Some(owner) => TABLES.storage_sink(Batch::new(), owner),
        };
        rows.0.iter().for_each(|(path, row)| sink.put(path, row));
        store.write(sink.into_inner()).unwrap();
    }
    (root, store)
}

fn prefetcher(store: &Store, threads: usize) -> Prefetcher {
    Prefetcher::new(TABLES, store.clone(), Arc::new(Readers::new(threads, true)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn changing_a_key_takes_nothing_but_what_was_read_ahead(
        keys in prop::collection::btree_map(key(), value(), 1..30),
        asked in key(),
        touched in prop::collection::vec(key(), 0..4),
        remove in any::<bool>(),
    ) {
        let (root, store) = stored(&keys);
        for owner in OWNERS {
            let mut trie = Trie::<SlotValue>::stored(root);
            for key in &touched {
                trie.get(key, &TABLES.rows_of(&store, owner)).unwrap();
            }
            let mut ahead = prefetcher(&store, 1);
            let from = trie.missing(&asked);
            if let Some(from) = from {
                prop_assert!(ahead.want(owner, asked, from));
            }
            ahead.wait().unwrap();
            let before = store.counters().gets;
            let found = trie.get(&asked, &ahead.rows(owner)).unwrap().copied();
            prop_assert_eq!(found, keys.get(&asked).map(|value| SlotValue(*value)));
            let after = if remove { None } else { Some(U256::from(99)) };
            trie.update(&[(asked, after.map(SlotValue))], &ahead.rows(owner)).unwrap();
            // Nothing is requested for a leaf that is in memory. If it is removed, the only other child of its branch
            // may have to be read.
            let most = before + u64::from(remove && from.is_none());
            prop_assert!((before..=most).contains(&store.counters().gets));
            let mut model = keys.clone();
            match after {
                Some(value) => model.insert(asked, value),
                None => model.remove(&asked),
            };
            prop_assert_eq!(trie.root(), oracle_root(&model));
            // For a key that exists all the same nothing is read again.
            ahead.want(owner, asked, 0);
            ahead.end().unwrap();
        }
    }

    #[test]
    fn finding_many_keys_takes_nothing_but_what_was_read_ahead(
        keys in prop::collection::btree_map(key(), value(), 1..60),
        touched in prop::collection::vec(key(), 0..4),
        changes in prop::collection::btree_map(key(), prop::option::of(value()), 1..40),
        threads in 1usize..5,
    ) {
        let (root, store) = stored(&keys);
        let mut tries = OWNERS.map(|owner| (owner, Trie::<SlotValue>::stored(root)));
        let mut ahead = prefetcher(&store, threads);
        for (owner, trie) in &mut tries {
            for key in &touched {
                trie.get(key, &ahead.rows(*owner)).unwrap();
            }
            for key in changes.keys() {
                if let Some(from) = trie.missing(key) {
                    ahead.need(*owner, *key, from).unwrap();
                }
            }
        }
        ahead.wait().unwrap();
        let before = store.counters().gets;
        for (owner, trie) in &mut tries {
            for key in changes.keys() {
                trie.get(key, &ahead.rows(*owner)).unwrap();
            }
        }
        prop_assert_eq!(store.counters().gets, before);
        let mut model = keys;
        for (key, after) in &changes {
            match after {
                Some(value) => model.insert(*key, *value),
                None => model.remove(key),
            };
        }
        let changes: Vec<_> = changes.into_iter().map(|(k, v)| (k, v.map(SlotValue))).collect();
        for (owner, trie) in &mut tries {
            trie.update(&changes, &ahead.rows(*owner)).unwrap();
            prop_assert_eq!(trie.root(), oracle_root(&model));
        }
        // Rows that were read for a block are dropped with it.
        ahead.end().unwrap();
        let before = store.counters().gets;
        Trie::<SlotValue>::stored(root).get(&changes[0].0, &ahead.rows(None)).unwrap();
        prop_assert!(store.counters().gets > before);
    }
}

#[test]
fn a_damaged_row_is_left_to_the_trie() {
    let keys: Model = (1..9u8).map(|n| (B256::repeat_byte(n * 0x11), U256::from(n))).collect();
    let (root, store) = stored(&keys);
    let mut batch = Batch::new();
    batch.put(ACCOUNTS, &[], b"\x00damage");
    store.write(batch).unwrap();
    let mut ahead = prefetcher(&store, 2);
    keys.keys().for_each(|key| assert!(ahead.want(None, *key, 0)));
    ahead.wait().unwrap();
    let key = keys.keys().next().unwrap();
    let error = Trie::<SlotValue>::stored(root).get(key, &ahead.rows(None)).unwrap_err();
    assert!(error.to_string().contains("does not decode"), "{error}");
}

/// A way to read that notes each bundle, and waits or panics at the first.
#[derive(Default)]
struct Notes {
    read: Mutex<Vec<usize>>,
    is_held: AtomicBool,
    panics: bool,
}

struct Noting(Arc<Notes>);

impl ReadAhead for Noting {
    type Wanted = usize;

    fn read(&self, wanted: Vec<usize>) {
        while self.0.is_held.load(Ordering::Relaxed) {
            yield_now();
        }
        assert!(!self.0.panics, "on purpose");
        self.0.read.lock().extend(wanted);
    }
}

#[test]
fn all_that_is_wanted_is_read_once() {
    for readers in [Readers::new(3, true), Readers::new(3, false), Readers::new(0, false)] {
        let readers = Arc::new(readers);
        for count in [0, 1, 31, 200] {
            let notes = Arc::<Notes>::default();
            let reading = Reading::new(&readers, Noting(notes.clone()));
            (0..count).for_each(|n| assert!(reading.want(n)));
            reading.wait().unwrap();
            let mut read = notes.read.lock().clone();
            read.sort_unstable();
            assert_eq!(read, (0..count).collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_is_ended_holds_nothing() {
    for is_slow in [false, true] {
        let readers = Arc::new(Readers::new(2, is_slow));
        for is_dropped in [false, true] {
            let notes = Arc::<Notes>::default();
            let mut reading = Reading::new(&readers, Noting(notes.clone()));
            (0..200).for_each(|n| assert!(reading.want(n)));
            reading.close();
            assert!(!reading.want(200), "it is too late");
            match is_dropped {
                true => drop(reading),
                false => reading.end().unwrap(),
            }
            assert_eq!(Arc::strong_count(&notes), 1);
            let read: BTreeSet<usize> = notes.read.lock().iter().copied().collect();
            assert_eq!(read.len(), notes.read.lock().len());
            assert!(read.iter().all(|n| *n < 200));
        }
    }
}

#[test]
fn little_is_left_alone_where_the_store_is_fast() {
    let notes = Arc::<Notes>::default();
    let reading = Reading::new(&Arc::new(Readers::new(2, false)), Noting(notes.clone()));
    (0..31).for_each(|n| assert!(reading.want(n)));
    reading.end().unwrap();
    assert!(notes.read.lock().is_empty());
}

#[test]
fn no_more_than_so_much_waits() {
    let notes = Arc::new(Notes { is_held: AtomicBool::new(true), ..Notes::default() });
    let reading = Reading::new(&Arc::new(Readers::new(2, true)), Noting(notes.clone()));
    let taken = (0..10_000).filter(|n| reading.want(*n)).count();
    assert!((4_096..4_200).contains(&taken), "{taken}");
    notes.is_held.store(false, Ordering::Relaxed);
    reading.wait().unwrap();
    assert_eq!(notes.read.lock().len(), taken);
}

#[test]
fn a_panic_is_reported_from_then_on() {
    for is_slow in [false, true] {
        let readers = Arc::new(Readers::new(2, is_slow));
        let notes = Arc::new(Notes { panics: true, ..Notes::default() });
        let reading = Reading::new(&readers, Noting(notes.clone()));
        (0..100).for_each(|n| assert!(reading.want(n)));
        let errors = [reading.wait(), reading.end(), readers.check()];
        for error in errors.map(Result::unwrap_err) {
            assert!(error.to_string().contains("panicked: on purpose"), "{error}");
        }
        assert_eq!(Arc::strong_count(&notes), 1);
    }
}
