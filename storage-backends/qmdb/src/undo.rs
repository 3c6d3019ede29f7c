//! Undo records that say how long the log was, and what its root was, before the block.
//!
//! ```text
//! 1 ‖ operations, 8 bytes, big-endian ‖ root ‖ the seam's undo record ‖ checksum
//! ```
//!
//! A record of the seam is a list in RLP, which begins with no such byte. Where a block is taken back in steps, only the
//! last one has the head: the others change flat rows alone.

use crate::{NAME, trail::Mark};
use polytrie_kv::{Read, append_checksum, strip_checksum};
use polytrie_state::{StateError, UndoRecord, UndoRecords, UndoSteps, WriteSet};

/// The first byte.
const TAG: u8 = 1;

/// How the records of the layer are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Records;

/// A record of the seam with what the log was before the block.
pub(crate) fn join(before: &Mark, record: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(record.len() + 45);
    joined.push(TAG);
    before.encode(&mut joined);
    joined.extend_from_slice(record);
    append_checksum(NAME.as_bytes(), &mut joined);
    joined
}

/// What the log was before the block, and the record of the seam; of a step that is not the last one, only that.
pub(crate) fn split(record: &[u8]) -> Result<(Option<Mark>, &[u8]), StateError> {
    if record.first() != Some(&TAG) {
        return Ok((None, record));
    }
    let whole = strip_checksum(NAME.as_bytes(), record).and_then(|record| {
        let (before, record) = Mark::decode(record.get(1..)?)?;
        Some((Some(before), record))
    });
    whole.ok_or_else(|| StateError::Corrupt("an undo record is damaged".into()))
}

impl UndoRecords for Records {
    fn steps(&self, record: &[u8], rows: &dyn Read) -> Result<UndoSteps, StateError> {
        let (before, record) = split(record)?;
        let steps = UndoSteps::of(record, rows)?;
        Ok(match before {
            Some(before) => steps.with_last(|record| join(&before, &record)),
            None => steps,
        })
    }

    fn writes(&self, record: &[u8], _: &dyn Read) -> Result<WriteSet, StateError> {
        Ok(UndoRecord::decode(split(record)?.1)?.into_writes())
    }
}
