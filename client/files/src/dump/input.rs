//! The decompressed bytes of a dump, with the number of the line.

use super::{DumpEnd, DumpError, DumpErrorKind};
use crate::{
    ReadProgress,
    chunk::ChunkReader,
    detect::{self, MARK},
    reader::{gunzip, input_name, open_counted},
};
use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
};

/// Size of a read, in bytes.
const BUFFER: usize = 256 << 10;

/// First bytes of a gzip stream.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A stream of text that counts its lines.
pub(super) struct Input {
    pub(super) file: Arc<str>,
    stream: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    at: usize,
    /// Number of the current line, counted from 1.
    pub(super) line: u64,
    gzip: bool,
}

polytrie_kv::debug_fields!(Input { file, line });

impl Input {
    /// Opens a file or standard input, whose content must begin like JSON objects.
    pub(super) fn open(path: &Path) -> Result<(Self, ReadProgress), DumpError> {
        let file = input_name(path);
        let fail = |kind| DumpError { file: Arc::clone(&file), kind };
        let (stream, progress) =
            open_counted(path).map_err(|error| fail(DumpErrorKind::Open(error)))?;
        let mut chunks = ChunkReader::new(stream, false);
        // An error here comes again at the next read, which returns it.
        let _ = chunks.fill(detect::PEEK);
        let gzip = chunks.data().starts_with(&GZIP);
        let (start, rest) = chunks.into_parts();
        let stream: Box<dyn Read + Send> = match gzip {
            true => gunzip(start, rest),
            false => Box::new(io::Cursor::new(start).chain(rest)),
        };
        let (buffer, at) = (Vec::new(), 0);
        let mut input = Self { file: Arc::clone(&file), stream, buffer, at, line: 1, gzip };
        input.fill().map_err(|error| input.wrong(error))?;
        if input.buffer.starts_with(MARK) {
            input.at = MARK.len();
        }
        let is_there = input.skip_white().map_err(|error| input.wrong(error))?;
        match input.buffer.get(input.at) {
            Some(b'{') => Ok((input, progress)),
            Some(_) if is_there => {
                let start = &input.buffer[input.at..];
                let start = start[..start.len().min(16)].escape_ascii().to_string();
                Err(fail(DumpErrorKind::NoDump { start }))
            }
            _ => Err(fail(DumpErrorKind::Empty)),
        }
    }

    /// Skips white space. Returns whether more bytes follow.
    pub(super) fn skip_white(&mut self) -> io::Result<bool> {
        loop {
            while let Some(byte) = self.buffer.get(self.at) {
                match byte {
                    b'\n' => self.line += 1,
                    b' ' | b'\t' | b'\r' => {}
                    _ => return Ok(true),
                }
                self.at += 1;
            }
            if !self.fill()? {
                return Ok(false);
            }
        }
    }

    /// Reads the next bytes into the buffer. Returns whether there were any.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.resize(BUFFER, 0);
        self.at = 0;
        loop {
            match self.stream.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let count = *read.as_ref().unwrap_or(&0);
                    self.buffer.truncate(count);
                    return read.map(|count| count > 0);
                }
            }
        }
    }

    /// Returns the error of a stream that failed.
    pub(super) fn wrong(&self, error: io::Error) -> DumpError {
        let about_the_data = matches!(
            error.kind(),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
        );
        let kind = match self.gzip && about_the_data {
            true => DumpErrorKind::Gzip(error),
            false => DumpErrorKind::Read(error),
        };
        DumpError { file: Arc::clone(&self.file), kind }
    }

    pub(super) fn failed<E>(&self, error: io::Error) -> DumpEnd<E> {
        DumpEnd::File(self.wrong(error))
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() && !self.fill()? {
            return Ok(0);
        }
        let data = &self.buffer[self.at..];
        let count = data.len().min(out.len());
        out[..count].copy_from_slice(&data[..count]);
        self.at += count;
        self.line += out[..count].iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(count)
    }
}
