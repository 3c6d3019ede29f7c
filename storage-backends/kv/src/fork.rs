//! A store that begins with what another one holds, and goes its own way in memory.

use crate::{
    Batch, Changes, Durability, Engine, KeyRange, KvError, Read, Scratch, Snapshot, Store,
    StoreOptions, Table, TableStats, View, journal::Damage,
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
        durability: Durability::ByHand,
        background: false,
        counters: false,
        ..StoreOptions::default()
    };
    let engine = ForkEngine { head: Mutex::new(snapshot), name, tables: tables.into() };
    Store::recover(Arc::new(engine), tables, options, scratch.clone(), Damage::Refuse)
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
        Ok(Box::new(self.head.lock().clone()))
    }

    fn write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        let mut batch = Batch::new();
        for (table, op) in changes.ops() {
            batch.push_op(table, op);
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
