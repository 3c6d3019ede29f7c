//! Tests that every format gives the same blocks.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    io::{Cursor, Read},
};

use alloy_primitives::{B256, b256, hex};
use flate2::read::GzDecoder;

use polytrie_consensus::decode::{decode_block, decode_header, decode_sealed_block};

use super::{
    super::{BlockReader, Format, RlpWriter},
    all, encode, fixture, gzip, made_up_chain, read,
};

const FRONTIER_999: B256 =
    b256!("c31b362e591aa07faa977dbc492ae43cd47eef291920435153bbbf3acaf2fc2f");

/// Checks that each block builds on the one before it and encodes to the bytes that it was decoded
/// from. Returns the hash of the last.
fn check_chain(blocks: &[super::RawBlock]) -> B256 {
    let mut parent = None;
    for (index, block) in blocks.iter().enumerate() {
        assert_eq!(block.index, index as u64);
        let sealed = decode_sealed_block(&block.rlp).unwrap();
        if let Some(parent) = parent {
            assert_eq!(sealed.header.parent_hash, parent, "block {}", sealed.header.number);
        }
        parent = Some(sealed.hash());
        assert_eq!(sealed.hash(), sealed.header.hash_slow());
        assert_eq!(decode_header(&block.rlp).unwrap().hash(), sealed.hash());
        assert_eq!(alloy_rlp::encode(sealed.inner()), block.rlp);
    }
    parent.unwrap()
}

#[test]
fn every_rlp_fixture_reads_to_its_head() {
    for (path, blocks, head) in [
        ("chains/frontier-1000/1000.blocks", 1000, Some(FRONTIER_999)),
        (
            "chains/ethtest/chain.rlp",
            600,
            Some(b256!("44e3809c9a3cda717f00aea3a9da336d149612c8d5657fbc0028176ef8d94d2a")),
        ),
        (
            "chains/rpc-compat/chain.rlp",
            54,
            Some(b256!("d226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7")),
        ),
        (
            "chains/london/testLondonBlockchain.blocks",
            6,
            Some(b256!("03290a909cff32be9ce85f27c50570e9a94212dfb212c15f7a15cbdda70a7abc")),
        ),
        ("chains/fork/common.blocks", 7, None),
        ("chains/fork/fork-outdated.blocks", 11, None),
        ("chains/fork/fork-upgraded.blocks", 11, None),
        ("chains/frontier-1000/badpow.blocks", 2, None),
    ] {
        let Some(path) = fixture(path) else { continue };
        let reader = BlockReader::open(&path).unwrap();
        assert_eq!(reader.format(), Format::Rlp);
        let progress = reader.progress();
        let read: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(read.len(), blocks, "{}", path.display());
        let found = check_chain(&read);
        if let Some(head) = head {
            assert_eq!(found, head, "{}", path.display());
        }

        // The blocks cover the whole file, and their offsets are right.
        let whole = fs::read(&path).unwrap();
        let mut offset = 0;
        for block in &read {
            assert_eq!(block.offset, offset as u64);
            assert_eq!(whole[offset..offset + block.rlp.len()], block.rlp);
            offset += block.rlp.len();
        }
        assert_eq!(offset, whole.len());
        assert_eq!(progress.read(), whole.len() as u64);
        assert_eq!(progress.total(), Some(whole.len() as u64));
    }
}

#[test]
fn gzip_is_told_by_content_and_not_by_name() {
    let Some(path) = fixture("chains/condense/export.rlp.gz") else {
        return;
    };
    let blocks = all(BlockReader::open(&path)).unwrap();
    assert_eq!(blocks.len(), 1311);
    let head = b256!("8e8dfbabab379f2459d97ac3ec2c0ccfbbe920edc5c19043b89dc94f9ec2f707");
    assert_eq!(check_chain(&blocks), head);
    let transactions: usize =
        blocks.iter().map(|block| block.decode().unwrap().body.transactions.len()).sum();
    assert_eq!(transactions, 22_258);

    // The same bytes under a name without an extension, and decompressed bytes under a name that
    // ends in `.gz`.
    let directory = tempfile::tempdir().unwrap();
    let compressed = fs::read(&path).unwrap();
    let mut plain = Vec::new();
    GzDecoder::new(&compressed[..]).read_to_end(&mut plain).unwrap();
    for (name, data) in [("blocks.dat", &compressed), ("blocks.rlp.gz", &plain)] {
        let path = directory.path().join(name);
        fs::write(&path, data).unwrap();
        let again = all(BlockReader::open(&path)).unwrap();
        assert!(again.iter().map(|block| &block.rlp).eq(blocks.iter().map(|block| &block.rlp)));
    }
}

