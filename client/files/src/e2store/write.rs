//! Writing records, and what comes before that: the next block and its parts.

use std::{
    fmt,
    io::{self, Write},
    sync::Arc,
};

use alloy_consensus::Header;
use alloy_primitives::Sealed;
use alloy_rlp::Header as RlpHeader;

use super::{
    BLOCKS_PER_ERA,
    index::Index,
    record::{HEAD, Kind, RecordHead},
    snappy::Framer,
};
use crate::output::ExportError;
use polytrie_consensus::decode::{
    BlockItems, BlockPart, DecodeError, decode_lone_header, list_payload,
};

/// How far a file has come, and which block is next.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: Arc<str>,
    pub(crate) start: u64,
    pub(crate) blocks: u64,
}

/// A block that is to be written, in its parts.
#[derive(Debug)]
pub(crate) struct BlockToWrite<'a> {
    pub(crate) header: &'a [u8],
    /// Everything but the header as a list.
    pub(crate) body: Vec<u8>,
    pub(crate) sealed: Sealed<Header>,
}

impl Place {
    pub(crate) fn new(name: impl Into<Arc<str>>, start: u64) -> Result<Self, ExportError> {
        if !start.is_multiple_of(BLOCKS_PER_ERA) {
            return Err(ExportError::Start { start });
        }
        Ok(Self { name: name.into(), start, blocks: 0 })
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.blocks == BLOCKS_PER_ERA
    }

    /// The number of the block that comes next.
    pub(crate) const fn next_number(&self) -> u64 {
        self.start.saturating_add(self.blocks)
    }

    /// Splits the next block into its parts; what comes with it must be a list at least.
    pub(crate) fn take<'a>(
        &mut self,
        block: &'a [u8],
        receipts: &[u8],
    ) -> Result<BlockToWrite<'a>, ExportError> {
        if self.is_full() {
            return Err(ExportError::Full { file: Arc::clone(&self.name) });
        }
        let expected = self.next_number();
        let (items, sealed) = Self::split(block, receipts).map_err(|error| ExportError::Block {
            file: Arc::clone(&self.name),
            number: expected,
            error,
        })?;
        if sealed.number != expected {
            let (file, found) = (Arc::clone(&self.name), sealed.number);
            return Err(ExportError::Order { file, found, expected });
        }
        let list = RlpHeader { list: true, payload_length: items.body.len() };
        let mut body = Vec::with_capacity(list.length_with_payload());
        list.encode(&mut body);
        body.extend_from_slice(items.body);
        self.blocks += 1;
        Ok(BlockToWrite { header: items.header, body, sealed })
    }

    fn split<'a>(
        block: &'a [u8],
        receipts: &[u8],
    ) -> Result<(BlockItems<'a>, Sealed<Header>), DecodeError> {
        let items = BlockItems::split(block)?;
        list_payload(receipts, BlockPart::Receipts)?;
        let sealed = decode_lone_header(items.header)?;
        Ok((items, sealed))
    }
}

/// Writes records one after the other.
pub(crate) struct RecordWriter<W> {
    out: W,
    name: Arc<str>,
    written: u64,
    framer: Framer,
}

impl<W> fmt::Debug for RecordWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWriter")
            .field("name", &self.name)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl<W: Write> RecordWriter<W> {
    /// Starts with the next record; `name` stands in messages.
    pub(crate) fn new(name: &Arc<str>, out: W) -> Self {
        Self { out, name: Arc::clone(name), written: 0, framer: Framer::default() }
    }

    /// Where the next record will start.
    pub(crate) const fn position(&self) -> u64 {
        self.written
    }

    /// Writes a record of compressed data.
    pub(crate) fn compressed(&mut self, kind: Kind, data: &[u8]) -> Result<(), ExportError> {
        let framed = self.framer.frame(data).map_err(|error| ExportError::io(&self.name, error))?;
        self.record(kind, &framed)
    }

    /// Writes a record.
    pub(crate) fn record(&mut self, kind: Kind, data: &[u8]) -> Result<(), ExportError> {
        let write = |out: &mut W| {
            let length = u32::try_from(data.len()).map_err(io::Error::other)?;
            out.write_all(&RecordHead::encode(kind, length))?;
            out.write_all(data)
        };
        write(&mut self.out).map_err(|error| ExportError::io(&self.name, error))?;
        self.written += (HEAD + data.len()) as u64;
        Ok(())
    }

    /// Writes the index of all records before.
    pub(crate) fn index(&mut self, kind: Kind, index: &Index<'_>) -> Result<(), ExportError> {
        let data = index.encode(self.written);
        self.record(kind, &data)
    }

    /// Copies records that were written elsewhere.
    pub(crate) fn copy(&mut self, records: &mut impl io::Read) -> Result<(), ExportError> {
        let copied = io::copy(records, &mut self.out);
        self.written += copied.map_err(|error| ExportError::io(&self.name, error))?;
        Ok(())
    }

    /// Ends writing; gives back where it went.
    pub(crate) fn into_inner(mut self) -> Result<W, ExportError> {
        self.out.flush().map_err(|error| ExportError::io(&self.name, error))?;
        Ok(self.out)
    }
}
