//! How long undo records are kept.

use super::{Chain, ChainDb, ChainError, db::remove_undo, tables::UNDO};
use alloy_primitives::B256;
use polytrie_kv::{Batch, KeyRange, Read};
use polytrie_state::remove_wiped;
use std::ops::ControlFlow;

/// The undo records there are, and those that there have to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct UndoReach {
    /// The first block that has one; all after it do.
    first: u64,
    /// A block that somebody wants to go back to, however far that is.
    floor: Option<u64>,
}

impl UndoReach {
    /// What the store has, if `head` is the number of the head.
    pub(super) fn read(db: &ChainDb, head: u64) -> Result<Self, ChainError> {
        let mut first = head.saturating_add(1);
        db.store().scan(UNDO, KeyRange::ALL, &mut |key, _| {
            let key = key.try_into().map_err(|_| {
                polytrie_kv::KvError::Corrupt("the key of an undo record is damaged".into())
            })?;
            first = u64::from_be_bytes(key);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(Self { first, floor: None })
    }

    /// The first block whose record is needed once `number` is the head.
    fn needed(&self, number: u64, undo_blocks: u64) -> u64 {
        let first = number.saturating_add(1).saturating_sub(undo_blocks);
        self.floor.map_or(first, |floor| first.min(floor.saturating_add(1)))
    }
}

impl Chain {
    /// Keeps the way back to a block, even if that is further than [`ChainOptions::undo_blocks`], until this is called
    /// again; `None` for none. What is gone already does not come back.
    ///
    /// [`ChainOptions::undo_blocks`]: super::ChainOptions::undo_blocks
    pub const fn keep_way_back_to(&mut self, number: Option<u64>) {
        self.undo_reach.floor = number;
    }

    /// Tells the layer which of its own data for undoing are needed.
    pub(super) fn tell_undo_reach(&self) {
        self.layer.keep_undo_from(self.undo_reach.first);
    }

    /// Removes the records that are not needed once this block is the head, in the batch that makes it the head.
    pub(super) fn drop_old_undo(
        &mut self,
        batch: &mut Batch,
        number: u64,
        hash: &B256,
    ) -> Result<(), ChainError> {
        // Until a new branch stands, every record may be needed on the way back.
        if self.switch.is_some_and(|switch| switch.to != *hash) {
            return Ok(());
        }
        let first = self.undo_reach.first;
        let needed = self.undo_reach.needed(number, self.options.undo_blocks);
        if first >= needed {
            return Ok(());
        }
        for old in first..needed {
            remove_undo(batch, old);
        }
        if self.has_wiped(0, Some(needed))? {
            remove_wiped(batch, 0, Some(needed));
        }
        self.undo_reach.first = needed;
        Ok(())
    }
}
