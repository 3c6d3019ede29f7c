#![expect(clippy::unwrap_used, reason = "tests")]

use super::Prefetcher;
use crate::{
    SlotValue, Trie, TrieTables,
    rows::RowSink,
    tests::{Model, built, key, oracle_root, value},
};
use alloy_primitives::{B256, U256};
use polytrie_kv::{Batch, Store, Table};
use polytrie_kv_testing::set_row;
use polytrie_state::ahead::Readers;
use proptest::prelude::*;
use std::sync::Arc;

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
            // For a key that exists nevertheless, nothing is read again.
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
    set_row(&store, ACCOUNTS, &[], Some(b"\x00damage"));
    let mut ahead = prefetcher(&store, 2);
    keys.keys().for_each(|key| assert!(ahead.want(None, *key, 0)));
    ahead.wait().unwrap();
    let key = keys.keys().next().unwrap();
    let error = Trie::<SlotValue>::stored(root).get(key, &ahead.rows(None)).unwrap_err();
    assert!(error.to_string().contains("does not decode"), "{error}");
}
