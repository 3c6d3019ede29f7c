//! Tests of reading and writing. Those with real chain files run where the files are present.

mod checksums;
mod ends;
mod era1_files;
mod ere_files;
mod formats;
mod headers;
#[path = "../../../consensus/src/tests/made_up.rs"]
mod made_up;
mod mistakes;
mod properties;

use std::io::Write;

use alloy_consensus::{Block, TxEnvelope};
use flate2::{Compression, write::GzEncoder};
use made_up::made_up_chain;

use super::{BlockFileError, BlockFileErrorKind, BlockReader, RawBlock, e2store::E2StoreProblem};
use polytrie_testing::fixture;

/// Returns all blocks, or the first error.
fn all(reader: Result<BlockReader, BlockFileError>) -> Result<Vec<RawBlock>, BlockFileError> {
    reader?.collect()
}

/// Reads all blocks of bytes, and detects their format.
fn read(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Vec<RawBlock>, BlockFileError> {
    all(BlockReader::from_reader("test", std::io::Cursor::new(bytes)))
}

/// Reads an era1 or ere file that must be refused, and returns its problem.
fn problem(file: Vec<u8>) -> E2StoreProblem {
    match read(file).map_err(|error| *error.kind) {
        Err(BlockFileErrorKind::E2Store(error)) => error.problem,
        other => panic!("{other:?}"),
    }
}

#[expect(clippy::unwrap_used, reason = "tests")]
fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn encode(chain: &[Block<TxEnvelope>]) -> Vec<Vec<u8>> {
    chain.iter().map(alloy_rlp::encode).collect()
}

/// Returns the type and the decompressed content of each record of an e2store file.
#[expect(clippy::unwrap_used, reason = "tests")]
fn records(file: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut records = raw_records(file);
    for (kind, content) in &mut records {
        if matches!(kind, 0x03..=0x05 | 0x0a | 0x0b) {
            let framed = std::mem::take(content);
            std::io::copy(&mut snap::read::FrameDecoder::new(&framed[..]), content).unwrap();
        }
    }
    records
}

/// Returns the type and the stored content of each record of an e2store file.
fn raw_records(file: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut records = Vec::new();
    let mut rest = file;
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        let kind = u16::from_le_bytes([head[0], head[1]]);
        let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (data, tail) = tail.split_at(length);
        rest = tail;
        records.push((kind, data.to_vec()));
    }
    assert!(rest.is_empty());
    records
}

/// Returns the position of the record number `n` of a file.
fn record_at(file: &[u8], n: usize) -> usize {
    raw_records(file).iter().take(n).map(|(_, data)| 8 + data.len()).sum()
}
