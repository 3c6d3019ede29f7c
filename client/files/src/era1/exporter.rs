//! Writing a range of blocks as era1 files of a directory.

use std::path::{Path, PathBuf};

use alloy_primitives::U256;

use super::{
    super::output::{ExportError, OutputFile},
    BLOCKS_PER_ERA,
    write::Era1Writer,
};

/// Writes blocks into a directory, one era1 file per 8192 of them, each named `NETWORK-EPOCH-ROOT.era1`.
///
/// A file gets its name when it is complete; what is dropped before leaves nothing behind.
#[derive(Debug)]
pub struct Era1Exporter {
    directory: PathBuf,
    network: String,
    current: Option<Era1Writer<OutputFile>>,
    next: u64,
    finished: Vec<PathBuf>,
}

impl Era1Exporter {
    /// Starts an export whose first block is `start`. The directory must exist.
    ///
    /// # Errors
    ///
    /// If `start` is no multiple of [`BLOCKS_PER_ERA`].
    pub fn new(
        directory: impl AsRef<Path>,
        network: &str,
        start: u64,
    ) -> Result<Self, ExportError> {
        if !start.is_multiple_of(BLOCKS_PER_ERA) {
            return Err(ExportError::Start { start });
        }
        Ok(Self {
            directory: directory.as_ref().to_owned(),
            network: network.to_owned(),
            current: None,
            next: start,
            finished: Vec::new(),
        })
    }

    /// Appends the next block; see [`Era1Writer::push`].
    ///
    /// # Errors
    ///
    /// As [`Era1Writer::push`], or if a file cannot be created.
    pub fn push(
        &mut self,
        block: &[u8],
        receipts: &[u8],
        total_difficulty: U256,
    ) -> Result<(), ExportError> {
        let mut writer = match self.current.take() {
            Some(writer) => writer,
            None => {
                let epoch = self.next / BLOCKS_PER_ERA;
                let unnamed = self.directory.join(format!("{}-{epoch:05}.era1", self.network));
                let out = OutputFile::create(unnamed)?;
                Era1Writer::new(out.name().clone(), out, self.next)?
            }
        };
        writer.push(block, receipts, total_difficulty)?;
        self.next = writer.next_number();
        if writer.is_full() {
            self.close(writer)?;
        } else {
            self.current = Some(writer);
        }
        Ok(())
    }

    /// Completes the last file and gives the paths of all.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, ExportError> {
        if let Some(writer) = self.current.take() {
            self.close(writer)?;
        }
        Ok(self.finished)
    }

    fn close(&mut self, writer: Era1Writer<OutputFile>) -> Result<(), ExportError> {
        let (out, summary) = writer.finish()?;
        let path = self.directory.join(summary.file_name(&self.network));
        out.finish_as(path.clone())?;
        self.finished.push(path);
        Ok(())
    }
}
