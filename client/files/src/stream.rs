//! Splits a stream of concatenated block RLP.

use alloy_primitives::bytes::Bytes;

use super::{
    chunk::ChunkReader,
    error::{BlockFileErrorKind, Place},
    rlp::{ListLength, MAX_PREFIX, PrefixError, list_length},
};

/// Cuts the next block out of the stream. Returns `None` at the end.
pub(super) fn next_block(
    input: &mut ChunkReader,
    index: u64,
) -> Result<Option<Bytes>, BlockFileErrorKind> {
    if !input.fill(MAX_PREFIX)? && input.data().is_empty() {
        return Ok(None);
    }
    let place = Place { index, offset: input.offset(), number: None };
    let length = list_length(input.data()).map_err(|error| prefix_error(error, place, input))?;
    match length {
        ListLength::Known(length) if input.fill(length)? => Ok(Some(input.take(length))),
        ListLength::Known(length) => Err(BlockFileErrorKind::Truncated {
            place,
            present: input.data().len() as u64,
            expected: length as u64,
        }),
        // `fill` asked for more bytes, so the stream has ended.
        ListLength::Needs(prefix) => Err(BlockFileErrorKind::TruncatedLength {
            place,
            present: input.data().len() as u64,
            expected: prefix as u64,
        }),
    }
}

fn prefix_error(error: PrefixError, place: Place, input: &ChunkReader) -> BlockFileErrorKind {
    match error {
        PrefixError::NotAList(0) if input.data().iter().take(MAX_PREFIX).all(|byte| *byte == 0) => {
            BlockFileErrorKind::Zeros { place }
        }
        other => from_prefix(other, place),
    }
}

/// Returns the error of a block file for a wrong prefix of a list.
pub(super) fn from_prefix(error: PrefixError, place: Place) -> BlockFileErrorKind {
    match error {
        PrefixError::NotAList(found) => BlockFileErrorKind::NotAList { place, found },
        PrefixError::NonCanonical => BlockFileErrorKind::NonCanonicalLength { place },
        PrefixError::TooLarge(length) => BlockFileErrorKind::TooLarge { place, length },
    }
}
