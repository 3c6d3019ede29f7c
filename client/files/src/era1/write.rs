//! Writing of one era1 file.

use std::{io::Write, sync::Arc};

use alloy_primitives::{B256, U256};

use crate::{
    e2store::{
        ArchiveFormat, ArchiveSummary, Index, Kind, Place, RecordWriter, accumulator_root,
        header_record_root,
    },
    output::ExportError,
};

/// Writer of one era1 file: up to [`BLOCKS_PER_ERA`](crate::e2store::BLOCKS_PER_ERA) blocks in order, then their
/// accumulator and index.
pub struct Era1Writer<W> {
    records: RecordWriter<W>,
    place: Place,
    /// Offset of each block's header record.
    offsets: Vec<u64>,
    /// Root of each block's record, which the accumulator is made of.
    roots: Vec<B256>,
}

polytrie_kv::debug_fields!([W] Era1Writer[W] { place });

impl<W: Write> Era1Writer<W> {
    /// Starts a file at the block `start`; `name` is its name in error messages.
    ///
    /// # Errors
    ///
    /// Fails if `start` is no multiple of [`BLOCKS_PER_ERA`](crate::e2store::BLOCKS_PER_ERA), or the version record
    /// cannot be written.
    pub fn new(name: impl Into<Arc<str>>, out: W, start: u64) -> Result<Self, ExportError> {
        let place = Place::new(name, start)?;
        let mut records = RecordWriter::new(&place.name, out);
        records.record(Kind::Version, &[])?;
        Ok(Self { records, place, offsets: Vec::new(), roots: Vec::new() })
    }

    /// Whether the file has as many blocks as it can hold.
    pub const fn is_full(&self) -> bool {
        self.place.is_full()
    }

    /// Appends a block: its RLP, the RLP list of its receipts with blooms, and the total difficulty up to
    /// and including it.
    ///
    /// # Errors
    ///
    /// Fails if the block is not the next one, is not a block, or cannot be written. After an error the caller must not
    /// finish the file.
    pub fn push(
        &mut self,
        block: &[u8],
        receipts: &[u8],
        total_difficulty: U256,
    ) -> Result<(), ExportError> {
        let block = self.place.take(block, receipts)?;
        if block.sealed.difficulty.is_zero() {
            let number = block.sealed.number;
            return Err(ExportError::Merged { first: self.place.start, number });
        }
        self.offsets.push(self.records.position());
        self.roots.push(header_record_root(block.sealed.hash(), total_difficulty));
        self.records.compressed(Kind::Header, block.header)?;
        self.records.compressed(Kind::Body, &block.body)?;
        self.records.compressed(Kind::Receipts, receipts)?;
        self.records.record(Kind::TotalDifficulty, &total_difficulty.to_le_bytes::<32>())
    }

    /// Writes accumulator and index. Returns the output and a summary of the file.
    ///
    /// # Errors
    ///
    /// Fails if the file has no block or cannot be written.
    pub fn finish(mut self) -> Result<(W, ArchiveSummary), ExportError> {
        let Place { name, start, blocks } = self.place;
        if blocks == 0 {
            return Err(ExportError::Empty { file: name });
        }
        let id = accumulator_root(&self.roots);
        self.records.record(Kind::Accumulator, id.as_slice())?;
        let columns = [(Kind::Header, &self.offsets[..])];
        let index = Index { first: start, columns: &columns, is_dynamic: false };
        self.records.index(Kind::BlockIndex, &index)?;
        let summary = ArchiveSummary { format: ArchiveFormat::Era1, start, blocks, id };
        Ok((self.records.into_inner()?, summary))
    }
}
