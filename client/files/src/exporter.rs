//! Writing of a range of blocks as files of a directory.

use std::path::{Path, PathBuf};

use alloy_consensus::ReceiptEnvelope;
use alloy_primitives::U256;

use crate::{
    e2store::{
        ArchiveFormat, ArchiveSummary, BLOCKS_PER_ERA, Checksums, Hashed, names_of, other_network,
    },
    era1::Era1Writer,
    ere::EreWriter,
    output::{ExportError, OutputFile},
};
use polytrie_consensus::decode::{encode_receipts, encode_slim_receipts};

/// Writer of blocks into a directory, one file per 8192 blocks, each with the name of [`ArchiveSummary::file_name`],
/// and `checksums.txt` with the SHA-256 of all files of the network in the directory.
///
/// A file gets its name when it is complete, and the list of checksums covers only files with names. If the exporter is
/// dropped before a file is complete, that file is removed.
#[derive(Debug)]
pub struct ArchiveExporter {
    format: ArchiveFormat,
    directory: PathBuf,
    network: String,
    current: Option<Writer>,
    next: u64,
    finished: Vec<PathBuf>,
    /// Checksums of the directory; `None` before the first file.
    checksums: Option<Checksums>,
}

#[derive(Debug)]
enum Writer {
    Era1(Box<Era1Writer<Hashed<OutputFile>>>),
    Ere(Box<EreWriter<Hashed<OutputFile>>>),
}

impl ArchiveExporter {
    /// Starts an export at the block `start`. The directory must exist before the first block is pushed.
    ///
    /// # Errors
    ///
    /// Fails if `start` is no multiple of [`BLOCKS_PER_ERA`].
    pub fn new(
        format: ArchiveFormat,
        directory: impl AsRef<Path>,
        network: &str,
        start: u64,
    ) -> Result<Self, ExportError> {
        if !start.is_multiple_of(BLOCKS_PER_ERA) {
            return Err(ExportError::Start { start });
        }
        Ok(Self {
            format,
            directory: directory.as_ref().to_owned(),
            network: network.to_owned(),
            current: None,
            next: start,
            finished: Vec::new(),
            checksums: None,
        })
    }

    /// Appends the next block: its RLP, its receipts, and the total difficulty up to and including it.
    ///
    /// # Errors
    ///
    /// Fails as [`Era1Writer::push`] does, and if a file cannot be created.
    pub fn push(
        &mut self,
        block: &[u8],
        receipts: &[ReceiptEnvelope],
        total_difficulty: U256,
    ) -> Result<(), ExportError> {
        let mut writer = match self.current.take() {
            Some(writer) => writer,
            None => self.open()?,
        };
        let is_full = match &mut writer {
            Writer::Era1(writer) => {
                writer.push(block, &encode_receipts(receipts), total_difficulty)?;
                writer.is_full()
            }
            Writer::Ere(writer) => {
                writer.push(block, &encode_slim_receipts(receipts), total_difficulty)?;
                writer.is_full()
            }
        };
        self.next += 1;
        if is_full {
            self.close(writer)?;
        } else {
            self.current = Some(writer);
        }
        Ok(())
    }

    /// Completes the last file, and returns the paths of all files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, ExportError> {
        if let Some(writer) = self.current.take() {
            self.close(writer)?;
        }
        Ok(self.finished)
    }

    fn open(&mut self) -> Result<Writer, ExportError> {
        if self.checksums.is_none() {
            self.expect_one_network()?;
            let known = Checksums::of(&self.directory, &self.network);
            self.checksums = Some(known.map_err(|error| self.directory_error(error))?);
        }
        let (epoch, extension) = (self.next / BLOCKS_PER_ERA, self.format.extension());
        let unnamed = self.directory.join(format!("{}-{epoch:05}.{extension}", self.network));
        let out = OutputFile::create(unnamed)?;
        let (name, out) = (out.name().clone(), Hashed::new(out));
        Ok(match self.format {
            ArchiveFormat::Era1 => Writer::Era1(Box::new(Era1Writer::new(name, out, self.next)?)),
            ArchiveFormat::Ere => {
                Writer::Ere(Box::new(EreWriter::new(name, out, self.next, &self.directory)?))
            }
        })
    }

    fn close(&mut self, writer: Writer) -> Result<(), ExportError> {
        let (out, summary) = match writer {
            Writer::Era1(writer) => writer.finish()?,
            Writer::Ere(writer) => writer.finish()?,
        };
        let (out, hash) = out.into_parts();
        let path = self.directory.join(summary.file_name(&self.network));
        self.expect_no_other(&summary)?;
        out.finish_as(&path)?;
        // The list is written after each file, so that the files of an export that was stopped can be imported too.
        if let Some(checksums) = &mut self.checksums {
            checksums.add(&path, hash);
            checksums.write(&self.directory, &self.network)?;
        }
        self.finished.push(path);
        Ok(())
    }

    /// Checks that the directory has files of this network only: no import takes those of two, and the list of checksums has
    /// those of one.
    fn expect_one_network(&self) -> Result<(), ExportError> {
        let other = other_network(&self.directory, &self.network);
        match other.map_err(|error| self.directory_error(error))? {
            Some(other) => Err(ExportError::Network {
                directory: self.directory.display().to_string(),
                network: self.network.clone(),
                other,
            }),
            None => Ok(()),
        }
    }

    /// Checks that the directory has no other file of this epoch, because such a directory could not be imported.
    fn expect_no_other(&self, summary: &ArchiveSummary) -> Result<(), ExportError> {
        let name = summary.file_name(&self.network);
        let epoch = summary.start / BLOCKS_PER_ERA;
        let names = names_of(&self.directory, &self.network);
        let names = names.map_err(|error| self.directory_error(error))?;
        match names.into_iter().find(|(other, found)| *found == epoch && *other != name) {
            Some((other, _)) => {
                let directory = self.directory.display().to_string();
                Err(ExportError::Epoch { directory, epoch, name, other })
            }
            None => Ok(()),
        }
    }

    fn directory_error(&self, error: std::io::Error) -> ExportError {
        ExportError::io(&self.directory.display().to_string().into(), error)
    }
}
