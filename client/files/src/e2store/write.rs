//! Writing of records, and the split of the next block into its parts.

use std::{
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

/// Position in a file that is being written: its first block and the number of blocks so far.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: Arc<str>,
    pub(crate) start: u64,
    pub(crate) blocks: u64,
}

/// The parts of a block that is to be written.
#[derive(Debug)]
pub(crate) struct BlockToWrite<'a> {
    pub(crate) header: &'a [u8],
    /// RLP list of the block's items without the header.
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

    /// Splits the next block into its parts, and checks that `receipts` is a list.
    pub(crate) fn take<'a>(
        &mut self,
        block: &'a [u8],
        receipts: &[u8],
    ) -> Result<BlockToWrite<'a>, ExportError> {
        if self.is_full() {
            return Err(ExportError::Full { file: Arc::clone(&self.name) });
        }
        let expected = self.start.saturating_add(self.blocks);
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

/// Writer of records, one after the other.
pub(crate) struct RecordWriter<W> {
    out: W,
    name: Arc<str>,
    written: u64,
    framer: Framer,
}

polytrie_kv::debug_fields!([W] RecordWriter[W] { name, written });

impl<W: Write> RecordWriter<W> {
    /// Returns a writer that starts at offset 0 of `out`; `name` is the file's name in error
    /// messages.
    pub(crate) fn new(name: &Arc<str>, out: W) -> Self {
        Self { out, name: Arc::clone(name), written: 0, framer: Framer::default() }
    }

    /// Returns the offset of the next record.
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

    /// Writes the index of all records so far.
    pub(crate) fn index(&mut self, kind: Kind, index: &Index<'_>) -> Result<(), ExportError> {
        let data = index.encode(self.written);
        self.record(kind, &data)
    }

    /// Copies records from another file.
    pub(crate) fn copy(&mut self, records: &mut impl io::Read) -> Result<(), ExportError> {
        let copied = io::copy(records, &mut self.out);
        self.written += copied.map_err(|error| ExportError::io(&self.name, error))?;
        Ok(())
    }

    /// Flushes the output and returns it.
    pub(crate) fn into_inner(mut self) -> Result<W, ExportError> {
        self.out.flush().map_err(|error| ExportError::io(&self.name, error))?;
        Ok(self.out)
    }
}
