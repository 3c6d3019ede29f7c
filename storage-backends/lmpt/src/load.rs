//! Filling an empty store from sorted accounts, in one pass: all of it is snapshot.

use crate::{
    FLAT_ACCOUNTS, FLAT_SLOTS, JOURNAL, LmptOptions, META, SNAPSHOT_TRIE, SWEEP, flat,
    keys::{Key, Places, SHARED, SlotKey},
    meta::Meta,
    sorter::{Leaf, Sorter, sorter},
    value::{Record, Value},
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Store};
use polytrie_state::{GenesisAccount, StateError, empty_tables, in_order_of_hash, write_codes};
use polytrie_trie::{Rows, SortedBuilder};

/// Rows are written in portions of this many bytes, so that a genesis of any size takes bounded memory.
const PORTION: usize = 32 << 20;

/// Loads the accounts; every storage is of incarnation 0.
///
/// In the one trie a slot stands near its account, at a place that follows from its hash: what lies near one account is
/// gathered and sorted ([`Sorter`]) before it goes to the trie, with records of accounts among slots wherever they
/// belong. The flat rows are written as they come.
pub(crate) fn load(
    store: &Store,
    options: &LmptOptions,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
) -> Result<Meta, StateError> {
    let tables = [FLAT_ACCOUNTS, FLAT_SLOTS, SNAPSHOT_TRIE, SWEEP, JOURNAL, META];
    empty_tables(store, &tables)?;
    let mut loader = Loader {
        store,
        rows: SomeRows {
            builder: SortedBuilder::new(Rows::new(Batch::new(), SNAPSHOT_TRIE)),
            others: Batch::new(),
        },
        places: Places::snapshot(),
        neighbours: sorter(store.scratch().clone()),
        last: B256::ZERO,
    };
    for account in in_order_of_hash(accounts) {
        let GenesisAccount { hash, account, code, slots } = account?;
        if let Some(code) = code {
            write_codes(&mut loader.rows.others, &[(account.code_hash, code)]);
        }
        loader.make_room_for(hash)?;
        let record = Record { account, incarnation: 0 };
        loader.add(Key::Account(hash), Value::Account(record))?;
        for slot in slots {
            let (slot, value) = slot?;
            let key = SlotKey { account: hash, incarnation: 0, slot };
            loader.add(Key::Slot(key), Value::Slot(value))?;
        }
    }
    loader.flush()?;
    let SomeRows { builder, others } = loader.rows;
    let (root, rows) = builder.finish();
    let mut rest = rows.into_inner();
    rest.append(&others);
    let meta = Meta::loaded(options, root);
    meta.write(&mut rest);
    store.engine_write(&rest)?;
    Ok(meta)
}

struct Loader<'a> {
    store: &'a Store,
    rows: SomeRows,
    places: Places,
    /// Leaves whose places begin alike, not in order yet: an account and its slots, mostly.
    neighbours: Sorter,
    /// The last account.
    last: B256,
}

/// Rows that are not written yet.
struct SomeRows {
    builder: SortedBuilder<Value, Rows<Batch>>,
    /// Those beside the trie.
    others: Batch,
}

impl Loader<'_> {
    /// Everything that comes before the leaves of an account is complete.
    fn make_room_for(&mut self, account: B256) -> Result<(), StateError> {
        let last = std::mem::replace(&mut self.last, account);
        if last[..SHARED] != account[..SHARED] { self.flush() } else { Ok(()) }
    }

    fn add(&mut self, key: Key, value: Value) -> Result<(), StateError> {
        flat::set(&mut self.rows.others, &key, Some(value));
        self.neighbours.add(Leaf { place: self.places.of(&key), value })?;
        self.rows.write_some(self.store)
    }

    fn flush(&mut self) -> Result<(), StateError> {
        let Self { store, rows, neighbours, .. } = self;
        for leaf in neighbours.drain()? {
            let Leaf { place, value } = leaf?;
            rows.builder.add(place, value);
            rows.write_some(store)?;
        }
        Ok(())
    }
}

impl SomeRows {
    fn write_some(&mut self, store: &Store) -> Result<(), StateError> {
        if self.builder.rows().inner().byte_len() + self.others.byte_len() < PORTION {
            return Ok(());
        }
        let mut portion = std::mem::take(self.builder.rows().inner());
        portion.append(&std::mem::take(&mut self.others));
        Ok(store.engine_write(&portion)?)
    }
}
