//! Tests of the last block of an archive, which is found without the others.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use alloy_primitives::U256;

use super::{
    super::{ArchiveEnd, ArchiveExporter, ArchiveFormat, BlockReader, files_at},
    all, encode, fixture, made_up_chain,
};

const BLOCKS: u64 = 5;

/// Writes the blocks of an invented chain to an archive. Returns its path.
fn archive(directory: &Path, format: ArchiveFormat) -> PathBuf {
    let chain = made_up_chain(BLOCKS);
    let mut out = ArchiveExporter::new(format, directory, "dev", 0).unwrap();
    let mut sum = U256::ZERO;
    for (block, rlp) in chain.iter().zip(encode(&chain)) {
        sum += block.header.difficulty;
        out.push(&rlp, &[], sum).unwrap();
    }
    out.finish().unwrap().remove(0)
}

#[test]
fn the_last_block_of_an_archive_is_found_by_its_index() {
    for format in [ArchiveFormat::Era1, ArchiveFormat::Ere] {
        let directory = tempfile::tempdir().unwrap();
        let path = archive(directory.path(), format);
        let end = ArchiveEnd::read(&path).unwrap();
        let last = made_up_chain(BLOCKS).pop().unwrap().header;
        assert_eq!((end.first, end.last.number), (0, BLOCKS - 1));
        assert_eq!(end.last.hash(), last.hash_slow());
        assert_eq!(end.bytes, fs::metadata(&path).unwrap().len());
        assert_eq!(&*end.file, path.to_str().unwrap());
        assert_eq!(files_at(directory.path()).unwrap(), [path]);
    }
    for name in ["era1/sepolia-00001-f3ea493e.era1", "ere/ethtest-00000-44e3809c-noproofs.ere"] {
        let Some(path) = fixture(name) else { continue };
        let end = ArchiveEnd::read(&path).unwrap();
        let blocks = all(BlockReader::open(&path)).unwrap();
        let [first, last] =
            [&blocks[0], blocks.last().unwrap()].map(|b| b.decode_header().unwrap());
        assert_eq!((end.first, end.last), (first.number, last));
    }
}

#[test]
fn what_is_no_whole_archive_has_no_end() {
    for format in [ArchiveFormat::Era1, ArchiveFormat::Ere] {
        let directory = tempfile::tempdir().unwrap();
        let path = archive(directory.path(), format);
        let right = ArchiveEnd::read(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        let other = directory.path().join("other");
        let read = |content: &[u8]| {
            fs::write(&other, content).unwrap();
            ArchiveEnd::read(&other)
        };
        for length in (0..bytes.len()).step_by(7) {
            assert!(read(&bytes[..length]).is_none(), "{length} of {} bytes", bytes.len());
        }
        // The index of the last archive says nothing about those before it.
        assert!(read(&[&bytes[..], &bytes].concat()).is_none());
        assert!(read(&encode(&made_up_chain(BLOCKS)).concat()).is_none());
        let index = bytes.len() - 200;
        for at in (0..index).step_by(5).chain(index..bytes.len()) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            if let Some(end) = read(&changed) {
                assert_eq!((end.first, &end.last), (right.first, &right.last), "byte {at}");
            }
        }
        assert!(ArchiveEnd::read(directory.path()).is_none());
        assert!(ArchiveEnd::read(&directory.path().join("missing")).is_none());
    }
}
