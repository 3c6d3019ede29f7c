//! Reading the blocks of an era1 file, checking everything the file says about itself.

use alloy_consensus::Header;
use alloy_primitives::{B256, Sealed, U256, bytes::Bytes};
use alloy_rlp::Header as RlpHeader;

use crate::{chunk::ChunkReader, error::BlockFileErrorKind};
use polytrie_consensus::decode::{BlockPart, decode_lone_header, list_payload};

use super::{
    BLOCKS_PER_ERA,
    accumulator::{accumulator_root, header_record_root},
    error::{Era1Error, Era1Problem},
    record::{Head, Kind},
    snappy::Unframer,
};

/// One block of an era1 file, put together.
#[derive(Debug)]
pub(crate) struct Era1Block {
    /// Header and body as one list.
    pub(crate) rlp: Bytes,
    pub(crate) receipts: Bytes,
    pub(crate) total_difficulty: U256,
    /// Where its header record starts.
    pub(crate) offset: u64,
}

/// The state of reading era1 files, one after the other, from one stream.
#[derive(Default)]
pub(crate) struct Era1Blocks {
    /// The file that is being read; `None` before a version record.
    era: Option<Era>,
    snappy: Unframer,
    header: Vec<u8>,
    body: Vec<u8>,
    receipts: Vec<u8>,
}

/// What was seen of one file, for comparison with its end.
#[derive(Debug, Default)]
struct Era {
    first: Option<u64>,
    offsets: Vec<u64>,
    records: Vec<B256>,
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    hash: B256,
    number: u64,
    total_difficulty: U256,
}

