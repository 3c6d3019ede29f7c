//! Stores with a journal: which writes are durable, and which of them a crash leaves.
//!
//! - `durable.rs`: what a write, a flush and a crash leave, and how long the journal gets,
//! - `damage.rs`: files that are damaged, cut, missing or older than what was confirmed, and their repair,
//! - `beside.rs`: reading beside a store that writes.

#![expect(clippy::unwrap_used, reason = "tests")]

mod beside;
mod damage;
mod durable;

use polytrie_kv::{
    Batch, Durability, Engine, Entry, KeyRange, KvError, MemoryEngine, Store, StoreOptions, Table,
};
use polytrie_kv_testing::{Wrapped, entries};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

const A: Table = Table::new(0, "a", 8);
const B: Table = Table::new(1, "b", 8);

/// An engine with a journal.
#[derive(Debug)]
struct Journaled {
    inner: Arc<MemoryEngine>,
    dir: PathBuf,
}

polytrie_kv_testing::wrapped!(Journaled);

impl Wrapped for Journaled {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    fn journal(&self) -> Option<PathBuf> {
        Some(self.dir.clone())
    }
}

/// Opens a store with writes that are durable when they return.
fn open(engine: &Arc<MemoryEngine>, dir: &Path) -> Result<Store, KvError> {
    open_as(Durability::EveryWrite, engine, dir)
}

fn open_as(
    durability: Durability,
    engine: &Arc<MemoryEngine>,
    dir: &Path,
) -> Result<Store, KvError> {
    let engine = Journaled { inner: engine.clone(), dir: dir.to_owned() };
    Store::open(Arc::new(engine), &[A, B], StoreOptions { flush_every: 7, ..in_step(durability) })
}

fn in_step(durability: Durability) -> StoreOptions {
    StoreOptions { durability, background: false, ..StoreOptions::default() }
}

fn put(table: Table, key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(table, key.as_bytes(), value.as_bytes());
    batch
}

/// Returns the files of the journal.
fn files(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_ours =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("journal.");
    let mut files: Vec<PathBuf> = all.filter(is_ours).collect();
    files.sort();
    files
}

fn content(store: &Store) -> [Vec<Entry>; 2] {
    [A, B].map(|table| entries(store, table, KeyRange::ALL))
}

fn read_only(engine: &Arc<MemoryEngine>, dir: &Path) -> Result<Store, KvError> {
    let inner = Journaled { inner: engine.clone(), dir: dir.to_owned() };
    Store::open(Arc::new(ReadOnly(inner)), &[A, B], StoreOptions::default())
}

#[derive(Debug)]
struct ReadOnly(Journaled);

polytrie_kv_testing::wrapped!(ReadOnly);

impl Wrapped for ReadOnly {
    fn inner(&self) -> &dyn Engine {
        &self.0
    }
    fn takes_nothing(&self) -> bool {
        true
    }
    fn journal(&self) -> Option<PathBuf> {
        self.0.journal()
    }
}

fn is_lost<T>(found: &Result<T, KvError>) -> bool {
    matches!(found, Err(KvError::Lost { .. }))
}
