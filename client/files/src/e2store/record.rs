//! The records of an e2store file.

use std::mem;

use alloy_primitives::bytes::Bytes;

use super::{
    BLOCKS_PER_ERA,
    error::{E2StoreError, E2StoreProblem},
};
use crate::{MAX_BLOCK_BYTES, chunk::ChunkReader, error::BlockFileErrorKind};

/// Size of the pieces in which a record is read that need not be in memory as a whole, in bytes.
const PIECE: usize = 1 << 20;

/// Length of a record's head: type, length, reserved bytes.
pub(crate) const HEAD: usize = 8;

/// The version record, with which every e2store file starts.
pub(crate) const VERSION_MAGIC: [u8; HEAD] = [0x65, 0x32, 0, 0, 0, 0, 0, 0];

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Version,
    Header,
    Body,
    /// Receipts with blooms (era1).
    Receipts,
    /// Receipts without blooms (ere).
    SlimReceipts,
    Proof,
    TotalDifficulty,
    Accumulator,
    /// Index with one place per block (era1).
    BlockIndex,
    /// Index with two to five places per block (ere).
    DynamicBlockIndex,
    /// An unknown kind, with its type.
    Other(u16),
}

impl Kind {
    /// Returns the kind with this type.
    pub(crate) const fn of(code: u16) -> Self {
        match code {
            0x3265 => Self::Version,
            0x03 => Self::Header,
            0x04 => Self::Body,
            0x05 => Self::Receipts,
            0x06 => Self::TotalDifficulty,
            0x07 => Self::Accumulator,
            0x0a => Self::SlimReceipts,
            0x0b => Self::Proof,
            0x3266 => Self::BlockIndex,
            0x3267 => Self::DynamicBlockIndex,
            other => Self::Other(other),
        }
    }

    /// Returns the type in the head of such a record.
    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::Version => 0x3265,
            Self::Header => 0x03,
            Self::Body => 0x04,
            Self::Receipts => 0x05,
            Self::TotalDifficulty => 0x06,
            Self::Accumulator => 0x07,
            Self::SlimReceipts => 0x0a,
            Self::Proof => 0x0b,
            Self::BlockIndex => 0x3266,
            Self::DynamicBlockIndex => 0x3267,
            Self::Other(code) => code,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Version => "Version",
            Self::Header => "CompressedHeader",
            Self::Body => "CompressedBody",
            Self::Receipts => "CompressedReceipts",
            Self::SlimReceipts => "CompressedSlimReceipts",
            Self::Proof => "Proof",
            Self::TotalDifficulty => "TotalDifficulty",
            Self::Accumulator => "Accumulator",
            Self::BlockIndex => "BlockIndex",
            Self::DynamicBlockIndex => "DynamicBlockIndex",
            Self::Other(_) => "next",
        }
    }

    /// Returns the least and the greatest length of such a record, in bytes.
    pub(crate) const fn lengths(self) -> (u64, u64) {
        match self {
            Self::Version => (0, 0),
            Self::TotalDifficulty | Self::Accumulator => (32, 32),
            // The index has the first block, one offset per block, and the number of blocks.
            Self::BlockIndex => (16, 16 + 8 * BLOCKS_PER_ERA),
            // The index has the first block, up to five offsets per block, the number of offsets, and the number of
            // blocks.
            Self::DynamicBlockIndex => (24, 24 + 5 * 8 * BLOCKS_PER_ERA),
            // Snappy makes data that it cannot compress longer by less than a sixth.
            Self::Header | Self::Body | Self::Receipts | Self::SlimReceipts | Self::Proof => {
                (1, MAX_BLOCK_BYTES + MAX_BLOCK_BYTES / 6 + 32)
            }
            Self::Other(_) => (0, u32::MAX as u64),
        }
    }

    fn is_among(self, expected: &[Self]) -> bool {
        expected.iter().any(|kind| mem::discriminant(kind) == mem::discriminant(&self))
    }
}

/// Head of a record, checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordHead {
    pub(crate) kind: Kind,
    /// Offset of the record's first byte in the file.
    pub(crate) offset: u64,
    /// Number of bytes after the head.
    pub(crate) length: u32,
}

