//! A chain into another store.

use super::{
    db::ChainDb,
    error::ChainError,
    tables::{META, SIDE_BLOCKS, TABLES, UNDO},
};
use polytrie_kv::{Batch, KeyRange, Read};
use std::ops::ControlFlow;

/// Rows are written in portions of this many bytes.
const PORTION: usize = 32 << 20;

impl ChainDb {
    /// Makes `target` hold this chain, without undo records, which belong to a state layer. What it held is gone.
    /// The table of the head's row comes last: a copy that was stopped is no chain, and can be made again.
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
        let contents = TABLES.iter().filter(|table| ![UNDO, META].contains(table));
        for table in contents.chain([&META]) {
            let mut batch = Batch::new();
            source.scan(*table, KeyRange::ALL, &mut |key, value| {
                batch.put(*table, key, value);
                if batch.byte_len() >= PORTION {
                    target.store().engine_write(&std::mem::take(&mut batch))?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
            target.store().engine_write(&batch)?;
        }
        Ok(())
    }

    /// Adds the blocks of other branches to those of `target`, which must have the same head.
    ///
    /// # Errors
    ///
    /// If either store fails.
    pub fn copy_side_blocks(&self, target: &Self) -> Result<(), ChainError> {
        let mut batch = Batch::new();
        self.store().scan(SIDE_BLOCKS, KeyRange::ALL, &mut |hash, row| {
            batch.put(SIDE_BLOCKS, hash, row);
            Ok(ControlFlow::Continue(()))
        })?;
        if !batch.is_empty() {
            target.store().write(batch)?;
        }
        Ok(())
    }
}
