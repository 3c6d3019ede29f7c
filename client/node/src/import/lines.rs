//! Files with lines for each block. A later import appends to them.

use super::error::ImportError;
use polytrie_kv::disk::{Access, File, may_begin_with, parent, sync_dir};
use std::{
    fs,
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::Path,
};

/// The content of such a file.
#[derive(Debug)]
pub(super) struct Layout {
    /// The first line of the file, with the end of the line.
    pub(super) heading: &'static str,
    /// The column, from 0, that has the number of the block.
    pub(super) number: usize,
    /// The names of the syncs of its content and of its directory entry.
    pub(super) syncs: [&'static str; 2],
}

/// A file with lines for each block.
pub(super) struct BlockLines {
    layout: &'static Layout,
    /// The file, which may have lines already, until the import begins.
    found: Option<File>,
    /// The output. `None` before the import begins, and after a reader has closed its pipe.
    out: Option<BufWriter<Out>>,
    file: String,
}

pub(super) enum Out {
    File(File),
    /// An output that is never durable: a pipe, a device, standard output.
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
    /// Opens the file, or standard output if the path is `-`. The file is not changed before the import begins.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or has other content.
    pub(super) fn create(path: &Path, layout: &'static Layout) -> Result<Self, ImportError> {
        let of = |found, out, file| Self { layout, found, out, file };
        if path == Path::new("-") {
            let out = BufWriter::new(Out::Other(Box::new(io::stdout())));
            return Ok(of(None, Some(out), "standard output".to_owned()));
        }
        let file = path.display().to_string();
        let failed = |source| ImportError::Output { file: file.clone(), source };
        // A pipe or a device has no content to check.
        if path.exists() && !path.is_file() {
            let out = Box::new(fs::File::create(path).map_err(failed)?);
            return Ok(of(None, Some(BufWriter::new(Out::Other(out))), file));
        }
        match open(path, layout).map_err(failed)? {
            Some(found) => Ok(of(Some(found), None, file)),
            None => Err(ImportError::OtherContent { file }),
        }
    }

    /// Begins after the last line of a block up to `head`, where the import goes on. Lines after it are of blocks that
    /// were not durable when the last import stopped; they are removed and will be written again.
    pub(super) fn begin(&mut self, head: u64) -> Result<(), ImportError> {
        let heading = self.layout.heading.as_bytes();
        let Some(mut file) = self.found.take() else {
            return self.write(|out| out.write_all(heading));
        };
        // The heading is written again even if it is there, because a sync that failed may have left it in the page
        // cache only. It is durable before any line, because without it the file would have other content.
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

    /// Removes the lines of blocks after `head` from a file; a pipe cannot take lines back.
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

    /// Makes all lines durable. Lines of durable blocks must not be missing after a loss of power, because these blocks
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

    /// Writes lines. If the reader of a pipe has closed it, the import goes on without it.
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

/// Opens a file that is new or has such lines; `None` if it has other content.
fn open(path: &Path, layout: &Layout) -> io::Result<Option<File>> {
    let [_, name] = layout.syncs;
    let heading = layout.heading.as_bytes();
    let mut file = File::open(path, Access::Append)?;
    // The directory is synced because the file may be new.
    sync_dir(parent(path), name)?;
    let mut beginning = Vec::new();
    (&mut file).take(heading.len() as u64 + 1).read_to_end(&mut beginning)?;
    Ok(may_begin_with(&beginning, heading).then_some(file))
}

/// Keeps the heading and all lines up to the last one of a block up to `head`, and truncates the file after them. Returns
/// their length in bytes. Lines of later blocks may come before that one: a branch that was left may have been longer.
fn cut(file: &mut File, layout: &Layout, head: u64) -> io::Result<u64> {
    file.rewind()?;
    let mut lines = BufReader::new(&mut *file);
    let mut line = Vec::new();
    let (mut read, mut kept) = (0, 0);
    while lines.read_until(b'\n', &mut line)? > 0 {
        let stays = match number(&line, layout) {
            _ if read == 0 && line == layout.heading.as_bytes() => true,
            Some(number) if read > 0 => number <= head,
            _ => break,
        };
        read += line.len() as u64;
        if stays {
            kept = read;
        }
        line.clear();
    }
    file.set_len(kept)?;
    file.seek(SeekFrom::Start(kept))
}

/// Returns the block number of a complete line. A loss of power may leave zeros in bytes that were not durable, between
/// lines that are complete.
fn number(line: &[u8], layout: &Layout) -> Option<u64> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let columns = layout.heading.split(',').count();
    let is_whole = !line.contains('\0') && line.split(',').count() == columns;
    line.split(',').nth(layout.number).filter(|_| is_whole)?.parse().ok()
}

polytrie_kv::debug_fields!(BlockLines { file });

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const LAYOUT: Layout =
        Layout { heading: "number,of\n", number: 0, syncs: ["csv: content", "csv: name"] };

    /// After the merge the branch of the latest new block wins, which may be the shorter one.
    #[test]
    fn lines_of_a_shorter_branch_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let go_on = |head: u64, text: &str| {
            let mut lines = BlockLines::create(&path, &LAYOUT).unwrap();
            lines.begin(head).unwrap();
            lines.write(|out| out.write_all(text.as_bytes())).unwrap();
            lines.make_durable().unwrap();
            fs::read_to_string(&path).unwrap()
        };
        let heading = LAYOUT.heading;
        go_on(0, "1,a\n2,a\n3,a\n4,a\n2,b\n3,b\n");
        let all = format!("{heading}1,a\n2,a\n3,a\n4,a\n2,b\n3,b\n4,b\n");
        assert_eq!(go_on(3, "4,b\n"), all);
        // The last two blocks of the branch were not durable.
        let begun = format!("{heading}1,a\n2,a\n3,a\n4,a\n2,b\n3,c\n");
        assert_eq!(go_on(2, "3,c\n"), begun);
        assert_eq!(go_on(1, "2,d\n"), format!("{heading}1,a\n2,d\n"));
        assert_eq!(go_on(0, ""), heading);
    }
}
