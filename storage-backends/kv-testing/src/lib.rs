//! Shared parts of the tests of engines, of stores, and of everything built on them.
//!
//! An engine passes [`engine_suite`] and [`store_suite`]. Crash tests run on a [`FaultEngine`], tests of a loss of
//! power on a [`ForgetfulDisk`]. A test that lacks what it needs reports that with [`skipped`]. Nothing here is for
//! production.

mod disk;
mod engine;
mod fault;
mod model;
mod mount;
mod random;
mod requests;
mod skip;
mod wrapped;

pub use disk::{
    Failure, ForgetfulDisk, Lived, OnDisk, STORE_SYNCS, disk_seeds, first_caught, power_loss,
};
pub use engine::{TABLES, engine_suite};
pub use fault::{BeforeReads, Fault, FaultEngine, KeepsRows, Remote, SlowEngine};
pub use model::{Model, store_suite};
pub use mount::Mount;
pub use random::{Random, SEED, env_number};
pub use requests::{Made, Requests};
pub use skip::skipped;
pub use wrapped::Wrapped;

#[doc(hidden)]
pub use polytrie_kv as kv;

use polytrie_kv::{Batch, Entry, KeyRange, Read, Store, Table};
use std::ops::ControlFlow;

/// Reads all entries of a range, in its order.
///
/// # Panics
///
/// If reading fails.
pub fn entries(reader: &(impl Read + ?Sized), table: Table, range: KeyRange<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    reader
        .scan(table, range, &mut |key, value| {
            entries.push((key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        })
        .expect("scan");
    entries
}

/// Sets a row of a store, or removes it.
///
/// # Panics
///
/// If writing fails.
pub fn set_row(store: &Store, table: Table, key: &[u8], value: Option<&[u8]>) {
    let mut batch = Batch::new();
    match value {
        Some(value) => batch.put(table, key, value),
        None => batch.delete(table, key),
    }
    store.write(batch).expect("write");
}

/// Returns a batch that puts rows into the first of the [`TABLES`].
pub fn batch(rows: impl IntoIterator<Item = Entry>) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in rows {
        batch.put(TABLES[0], &key, &value);
    }
    batch
}

/// Returns the rows of one batch, about 1 MiB, at random places of a table.
pub fn megabyte(number: u64) -> Vec<Entry> {
    let mut random = Random::new(number);
    let mut rows: Vec<_> = (0..4_000).map(|_| (random.bytes(32), random.bytes(230))).collect();
    rows.sort();
    rows
}
