//! Writing one era1 file.

use std::{
    fmt,
    io::{self, Write},
    sync::Arc,
};

use alloy_primitives::{B256, U256, hex};
use alloy_rlp::Header as RlpHeader;

use crate::output::ExportError;
use polytrie_consensus::decode::{
    BlockItems, BlockPart, DecodeError, decode_lone_header, list_payload,
};

use super::{
    BLOCKS_PER_ERA,
    accumulator::{accumulator_root, header_record_root},
    record::{HEAD, Kind},
    snappy::Framer,
};

/// What an era1 file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Era1Summary {
    /// The number of its first block, a multiple of [`BLOCKS_PER_ERA`].
    pub start: u64,
    /// How many blocks it has.
    pub blocks: u64,
    /// The SSZ root of their hashes and total difficulties.
    pub accumulator: B256,
}

impl Era1Summary {
    /// The name such a file has everywhere: `NETWORK-EPOCH-ROOT.era1`, with five digits of the epoch and
    /// the first four bytes of the accumulator.
    pub fn file_name(&self, network: &str) -> String {
        let epoch = self.start / BLOCKS_PER_ERA;
        format!("{network}-{epoch:05}-{}.era1", hex::encode(&self.accumulator[..4]))
    }
}

/// Writes one era1 file: up to [`BLOCKS_PER_ERA`] blocks in order, then their accumulator and index.
pub struct Era1Writer<W> {
    out: W,
    name: Arc<str>,
    written: u64,
    start: u64,
    /// Where each block starts.
    offsets: Vec<u64>,
    records: Vec<B256>,
    framer: Framer,
}

impl<W> fmt::Debug for Era1Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Era1Writer")
            .field("name", &self.name)
            .field("start", &self.start)
            .field("blocks", &self.offsets.len())
            .finish_non_exhaustive()
    }
}

impl<W: Write> Era1Writer<W> {
    /// Starts a file whose first block is `start`; `name` stands in messages.
    ///
    /// # Errors
    ///
    /// If `start` is no multiple of [`BLOCKS_PER_ERA`], or the version record cannot be written.
    pub fn new(name: impl Into<Arc<str>>, out: W, start: u64) -> Result<Self, ExportError> {
        if !start.is_multiple_of(BLOCKS_PER_ERA) {
            return Err(ExportError::Start { start });
        }
        let mut writer = Self {
            out,
            name: name.into(),
            written: 0,
            start,
            offsets: Vec::new(),
            records: Vec::new(),
            framer: Framer::default(),
        };
        writer.record(Kind::Version, &[])?;
        Ok(writer)
    }

    /// Whether the file has all the blocks it can hold.
    pub fn is_full(&self) -> bool {
        self.offsets.len() as u64 == BLOCKS_PER_ERA
    }

    /// The number of the block that comes next.
    pub fn next_number(&self) -> u64 {
        self.start.saturating_add(self.offsets.len() as u64)
    }

    /// Appends a block: its RLP, the RLP list of its receipts with blooms, and the total difficulty up to
    /// and including it.
    ///
    /// # Errors
    ///
    /// If it is not the next block, not a block at all, or cannot be written. After an error the file is not
    /// to be finished.
    pub fn push(
        &mut self,
        block: &[u8],
        receipts: &[u8],
        total_difficulty: U256,
    ) -> Result<(), ExportError> {
        if self.is_full() {
            return Err(ExportError::Full { file: Arc::clone(&self.name) });
        }
        let expected = self.next_number();
        let (items, header) = BlockItems::split(block)
            .and_then(|items| {
                list_payload(receipts, BlockPart::Receipts)?;
                let header = decode_lone_header(items.header)?;
                Ok((items, header))
            })
            .map_err(|error| self.block_error(expected, error))?;
        if header.number != expected {
            let (file, found) = (Arc::clone(&self.name), header.number);
            return Err(ExportError::Order { file, found, expected });
        }
        let list = RlpHeader { list: true, payload_length: items.body.len() };
        let mut body = Vec::with_capacity(list.length_with_payload());
        list.encode(&mut body);
        body.extend_from_slice(items.body);

        self.offsets.push(self.written);
        self.records.push(header_record_root(header.hash(), total_difficulty));
        self.compressed(Kind::Header, items.header)?;
        self.compressed(Kind::Body, &body)?;
        self.compressed(Kind::Receipts, receipts)?;
        self.record(Kind::TotalDifficulty, &total_difficulty.to_le_bytes::<32>())
    }

    /// Writes accumulator and index; gives back where it was written and what.
    ///
    /// # Errors
    ///
    /// If the file has no block or cannot be written.
    pub fn finish(mut self) -> Result<(W, Era1Summary), ExportError> {
        if self.offsets.is_empty() {
            return Err(ExportError::Empty { file: self.name });
        }
        let accumulator = accumulator_root(&self.records);
        self.record(Kind::Accumulator, accumulator.as_slice())?;

        let blocks = self.offsets.len() as u64;
        let mut index = Vec::with_capacity(16 + 8 * self.offsets.len());
        index.extend_from_slice(&self.start.to_le_bytes());
        for offset in &self.offsets {
            // Relative to the index record, so negative.
            let relative = offset.wrapping_sub(self.written);
            index.extend_from_slice(&relative.to_le_bytes());
        }
        index.extend_from_slice(&blocks.to_le_bytes());
        self.record(Kind::BlockIndex, &index)?;
        self.out.flush().map_err(|error| ExportError::io(&self.name, error))?;
        Ok((self.out, Era1Summary { start: self.start, blocks, accumulator }))
    }

    fn compressed(&mut self, kind: Kind, data: &[u8]) -> Result<(), ExportError> {
        let framed = self.framer.frame(data).map_err(|error| ExportError::io(&self.name, error))?;
        self.record(kind, &framed)
    }

    fn record(&mut self, kind: Kind, data: &[u8]) -> Result<(), ExportError> {
        let write = |out: &mut W| {
            let length = u32::try_from(data.len()).map_err(io::Error::other)?;
            let mut head = [0; HEAD];
            head[..2].copy_from_slice(&kind.code().to_le_bytes());
            head[2..6].copy_from_slice(&length.to_le_bytes());
            out.write_all(&head)?;
            out.write_all(data)
        };
        write(&mut self.out).map_err(|error| ExportError::io(&self.name, error))?;
        self.written += (HEAD + data.len()) as u64;
        Ok(())
    }

    fn block_error(&self, number: u64, error: DecodeError) -> ExportError {
        ExportError::Block { file: Arc::clone(&self.name), number, error }
    }
}
