//! The decompressed bytes of a dump, with the number of the line.

use super::{DumpEnd, DumpError, DumpErrorKind};
use crate::{
    ReadProgress,
    chunk::{ChunkReader, is_about_data},
    detect::{self, GZIP, MARK},
    reader::{gunzip, input_name, open_counted},
};
use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
};

/// Size of a read, in bytes.
const BUFFER: usize = 256 << 10;

/// Greatest number of bytes without a quotation mark: many times what the digits of any code take. A text is in memory as
/// a whole.
const MOST_TEXT: usize = 16 << 20;

/// A stream of text that counts its lines.
pub(super) struct Input {
    pub(super) file: Arc<str>,
    stream: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    at: usize,
    /// Number of the current line, counted from 1.
    pub(super) line: u64,
    gzip: bool,
    /// Number of bytes since the last quotation mark.
    text: usize,
}

polytrie_kv::debug_fields!(Input { file, line });

impl Input {
    /// Opens a file or standard input. The content must begin like JSON objects.
    pub(super) fn open(path: &Path) -> Result<(Self, ReadProgress), DumpError> {
        let file = input_name(path);
        let fail = |kind| DumpError { file: Arc::clone(&file), kind };
        let (stream, progress) =
            open_counted(path).map_err(|error| fail(DumpErrorKind::Open(error)))?;
        let mut chunks = ChunkReader::new(stream, false);
        // An error here comes again at the next read, which returns it.
        let _ = chunks.fill(detect::PEEK);
        let gzip = chunks.data().starts_with(GZIP);
        let (start, rest) = chunks.into_parts();
        let stream: Box<dyn Read + Send> = match gzip {
            true => gunzip(start, rest),
            false => Box::new(io::Cursor::new(start).chain(rest)),
        };
        let mut input = Self {
            file: Arc::clone(&file),
            stream,
            buffer: Vec::new(),
            at: 0,
            line: 1,
            gzip,
            text: 0,
        };
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
        let kind = match self.gzip && is_about_data(&error) {
            _ if error.kind() == io::ErrorKind::FileTooLarge => {
                let what = format!("a text goes on after {MOST_TEXT} bytes");
                DumpErrorKind::Content { line: self.line, what }
            }
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
        for byte in &out[..count] {
            self.line += u64::from(*byte == b'\n');
            self.text = if *byte == b'"' { 0 } else { self.text + 1 };
        }
        if self.text > MOST_TEXT { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(count) }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::dump::{DumpAccount, DumpReader, DumpSink, DumpSlot};
    use alloy_primitives::B256;
    use std::convert::Infallible;

    struct Nowhere;

    impl DumpSink for Nowhere {
        type Error = Infallible;

        fn root(&mut self, _: B256) -> Result<(), Infallible> {
            Ok(())
        }

        fn slot(&mut self, _: DumpSlot) -> Result<(), Infallible> {
            Ok(())
        }

        fn account(&mut self, _: DumpAccount) -> Result<(), Infallible> {
            Ok(())
        }
    }

    /// A few bytes of gzip can decompress to a text that no memory holds.
    #[test]
    fn a_text_without_an_end_is_not_read_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dump");
        let of_length = |length: usize| {
            let code = "6".repeat(length);
            let address = "1".repeat(40);
            let text = format!("\n{{\"address\":\"{address}\",\"balance\":1,\"code\":\"{code}\"}}");
            std::fs::write(&path, text).unwrap();
            let (input, progress) = Input::open(&path).unwrap();
            DumpReader { input, progress }.read(&mut Nowhere)
        };
        assert_eq!(of_length(MOST_TEXT - 2).unwrap(), 1);
        let Err(DumpEnd::File(error)) = of_length(MOST_TEXT + 1) else {
            panic!("the text was read")
        };
        assert!(!error.is_io(), "{error}");
        let text = error.to_string();
        assert!(text.contains("dump: line 2: a text goes on after 16777216 bytes;"), "{text}");
    }
}
