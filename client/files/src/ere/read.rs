//! Reads the blocks of an ere file, and checks all redundant content of the file.

use std::{
    fs::File,
    sync::{Arc, atomic::AtomicU64},
};

use alloy_primitives::{B256, U256, bytes::Bytes};

use super::{layout::Layout, medium::Medium, proof::check_proof};
use crate::{
    chunk::ChunkReader,
    e2store::{
        E2StoreProblem, Index, Lineage, RecordHead, Unframer, accumulator_root, header_record_root,
        join,
    },
    error::BlockFileErrorKind,
};
use polytrie_consensus::decode::{BlockPart, decode_lone_header, list_payload};

/// A block of an ere file, joined from its records.
#[derive(Debug)]
pub(crate) struct EreBlock {
    /// RLP list of header and body.
    pub(crate) rlp: Bytes,
    /// Receipts without blooms, if the file has them.
    pub(crate) receipts: Option<Bytes>,
    pub(crate) total_difficulty: Option<U256>,
    /// Offset of the block's header record.
    pub(crate) offset: u64,
}

/// State of the reader of ere files, one after the other.
#[derive(Default)]
pub(crate) struct EreBlocks {
    /// Medium of the current file.
    medium: Option<Medium>,
    /// Offset where the next file starts if all are in one file, and where that file ends; `None` for a stream.
    rest: Option<(u64, u64)>,
    era: Option<Era>,
    snappy: Unframer,
    header: Vec<u8>,
    unpacked: Vec<u8>,
}

/// An open file and the index of its next block.
struct Era {
    layout: Layout,
    blocks: Vec<Known>,
    difficulties: Vec<U256>,
    /// Accumulator that proofs of its blocks lead to.
    accumulator: Option<B256>,
    next: usize,
}

/// The parts of a header that later checks of its block need.
struct Known {
    hash: B256,
    number: u64,
    difficulty: U256,
}

impl EreBlocks {
    /// Returns a reader of a file of `length` bytes. `read` counts the bytes of a block when the block is returned.
    pub(crate) fn of_file(file: File, length: u64, read: Arc<AtomicU64>) -> Self {
        let medium = Some(Medium::of_file(file, read));
        Self { medium, rest: Some((0, length)), ..Self::default() }
    }

    /// Reads the next block. Returns `None` at the end. `input` is the stream, if the files come through one.
    pub(crate) fn next_block(
        &mut self,
        input: &mut ChunkReader,
    ) -> Result<Option<EreBlock>, BlockFileErrorKind> {
        loop {
            if self.era.as_ref().is_some_and(|era| era.next < era.blocks.len()) {
                return self.block();
            }
            let Some(layout) = self.next_layout(input)? else { return Ok(None) };
            self.era = self.open(layout)?;
        }
    }

    fn next_layout(
        &mut self,
        input: &mut ChunkReader,
    ) -> Result<Option<Layout>, BlockFileErrorKind> {
        let Some((next, length)) = &mut self.rest else {
            let Some((layout, medium)) = Medium::keep(input)? else { return Ok(None) };
            self.medium = Some(medium);
            return Ok(Some(layout));
        };
        let Some(medium) = &mut self.medium else { return Ok(None) };
        let layout = medium.find(*next, *length)?;
        *next = layout.as_ref().and_then(|layout| layout.index).map_or(*length, RecordHead::end);
        Ok(layout)
    }

