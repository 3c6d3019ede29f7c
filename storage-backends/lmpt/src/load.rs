//! Filling an empty store from sorted accounts, in one pass: all of it is snapshot.

use crate::{
    FLAT_ACCOUNTS, FLAT_SLOTS, SNAPSHOT_TRIE, SWEEP, flat,
    keys::{Key, Places, SlotKey},
    meta::{Meta, clear},
    value::{Record, Value},
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Store};
use polytrie_state::{GenesisAccount, StateError, write_codes};
use polytrie_trie::{Rows, SortedBuilder};

/// Rows are written in portions of this many bytes, so that a genesis of any size takes bounded memory.
const PORTION: usize = 32 << 20;

/// Loads the accounts; every storage is of incarnation 0.
pub(crate) fn load(
    store: &Store,
    interval: u64,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount, StateError>>,
) -> Result<Meta, StateError> {
    let mut batch = Batch::new();
    // An earlier attempt may have been stopped in the middle.
    for table in [FLAT_ACCOUNTS, FLAT_SLOTS, SNAPSHOT_TRIE, SWEEP] {
        batch.delete_range(table, &[], None);
    }
    clear(&mut batch);
    store.engine_write(&batch)?;
    let mut loader = Loader {
        builder: SortedBuilder::new(Rows::new(Batch::new(), SNAPSHOT_TRIE)),
        others: Batch::new(),
        neighbours: Vec::new(),
    };
    let mut last = None;
    let mut places = Places::snapshot();
    for account in accounts {
        let GenesisAccount { hash, account, code, slots } = account?;
        in_order(&mut last, hash)?;
        if let Some(code) = code {
            write_codes(&mut loader.others, &[(account.code_hash, code)]);
        }
        loader.make_room_for(&hash);
        let record = Record { account, incarnation: 0 };
        loader.add(&mut places, Key::Account(hash), Value::Account(record));
        let mut last_slot = None;
        for (slot, value) in slots {
            in_order(&mut last_slot, slot)?;
            if value.is_zero() {
                return Err(StateError::Protocol("a slot to load must not be zero"));
            }
            let key = SlotKey { account: hash, incarnation: 0, slot };
            loader.add(&mut places, Key::Slot(key), Value::Slot(value));
            loader.write_some(store)?;
        }
        loader.write_some(store)?;
    }
    loader.flush();
    let (root, rows) = loader.builder.finish();
    let mut rest = rows.into_inner();
    rest.append(&loader.others);
    let meta = Meta::loaded(interval, root);
    meta.write(&mut rest);
    store.engine_write(&rest)?;
    Ok(meta)
}

struct Loader {
    builder: SortedBuilder<Value, Rows<Batch>>,
    /// Rows beside the trie.
    others: Batch,
    /// Leaves whose places begin alike, not in order yet: an account and its slots, mostly.
    neighbours: Vec<(B256, Value)>,
}

impl Loader {
    /// Everything that comes before the leaves of an account is complete.
    fn make_room_for(&mut self, account: &B256) {
        if self.neighbours.first().is_some_and(|(place, _)| place[..4] != account[..4]) {
            self.flush();
        }
    }

    fn add(&mut self, places: &mut Places, key: Key, value: Value) {
        flat::set(&mut self.others, &key, Some(value));
        self.neighbours.push((places.of(&key), value));
    }

    fn flush(&mut self) {
        self.neighbours.sort_unstable_by_key(|(place, _)| *place);
        for (place, value) in self.neighbours.drain(..) {
            self.builder.add(place, value);
        }
    }

    fn write_some(&mut self, store: &Store) -> Result<(), StateError> {
        if self.builder.rows().inner().byte_len() + self.others.byte_len() < PORTION {
            return Ok(());
        }
        let mut portion = std::mem::take(self.builder.rows().inner());
        portion.append(&std::mem::take(&mut self.others));
        Ok(store.engine_write(&portion)?)
    }
}

fn in_order(last: &mut Option<B256>, hash: B256) -> Result<(), StateError> {
    if last.replace(hash).is_some_and(|last| last >= hash) {
        return Err(StateError::Protocol(
            "accounts and slots to load must be sorted by hash, each of them once",
        ));
    }
    Ok(())
}
