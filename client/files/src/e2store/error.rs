//! The errors inside an era1 or ere file.

use std::fmt;

use alloy_primitives::{B256, U256};

use super::BLOCKS_PER_ERA;
use crate::error::BlockFileErrorKind;
use polytrie_consensus::decode::DecodeError;

/// Error inside an era1 or ere file: the record and its problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct E2StoreError {
    /// Offset of the record's first byte in the file.
    pub offset: u64,
    /// Name of the record; `next` if its kind is not known.
    pub record: &'static str,
    /// Number of the block of the record, if it is known: it is not before the first header.
    pub block: Option<u64>,
    /// Problem of the record.
    pub problem: E2StoreProblem,
}

impl fmt::Display for E2StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, record, block, problem } = self;
        write!(f, "the {record} record at offset {offset}")?;
        if let Some(block) = block {
            write!(f, " (block {block})")?;
        }
        write!(f, " {problem}; ")?;
        f.write_str(match problem {
            E2StoreProblem::ConsensusEra | E2StoreProblem::UnknownType(_) => {
                "name .era1 or .ere files of the execution layer"
            }
            _ => "copy or download the file again",
        })
    }
}

impl std::error::Error for E2StoreError {}

impl From<E2StoreError> for BlockFileErrorKind {
    fn from(error: E2StoreError) -> Self {
        Self::E2Store(Box::new(error))
    }
}

impl From<Box<E2StoreError>> for BlockFileErrorKind {
    fn from(error: Box<E2StoreError>) -> Self {
        Self::E2Store(error)
    }
}

/// Kinds of [`E2StoreError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum E2StoreProblem {
    /// A record type that may not stand at this place.
    #[error("has the type {0:#06x}, which era1 and ere files do not have there")]
    UnknownType(u16),
    /// A record that only the era files of the consensus layer have.
    #[error("belongs to a consensus-layer .era file, an era1 or ere file was expected")]
    ConsensusEra,
    /// A record at a wrong place.
    #[error("stands where a {expected} record was expected")]
    Order {
        /// Kinds that may stand at this place.
        expected: String,
    },
    /// Reserved bytes that are not zero.
    #[error("has {0:#06x} in its reserved bytes, zero was expected")]
    Reserved(u16),
    /// A length that this kind of record cannot have.
    #[error("is {found} bytes long, {shortest} to {longest} were expected")]
    Length {
        /// Length in the head, in bytes.
        found: u64,
        /// Least length of this kind.
        shortest: u64,
        /// Greatest length of this kind.
        longest: u64,
    },
    /// A file that ends inside the record.
    #[error(
        "is cut off by the end of the file: {present} of its {expected} bytes are there, {missing} are \
         missing", missing = expected - present
    )]
    Truncated {
        /// Number of bytes in the file.
        present: u64,
        /// Number of bytes that the head announces.
        expected: u64,
    },
    /// A file that ends between two records.
    #[error("is missing: the file ends where a {expected} record was expected")]
    Missing {
        /// Kinds that may come next.
        expected: String,
    },
    /// Compressed data that is damaged.
    #[error("cannot be decompressed ({0})")]
    Snappy(String),
    /// Decompressed data that is longer than any block.
    #[error("holds more than {limit} bytes once decompressed")]
    TooLarge {
        /// Greatest length, in bytes.
        limit: u64,
    },
    /// Decompressed data that is not the RLP of its kind.
    #[error("does not hold what it should: {0}")]
    Decode(DecodeError),
    /// A gap in the block numbers.
    #[error("holds block {found}, block {expected} was expected")]
    Number {
        /// Number in the header.
        found: u64,
        /// Number after that of the block before.
        expected: u64,
    },
    /// A header that does not follow the one before.
    #[error("has the parent hash {found}, but the block before it hashes to {expected}")]
    Parent {
        /// Parent hash in the header.
        found: B256,
        /// Hash of the block before.
        expected: B256,
    },
    /// A total difficulty that does not follow the one before.
    #[error(
        "holds {found}, {expected} was expected (that of the block before plus the difficulty)"
    )]
    TotalDifficulty {
        /// Total difficulty in the record.
        found: U256,
        /// Sum of the total difficulty before and the block's difficulty.
        expected: U256,
    },
    /// More blocks than a file can have.
    #[error("starts block 8193 of this file, at most {BLOCKS_PER_ERA} were expected")]
    TooManyBlocks,
    /// An accumulator that is not that of the blocks.
    #[error("holds {found}, but the blocks of the file add up to {expected}")]
    Accumulator {
        /// Accumulator in the record.
        found: B256,
        /// Accumulator computed from the blocks.
        expected: B256,
    },
    /// An index that starts at another block.
    #[error("starts at block {found}, but the first block of the file is {expected}")]
    IndexStart {
        /// Block number in the record.
        found: u64,
        /// Number of the first block.
        expected: u64,
    },
    /// An index for another number of blocks.
    #[error("is that of {found} blocks, but the file has {expected}")]
    IndexCount {
        /// Number of blocks in the record, or as far as its length allows.
        found: u64,
        /// Number of blocks in the file.
        expected: u64,
    },
    /// An index of another length.
    #[error("is {found} bytes long, {expected} were expected for the blocks of the file")]
    IndexLength {
        /// Length of the record, in bytes.
        found: u64,
        /// Length of an index for the blocks of the file, in bytes.
        expected: u64,
    },
    /// An index with another number of places per block.
    #[error(
        "gives {found} places for each block, {expected} were expected: one for each record that the file has of a block"
    )]
    IndexComponents {
        /// Number in the record.
        found: u64,
        /// Number of kinds of records that the file has of each block.
        expected: u64,
    },
    /// An index entry with a wrong offset.
    #[error(
        "says that the {record} record of block {block} starts at offset {found}, but it starts at {expected}"
    )]
    IndexOffset {
        /// Name of the block's record.
        record: &'static str,
        /// Number of the block.
        block: u64,
        /// Offset in the index.
        found: i128,
        /// Offset of the record.
        expected: u64,
    },
    /// A record that holds no proof.
    #[error("does not hold a proof: {0}")]
    Proof(String),
    /// A proof that does not lead to the accumulator.
    #[error("does not prove that the block belongs to the accumulator {accumulator}")]
    NotProven {
        /// Root that the proof should lead to.
        accumulator: B256,
    },
}
