//! The records of an e2store file.

use std::fmt;

use super::{
    super::{MAX_BLOCK_BYTES, chunk::ChunkReader, error::BlockFileErrorKind},
    BLOCKS_PER_ERA,
    error::{Era1Error, Era1Problem},
};

/// The head of a record: type, length, reserved.
pub(crate) const HEAD: usize = 8;

/// The version record, with which every e2store file starts.
pub(crate) const VERSION_MAGIC: [u8; HEAD] = [0x65, 0x32, 0, 0, 0, 0, 0, 0];

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Version,
    Header,
    Body,
    Receipts,
    TotalDifficulty,
    Accumulator,
    BlockIndex,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Version,
        Self::Header,
        Self::Body,
        Self::Receipts,
        Self::TotalDifficulty,
        Self::Accumulator,
        Self::BlockIndex,
    ];

    /// The type of the record, as in its head.
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Version => 0x3265,
            Self::Header => 0x03,
            Self::Body => 0x04,
            Self::Receipts => 0x05,
            Self::TotalDifficulty => 0x06,
            Self::Accumulator => 0x07,
            Self::BlockIndex => 0x3266,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Version => "Version",
            Self::Header => "CompressedHeader",
            Self::Body => "CompressedBody",
            Self::Receipts => "CompressedReceipts",
            Self::TotalDifficulty => "TotalDifficulty",
            Self::Accumulator => "Accumulator",
            Self::BlockIndex => "BlockIndex",
        }
    }

    /// The shortest and the longest such a record may be.
    const fn lengths(self) -> (u64, u64) {
        match self {
            Self::Version => (0, 0),
            Self::TotalDifficulty | Self::Accumulator => (32, 32),
            // First block, one offset per block, number of blocks.
            Self::BlockIndex => (16, 16 + 8 * BLOCKS_PER_ERA),
            // Snappy makes what it cannot compress longer by less than a sixth.
            Self::Header | Self::Body | Self::Receipts => {
                (1, MAX_BLOCK_BYTES + MAX_BLOCK_BYTES / 6 + 32)
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The head of one record, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// Where the record starts in the file.
    pub(super) offset: u64,
    pub(super) length: usize,
}

impl Head {
    /// Reads the head of the next record, which must be one of the `expected` kinds. `block` is the block
    /// it belongs to, for messages. `None` at the end of the file.
    pub(super) fn read(
        input: &mut ChunkReader,
        expected: &[Kind],
        block: Option<u64>,
    ) -> Result<Option<Self>, BlockFileErrorKind> {
        let offset = input.offset();
        let fail = |record, problem| Err(Era1Error { offset, record, block, problem }.into());
        input.fill(HEAD)?;
        let [t0, t1, l0, l1, l2, l3, r0, r1] = *match input.data() {
            [] => return Ok(None),
            data => match data.first_chunk::<HEAD>() {
                Some(head) => head,
                None => {
                    let problem = Era1Problem::Truncated {
                        present: data.len() as u64,
                        expected: HEAD as u64,
                    };
                    return fail("next", problem);
                }
            },
        };
        let code = u16::from_le_bytes([t0, t1]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let reserved = u16::from_le_bytes([r0, r1]);
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.code() == code) else {
            return fail(
                "next",
                match code {
                    0x0001 | 0x0002 | 0x3269 => Era1Problem::ConsensusEra,
                    _ => Era1Problem::UnknownType(code),
                },
            );
        };
        if !expected.contains(&kind) {
            let names: Vec<_> = expected.iter().map(|kind| kind.name()).collect();
            return fail(kind.name(), Era1Problem::Order { expected: names.join(" or ") });
        }
        if reserved != 0 {
            return fail(kind.name(), Era1Problem::Reserved(reserved));
        }
        let (shortest, longest) = kind.lengths();
        let found = u64::from(length);
        if found < shortest || found > longest {
            return fail(kind.name(), Era1Problem::Length { found, shortest, longest });
        }
        input.skip(HEAD);
        Ok(Some(Self { kind, offset, length: length as usize }))
    }

    pub(super) fn error(self, block: Option<u64>, problem: Era1Problem) -> BlockFileErrorKind {
        let record = self.kind.name();
        Era1Error { offset: self.offset, record, block, problem }.into()
    }
}
