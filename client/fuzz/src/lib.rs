//! Helpers that fuzz targets share.

pub mod change;
pub mod devnet;
pub mod e2store;
pub mod files;
pub mod kv;
pub mod requests;
pub mod sample;

use std::io::Cursor;

use alloy_consensus::proofs::{calculate_transaction_root, ordered_trie_root_encoded};
use polytrie::blocks::{ArchiveEnd, BlockReader, Format};
use polytrie::consensus::decode::{
    EncodedReceipts, decode_block, decode_header, decode_receipts, decode_slim_receipts,
    encoded_transactions,
};

/// Most blocks of a file that are read: enough for every path through the readers, and few enough that a file of
/// thousands of one-byte lists does not slow the search.
const MAX_BLOCKS: usize = 64;

/// Reads a file to its end or first error, with its format given and with it detected, and decodes
/// every block that comes out.
pub fn read_all(file: &[u8], format: Format) {
    let file = file.to_vec();
    drain(BlockReader::with_format("fuzz", Cursor::new(file.clone()), format));
    match BlockReader::from_reader("fuzz", Cursor::new(file)) {
        Ok(reader) => drain(reader),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Reads the last header of an era1 or ere file by its index.
pub fn read_end(file: &[u8]) {
    let directory = files::directory([("file", file)]);
    if let Some(end) = ArchiveEnd::read(&directory.path().join("file")) {
        assert!(end.first <= end.last.number && end.bytes == file.len() as u64);
    }
}

fn drain(reader: BlockReader) {
    for block in reader.take(MAX_BLOCKS) {
        match block {
            Ok(block) => {
                check_block(&block.rlp);
                match &block.receipts {
                    Some(EncodedReceipts::Full(rlp)) => check_receipts(rlp),
                    Some(EncodedReceipts::Slim(rlp)) => check_slim_receipts(rlp),
                    None => {}
                }
                if let Err(error) = block.decode() {
                    assert!(!error.to_string().is_empty());
                }
            }
            Err(error) => {
                assert!(!error.is_io(), "memory does not fail: {error}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// Decodes a block. One that is accepted must encode to the same bytes, except an access list, which is left out, and
/// its header must agree with the one that [`decode_header`] reads.
pub fn check_block(rlp: &[u8]) {
    let header = decode_header(rlp);
    if let Ok(block) = decode_block(rlp) {
        let again = alloy_rlp::encode(&block);
        assert!(again == rlp || again.len() < rlp.len());
        assert_eq!(decode_block(&again).as_ref(), Ok(&block));
        let encoded = encoded_transactions(rlp).expect("a block that decodes has transactions");
        let root = calculate_transaction_root(&block.body.transactions);
        assert_eq!(ordered_trie_root_encoded(&encoded), root);
        let header = header.expect("a block that decodes has a header that does");
        assert_eq!(*header, block.header);
        assert_eq!(header.hash(), block.header.hash_slow());
    }
}

/// Decodes receipts. Those that are accepted must encode to the same bytes.
pub fn check_receipts(rlp: &[u8]) {
    if let Ok(receipts) = decode_receipts(rlp) {
        assert_eq!(alloy_rlp::encode(&receipts), rlp);
    }
}

/// Decodes receipts without blooms. Those that are accepted must encode to the same bytes.
pub fn check_slim_receipts(rlp: &[u8]) {
    if let Ok(receipts) = decode_slim_receipts(rlp) {
        assert_eq!(alloy_rlp::encode(&receipts), rlp);
    }
}
