//! Stores with a journal in a directory, and batches made of the fuzzer's bytes.

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use polytrie_kv::{Batch, Engine, Table};
use polytrie_kv_testing::{TABLES, Wrapped, wrapped};
use std::{path::PathBuf, sync::Arc};

/// An engine with a journal.
#[derive(Debug)]
pub struct Journaled {
    /// The engine that holds the tables.
    pub engine: Arc<dyn Engine>,
    /// Directory of the journal; `None` for a store without one.
    pub dir: Option<PathBuf>,
}

wrapped!(Journaled);

impl Wrapped for Journaled {
    fn inner(&self) -> &dyn Engine {
        &*self.engine
    }

    fn journal(&self) -> Option<PathBuf> {
        self.dir.clone()
    }
}

/// Chooses one of the tables.
pub fn table(bytes: &mut Unstructured<'_>) -> Result<Table> {
    bytes.choose(&TABLES).copied()
}

/// Makes a key out of few bytes, so that keys share prefixes and have extreme bytes.
pub fn key(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let length = bytes.int_in_range(0..=3)?;
    (0..length).map(|_| bytes.choose(&[0, 1, 0x80, 0xff]).copied()).collect()
}

/// Makes a batch of at most six changes.
pub fn batch(bytes: &mut Unstructured<'_>) -> Result<Batch> {
    let mut batch = Batch::new();
    for _ in 0..bytes.int_in_range(0..=6)? {
        let (table, key) = (table(bytes)?, key(bytes)?);
        match bytes.int_in_range(0..=7)? {
            0 => {
                let to = if bytes.arbitrary()? { Some(self::key(bytes)?) } else { None };
                batch.delete_range(table, &key, to.as_deref());
            }
            1 | 2 => batch.delete(table, &key),
            kind => {
                let length = if kind == 3 { 3_000 } else { 5 };
                batch.put(table, &key, &vec![bytes.arbitrary()?; length]);
            }
        }
    }
    Ok(batch)
}
