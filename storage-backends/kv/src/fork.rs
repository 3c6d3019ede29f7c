//! A store that begins with what another one holds, and goes its own way in memory.

use crate::{
    Batch, Changes, Engine, KeyRange, KvError, Op, Read, Scratch, Snapshot, Store, StoreOptions,
    Table, TableStats, View, Visit,
};
use parking_lot::Mutex;
use std::{ops::ControlFlow, sync::Arc};

impl Store {
    /// A store of its own that holds what this one holds now. Whatever is written to it stays in memory and goes with
    /// it, flushed or not; neither of the two sees what happens to the other from now on.
    ///
    /// It keeps what a [`snapshot`](Self::snapshot) keeps, so let it go soon.
    ///
    /// # Errors
    ///
    /// None that is known of: nothing is read or written yet.
    pub fn fork(&self) -> Result<Self, KvError> {
        on(self.snapshot(), self.engine_name(), self.tables(), self.scratch())
    }
}

/// A store that begins with what a snapshot sees.
fn on(
    snapshot: Snapshot,
    name: &'static str,
    tables: &[Table],
    scratch: &Scratch,
) -> Result<Store, KvError> {
    let options = StoreOptions {
        flush_every: u64::MAX,
        overlay_bytes: usize::MAX,
        background: false,
        counters: false,
    };
    let engine = ForkEngine { head: Mutex::new(snapshot), name, tables: tables.into() };
    Store::with_scratch(Arc::new(engine), tables, options, scratch.clone())
}

/// What a fork began with, and what was flushed to it since.
#[derive(Debug)]
struct ForkEngine {
    head: Mutex<Snapshot>,
    name: &'static str,
    tables: Box<[Table]>,
}

impl Engine for ForkEngine {
    fn name(&self) -> &'static str {
        self.name
    }

    fn view(&self) -> Result<Box<dyn View>, KvError> {
        Ok(Box::new(ForkView(self.head.lock().clone())))
    }

    fn write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        let mut batch = Batch::new();
        for (table, op) in changes.ops() {
            match op {
                Op::Put { key, value } => batch.put(table, key, value),
                Op::Delete { key } => batch.delete(table, key),
                Op::DeleteRange { from, to } => batch.delete_range(table, from, to),
            }
        }
        let mut head = self.head.lock();
        // Unflushed changes above what there was: the overlay of a store is all that it takes.
        let next = on(head.clone(), self.name, &self.tables, &Scratch::default())?;
        next.write(batch)?;
        *head = next.snapshot();
        Ok(())
    }

    fn disk_bytes(&self) -> Result<u64, KvError> {
        Ok(0)
    }

    fn table_stats(&self, table: Table) -> Result<TableStats, KvError> {
        let mut stats = TableStats::default();
        self.head.lock().scan(table, KeyRange::ALL, &mut |key, value| {
            stats.entries += 1;
            stats.bytes += (key.len() + value.len()) as u64;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(stats)
    }
}

#[derive(Debug)]
struct ForkView(Snapshot);

impl View for ForkView {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        self.0.get_into(table, key, out)
    }

    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        self.0.get_many(table, keys)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        self.0.scan(table, range, visit)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Entry, testing::entries};

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
}
