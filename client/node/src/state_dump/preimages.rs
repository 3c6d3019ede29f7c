//! Addresses and slots that are kept beside their hashes while a layer is filled.

use super::StateDumpError;
use polytrie_kv::{Batch, Store};
use std::mem;

/// Number of bytes of rows that are written at once.
const PORTION: usize = 16 << 20;

/// Addresses and slots to be written into a store, if they are wanted there.
pub(super) struct PreimageRows<'a> {
    store: Option<&'a Store>,
    batch: Batch,
}

impl<'a> PreimageRows<'a> {
    pub(super) fn new(store: &'a Store, are_wanted: bool) -> Self {
        Self { store: are_wanted.then_some(store), batch: Batch::new() }
    }

    pub(super) fn add(&mut self, put: impl FnOnce(&mut Batch)) -> Result<(), StateDumpError> {
        if self.store.is_none() {
            return Ok(());
        }
        put(&mut self.batch);
        self.write(PORTION)
    }

    /// Writes the remaining rows.
    pub(super) fn finish(&mut self) -> Result<(), StateDumpError> {
        self.write(0)
    }

    /// Writes the rows if they have more than `most` bytes.
    fn write(&mut self, most: usize) -> Result<(), StateDumpError> {
        if let Some(store) = self.store
            && self.batch.byte_len() > most
        {
            store.engine_write(&mem::take(&mut self.batch))?;
        }
        Ok(())
    }
}
