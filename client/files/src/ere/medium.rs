//! Random access to the bytes of an ere file.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tempfile::spooled_tempfile;

use super::layout::Layout;
use crate::{
    chunk::ChunkReader,
    e2store::{E2StoreProblem, HEAD, Kind, RecordHead, cut_off, in_pieces, missing},
    error::BlockFileErrorKind,
};

/// Size up to which the file is kept in memory if it comes through a pipe, in bytes.
const IN_MEMORY: usize = 32 << 20;

trait Seekable: Read + Seek + Send {}
impl<T: Read + Seek + Send> Seekable for T {}

/// File, or copy of a stream, that an ere file is read from.
pub(super) struct Medium {
    bytes: Box<dyn Seekable>,
    /// Offset of the first byte in the stream that the copy was made from.
    start: u64,
    /// Counter of read bytes for the progress bar; `None` for a stream, whose bytes are counted where they come from.
    read: Option<Arc<AtomicU64>>,
}

impl Medium {
    /// Returns a medium on a file; its bytes are counted in `read`.
    pub(super) fn of_file(file: File, read: Arc<AtomicU64>) -> Self {
        Self { bytes: Box::new(file), start: 0, read: Some(read) }
    }

    /// Reads the next ere file from a stream and keeps it in a temporary file. Returns `None` at the end of the
    /// stream.
    pub(super) fn keep(
        input: &mut ChunkReader,
    ) -> Result<Option<(Layout, Self)>, BlockFileErrorKind> {
        let start = input.offset();
        let mut spool = spooled_tempfile(IN_MEMORY);
        let mut layout = Layout::default();
        while layout.index.is_none() {
            let (at, expected) = (input.offset(), layout.expected());
            let Some(head) = RecordHead::read(input, &expected, None)? else {
                return end(at, start, &expected);
            };
            // A skipped record is a hole in the temporary file, which takes no room.
            let is_kept = !matches!(head.kind, Kind::Other(_));
            spool.write_all(&RecordHead::encode(head.kind, head.length)).map_err(no_room)?;
            in_pieces(input, head, |piece| {
                let kept = match is_kept {
                    true => spool.write_all(piece),
                    false => spool.seek(SeekFrom::Current(piece.len() as i64)).map(drop),
                };
                kept.map_err(no_room)
            })?;
            layout.push(head)?;
        }
        Ok(Some((layout, Self { bytes: Box::new(spool), start, read: None })))
    }

    /// Finds the records of the ere file that starts at `start` and ends before `length`. Returns `None` if there is
    /// no byte at `start`.
    pub(super) fn find(
        &mut self,
        start: u64,
        length: u64,
    ) -> Result<Option<Layout>, BlockFileErrorKind> {
        let mut layout = Layout::default();
        let mut at = start;
        while layout.index.is_none() {
            let expected = layout.expected();
            let present = length.saturating_sub(at);
            if present == 0 {
                return end(at, start, &expected);
            }
            if present < HEAD as u64 {
                return Err(cut_off(at, present, None).into());
            }
            let mut bytes = [0; HEAD];
            self.read_at(at, &mut bytes)?;
            let head = RecordHead::parse(bytes, at, &expected, None)?;
            if head.end() > length {
                let (present, expected) = (length - head.data(), u64::from(head.length));
                return Err(head.error(None, E2StoreProblem::Truncated { present, expected }));
            }
            at = head.end();
            layout.push(head)?;
        }
        Ok(Some(layout))
    }

    /// Reads the bytes after a head.
    pub(super) fn payload(&mut self, head: RecordHead) -> Result<Vec<u8>, BlockFileErrorKind> {
        let mut data = vec![0; head.length as usize];
        self.read_at(head.data(), &mut data)?;
        Ok(data)
    }

    fn read_at(&mut self, at: u64, data: &mut [u8]) -> Result<(), BlockFileErrorKind> {
        let sought = self.bytes.seek(SeekFrom::Start(at.saturating_sub(self.start)));
        sought.and_then(|_| self.bytes.read_exact(data)).map_err(|error| match &self.read {
            Some(_) => BlockFileErrorKind::Read { offset: at, error },
            None => no_room(error),
        })
    }

    /// Counts bytes that need not be read again. They are not counted when they are read, because the reads of a
    /// block are far apart.
    pub(super) fn count(&self, bytes: u64) {
        if let Some(read) = &self.read {
            read.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// Returns what the end of the input at `at` means, where a record of the `expected` kinds could start: `None`
/// between two files, an error inside a file.
fn end<T>(at: u64, start: u64, expected: &[Kind]) -> Result<Option<T>, BlockFileErrorKind> {
    if at == start { Ok(None) } else { Err(missing(at, expected, None).into()) }
}

fn no_room(error: io::Error) -> BlockFileErrorKind {
    BlockFileErrorKind::Temporary { error }
}
