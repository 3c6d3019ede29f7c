//! The decoding of a layer's undo records.

use crate::{Result, UndoRecord, UndoSteps, WriteSet, layer::SlotVisit, wiped::visit_wiped};
use alloy_primitives::B256;
use polytrie_kv::Read;

/// A decoder of a layer's undo records. By default they are plain [`UndoRecord`]s ([`PlainRecords`]).
pub trait UndoRecords {
    /// Returns the steps in which a block is undone; `rows` is the store that holds the record. There is more
    /// than one step only if the block wiped a large contract; a record that holds everything has one
    /// ([`UndoSteps::one`]).
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::StateError::Corrupt) if `record` or its rows in the store are damaged, or if the store
    /// fails.
    fn steps(&self, record: &[u8], rows: &dyn Read) -> Result<UndoSteps> {
        UndoSteps::of(record, rows)
    }

    /// Returns the changes of accounts and slots that undo a block. With them, reads at the head give the state
    /// at earlier blocks. They hold the former value of each account that changed or has a changed slot, and all
    /// slots of a wiped account, unless [`WriteSet::apart`] says where they are. `before` values need not be set.
    /// `rows` is the store at that block or a later one of the same branch.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::StateError::Corrupt) if `record` is damaged, or if the store fails.
    fn writes(&self, record: &[u8], rows: &dyn Read) -> Result<WriteSet> {
        let _ = rows;
        Ok(UndoRecord::decode(record)?.into_writes())
    }

    /// Visits the slots that [`Self::writes`] does not list, in order of their hash, beginning at `from`. `apart` is
    /// the number that [`WriteSet::apart`] returns for an account, and the account's hash. `rows` is as in
    /// [`Self::writes`].
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged, and any error of `visit`.
    fn slots_apart(
        &self,
        rows: &dyn Read,
        apart: (u64, &B256),
        from: &B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<()> {
        visit_wiped(rows, apart, from, visit)
    }
}

/// The decoder of records that are plain [`UndoRecord`]s.
#[derive(Debug, Clone, Copy)]
pub struct PlainRecords;

impl UndoRecords for PlainRecords {}
