//! What can be wrong inside an era1 or ere file.

use std::fmt;

use alloy_primitives::{B256, U256};

use super::BLOCKS_PER_ERA;
use crate::error::BlockFileErrorKind;
use polytrie_consensus::decode::DecodeError;

/// Something wrong inside an era1 or ere file: the record and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct E2StoreError {
    /// Where the record starts, in bytes from the start of the file.
    pub offset: u64,
    /// The name of the record; `next` if it could not be told.
    pub record: &'static str,
    /// The number of the block it belongs to, where that is known: not before the first header was read.
    pub block: Option<u64>,
    /// What is wrong.
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

/// The kinds of [`E2StoreError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum E2StoreProblem {
    /// A record type that has no place there.
    #[error("has the type {0:#06x}, which era1 and ere files do not have there")]
    UnknownType(u16),
    /// A record that only the era files of the consensus layer have.
    #[error("belongs to a consensus-layer .era file, an era1 or ere file was expected")]
    ConsensusEra,
    /// A record that belongs elsewhere.
    #[error("stands where a {expected} record was expected")]
    Order {
        /// What may stand there.
        expected: String,
    },
    /// Reserved bytes that are not zero.
    #[error("has {0:#06x} in its reserved bytes, zero was expected")]
    Reserved(u16),
    /// A length that this kind of record cannot have.
    #[error("is {found} bytes long, {shortest} to {longest} were expected")]
    Length {
        /// Bytes it claims.
        found: u64,
        /// The least it can have.
        shortest: u64,
        /// The most it can have.
        longest: u64,
    },
    /// The file ends inside the record.
    #[error(
        "is cut off by the end of the file: {present} of its {expected} bytes are there, {missing} are \
         missing", missing = expected - present
    )]
    Truncated {
        /// Bytes that are there.
        present: u64,
        /// Bytes there should be.
        expected: u64,
    },
    /// The file ends between two records.
    #[error("is missing: the file ends where a {expected} record was expected")]
    Missing {
        /// What should come.
        expected: String,
    },
    /// The compressed data is damaged.
    #[error("cannot be decompressed ({0})")]
    Snappy(String),
    /// The decompressed data is longer than any block.
    #[error("holds more than {limit} bytes once decompressed")]
    TooLarge {
        /// The most it may hold.
        limit: u64,
    },
    /// The decompressed data is not the RLP that belongs there.
    #[error("does not hold what it should: {0}")]
    Decode(DecodeError),
    /// A gap in the block numbers.
    #[error("holds block {found}, block {expected} was expected")]
    Number {
        /// The number in the header.
        found: u64,
        /// The number after that of the block before.
        expected: u64,
    },
    /// A header that does not follow from the one before.
    #[error("has the parent hash {found}, but the block before it hashes to {expected}")]
    Parent {
        /// The parent hash in the header.
        found: B256,
        /// The hash of the block before.
        expected: B256,
    },
    /// A total difficulty that does not follow from the one before.
    #[error(
        "holds {found}, {expected} was expected (that of the block before plus the difficulty)"
    )]
    TotalDifficulty {
        /// The total difficulty in the record.
        found: U256,
        /// The sum.
        expected: U256,
    },
    /// More blocks than a file can have.
    #[error("starts block 8193 of this file, at most {BLOCKS_PER_ERA} were expected")]
    TooManyBlocks,
    /// An accumulator that is not that of the blocks.
    #[error("holds {found}, but the blocks of the file add up to {expected}")]
    Accumulator {
        /// The accumulator in the record.
        found: B256,
        /// The accumulator computed from the blocks.
        expected: B256,
    },
    /// An index that starts at another block.
    #[error("starts at block {found}, but the first block of the file is {expected}")]
    IndexStart {
        /// The block number in the record.
        found: u64,
        /// The number of the first block.
        expected: u64,
    },
    /// An index of another number of blocks.
    #[error("is that of {found} blocks, but the file has {expected}")]
    IndexCount {
        /// The count in the record, or the one its length allows.
        found: u64,
        /// The blocks read.
        expected: u64,
    },
    /// An index of another length.
    #[error("is {found} bytes long, {expected} were expected for the blocks of the file")]
    IndexLength {
        /// Its length.
        found: u64,
        /// The length that the blocks of the file take.
        expected: u64,
    },
    /// An index with another number of places a block.
    #[error(
        "gives {found} places for each block, {expected} were expected: one for each record that the file has of a block"
    )]
    IndexComponents {
        /// The number in the record.
        found: u64,
        /// Kinds of records that the file has of each block.
        expected: u64,
    },
    /// An index entry that points elsewhere.
    #[error(
        "says that the {record} record of block {block} starts at offset {found}, but it starts at {expected}"
    )]
    IndexOffset {
        /// Which of the block's records.
        record: &'static str,
        /// The block.
        block: u64,
        /// Where the index says it is.
        found: i128,
        /// Where it is.
        expected: u64,
    },
    /// What should be a proof is none.
    #[error("does not hold a proof: {0}")]
    Proof(String),
    /// A proof that does not lead to the accumulator.
    #[error("does not prove that the block belongs to the accumulator {accumulator}")]
    NotProven {
        /// The root that it should lead to.
        accumulator: B256,
    },
}
