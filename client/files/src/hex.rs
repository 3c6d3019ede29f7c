//! Splits a text with one block in hex per line.

use alloy_primitives::{bytes::Bytes, hex};

use super::{
    chunk::ChunkReader,
    error::{BlockFileErrorKind, Place},
    rlp::{ListLength, MAX_PREFIX, list_length},
    stream::from_prefix,
};

/// Position of the reader in the text.
#[derive(Debug)]
pub(super) struct HexLines {
    /// Number of the line, counted from 1.
    line: u64,
    /// Offset of the first byte of that line.
    line_start: u64,
}

/// A block, and the offset of the first digit (or of `0x`) of its line.
#[derive(Debug)]
pub(super) struct HexBlock {
    pub(super) rlp: Bytes,
    pub(super) offset: u64,
}

impl HexLines {
    /// Returns the position before the first line, which begins at this offset.
    pub(super) const fn new(line_start: u64) -> Self {
        Self { line: 1, line_start }
    }

    /// Decodes the next line that is not blank. Returns `None` at the end of the text.
    pub(super) fn next_block(
        &mut self,
        input: &mut ChunkReader,
        index: u64,
    ) -> Result<Option<HexBlock>, BlockFileErrorKind> {
        if !self.skip_blank(input)? {
            return Ok(None);
        }
        let offset = input.offset();
        input.fill(2)?;
        if input.data().starts_with(b"0x") || input.data().starts_with(b"0X") {
            input.skip(2);
        }

        // The first bytes contain the length of the block, so a line that cannot be a block is
        // refused before it is read.
        input.fill(2 * MAX_PREFIX)?;
        let digits = &input.data()[..input.data().len().min(2 * MAX_PREFIX)];
        let count = digits.iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
        let place = Place { index, offset, number: None };
        let prefix = hex::decode(&digits[..count & !1]).unwrap_or_default();
        let length = match list_length(&prefix).map_err(|error| from_prefix(error, place))? {
            ListLength::Known(length) => length,
            ListLength::Needs(needed) => return Err(self.broken_off(input, count, 2 * needed)),
        };

        let expected = 2 * length;
        let complete = input.fill(expected)?;
        let digits = &input.data()[..expected.min(input.data().len())];
        let mut rlp = vec![0; digits.len() / 2];
        let even = &digits[..2 * rlp.len()];
        if hex::decode_to_slice(even, &mut rlp).is_err() || !complete {
            let count = digits.iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
            return Err(self.broken_off(input, count, expected));
        }
        input.skip(expected);
        self.end_of_line(input, expected)?;
        Ok(Some(HexBlock { rlp: rlp.into(), offset }))
    }

    /// Moves to the next character that is no white space. Returns `false` at the end of the text.
    fn skip_blank(&mut self, input: &mut ChunkReader) -> Result<bool, BlockFileErrorKind> {
        while input.fill(1)? {
            let mut blank = 0;
            for byte in input.data() {
                if !byte.is_ascii_whitespace() {
                    break;
                }
                blank += 1;
                if *byte == b'\n' {
                    self.line += 1;
                    self.line_start = input.offset() + blank as u64;
                }
            }
            let found = blank < input.data().len();
            input.skip(blank);
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks that white space or the end of the text follows the block.
    fn end_of_line(
        &self,
        input: &mut ChunkReader,
        expected: usize,
    ) -> Result<(), BlockFileErrorKind> {
        if !input.fill(1)? {
            return Ok(());
        }
        match input.data().first() {
            Some(byte) if byte.is_ascii_hexdigit() => {
                Err(BlockFileErrorKind::HexTooLong { line: self.line, expected: expected as u64 })
            }
            Some(byte) if !byte.is_ascii_whitespace() => Err(BlockFileErrorKind::HexDigit {
                line: self.line,
                column: input.offset() - self.line_start + 1,
                found: *byte,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the error for a line with only `count` digits instead of `expected`: the line ends
    /// there, or another character follows.
    fn broken_off(&self, input: &ChunkReader, count: usize, expected: usize) -> BlockFileErrorKind {
        match input.data().get(count) {
            Some(&found) if !found.is_ascii_whitespace() => BlockFileErrorKind::HexDigit {
                line: self.line,
                column: input.offset() - self.line_start + count as u64 + 1,
                found,
            },
            _ => BlockFileErrorKind::HexTooShort {
                line: self.line,
                digits: count as u64,
                expected: expected as u64,
            },
        }
    }
}
