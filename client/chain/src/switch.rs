//! A change of branch in progress.
//!
//! A change to another branch, or back to a block of this one, takes many writes: blocks are taken back and executed
//! one by one. A row records the change, so that a crash in between leaves the chain where it was. The row is written
//! before the first of these writes, together with the block that made the other branch the better one if there is one.
//! It is removed by the write of the new head; by the write that takes back the last block above the new head; or, if
//! the branch is invalid, together with the invalid block. Opening a chain with such a row goes back to the former
//! head. It also removes the block that was to be the head, if that is on another branch, and its descendants; if that
//! block is inserted again, its branch becomes the better one again.

use super::{
    Chain, ChainDb, Head,
    back::WayBack,
    error::{ChainError, Result},
    tables::{META, SWITCH_KEY},
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Read};

/// A change of branch, from one head to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switch {
    /// Hash of the former head.
    pub(super) from: B256,
    /// Number of the former head.
    pub(super) from_number: u64,
    /// Hash of the new head.
    pub(super) to: B256,
}

impl Switch {
    pub(super) fn new(from: &Head, to: B256) -> Self {
        Self { from: from.hash(), from_number: from.number(), to }
    }

    /// Adds the row of this change to a batch.
    pub(super) fn put(&self, batch: &mut Batch) {
        let number = self.from_number.to_be_bytes();
        let row = [self.from.as_slice(), &number, self.to.as_slice()].concat();
        batch.put(META, SWITCH_KEY, &row);
    }

    fn decode(row: &[u8]) -> Option<Self> {
        let (from, rest) = row.split_first_chunk::<32>()?;
        let (number, to) = rest.split_first_chunk::<8>()?;
        Some(Self {
            from: B256::from(*from),
            from_number: u64::from_be_bytes(*number),
            to: B256::try_from(to).ok()?,
        })
    }
}

/// Removes the row: no change of branch is in progress after this batch.
pub(super) fn remove_switch(batch: &mut Batch) {
    batch.delete(META, SWITCH_KEY);
}

impl ChainDb {
    /// Refuses a chain in which a crash interrupted a change of branch, or taking back a block: only opening it as a
    /// [`Chain`] completes or undoes that.
    ///
    /// # Errors
    ///
    /// Fails with [`ChainError::Interrupted`] or [`ChainError::HalfBack`] if so, or if the store fails or is damaged.
    pub fn check_settled(&self) -> Result<()> {
        if let Some(switch) = self.switch()? {
            return Err(ChainError::Interrupted { head: switch.from_number });
        }
        match self.way_back()? {
            Some(WayBack { number, .. }) => {
                Err(ChainError::HalfBack { number, parent: number.saturating_sub(1) })
            }
            None => Ok(()),
        }
    }

    /// Returns the change of branch that a crash interrupted, if there is one.
    pub(super) fn switch(&self) -> Result<Option<Switch>> {
        let Some(row) = self.store().get(META, SWITCH_KEY)? else { return Ok(None) };
        let damaged = || ChainError::Corrupt("the row of a change of branch is damaged".into());
        Switch::decode(&row).map(Some).ok_or_else(damaged)
    }
}

impl Chain {
    /// Goes back to the head before a change of branch that a crash interrupted.
    pub(super) fn undo_switch(&mut self) -> Result<()> {
        let Some(switch) = self.db.switch()? else { return Ok(()) };
        tracing::warn!(
            at = self.head.number(),
            to = switch.from_number,
            "a change of branch was interrupted; going back to the branch there was"
        );
        self.switch = Some(switch);
        let restored = self.restore(switch.from);
        self.switch = None;
        restored?;
        // The block may have descendants, because it need not be the end of its branch.
        self.forget_branch(std::iter::once(switch.to))?;
        // The caller did not insert these blocks.
        self.written.clear();
        self.witnesses.clear();
        self.access_lists.clear();
        Ok(())
    }
}