impl Era1Blocks {
    /// The next block; `None` at the end, by when accumulator and index have been checked.
    pub(crate) fn next_block(
        &mut self,
        input: &mut ChunkReader,
    ) -> Result<Option<Era1Block>, BlockFileErrorKind> {
        loop {
            let Some(era) = &mut self.era else {
                let Some(head) = Head::read(input, &[Kind::Version], None)? else {
                    return Ok(None);
                };
                payload(input, head, None)?;
                self.era = Some(Era::default());
                continue;
            };
            let next = era.next_number();
            let expected: &[Kind] = if era.last.is_some() {
                &[Kind::Header, Kind::Accumulator]
            } else {
                &[Kind::Header]
            };
            let head = required(input, expected, next)?;
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

    /// Reads the records of the block whose header record starts with `head`.
    fn block(
        &mut self,
        input: &mut ChunkReader,
        head: Head,
    ) -> Result<Era1Block, BlockFileErrorKind> {
        let era = self.era.get_or_insert_default();
        let offset = head.offset;
        if era.offsets.len() as u64 == BLOCKS_PER_ERA {
            return Err(head.error(era.next_number(), Era1Problem::TooManyBlocks));
        }

        let next = era.next_number();
        let data = payload(input, head, next)?;
        let fail = |problem| head.error(next, problem);
        self.snappy.unframe(data, &mut self.header).map_err(fail)?;
        let header =
            decode_lone_header(&self.header).map_err(|error| fail(Era1Problem::Decode(error)))?;
        era.check_header(&header).map_err(fail)?;

        let number = Some(header.number);
        let head = required(input, &[Kind::Body], number)?;
        let data = payload(input, head, number)?;
        let fail = |problem| head.error(number, problem);
        self.snappy.unframe(data, &mut self.body).map_err(fail)?;
        let body = list_payload(&self.body, BlockPart::Body)
            .map_err(|error| fail(Era1Problem::Decode(error)))?;
        let rlp = join(&self.header, body);

        let head = required(input, &[Kind::Receipts], number)?;
        let data = payload(input, head, number)?;
        let fail = |problem| head.error(number, problem);
        self.snappy.unframe(data, &mut self.receipts).map_err(fail)?;
        list_payload(&self.receipts, BlockPart::Receipts)
            .map_err(|error| fail(Era1Problem::Decode(error)))?;
        let receipts = Bytes::copy_from_slice(&self.receipts);

        let head = required(input, &[Kind::TotalDifficulty], number)?;
        let data = payload(input, head, number)?;
        let total_difficulty = U256::from_le_slice(&data);
        era.push(&header, total_difficulty, offset)
            .map_err(|problem| head.error(number, problem))?;

        Ok(Era1Block { rlp, receipts, total_difficulty, offset })
    }
}

impl Era {
    /// The number the next block must have.
    fn next_number(&self) -> Option<u64> {
        self.last.map(|last| last.number.saturating_add(1))
    }

    fn check_header(&self, header: &Sealed<Header>) -> Result<(), Era1Problem> {
        let Some(last) = self.last else { return Ok(()) };
        let expected = last.number.saturating_add(1);
        if header.number != expected {
            return Err(Era1Problem::Number { found: header.number, expected });
        }
        if header.parent_hash != last.hash {
            let (found, expected) = (header.parent_hash, last.hash);
            return Err(Era1Problem::Parent { found, expected });
        }
        Ok(())
    }

    fn push(
        &mut self,
        header: &Sealed<Header>,
        total_difficulty: U256,
        offset: u64,
    ) -> Result<(), Era1Problem> {
        if let Some(last) = self.last {
            let expected = last.total_difficulty.saturating_add(header.difficulty);
            if total_difficulty != expected {
                return Err(Era1Problem::TotalDifficulty { found: total_difficulty, expected });
            }
        }
        let (hash, number) = (header.hash(), header.number);
        self.first.get_or_insert(number);
        self.last = Some(Last { hash, number, total_difficulty });
        self.offsets.push(offset);
        self.records.push(header_record_root(hash, total_difficulty));
        Ok(())
    }

    fn check_accumulator(
        &self,
        input: &mut ChunkReader,
        head: Head,
    ) -> Result<(), BlockFileErrorKind> {
        let found = B256::from_slice(&payload(input, head, None)?);
        let expected = accumulator_root(&self.records);
        if found == expected {
            Ok(())
        } else {
            Err(head.error(None, Era1Problem::Accumulator { found, expected }))
        }
    }

    /// The index: number of the first block, the place of each block relative to this record, count.
    fn check_index(&self, input: &mut ChunkReader, head: Head) -> Result<(), BlockFileErrorKind> {
        let data = payload(input, head, None)?;
        let fail = |problem| Err(head.error(None, problem));
        let expected = self.offsets.len() as u64;
        let (words, rest) = data.as_chunks::<8>();
        let [start, offsets @ .., count] = words else {
            return fail(Era1Problem::IndexCount { found: 0, expected });
        };
        let count = u64::from_le_bytes(*count);
        if count != expected {
            return fail(Era1Problem::IndexCount { found: count, expected });
        }
        if offsets.len() as u64 != expected || !rest.is_empty() {
            return fail(Era1Problem::IndexCount { found: offsets.len() as u64, expected });
        }
        let found = u64::from_le_bytes(*start);
        let first = self.first.unwrap_or_default();
        if found != first {
            return fail(Era1Problem::IndexStart { found, expected: first });
        }
        for (index, (relative, &expected)) in (0u64..).zip(offsets.iter().zip(&self.offsets)) {
            let found = i128::from(head.offset) + i128::from(i64::from_le_bytes(*relative));
            if found != i128::from(expected) {
                let block = first.saturating_add(index);
                return fail(Era1Problem::IndexOffset { block, found, expected });
            }
        }
        Ok(())
    }
}

/// The head of the next record, which must be there.
fn required(
    input: &mut ChunkReader,
    expected: &[Kind],
    block: Option<u64>,
) -> Result<Head, BlockFileErrorKind> {
    let offset = input.offset();
    Head::read(input, expected, block)?.ok_or_else(|| {
        let names: Vec<_> = expected.iter().map(|kind| kind.name()).collect();
        let problem = Era1Problem::Missing { expected: names.join(" or ") };
        Era1Error { offset, record: "next", block, problem }.into()
    })
}

/// The bytes behind a head.
fn payload(
    input: &mut ChunkReader,
    head: Head,
    block: Option<u64>,
) -> Result<Bytes, BlockFileErrorKind> {
    if input.fill(head.length)? {
        return Ok(input.take(head.length));
    }
    let (present, expected) = (input.data().len() as u64, head.length as u64);
    Err(head.error(block, Era1Problem::Truncated { present, expected }))
}

/// The list of a header and the items of a body.
fn join(header: &[u8], body: &[u8]) -> Bytes {
    let list = RlpHeader { list: true, payload_length: header.len() + body.len() };
    let mut rlp = Vec::with_capacity(list.length_with_payload());
    list.encode(&mut rlp);
    rlp.extend_from_slice(header);
    rlp.extend_from_slice(body);
    rlp.into()
}
