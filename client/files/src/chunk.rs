//! Reads a stream in large pieces and hands out slices of them.

use std::io::{self, Read};

use alloy_primitives::bytes::{Bytes, BytesMut};

use super::error::BlockFileErrorKind;

/// Size of the first read, in bytes. Each read doubles it, up to [`CHUNK`], so that a small file does not cost
/// a large buffer.
const FIRST_CHUNK: usize = 16 << 10;
/// Greatest size of a read, in bytes.
const CHUNK: usize = 1 << 20;

/// A stream that is read in pieces of up to [`CHUNK`] bytes. The bytes that a caller takes are a slice of a
/// piece, not a copy.
pub(super) struct ChunkReader {
    input: Box<dyn Read + Send>,
    /// Buffer: the first `filled` bytes are data, later bytes are room for the next read.
    buffer: BytesMut,
    filled: usize,
    /// Size of the next read, in bytes.
    chunk: usize,
    /// Offset of `buffer[0]` in the stream, in bytes.
    offset: u64,
    ended: bool,
    gzip: bool,
}

polytrie_kv::debug_fields!(ChunkReader { filled, offset, ended, gzip });

impl ChunkReader {
    /// Returns a reader of `input`. `gzip` means that `input` is a decompressor, whose errors are mostly about
    /// the data.
    pub(super) fn new(input: Box<dyn Read + Send>, gzip: bool) -> Self {
        Self {
            input,
            buffer: BytesMut::new(),
            filled: 0,
            chunk: FIRST_CHUNK,
            offset: 0,
            ended: false,
            gzip,
        }
    }

    /// Returns the bytes that are read and not yet taken.
    pub(super) fn data(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Returns the offset of the first byte of [`Self::data`] in the stream.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until [`Self::data`] has at least `want` bytes. Returns `false` if the stream ends before.
    pub(super) fn fill(&mut self, want: usize) -> Result<bool, BlockFileErrorKind> {
        while self.filled < want {
            if self.ended {
                return Ok(false);
            }
            if self.filled == self.buffer.len() {
                self.buffer.resize(self.filled + self.chunk, 0);
                self.chunk = CHUNK.min(2 * self.chunk);
            }
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(error)),
            }
        }
        Ok(true)
    }

    /// Takes the first `count` bytes of [`Self::data`], which must have as many.
    pub(super) fn take(&mut self, count: usize) -> Bytes {
        debug_assert!(count <= self.filled, "only what was filled is taken");
        self.filled -= count;
        self.offset += count as u64;
        self.buffer.split_to(count).freeze()
    }

    /// Drops the first `count` bytes of [`Self::data`], which must have as many.
    pub(super) fn skip(&mut self, count: usize) {
        drop(self.take(count));
    }

    /// Returns the bytes that are read and not taken, and the stream after them.
    pub(super) fn into_parts(mut self) -> (Bytes, Box<dyn Read + Send>) {
        let rest = self.take(self.filled);
        (rest, self.input)
    }

    fn failure(&self, error: io::Error) -> BlockFileErrorKind {
        let offset = self.offset + self.filled as u64;
        if self.gzip && is_about_data(&error) {
            BlockFileErrorKind::Gzip { offset, detail: error.to_string() }
        } else {
            BlockFileErrorKind::Read { offset, error }
        }
    }
}

/// Whether an error of a decompressor is about the data and not about reading it.
pub(super) fn is_about_data(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A stream that returns at most `step` bytes for a read, as a pipe does.
    struct Trickle {
        data: Vec<u8>,
        step: usize,
    }

    impl Read for Trickle {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.step.min(out.len()).min(self.data.len());
            out[..count].copy_from_slice(&self.data[..count]);
            self.data.drain(..count);
            Ok(count)
        }
    }

    #[test]
    fn slices_are_the_stream_whatever_the_read_size() {
        let data: Vec<u8> = (0..2_000u32).flat_map(u32::to_le_bytes).collect();
        for step in [1, 7, 4096, usize::MAX] {
            let input = Trickle { data: data.clone(), step };
            let mut chunks = ChunkReader::new(Box::new(input), false);
            let mut seen = Vec::new();
            let mut want = 1;
            while chunks.fill(want).unwrap() {
                assert_eq!(chunks.offset(), seen.len() as u64);
                seen.extend_from_slice(&chunks.take(want));
                want = want * 3 % 1021 + 1;
            }
            let rest = chunks.data().len();
            assert!(rest < want);
            seen.extend_from_slice(&chunks.take(rest));
            assert_eq!(seen, data, "step {step}");
        }
    }

    #[test]
    fn a_failing_disk_is_an_io_error_with_its_place() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("bad sector"))
            }
        }
        let good = io::Cursor::new(vec![7; 100]);
        let mut chunks = ChunkReader::new(Box::new(good.chain(Failing)), false);
        assert!(chunks.fill(100).unwrap());
        let error = chunks.fill(101).unwrap_err();
        assert!(matches!(error, BlockFileErrorKind::Read { offset: 100, .. }), "{error:?}");
    }
}
