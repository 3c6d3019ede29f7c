//! Tests of reading and writing ere files: the files they make, and what becomes of a file that is read.

#![expect(clippy::unwrap_used, reason = "tests")]

mod content;
mod damage;
mod proofs;
mod streams;

use std::io::Write;

use alloy_consensus::{
    Block, Eip658Value, Receipt, ReceiptEnvelope, ReceiptWithBloom, TxEnvelope, TxType,
};
use alloy_primitives::{Address, B256, Bytes, Log, U256};
use polytrie_consensus::decode::{EncodedReceipts, decode_receipts, encode_slim_receipts};
use snap::write::FrameEncoder;

use super::{
    all, encode, fixture, gzip, made_up_chain, problem, raw_records, read, record_at, records,
};
use crate::{EreWriter, RawBlock};

const HEADER: u16 = 0x03;
const BODY: u16 = 0x04;
const RECEIPTS: u16 = 0x0a;
const PROOF: u16 = 0x0b;
const TOTAL_DIFFICULTY: u16 = 0x06;
const ACCUMULATOR: u16 = 0x07;
const INDEX: u16 = 0x3267;

/// The type and the data of each record of a file.
type Records = Vec<(u16, Vec<u8>)>;

/// Returns an invented chain with blocks of no difficulty from `merge` on, and its total difficulties.
fn chain(length: u64, merge: u64) -> (Vec<Block<TxEnvelope>>, Vec<U256>) {
    let mut blocks = made_up_chain(length);
    let mut parent_hash = B256::ZERO;
    let mut sum = U256::ZERO;
    let mut sums = Vec::new();
    for block in &mut blocks {
        block.header.parent_hash = parent_hash;
        if block.header.number >= merge {
            block.header.difficulty = U256::ZERO;
        }
        sum += block.header.difficulty;
        sums.push(sum);
        parent_hash = block.header.hash_slow();
    }
    (blocks, sums)
}

/// Returns the file of a chain, in which each block has the receipts `receipts`.
fn file_of(chain: &(Vec<Block<TxEnvelope>>, Vec<U256>), receipts: &[ReceiptEnvelope]) -> Vec<u8> {
    let mut writer = EreWriter::new("test", Vec::new(), 0, &std::env::temp_dir()).unwrap();
    let slim = encode_slim_receipts(receipts);
    for (rlp, sum) in encode(&chain.0).iter().zip(&chain.1) {
        writer.push(rlp, &slim, *sum).unwrap();
    }
    let (file, summary) = writer.finish().unwrap();
    assert_eq!((summary.start, summary.blocks), (0, chain.0.len() as u64));
    let last = chain.0.last().unwrap().header.hash_slow();
    let name = format!("dev-00000-{}-noproofs.ere", &last.to_string()[2..10]);
    assert_eq!(summary.file_name("dev"), name);
    file
}

fn receipt() -> ReceiptEnvelope {
    let topics = vec![B256::repeat_byte(2); 3];
    let log = Log::new_unchecked(Address::repeat_byte(1), topics, Bytes::from_static(b"data"));
    let receipt =
        Receipt { status: Eip658Value::success(), cumulative_gas_used: 21_000, logs: vec![log] };
    ReceiptEnvelope::from_typed(TxType::Eip1559, ReceiptWithBloom::from(receipt))
}

fn small_file() -> Vec<u8> {
    file_of(&chain(5, 3), &[receipt()])
}

/// Returns a file of these records, with an index of them.
fn assemble(records: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut columns = [HEADER, BODY, RECEIPTS, TOTAL_DIFFICULTY, PROOF].map(|kind| (kind, vec![]));
    for (kind, data) in records {
        if let Some((_, places)) = columns.iter_mut().find(|(found, _)| found == kind) {
            places.push(file.len() as u64);
        }
        put(&mut file, *kind, data);
    }
    let at = file.len() as u64;
    let blocks = columns[0].1.len();
    let kinds: Vec<_> = columns.iter().filter(|(_, places)| !places.is_empty()).collect();
    let mut index = 0u64.to_le_bytes().to_vec();
    for block in 0..blocks {
        for (_, places) in &kinds {
            let place = places.get(block).copied().unwrap_or_default();
            index.extend(place.wrapping_sub(at).to_le_bytes());
        }
    }
    index.extend((kinds.len() as u64).to_le_bytes());
    index.extend((blocks as u64).to_le_bytes());
    put(&mut file, INDEX, &index);
    file
}

fn put(file: &mut Vec<u8>, kind: u16, data: &[u8]) {
    file.extend(kind.to_le_bytes());
    file.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
    file.extend([0, 0]);
    file.extend(data);
}

/// Returns the records of a file without the index.
fn parts(file: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut records = raw_records(file);
    assert_eq!(records.pop().unwrap().0, INDEX);
    records
}

fn framed(data: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::new(Vec::new());
    encoder.write_all(data).unwrap();
    encoder.into_inner().unwrap()
}

fn blocks_of(file: Vec<u8>) -> Vec<Bytes> {
    read(file).unwrap().into_iter().map(|block| block.rlp).collect()
}

fn slim_of(block: &RawBlock) -> Bytes {
    match block.receipts.clone().unwrap() {
        EncodedReceipts::Slim(rlp) => rlp,
        EncodedReceipts::Full(rlp) => encode_slim_receipts(&decode_receipts(&rlp).unwrap()).into(),
    }
}
