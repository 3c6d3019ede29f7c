//! A chain into another store.

use super::{
    db::ChainDb,
    error::ChainError,
    tables::{BLOCKS, CANONICAL, HEAD_KEY, META, NUMBERS, RECEIPTS, SIDE_BLOCKS, TABLES},
};
use polytrie_kv::{Batch, KeyRange, Read};
use std::ops::ControlFlow;

/// Rows are written in portions of this many bytes.
const PORTION: usize = 32 << 20;

impl ChainDb {
    /// Makes `target` hold this chain, without undo records, which belong to a state layer. What it held is gone.
    /// The head's row comes last: a copy that was stopped is no chain, and can be made again.
    ///
    /// # Errors
    ///
    /// If either store fails.
    pub fn copy_to(&self, target: &Self) -> Result<(), ChainError> {
        let mut batch = Batch::new();
        for table in TABLES {
            batch.delete_range(*table, &[], None);
        }
        target.store().engine_write(&batch)?;
        let source = self.store().snapshot();
        for table in [BLOCKS, CANONICAL, NUMBERS, RECEIPTS, SIDE_BLOCKS] {
            let mut batch = Batch::new();
            source.scan(table, KeyRange::ALL, &mut |key, value| {
                batch.put(table, key, value);
                if batch.byte_len() >= PORTION {
                    target.store().engine_write(&std::mem::take(&mut batch))?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
            target.store().engine_write(&batch)?;
        }
        let mut batch = Batch::new();
        if let Some(head) = source.get(META, HEAD_KEY)? {
            batch.put(META, HEAD_KEY, &head);
        }
        Ok(target.store().engine_write(&batch)?)
    }
}