impl RecordHead {
    /// Parses the head at `offset`, which must be of one of the `expected` kinds. `block` is the record's block, for
    /// error messages.
    pub(crate) fn parse(
        bytes: [u8; HEAD],
        offset: u64,
        expected: &[Kind],
        block: Option<u64>,
    ) -> Result<Self, Box<E2StoreError>> {
        let fail = |record, problem| Err(Box::new(E2StoreError { offset, record, block, problem }));
        let [t0, t1, l0, l1, l2, l3, r0, r1] = bytes;
        let kind = Kind::of(u16::from_le_bytes([t0, t1]));
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let reserved = u16::from_le_bytes([r0, r1]);
        match kind {
            // The types of the consensus layer are a block, a state, and the index of slots.
            Kind::Other(0x0001 | 0x0002 | 0x3269) => {
                return fail("next", E2StoreProblem::ConsensusEra);
            }
            Kind::Other(code) if !kind.is_among(expected) => {
                return fail("next", E2StoreProblem::UnknownType(code));
            }
            _ if !kind.is_among(expected) => {
                let expected = names(expected);
                return fail(kind.name(), E2StoreProblem::Order { expected });
            }
            _ => {}
        }
        if reserved != 0 {
            return fail(kind.name(), E2StoreProblem::Reserved(reserved));
        }
        let (shortest, longest) = kind.lengths();
        let found = u64::from(length);
        if found < shortest || found > longest {
            return fail(kind.name(), E2StoreProblem::Length { found, shortest, longest });
        }
        Ok(Self { kind, offset, length })
    }

    /// Reads the head of the next record; see [`Self::parse`]. Returns `None` at the end of the file.
    pub(crate) fn read(
        input: &mut ChunkReader,
        expected: &[Kind],
        block: Option<u64>,
    ) -> Result<Option<Self>, BlockFileErrorKind> {
        let offset = input.offset();
        input.fill(HEAD)?;
        let bytes = match input.data() {
            [] => return Ok(None),
            data => match data.first_chunk::<HEAD>() {
                Some(bytes) => *bytes,
                None => return Err(cut_off(offset, data.len() as u64, block).into()),
            },
        };
        let head = Self::parse(bytes, offset, expected, block)?;
        input.skip(HEAD);
        Ok(Some(head))
    }

    /// Returns the bytes of the head of a record of this kind and length.
    pub(crate) fn encode(kind: Kind, length: u32) -> [u8; HEAD] {
        let ([t0, t1], [l0, l1, l2, l3]) = (kind.code().to_le_bytes(), length.to_le_bytes());
        [t0, t1, l0, l1, l2, l3, 0, 0]
    }

    /// Returns the offset of the first byte after the head.
    pub(crate) const fn data(self) -> u64 {
        self.offset + HEAD as u64
    }

    /// Returns the offset of the first byte after the record.
    pub(crate) fn end(self) -> u64 {
        self.data() + u64::from(self.length)
    }

    pub(crate) fn error(self, block: Option<u64>, problem: E2StoreProblem) -> BlockFileErrorKind {
        let record = self.kind.name();
        E2StoreError { offset: self.offset, record, block, problem }.into()
    }
}

/// Returns the error about a head of which only `present` bytes are in the file.
pub(crate) fn cut_off(offset: u64, present: u64, block: Option<u64>) -> E2StoreError {
    let problem = E2StoreProblem::Truncated { present, expected: HEAD as u64 };
    E2StoreError { offset, record: "next", block, problem }
}

/// Returns the error about a missing record.
pub(crate) fn missing(offset: u64, expected: &[Kind], block: Option<u64>) -> E2StoreError {
    let problem = E2StoreProblem::Missing { expected: names(expected) };
    E2StoreError { offset, record: "next", block, problem }
}

fn names(expected: &[Kind]) -> String {
    let named = expected.iter().filter(|kind| !matches!(kind, Kind::Other(_)));
    named.map(|kind| kind.name()).collect::<Vec<_>>().join(" or ")
}

/// Reads the head of the next record, which must exist.
pub(crate) fn required(
    input: &mut ChunkReader,
    expected: &[Kind],
    block: Option<u64>,
) -> Result<RecordHead, BlockFileErrorKind> {
    let offset = input.offset();
    RecordHead::read(input, expected, block)?.ok_or_else(|| missing(offset, expected, block).into())
}

/// Reads the bytes after a head.
pub(crate) fn payload(
    input: &mut ChunkReader,
    head: RecordHead,
    block: Option<u64>,
) -> Result<Bytes, BlockFileErrorKind> {
    let length = head.length as usize;
    if input.fill(length)? {
        return Ok(input.take(length));
    }
    let (present, expected) = (input.data().len() as u64, u64::from(head.length));
    Err(head.error(block, E2StoreProblem::Truncated { present, expected }))
}

/// Passes the bytes after a head to `take` piece by piece, because a record of an unknown kind may be longer than
/// memory.
pub(crate) fn in_pieces(
    input: &mut ChunkReader,
    head: RecordHead,
    mut take: impl FnMut(&[u8]) -> Result<(), BlockFileErrorKind>,
) -> Result<(), BlockFileErrorKind> {
    let length = head.length as usize;
    let mut left = length;
    while left > 0 {
        let piece = left.min(PIECE);
        if !input.fill(piece)? {
            let present = (length - left + input.data().len()) as u64;
            let expected = u64::from(head.length);
            return Err(head.error(None, E2StoreProblem::Truncated { present, expected }));
        }
        take(&input.data()[..piece])?;
        input.skip(piece);
        left -= piece;
    }
    Ok(())
}
