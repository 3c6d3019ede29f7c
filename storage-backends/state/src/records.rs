//! How a layer's undo records are read.

use crate::{StateError, UndoRecord, UndoSteps, WriteSet, layer::SlotVisit, visit_wiped};
use alloy_primitives::B256;
use polytrie_kv::Read;

/// What a layer's undo records say. Without a method of its own they are plain [`UndoRecord`]s ([`PlainRecords`]).
pub trait UndoRecords {
    /// The steps in which a block is taken back; `rows` is the store that the record is in. More than one only if the
    /// block wiped a large contract; records that hold everything else have one ([`UndoSteps::one`]).
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if `record` or what belongs to it is damaged, or if the store fails.
    fn steps(&self, record: &[u8], rows: &dyn Read) -> Result<UndoSteps, StateError> {
        UndoSteps::of(record, rows)
    }

    /// What taking a block back changes in accounts and slots: with it, reads at the head tell the state at earlier
    /// blocks. Of each account that changed, or of which a slot did, what it was before the block; of a wiped one all
    /// its slots, unless [`WriteSet::apart`] says where they are. `before` values need not be set. `rows` is the store at
    /// that block or a later one of the same branch.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if `record` is damaged, or if the store fails.
    fn writes(&self, record: &[u8], rows: &dyn Read) -> Result<WriteSet, StateError> {
        let _ = rows;
        Ok(UndoRecord::decode(record)?.into_writes())
    }

    /// Visits the slots that [`Self::writes`] does not list, in order of their hash, beginning at `from`: those of an
    /// account for which [`WriteSet::apart`] gives this number. `rows` is as there.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, or as `visit`.
    fn slots_apart(
        &self,
        rows: &dyn Read,
        apart: (u64, &B256),
        from: &B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        visit_wiped(rows, apart, from, visit)
    }
}

/// Records that are [`UndoRecord`]s.
#[derive(Debug, Clone, Copy)]
pub struct PlainRecords;

impl UndoRecords for PlainRecords {}