#[test]
fn gzip_of_several_members_is_one_stream() {
    let encoded = encode(&made_up_chain(9));
    let mut file = Vec::new();
    for part in encoded.chunks(2) {
        file.extend(gzip(&part.concat()));
    }
    let blocks = read(file).unwrap();
    assert!(blocks.iter().map(|block| &block.rlp[..]).eq(encoded.iter().map(Vec::as_slice)));
}

#[test]
fn hex_lines_are_the_same_blocks() {
    let Some(path) = fixture("chains/frontier-1000/1000.blocks") else {
        return;
    };
    let blocks = all(BlockReader::open(path)).unwrap();
    let line = |block: &super::RawBlock, prefix: &str| prefix.to_owned() + &hex::encode(&block.rlp);
    let variants =
        [("", "\n", ""), ("0x", "\n", "\n\n"), ("0X", "\r\n", "\r\n"), ("0x", "\n\n \t\n", "")];
    for (prefix, newline, end) in variants {
        let lines: Vec<_> = blocks.iter().map(|block| line(block, prefix)).collect();
        let text = lines.join(newline) + end;
        let reader = BlockReader::from_reader("test", Cursor::new(text.clone())).unwrap();
        assert_eq!(reader.format(), Format::Hex);
        let again: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(check_chain(&again), FRONTIER_999);
        for (block, line) in again.iter().zip(&lines) {
            assert!(text[block.offset as usize..].starts_with(line));
        }
        // The same lines in upper case and compressed.
        let upper = gzip(text.to_uppercase().as_bytes());
        assert!(read(upper).unwrap().iter().map(|b| &b.rlp).eq(blocks.iter().map(|b| &b.rlp)));
    }
}

/// Some editors put a mark before text.
#[test]
fn hex_lines_may_follow_a_byte_order_mark() {
    let encoded = encode(&made_up_chain(3));
    let lines: Vec<_> = encoded.iter().map(hex::encode).collect();
    let text = format!("\u{feff}{}\r\n", lines.join("\r\n"));
    let blocks = read(text.clone()).unwrap();
    assert!(blocks.iter().map(|block| &block.rlp[..]).eq(encoded.iter().map(Vec::as_slice)));
    assert_eq!(blocks[0].offset, 3);
    let error = read(text.replacen('9', "g", 1)).unwrap_err().to_string();
    assert!(error.contains("found 'g' in line 1, column 2,"), "{error}");
}

#[test]
fn small_and_large_blocks_mix_whatever_the_reads() {
    /// A reader that returns a different number of bytes each time, as a slow pipe does.
    struct Uneven(Cursor<Vec<u8>>, usize);
    impl Read for Uneven {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1 * 7 % 65_537 + 1;
            let most = self.1.min(out.len());
            self.0.read(&mut out[..most])
        }
    }
    let mut chain = made_up_chain(200);
    for (index, block) in chain.iter_mut().enumerate() {
        block.header.extra_data = vec![index as u8; (index % 5) * (index % 7) * 90_000].into();
    }
    let encoded = encode(&chain);
    assert!(encoded.iter().any(|block| block.len() > 2 << 20));
    let reader =
        BlockReader::from_reader("test", Uneven(Cursor::new(encoded.concat()), 1)).unwrap();
    for ((read, rlp), block) in reader.zip(&encoded).zip(&chain) {
        let read = read.unwrap();
        assert_eq!(read.rlp, *rlp);
        assert_eq!(decode_block(&read.rlp).unwrap(), *block);
    }
}

#[test]
fn what_is_written_reads_back_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    let encoded = encode(&made_up_chain(50));
    for name in ["blocks.rlp", "blocks.rlp.gz"] {
        let path = directory.path().join(name);
        let mut writer = RlpWriter::create(&path).unwrap();
        for block in &encoded {
            writer.push(block).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), 50);
        let is_gzip = fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]);
        assert_eq!(is_gzip, name.ends_with(".gz"));
        let blocks = all(BlockReader::open(&path)).unwrap();
        assert!(blocks.iter().map(|block| &block.rlp[..]).eq(encoded.iter().map(Vec::as_slice)));
    }
}
