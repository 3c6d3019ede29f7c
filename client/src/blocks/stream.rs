//! Splitting a stream of concatenated block RLP.

use alloy_primitives::bytes::Bytes;

use super::{
    chunk::ChunkReader,
    error::{BlockFileErrorKind, Place},
    rlp::{MAX_PREFIX, PrefixError, list_length},
};

/// Cuts the next block out of the stream; `None` at its end.
pub(super) fn next_block(
    input: &mut ChunkReader,
    index: u64,
) -> Result<Option<Bytes>, BlockFileErrorKind> {
    if !input.fill(MAX_PREFIX)? && input.data().is_empty() {
        return Ok(None);
    }
    let place = Place {
        index,
        offset: input.offset(),
        number: None,
    };
    let truncated = |present: usize, expected: usize| BlockFileErrorKind::Truncated {
        place,
        present: present as u64,
        expected: expected as u64,
    };
    let prefix = list_length(input.data()).map_err(|error| prefix_error(error, place, input))?;
    match prefix {
        // Even the end of the stream was reached with less.
        Err(needed) => Err(truncated(input.data().len(), needed)),
        Ok(length) if input.fill(length)? => Ok(Some(input.take(length))),
        Ok(length) => Err(truncated(input.data().len(), length)),
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

/// What a bad list prefix means for a block file.
pub(super) fn from_prefix(error: PrefixError, place: Place) -> BlockFileErrorKind {
    match error {
        PrefixError::NotAList(found) => BlockFileErrorKind::NotAList { place, found },
        PrefixError::NonCanonical => BlockFileErrorKind::NonCanonicalLength { place },
        PrefixError::TooLarge(length) => BlockFileErrorKind::TooLarge { place, length },
    }
}
