//! Forks: stores that begin with the content of another store and then change in memory only.

use crate::{
    Batch, Changes, Durability, Engine, Result, Scratch, Snapshot, Store, StoreOptions, Table,
    View, journal::Damage,
};
use parking_lot::Mutex;
use std::sync::Arc;

impl Store {
    /// Returns a separate store with the content that this one has now. Writes to the fork stay in memory, flushed or
    /// not, and are lost when it is dropped. Neither store sees later changes of the other.
    ///
    /// A fork keeps alive what a [`snapshot`](Self::snapshot) keeps alive, so drop it soon.
    ///
    /// # Errors
    ///
    /// None at present: nothing is read or written yet.
    pub fn fork(&self) -> Result<Self> {
        on(self.snapshot(), self.engine_name(), self.tables(), self.scratch())
    }
}

/// Builds a store that begins with the content of a snapshot.
fn on(
    snapshot: Snapshot,
    name: &'static str,
    tables: &[Table],
    scratch: &Scratch,
) -> Result<Store> {
    let options = StoreOptions {
        durability: Durability::ByHand,
        background: false,
        counters: false,
        ..StoreOptions::default()
    };
    let (is_remote, keeps_rows) = (snapshot.is_remote(), snapshot.keeps_rows());
    let head = Mutex::new(snapshot);
    let engine = ForkEngine { head, name, tables: tables.into(), is_remote, keeps_rows };
    Store::recover(Arc::new(engine), tables, options, scratch.clone(), Damage::Refuse)
}

/// The engine of a fork: the snapshot that it began with, plus the changes flushed since.
#[derive(Debug)]
struct ForkEngine {
    head: Mutex<Snapshot>,
    name: &'static str,
    tables: Box<[Table]>,
    /// Whether the rows below are on other machines.
    is_remote: bool,
    /// Whether the store below caches what is read through it, so that this one need not do so again.
    keeps_rows: bool,
}

impl Engine for ForkEngine {
    fn name(&self) -> &'static str {
        self.name
    }

    fn view(&self) -> Result<Box<dyn View>> {
        Ok(Box::new(self.head.lock().clone()))
    }

    fn write(&self, changes: &dyn Changes) -> Result<()> {
        let mut head = self.head.lock();
        // The changes go into the overlay of another store above the old snapshot; no engine is needed to hold them.
        let next = on(head.clone(), self.name, &self.tables, &Scratch::default())?;
        next.write(Batch::of(changes))?;
        *head = next.snapshot();
        Ok(())
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }

    fn keeps_rows(&self) -> bool {
        self.keeps_rows
    }

    fn disk_bytes(&self) -> Result<u64> {
        Ok(0)
    }
}
