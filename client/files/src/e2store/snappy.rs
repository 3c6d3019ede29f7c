//! The snappy framing format, one record at a time.
//!
//! Encoder and decoder keep their buffers between records, because a new one costs more than the
//! compression of a header.

use std::io::{self, Cursor, Read, Write};

use alloy_primitives::bytes::Bytes;
use snap::{read::FrameDecoder, write::FrameEncoder};

use super::error::E2StoreProblem;
use crate::MAX_BLOCK_BYTES;

/// First bytes of every stream of snappy frames.
const STREAM_IDENTIFIER: &[u8; 10] = b"\xff\x06\0\0sNaPpY";

/// Decompressor of records.
pub(crate) struct Unframer {
    decoder: FrameDecoder<Cursor<Bytes>>,
}

impl Default for Unframer {
    fn default() -> Self {
        Self { decoder: FrameDecoder::new(Cursor::new(Bytes::new())) }
    }
}

impl Unframer {
    /// Replaces the content of `out` by the decompressed `data`.
    ///
    /// After an error the decoder may be in the middle of a frame, so the caller must not use it
    /// again.
    pub(crate) fn unframe(&mut self, data: Bytes, out: &mut Vec<u8>) -> Result<(), E2StoreProblem> {
        out.clear();
        // The decoder itself checks the identifier only at its first record.
        if !data.starts_with(STREAM_IDENTIFIER) {
            return Err(E2StoreProblem::Snappy("it does not start like snappy data".to_owned()));
        }
        *self.decoder.get_mut() = Cursor::new(data);
        let limit = MAX_BLOCK_BYTES;
        match (&mut self.decoder).take(limit + 1).read_to_end(out) {
            Ok(_) if out.len() as u64 > limit => Err(E2StoreProblem::TooLarge { limit }),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(E2StoreProblem::Snappy("the compressed data ends too early".to_owned()))
            }
            Err(error) => Err(E2StoreProblem::Snappy(error.to_string())),
        }
    }
}

/// Compressor of records.
pub(crate) struct Framer {
    encoder: FrameEncoder<Vec<u8>>,
    used: bool,
}

impl Default for Framer {
    fn default() -> Self {
        Self { encoder: FrameEncoder::new(Vec::new()), used: false }
    }
}

impl Framer {
    /// Compresses one record.
    pub(crate) fn frame(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        // The encoder itself writes the identifier only before its first record.
        if self.used {
            self.encoder.get_mut().extend_from_slice(STREAM_IDENTIFIER);
        }
        self.used = true;
        self.encoder.write_all(data)?;
        self.encoder.flush()?;
        Ok(std::mem::take(self.encoder.get_mut()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn each_record_is_a_stream_of_its_own() {
        let mut framer = Framer::default();
        let mut unframer = Unframer::default();
        let mut out = Vec::new();
        let long: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for data in [&b"abc"[..], &[0; 70_000], &long, b"z"] {
            let framed = framer.frame(data).unwrap();
            // A new decoder, which has seen no other record, gives the same bytes.
            let mut alone = Vec::new();
            FrameDecoder::new(&framed[..]).read_to_end(&mut alone).unwrap();
            assert_eq!(alone, data);
            unframer.unframe(framed.into(), &mut out).unwrap();
            assert_eq!(out, data);
        }
    }

    #[test]
    fn damage_is_found() {
        let framed = Framer::default().frame(b"a block, or what stands for one").unwrap();
        let mut out = Vec::new();
        for at in 0..framed.len() {
            let mut flipped = framed.clone();
            flipped[at] ^= 0x10;
            assert!(Unframer::default().unframe(flipped.into(), &mut out).is_err(), "byte {at}");
            let cut = Bytes::copy_from_slice(&framed[..at]);
            // Data that are cut off right after the identifier are a valid empty stream.
            assert_eq!(Unframer::default().unframe(cut, &mut out).is_ok(), at == 10, "cut at {at}");
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let framed = Framer::default().frame(&vec![0; MAX_BLOCK_BYTES as usize + 1]).unwrap();
        let problem = Unframer::default().unframe(framed.into(), &mut Vec::new()).unwrap_err();
        assert_eq!(problem, E2StoreProblem::TooLarge { limit: MAX_BLOCK_BYTES });
    }
}
