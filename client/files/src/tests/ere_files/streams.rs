//! Where files come from: their format is found, and they come through pipes, behind each other and from a directory.

use std::{fs, io::Cursor};

use super::{
    ACCUMULATOR, RECEIPTS, TOTAL_DIFFICULTY, all, assemble, blocks_of, chain, encode, file_of,
    gzip, parts, raw_records, receipt, record_at, small_file,
};
use crate::{ArchiveExporter, ArchiveFormat, BlockReader, Format, e2store::BLOCKS_PER_ERA};

#[test]
fn a_file_is_told_from_era1_by_its_records() {
    // The format is found for a file of one block, with and without each optional record.
    for merge in [0, 1] {
        let file = file_of(&chain(1, merge), &[]);
        for left_out in [&[][..], &[RECEIPTS], &[RECEIPTS, TOTAL_DIFFICULTY, ACCUMULATOR]] {
            let mut records = parts(&file);
            records.retain(|(kind, _)| !left_out.contains(kind));
            let file = assemble(&records);
            let reader = BlockReader::from_reader("test", Cursor::new(file)).unwrap();
            assert_eq!(reader.format(), Format::Ere);
            assert_eq!(reader.map(Result::unwrap).count(), 1);
        }
    }
}

#[test]
fn files_come_through_pipes_and_gzip_and_follow_each_other() {
    let file = small_file();
    let expected = blocks_of(file.clone());
    assert_eq!(blocks_of(gzip(&file)), expected);
    let twice = [&file[..], &file].concat();
    assert_eq!(blocks_of(twice.clone()), [&expected[..], &expected].concat());

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("any name");
    fs::write(&path, &twice).unwrap();
    let reader = BlockReader::open(&path).unwrap();
    assert_eq!(reader.format(), Format::Ere);
    let progress = reader.progress();
    let blocks: Vec<_> = reader.map(Result::unwrap).collect();
    assert!(blocks.iter().map(|block| &block.rlp).eq(expected.iter().chain(&expected)));
    assert_eq!((blocks[5].index, blocks[5].offset), (5, file.len() as u64 + 8));
    assert_eq!((progress.read(), progress.total()), (twice.len() as u64, progress.total()));
    assert_eq!(progress.total(), Some(twice.len() as u64));

    // If the file is cut, the positions in the error count from the start of the whole stream.
    fs::write(&path, &twice[..twice.len() - 3]).unwrap();
    let error = all(BlockReader::open(&path)).unwrap_err().to_string();
    let at = file.len() + record_at(&file, raw_records(&file).len() - 1);
    let words = format!("any name: the DynamicBlockIndex record at offset {at} is cut off by");
    assert!(error.contains(&words), "{error}");
}

#[test]
fn a_directory_may_go_on_in_the_other_format() {
    let directory = tempfile::tempdir().unwrap();
    let (chain, sums) = chain(BLOCKS_PER_ERA + 3, BLOCKS_PER_ERA + 1);
    let blocks = encode(&chain);
    for (format, range) in [
        (ArchiveFormat::Era1, 0..BLOCKS_PER_ERA as usize),
        (ArchiveFormat::Ere, BLOCKS_PER_ERA as usize..blocks.len()),
    ] {
        let start = range.start as u64;
        let mut out = ArchiveExporter::new(format, directory.path(), "my-net", start).unwrap();
        for (block, sum) in blocks[range.clone()].iter().zip(&sums[range]) {
            out.push(block, &[receipt()], *sum).unwrap();
        }
        assert_eq!(out.finish().unwrap().len(), 1);
    }
    let found = all(BlockReader::open(directory.path())).unwrap();
    assert!(found.iter().map(|block| &block.rlp[..]).eq(blocks.iter().map(Vec::as_slice)));

    // A second file of the same epoch is neither written nor read.
    let mut out =
        ArchiveExporter::new(ArchiveFormat::Ere, directory.path(), "my-net", 8192).unwrap();
    out.push(&blocks[8192], &[], sums[8192]).unwrap();
    let error = out.finish().unwrap_err().to_string();
    assert!(error.contains("already holds a file of epoch 1, my-net-00001-"), "{error}");
    assert_eq!(directory.path().read_dir().unwrap().count(), 3);
    let other = directory.path().join("my-net-00000-12345678-noproofs.ere");
    fs::write(&other, "").unwrap();
    let error = BlockReader::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("two files of epoch 0 (my-net-00000-"), "{error}");
}
