//! Files with lines that tell of each block, which an import that goes on appends to.

use super::error::ImportError;
use polytrie_kv::disk::{Access, File, may_begin_with, parent, sync_dir};
use std::{
    fmt, fs,
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::Path,
};

/// What such a file holds.
#[derive(Debug)]
pub(super) struct Layout {
    /// Its first line, with the end of the line.
    pub(super) heading: &'static str,
    /// Which column, from 0, has the number of the block.
    pub(super) number: usize,
    /// What the syncs of its content and of its name are called.
    pub(super) syncs: [&'static str; 2],
}

/// A file with lines for each block.
pub(super) struct BlockLines {
    layout: &'static Layout,
    /// A file that may hold lines already, until the import begins.
    found: Option<File>,
    /// `None` before the import begins, and when the reader of the lines is gone.
    out: Option<BufWriter<Out>>,
    file: String,
}

pub(super) enum Out {
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

impl BlockLines {
    /// Opens the file, or standard output if that is `-`. Nothing in it changes before the import begins.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or holds something else.
    pub(super) fn create(path: &Path, layout: &'static Layout) -> Result<Self, ImportError> {
        let of = |found, out, file| Self { layout, found, out, file };
        if path == Path::new("-") {
            let out = BufWriter::new(Out::Other(Box::new(io::stdout())));
            return Ok(of(None, Some(out), "standard output".to_owned()));
        }
        let file = path.display().to_string();
        let failed = |source| ImportError::Output { file: file.clone(), source };
        // A pipe or a device holds nothing.
        if path.exists() && !path.is_file() {
            let out = Box::new(fs::File::create(path).map_err(failed)?);
            return Ok(of(None, Some(BufWriter::new(Out::Other(out))), file));
        }
        match open(path, layout).map_err(failed)? {
            Some(found) => Ok(of(Some(found), None, file)),
            None => Err(ImportError::OtherContent { file }),
        }
    }

    /// Begins after the lines of blocks up to the `head`, from which an import goes on; those of later blocks, which were
    /// not durable when it was stopped, come again.
    pub(super) fn begin(&mut self, head: u64) -> Result<(), ImportError> {
        let heading = self.layout.heading.as_bytes();
        let Some(mut file) = self.found.take() else {
            return self.write(|out| out.write_all(heading));
        };
        // The heading is written anew even if it is there: a sync that failed may have left it in the page cache alone.
        // Durable before any line, as without it this would be another file.
        let [content, _] = self.layout.syncs;
        let begun = cut(&mut file, self.layout, head).and_then(|kept| {
            file.rewind()?;
            file.write_all(heading)?;
            file.seek(SeekFrom::Start(kept.max(heading.len() as u64)))?;
            file.sync(content)
        });
        self.out = Some(BufWriter::new(Out::File(file)));
        begun.map_err(|source| ImportError::Output { file: self.file.clone(), source })
    }

    /// Forgets the lines of blocks after `head`, as far as they are in a file: a reader of a pipe has them.
    pub(super) fn go_back(&mut self, head: u64) -> Result<(), ImportError> {
        let layout = self.layout;
        self.write(|out| {
            out.flush()?;
            match out.get_mut() {
                Out::File(file) => cut(file, layout, head).map(drop),
                Out::Other(_) => Ok(()),
            }
        })
    }

    /// Has the disk take all lines: those of blocks that are durable must not be missing after a loss of power, as these blocks
    /// are not executed again.
    pub(super) fn make_durable(&mut self) -> Result<(), ImportError> {
        let [content, _] = self.layout.syncs;
        self.write(|out| {
            out.flush()?;
            match out.get_ref() {
                Out::File(file) => file.sync(content),
                Out::Other(_) => Ok(()),
            }
        })
    }

    /// Writes lines. An import does not end because their reader is gone.
    pub(super) fn write(
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

/// Opens a file that is new or holds such lines; `None` if it holds something else.
fn open(path: &Path, layout: &Layout) -> io::Result<Option<File>> {
    let [_, name] = layout.syncs;
    let heading = layout.heading.as_bytes();
    let mut file = File::open(path, Access::Append)?;
    // It may be new.
    sync_dir(parent(path), name)?;
    let mut beginning = Vec::new();
    (&mut file).take(heading.len() as u64 + 1).read_to_end(&mut beginning)?;
    Ok(may_begin_with(&beginning, heading).then_some(file))
}

/// Keeps the heading and the lines of blocks up to `head`, and goes to their end; returns how many bytes they take.
fn cut(file: &mut File, layout: &Layout, head: u64) -> io::Result<u64> {
    file.rewind()?;
    let mut lines = BufReader::new(&mut *file);
    let mut line = Vec::new();
    let mut kept = 0;
    while lines.read_until(b'\n', &mut line)? > 0 {
        let stays = match kept {
            0 => line == layout.heading.as_bytes(),
            _ => number(&line, layout).is_some_and(|number| number <= head),
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

/// The block of a line that is whole. A loss of power may leave a hole of zeros in what was not durable, between lines that
/// are there.
fn number(line: &[u8], layout: &Layout) -> Option<u64> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let columns = layout.heading.split(',').count();
    let is_whole = !line.contains('\0') && line.split(',').count() == columns;
    line.split(',').nth(layout.number).filter(|_| is_whole)?.parse().ok()
}

impl fmt::Debug for BlockLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockLines").field("file", &self.file).finish_non_exhaustive()
    }
}