    /// Reads and compares all of a file but bodies, receipts and proofs.
    fn open(&mut self, layout: Layout) -> Result<Option<Era>, BlockFileErrorKind> {
        let Some(medium) = &mut self.medium else { return Ok(None) };
        let of_blocks: u64 = (0..layout.headers.len()).map(|at| layout.bytes_of(at)).sum();
        medium.count(layout.bytes() - of_blocks);
        let mut lineage = Lineage::default();
        let mut blocks = Vec::with_capacity(layout.headers.len());
        for head in &layout.headers {
            let data = medium.payload(*head)?;
            let next = lineage.next_number();
            let fail = |problem| head.error(next, problem);
            self.snappy.unframe(data.into(), &mut self.header).map_err(fail)?;
            let header = decode_lone_header(&self.header)
                .map_err(|error| fail(E2StoreProblem::Decode(error)))?;
            lineage.follow(&header).map_err(fail)?;
            let (hash, number) = (header.hash(), header.number);
            blocks.push(Known { hash, number, difficulty: header.difficulty });
        }

        if let Some(head) = layout.index {
            let data = medium.payload(head)?;
            let columns = layout.columns();
            let columns: Vec<_> =
                columns.iter().map(|(kind, places)| (*kind, &places[..])).collect();
            let first = lineage.first().unwrap_or_default();
            let index = Index { first, columns: &columns, is_dynamic: true };
            index.check(head, &data).map_err(|problem| head.error(None, problem))?;
        }

        let mut difficulties = Vec::with_capacity(layout.difficulties.len());
        for (head, block) in layout.difficulties.iter().zip(&blocks) {
            let total = U256::from_le_slice(&medium.payload(*head)?);
            lineage
                .add_up(block.difficulty, total)
                .map_err(|problem| head.error(Some(block.number), problem))?;
            difficulties.push(total);
        }

        let mut accumulator = None;
        if layout.accumulator.is_some() || !layout.proofs.is_empty() {
            accumulator = accumulator_of(&blocks, &difficulties);
        }
        if let Some(head) = layout.accumulator {
            let found = B256::from_slice(&medium.payload(head)?);
            match accumulator {
                Some(expected) if found != expected => {
                    return Err(head.error(None, E2StoreProblem::Accumulator { found, expected }));
                }
                _ => accumulator = Some(found),
            }
        }
        Ok(Some(Era { layout, blocks, difficulties, accumulator, next: 0 }))
    }

    /// Reads the records of the next block of the open file. Its header is decompressed a second time, because all
    /// headers of a file would take as much memory as the file announces.
    fn block(&mut self) -> Result<Option<EreBlock>, BlockFileErrorKind> {
        let (Some(era), Some(medium)) = (&mut self.era, &mut self.medium) else { return Ok(None) };
        let at = era.next;
        let (Some(block), Some(header), Some(body)) =
            (era.blocks.get(at), era.layout.headers.get(at), era.layout.bodies.get(at))
        else {
            return Ok(None);
        };
        era.next += 1;
        medium.count(era.layout.bytes_of(at));
        let (number, offset) = (Some(block.number), header.offset);

        let fail = |problem| header.error(number, problem);
        self.snappy.unframe(medium.payload(*header)?.into(), &mut self.header).map_err(fail)?;

        let fail = |problem| body.error(number, problem);
        self.snappy.unframe(medium.payload(*body)?.into(), &mut self.unpacked).map_err(fail)?;
        let items = list_payload(&self.unpacked, BlockPart::Body)
            .map_err(|error| fail(E2StoreProblem::Decode(error)))?;
        let rlp = join(&self.header, items);

        let mut receipts = None;
        if let Some(head) = era.layout.receipts.get(at) {
            let fail = |problem| head.error(number, problem);
            self.snappy.unframe(medium.payload(*head)?.into(), &mut self.unpacked).map_err(fail)?;
            list_payload(&self.unpacked, BlockPart::Receipts)
                .map_err(|error| fail(E2StoreProblem::Decode(error)))?;
            receipts = Some(Bytes::copy_from_slice(&self.unpacked));
        }

        if let Some(head) = era.layout.proofs.get(at) {
            let fail = |problem| head.error(number, problem);
            self.snappy.unframe(medium.payload(*head)?.into(), &mut self.unpacked).map_err(fail)?;
            check_proof(&self.unpacked, block.hash, at as u64, era.accumulator).map_err(fail)?;
        }

        let total_difficulty = era.difficulties.get(at).copied();
        Ok(Some(EreBlock { rlp, receipts, total_difficulty, offset }))
    }
}

/// Returns the accumulator of the blocks before the merge. Without total difficulties it can be computed only for a
/// file that begins with block 0.
fn accumulator_of(blocks: &[Known], difficulties: &[U256]) -> Option<B256> {
    let merge = blocks.iter().rposition(|block| !block.difficulty.is_zero()).map_or(0, |at| at + 1);
    let mut sum = U256::ZERO;
    let sums = blocks.iter().map(|block| {
        sum = sum.saturating_add(block.difficulty);
        sum
    });
    let sums: Vec<U256> = match (difficulties, blocks.first()) {
        ([], Some(Known { number: 0, .. })) => sums.collect(),
        ([], _) => return None,
        _ => difficulties.to_vec(),
    };
    let roots = blocks.iter().zip(sums).take(merge);
    let roots: Vec<B256> = roots.map(|(block, sum)| header_record_root(block.hash, sum)).collect();
    Some(accumulator_root(&roots))
}
