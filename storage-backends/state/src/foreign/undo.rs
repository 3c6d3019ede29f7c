//! Undo records that hold the position of the other store before the block.
//!
//! ```text
//! 1 ‖ mark ‖ the seam's undo record ‖ checksum
//! ```
//!
//! A record of the seam is an RLP list, which never begins with this byte. Where a block is undone in steps, only
//! the last record has the mark: the others change flat rows alone. The mark leaves out the place of the files, which
//! no block determines.

use super::{Foreign, ForeignLayer};
use crate::{Mark, Result, UndoRecord, UndoRecords, UndoSteps, WriteSet, corrupt};
use polytrie_kv::{Read, append_checksum, strip_checksum};

/// The first byte of a record with a mark.
const TAG: u8 = 1;

/// Joins a record of the seam with the position of the other store before the block.
pub(super) fn join<T: Foreign>(before: &T::Mark, record: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(record.len() + 64);
    joined.push(TAG);
    before.in_place_of(&T::Mark::default()).encode(&mut joined);
    joined.extend_from_slice(record);
    append_checksum(T::NAME.as_bytes(), &mut joined);
    joined
}

/// Splits a record into the position of the other store before the block and the record of the seam. The record of a
/// step that is not the last one has no position.
pub(super) fn split<T: Foreign>(record: &[u8]) -> Result<(Option<T::Mark>, &[u8])> {
    if T::TELLS_STATE || record.first() != Some(&TAG) {
        return Ok((None, record));
    }
    let whole = strip_checksum(T::NAME.as_bytes(), record).and_then(|record| {
        let (before, record) = T::Mark::decode(record.get(1..)?)?;
        Some((Some(before), record))
    });
    whole.ok_or_else(|| corrupt!("an undo record is damaged"))
}

impl<T: Foreign> UndoRecords for ForeignLayer<T> {
    fn steps(&self, record: &[u8], rows: &dyn Read) -> Result<UndoSteps> {
        let (before, record) = split::<T>(record)?;
        let steps = UndoSteps::of(record, rows)?;
        Ok(match before {
            Some(before) => steps.with_last(|record| join::<T>(&before, &record)),
            None => steps,
        })
    }

    fn writes(&self, record: &[u8], _: &dyn Read) -> Result<WriteSet> {
        Ok(UndoRecord::decode(split::<T>(record)?.1)?.into_writes())
    }
}
