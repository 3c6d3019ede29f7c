//! Copy of a chain into another store.

use super::{
    Chain,
    db::ChainDb,
    error::Result,
    sides::SideHashes,
    tables::{META, SIDE_BLOCKS, TABLES, UNDO},
};
use polytrie_kv::{Batch, KeyRange, Read, Table};
use polytrie_state::PREIMAGE_TABLE;
use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

/// Size of a write, in bytes.
const PORTION: usize = 32 << 20;

impl ChainDb {
    /// Replaces the content of `target` by this chain, without undo records, which belong to a state layer. The
    /// table with the head's row is copied last, so a copy that was stopped is no chain, and can be made again.
    /// Returns `false` if another thread has set `interrupt` before the end.
    ///
    /// # Errors
    ///
    /// Fails if either store fails.
    pub fn copy_to(&self, target: &Self, interrupt: &AtomicBool) -> Result<bool> {
        let mut batch = Batch::new();
        for table in TABLES {
            batch.delete_range(*table, &[], None);
        }
        target.store().engine_write(&batch)?;
        let contents = TABLES.iter().filter(|table| ![UNDO, META].contains(table));
        for table in contents.chain([&META]) {
            if !self.copy_table(*table, target, interrupt)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the stored addresses and slots to those of `target`, for a state layer there that needs them. Returns
    /// `false` if another thread has set `interrupt` before the end.
    ///
    /// # Errors
    ///
    /// Fails if either store fails.
    pub fn copy_preimages(&self, target: &Self, interrupt: &AtomicBool) -> Result<bool> {
        self.copy_table(PREIMAGE_TABLE, target, interrupt)
    }

    fn copy_table(&self, table: Table, target: &Self, interrupt: &AtomicBool) -> Result<bool> {
        let mut goes_on = !interrupt.load(Ordering::Relaxed);
        if !goes_on {
            return Ok(false);
        }
        let mut batch = Batch::new();
        self.store().snapshot().scan(table, KeyRange::ALL, &mut |key, value| {
            batch.put(table, key, value);
            if batch.byte_len() >= PORTION {
                target.store().engine_write(&std::mem::take(&mut batch))?;
                goes_on = !interrupt.load(Ordering::Relaxed);
            }
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        if goes_on {
            target.store().engine_write(&batch)?;
        }
        Ok(goes_on)
    }
}

impl Chain {
    /// Adds the blocks of other branches to those of `target`, which must have the same head.
    ///
    /// # Errors
    ///
    /// Fails if either store fails.
    pub fn copy_side_blocks(&self, target: &mut Self) -> Result<()> {
        let mut batch = Batch::new();
        self.db.store().scan(SIDE_BLOCKS, KeyRange::ALL, &mut |hash, row| {
            batch.put(SIDE_BLOCKS, hash, row);
            Ok(ControlFlow::Continue(()))
        })?;
        if !batch.is_empty() {
            target.db.store().write(batch)?;
            target.sides = SideHashes::read(&target.db)?;
        }
        Ok(())
    }
}
