//! The filling of an empty store from sorted accounts, in one pass: all of the state is snapshot then.

use crate::{
    FLAT_ACCOUNTS, FLAT_SLOTS, JOURNAL, LmptOptions, META, SNAPSHOT_TRIE, SWEEP, flat,
    keys::{Key, Places, SHARED, SlotKey},
    meta::Meta,
    value::{Record, Value},
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Sortable, Sorter, Store};
use polytrie_state::{GenesisAccount, Result, clear_tables, in_order_of_hash, write_code};
use polytrie_trie::{LeafValue, Rows, SortedBuilder};

/// Bytes of rows that are written in one portion, so that a genesis of any size takes bounded memory.
const PORTION: usize = 32 << 20;

/// Number of leaves that are held in memory while they are sorted by their places: 16 MiB.
const HELD: usize = 1 << 17;

/// Loads the accounts; every storage gets incarnation 0.
///
/// In the one trie a slot is near its account, at a place that depends on its hash. The leaves near one account are
/// gathered and sorted ([`Sorter`]) before they go to the trie; records of accounts may come among slots. The flat
/// rows are written as they come.
pub(crate) fn load(
    store: &Store,
    options: &LmptOptions,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>>>,
) -> Result<Meta> {
    clear_tables(store, &[FLAT_ACCOUNTS, FLAT_SLOTS, SNAPSHOT_TRIE, SWEEP, JOURNAL, META])?;
    let mut loader = Loader {
        store,
        rows: SomeRows {
            builder: SortedBuilder::new(Rows::new(Batch::new(), SNAPSHOT_TRIE)),
            others: Batch::new(),
        },
        neighbours: Sorter::new(store.scratch().clone(), HELD),
        last: B256::ZERO,
    };
    for account in in_order_of_hash(accounts) {
        let GenesisAccount { hash, account, code, slots } = account?;
        write_code(&mut loader.rows.others, &account, code.as_ref());
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
    /// The leaves whose places share their first bytes, not sorted yet: mostly an account and its slots.
    neighbours: Sorter<Leaf>,
    /// The last account.
    last: B256,
}

/// A leaf of the snapshot and its place.
struct Leaf {
    place: B256,
    value: Value,
}

impl Sortable for Leaf {
    type Key = B256;

    fn key(&self) -> B256 {
        self.place
    }

    fn value(&self) -> Vec<u8> {
        self.value.to_vec()
    }

    fn from_row(place: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self { place: place.try_into().ok()?, value: Value::decode(value).ok()? })
    }
}

/// Rows that are not written yet.
struct SomeRows {
    builder: SortedBuilder<Value, Rows<Batch>>,
    /// The rows beside the trie.
    others: Batch,
}

impl Loader<'_> {
    /// Writes the earlier leaves, if the places of this account and those of the last one begin differently.
    fn make_room_for(&mut self, account: B256) -> Result<()> {
        let last = std::mem::replace(&mut self.last, account);
        if last[..SHARED] != account[..SHARED] { self.flush() } else { Ok(()) }
    }

    fn add(&mut self, key: Key, value: Value) -> Result<()> {
        flat::set(&mut self.rows.others, &key, Some(value));
        self.neighbours.add(Leaf { place: Places::snapshot().of(&key), value })?;
        self.rows.write_some(self.store)
    }

    fn flush(&mut self) -> Result<()> {
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
    fn write_some(&mut self, store: &Store) -> Result<()> {
        if self.builder.rows().inner().byte_len() + self.others.byte_len() < PORTION {
            return Ok(());
        }
        let mut portion = std::mem::take(self.builder.rows().inner());
        portion.append(&std::mem::take(&mut self.others));
        Ok(store.engine_write(&portion)?)
    }
}
