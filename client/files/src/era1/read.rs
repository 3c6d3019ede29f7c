//! Reads the blocks of an era1 file, and checks all redundant content of the file.

use alloy_primitives::{B256, U256, bytes::Bytes};

use crate::{
    chunk::ChunkReader,
    e2store::{
        BLOCKS_PER_ERA, E2StoreProblem, Index, Kind, Lineage, RecordHead, Unframer,
        accumulator_root, header_record_root, in_pieces, join, payload, required,
    },
    error::BlockFileErrorKind,
};
use polytrie_consensus::decode::{BlockPart, decode_lone_header, list_payload};

/// A block of an era1 file, joined from its records.
#[derive(Debug)]
pub(crate) struct Era1Block {
    /// RLP list of header and body.
    pub(crate) rlp: Bytes,
    pub(crate) receipts: Bytes,
    pub(crate) total_difficulty: U256,
    /// Offset of the block's header record.
    pub(crate) offset: u64,
}

/// State of the reader of era1 files, one after the other, from one stream.
#[derive(Default)]
pub(crate) struct Era1Blocks {
    /// File that is being read; `None` before a version record.
    era: Option<Era>,
    snappy: Unframer,
    header: Vec<u8>,
    body: Vec<u8>,
    receipts: Vec<u8>,
}

/// Values of one file so far, to be compared with its end.
#[derive(Debug, Default)]
struct Era {
    lineage: Lineage,
    offsets: Vec<u64>,
    roots: Vec<B256>,
}

impl Era1Blocks {
    /// Reads the next block. Returns `None` at the end, after accumulator and index were checked.
    pub(crate) fn next_block(
        &mut self,
        input: &mut ChunkReader,
    ) -> Result<Option<Era1Block>, BlockFileErrorKind> {
        loop {
            let Some(era) = &mut self.era else {
                let Some(head) = RecordHead::read(input, &[Kind::Version], None)? else {
                    return Ok(None);
                };
                payload(input, head, None)?;
                self.era = Some(Era::default());
                continue;
            };
            let expected: &[Kind] = match era.offsets.is_empty() {
                true => &[Kind::Header],
                false => &[Kind::Header, Kind::Other(0), Kind::Accumulator],
            };
            let next = era.lineage.next_number();
            let head = required(input, expected, next)?;
            let head = behind_others(input, head, next)?;
            if head.kind == Kind::Accumulator {
                era.check_accumulator(input, head)?;
                let head = required(input, &[Kind::BlockIndex], None)?;
                era.check_index(input, head)?;
                self.era = None;
                continue;
            }
            return self.block(input, head).map(Some);
        }
    }

    /// Reads the records of the block with the header record that starts with `head`.
    fn block(
        &mut self,
        input: &mut ChunkReader,
        head: RecordHead,
    ) -> Result<Era1Block, BlockFileErrorKind> {
        let era = self.era.get_or_insert_default();
        let offset = head.offset;
        let next = era.lineage.next_number();
        if era.offsets.len() as u64 == BLOCKS_PER_ERA {
            return Err(head.error(next, E2StoreProblem::TooManyBlocks));
        }

        let data = payload(input, head, next)?;
        let fail = |problem| head.error(next, problem);
        self.snappy.unframe(data, &mut self.header).map_err(fail)?;
        let header = decode_lone_header(&self.header)
            .map_err(|error| fail(E2StoreProblem::Decode(error)))?;
        era.lineage.follow(&header).map_err(fail)?;

        let number = Some(header.number);
        let head = required(input, &[Kind::Body], number)?;
        let data = payload(input, head, number)?;
        let fail = |problem| head.error(number, problem);
        self.snappy.unframe(data, &mut self.body).map_err(fail)?;
        let body = list_payload(&self.body, BlockPart::Body)
            .map_err(|error| fail(E2StoreProblem::Decode(error)))?;
        let rlp = join(&self.header, body);

        let head = required(input, &[Kind::Receipts], number)?;
        let data = payload(input, head, number)?;
        let fail = |problem| head.error(number, problem);
        self.snappy.unframe(data, &mut self.receipts).map_err(fail)?;
        list_payload(&self.receipts, BlockPart::Receipts)
            .map_err(|error| fail(E2StoreProblem::Decode(error)))?;
        let receipts = Bytes::copy_from_slice(&self.receipts);

        let head = required(input, &[Kind::TotalDifficulty], number)?;
        let data = payload(input, head, number)?;
        let total_difficulty = U256::from_le_slice(&data);
        era.lineage
            .add_up(header.difficulty, total_difficulty)
            .map_err(|problem| head.error(number, problem))?;
        era.offsets.push(offset);
        era.roots.push(header_record_root(header.hash(), total_difficulty));

        Ok(Era1Block { rlp, receipts, total_difficulty, offset })
    }
}

/// Skips records of unknown kinds, which may stand before the accumulator and nowhere else.
fn behind_others(
    input: &mut ChunkReader,
    mut head: RecordHead,
    block: Option<u64>,
) -> Result<RecordHead, BlockFileErrorKind> {
    while let Kind::Other(code) = head.kind {
        in_pieces(input, head, |_| Ok(()))?;
        head = match required(input, &[Kind::Other(0), Kind::Accumulator], None) {
            Err(BlockFileErrorKind::E2Store(error))
                if matches!(error.problem, E2StoreProblem::Order { .. }) =>
            {
                return Err(head.error(block, E2StoreProblem::UnknownType(code)));
            }
            next => next?,
        };
    }
    Ok(head)
}

impl Era {
    fn check_accumulator(
        &self,
        input: &mut ChunkReader,
        head: RecordHead,
    ) -> Result<(), BlockFileErrorKind> {
        let found = B256::from_slice(&payload(input, head, None)?);
        let expected = accumulator_root(&self.roots);
        if found == expected {
            Ok(())
        } else {
            Err(head.error(None, E2StoreProblem::Accumulator { found, expected }))
        }
    }

    fn check_index(
        &self,
        input: &mut ChunkReader,
        head: RecordHead,
    ) -> Result<(), BlockFileErrorKind> {
        let data = payload(input, head, None)?;
        let columns = [(Kind::Header, &self.offsets[..])];
        let first = self.lineage.first().unwrap_or_default();
        let index = Index { first, columns: &columns, is_dynamic: false };
        index.check(head, &data).map_err(|problem| head.error(None, problem))
    }
}
