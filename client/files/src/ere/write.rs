//! Writing of one ere file.

use std::{
    io::{Seek, Write},
    path::Path,
    sync::Arc,
};

use alloy_primitives::{B256, U256};
use tempfile::{SpooledTempFile, spooled_tempfile_in};

use crate::{
    e2store::{
        ArchiveFormat, ArchiveSummary, Index, Kind, Place, RecordWriter, accumulator_root,
        header_record_root,
    },
    output::ExportError,
};

/// Size up to which the records of one kind are kept in memory, in bytes.
const IN_MEMORY: usize = 16 << 20;

/// Writer of one ere file without proofs: up to [`BLOCKS_PER_ERA`](crate::e2store::BLOCKS_PER_ERA) blocks in order.
///
/// The records of one kind stand together in the file. So each kind goes to its own unnamed temporary file until the
/// ere file is finished.
pub struct EreWriter<W> {
    out: W,
    place: Place,
    sections: [Section; 3],
    blocks: Vec<Written>,
}

/// The records of one kind.
struct Section {
    kind: Kind,
    records: RecordWriter<SpooledTempFile>,
    /// Offset of each record, from the start of the section.
    starts: Vec<u64>,
}

/// The parts of a block that the end of the file needs.
struct Written {
    hash: B256,
    total_difficulty: U256,
    is_merged: bool,
}

polytrie_kv::debug_fields!([W] EreWriter[W] { place });

impl<W: Write> EreWriter<W> {
    /// Starts a file at the block `start`; `name` is its name in error messages, and `directory` is for
    /// temporary files.
    ///
    /// # Errors
    ///
    /// Fails if `start` is no multiple of [`BLOCKS_PER_ERA`](crate::e2store::BLOCKS_PER_ERA).
    pub fn new(
        name: impl Into<Arc<str>>,
        out: W,
        start: u64,
        directory: &Path,
    ) -> Result<Self, ExportError> {
        let place = Place::new(name, start)?;
        let sections = [Kind::Header, Kind::Body, Kind::SlimReceipts].map(|kind| {
            let spool = spooled_tempfile_in(IN_MEMORY, directory);
            Section { kind, records: RecordWriter::new(&place.name, spool), starts: Vec::new() }
        });
        Ok(Self { out, place, sections, blocks: Vec::new() })
    }

    /// Whether the file has as many blocks as it can hold.
    pub const fn is_full(&self) -> bool {
        self.place.is_full()
    }

    /// Appends a block: its RLP, the RLP list of its receipts without blooms, and the total difficulty up to and
    /// including it, which after the merge is that of the last block before the merge.
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
        for (section, data) in self.sections.iter_mut().zip([block.header, &block.body, receipts]) {
            section.starts.push(section.records.position());
            section.records.compressed(section.kind, data)?;
        }
        let (hash, is_merged) = (block.sealed.hash(), block.sealed.difficulty.is_zero());
        self.blocks.push(Written { hash, total_difficulty, is_merged });
        Ok(())
    }

    /// Writes the file. Returns the output and a summary of the file.
    ///
    /// # Errors
    ///
    /// Fails if the file has no block or cannot be written.
    pub fn finish(self) -> Result<(W, ArchiveSummary), ExportError> {
        let Place { name, start, blocks } = self.place;
        let Some(Written { hash: id, .. }) = self.blocks.last() else {
            return Err(ExportError::Empty { file: name });
        };
        let mut records = RecordWriter::new(&name, self.out);
        records.record(Kind::Version, &[])?;
        let mut columns = Vec::new();
        for Section { kind, records: section, starts } in self.sections {
            let base = records.position();
            let mut spool = section.into_inner()?;
            spool.rewind().map_err(|error| ExportError::io(&name, error))?;
            records.copy(&mut spool)?;
            columns.push((kind, starts.into_iter().map(|at| base + at).collect::<Vec<_>>()));
        }
        // Total difficulties are written in every epoch that has a block before the merge; the blocks after it have
        // them too.
        if let Some(last) = self.blocks.iter().rposition(|block| !block.is_merged) {
            let mut places = Vec::with_capacity(self.blocks.len());
            for block in &self.blocks {
                places.push(records.position());
                let total = block.total_difficulty.to_le_bytes::<32>();
                records.record(Kind::TotalDifficulty, &total)?;
            }
            columns.push((Kind::TotalDifficulty, places));
            let before = self.blocks.iter().take(last + 1);
            let roots: Vec<_> =
                before.map(|b| header_record_root(b.hash, b.total_difficulty)).collect();
            records.record(Kind::Accumulator, accumulator_root(&roots).as_slice())?;
        }
        let columns: Vec<_> = columns.iter().map(|(kind, places)| (*kind, &places[..])).collect();
        let index = Index { first: start, columns: &columns, is_dynamic: true };
        records.index(Kind::DynamicBlockIndex, &index)?;
        let summary = ArchiveSummary { format: ArchiveFormat::Ere, start, blocks, id: *id };
        Ok((records.into_inner()?, summary))
    }
}
