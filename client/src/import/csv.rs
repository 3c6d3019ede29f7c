//! One line of figures a block, in the columns other clients' statistics use.

use super::error::ImportError;
use crate::chain::BlockStats;
use std::{
    fmt,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// A CSV file with the columns `block_number,blocks,slot,txs,gas,time`: `slot` is left empty (a block file
/// does not hold it), `time` is in nanoseconds.
pub struct CsvLog {
    out: BufWriter<Box<dyn Write + Send>>,
    file: String,
}

impl CsvLog {
    /// Starts the file, or standard output if that is `-`, with its heading.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn create(path: &Path) -> Result<Self, ImportError> {
        let (file, out): (_, io::Result<Box<dyn Write + Send>>) = if path == Path::new("-") {
            ("standard output".to_owned(), Ok(Box::new(io::stdout())))
        } else {
            (path.display().to_string(), File::create(path).map(|file| Box::new(file) as _))
        };
        let out = out.map_err(|source| ImportError::Output { file: file.clone(), source })?;
        let mut log = Self { out: BufWriter::new(out), file };
        log.line(format_args!("block_number,blocks,slot,txs,gas,time"))?;
        Ok(log)
    }

    pub(super) fn block(&mut self, number: u64, stats: &BlockStats) -> Result<(), ImportError> {
        let time = stats.total().as_nanos();
        self.line(format_args!("{number},1,,{},{},{time}", stats.txs, stats.gas))
    }

    pub(super) fn flush(&mut self) -> Result<(), ImportError> {
        self.out.flush().map_err(|source| ImportError::Output { file: self.file.clone(), source })
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) -> Result<(), ImportError> {
        writeln!(self.out, "{line}")
            .map_err(|source| ImportError::Output { file: self.file.clone(), source })
    }
}

impl fmt::Debug for CsvLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvLog").field("file", &self.file).finish_non_exhaustive()
    }
}
