//! One line of figures a block, in the columns other clients' statistics use.

use super::error::ImportError;
use polytrie_chain::BlockStats;
use polytrie_kv::disk::{Access, File, parent, sync_dir};
use std::{
    fmt, fs,
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::Path,
};

/// The first line.
const HEADING: &str = "block_number,blocks,slot,txs,gas,time\n";

/// A CSV file with the columns `block_number,blocks,slot,txs,gas,time`: `slot` is left empty (a block file
/// does not hold it), `time` is in nanoseconds.
pub struct CsvLog {
    /// A file that may hold figures already, until the import begins.
    found: Option<File>,
    /// `None` before the import begins, and when the reader of the figures is gone.
    out: Option<BufWriter<Out>>,
    file: String,
}

enum Out {
    File(File),
    /// What is never durable: a pipe, a device, standard output.
    Other(Box<dyn Write + Send>),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Other(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Other(out) => out.flush(),
        }
    }
}

impl CsvLog {
    /// Opens the file, or standard output if that is `-`. Nothing in it changes before the import begins.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or holds something else.
    pub fn create(path: &Path) -> Result<Self, ImportError> {
        if path == Path::new("-") {
            let out = Some(BufWriter::new(Out::Other(Box::new(io::stdout()))));
            return Ok(Self { found: None, out, file: "standard output".to_owned() });
        }
        let file = path.display().to_string();
        let failed = |source| ImportError::Output { file: file.clone(), source };
        // A pipe or a device holds nothing.
        if path.exists() && !path.is_file() {
            let out = Box::new(fs::File::create(path).map_err(failed)?);
            let out = Some(BufWriter::new(Out::Other(out)));
            return Ok(Self { found: None, out, file });
        }
        match open(path).map_err(failed)? {
            Some(found) => Ok(Self { found: Some(found), out: None, file }),
            None => Err(ImportError::OtherContent { file }),
        }
    }

    /// Begins after the lines of blocks up to the `head`, from which an import goes on; those of later blocks, which were
    /// not durable when it was stopped, come again.
    pub(super) fn begin(&mut self, head: u64) -> Result<(), ImportError> {
        let kept = match self.found.take() {
            Some(mut found) => {
                let kept = cut(&mut found, head);
                self.out = Some(BufWriter::new(Out::File(found)));
                kept.map_err(|source| ImportError::Output { file: self.file.clone(), source })?
            }
            None => 0,
        };
        if kept > 0 { Ok(()) } else { self.write(|out| out.write_all(HEADING.as_bytes())) }
    }

    pub(super) fn block(&mut self, number: u64, stats: &BlockStats) -> Result<(), ImportError> {
        let time = stats.total().as_nanos();
        self.write(|out| writeln!(out, "{number},1,,{},{},{time}", stats.txs, stats.gas))
    }

    /// Has the disk take all lines: those of blocks that are durable must not be missing after a loss of power, as these blocks
    /// are not executed again.
    pub(super) fn make_durable(&mut self) -> Result<(), ImportError> {
        self.write(|out| {
            out.flush()?;
            match out.get_ref() {
                Out::File(file) => file.sync("csv: content"),
                Out::Other(_) => Ok(()),
            }
        })
    }

    /// An import does not end because the reader of its figures is gone.
    fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<Out>) -> io::Result<()>,
    ) -> Result<(), ImportError> {
        let Some(out) = &mut self.out else { return Ok(()) };
        match write(out) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.out = None;
                Ok(())
            }
            written => {
                written.map_err(|source| ImportError::Output { file: self.file.clone(), source })
            }
        }
    }
}

/// Opens a file that is new or holds figures; `None` if it holds something else.
fn open(path: &Path) -> io::Result<Option<File>> {
    let mut file = File::open(path, Access::Append)?;
    // It may be new.
    sync_dir(parent(path), "csv: name")?;
    let mut beginning = Vec::new();
    (&mut file).take(HEADING.len() as u64).read_to_end(&mut beginning)?;
    // A program that was killed may have written a part of the heading.
    Ok(HEADING.as_bytes().starts_with(&beginning).then_some(file))
}

/// Keeps the heading and the lines of blocks up to `head`, and goes to their end; returns how many bytes they take.
fn cut(file: &mut File, head: u64) -> io::Result<u64> {
    file.rewind()?;
    let mut lines = BufReader::new(&mut *file);
    let mut line = Vec::new();
    let mut kept = 0;
    while lines.read_until(b'\n', &mut line)? > 0 {
        let stays = match kept {
            0 => line == HEADING.as_bytes(),
            _ => number(&line).is_some_and(|number| number <= head),
        };
        if !stays {
            break;
        }
        kept += line.len() as u64;
        line.clear();
    }
    file.set_len(kept)?;
    file.seek(SeekFrom::Start(kept))
}

/// The block of a line that was written to its end.
fn number(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    line.split(',').next()?.parse().ok()
}

impl fmt::Debug for CsvLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvLog").field("file", &self.file).finish_non_exhaustive()
    }
}
