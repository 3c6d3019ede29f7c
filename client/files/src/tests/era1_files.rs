//! Tests of reading and writing era1 files.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, io::Cursor};

use alloy_primitives::{B256, U256, b256};
use polytrie_consensus::decode::{EncodedReceipts, decode_receipts, decode_sealed_block};

use super::{
    super::{
        ArchiveExporter, ArchiveFormat, BlockFileErrorKind, BlockReader, Era1Writer, ExportError,
        Format, RawBlock,
        e2store::{BLOCKS_PER_ERA, E2StoreProblem},
    },
    all, encode, fixture, made_up_chain, problem, read, record_at, records,
};

const FILES: [(&str, u64, Option<B256>); 3] = [
    (
        "era1/mainnet-00000-5ec1ffb8.era1",
        0,
        Some(b256!("a6860fefa339c963e1bb622526cc8dd4344eedd2a9b969e74de5cccc445fbed4")),
    ),
    ("era1/sepolia-00000-643a00f7.era1", 0, None),
    (
        "era1/sepolia-00001-f3ea493e.era1",
        8192,
        Some(b256!("c78ee2bdde8cab9c2c3d23214f2dbc6a4ab63fefa2510b12004bfa9538f2f442")),
    ),
];

/// Checks that each block builds on the one before it, and that receipts and ommers have the roots in the
/// headers.
fn check(blocks: &[RawBlock], start: u64) -> B256 {
    let mut parent = None;
    for (number, raw) in (start..).zip(blocks) {
        let block = decode_sealed_block(&raw.rlp).unwrap();
        assert_eq!(block.header.number, number);
        assert_eq!(raw.index, number % BLOCKS_PER_ERA);
        if let Some(parent) = parent {
            assert_eq!(block.header.parent_hash, parent);
        }
        parent = Some(block.hash());
        assert_eq!(block.body.calculate_ommers_root(), block.header.ommers_hash);
        let Some(EncodedReceipts::Full(receipts)) = &raw.receipts else { panic!("{number}") };
        let receipts = decode_receipts(receipts).unwrap();
        assert_eq!(receipts.len(), block.body.transactions.len());
        let root = alloy_consensus::proofs::calculate_receipt_root(&receipts);
        assert_eq!(root, block.header.receipts_root);
        assert!(raw.total_difficulty.unwrap() >= block.header.difficulty);
    }
    parent.unwrap()
}

#[test]
fn the_fixtures_verify_and_chain() {
    for (path, start, head) in FILES {
        let Some(path) = fixture(path) else { continue };
        let reader = BlockReader::open(&path).unwrap();
        assert_eq!(reader.format(), Format::Era1);
        // Reading to the end checks structure, checksums, accumulator and index.
        let blocks: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(blocks.len() as u64, BLOCKS_PER_ERA);
        let found = check(&blocks, start);
        if let Some(head) = head {
            assert_eq!(found, head);
        }
    }
}

#[test]
fn files_written_again_have_the_same_records() {
    for (path, start, _) in FILES {
        let Some(path) = fixture(path) else { continue };
        let directory = tempfile::tempdir().unwrap();
        let network = path.file_name().unwrap().to_str().unwrap().split('-').next().unwrap();
        let format = ArchiveFormat::Era1;
        let mut exporter = ArchiveExporter::new(format, directory.path(), network, start).unwrap();
        for block in BlockReader::open(&path).unwrap() {
            let block = block.unwrap();
            let Some(EncodedReceipts::Full(receipts)) = &block.receipts else { panic!() };
            let receipts = decode_receipts(receipts).unwrap();
            exporter.push(&block.rlp, &receipts, block.total_difficulty.unwrap()).unwrap();
        }
        let written = exporter.finish().unwrap();
        // The file name contains the accumulator.
        let [written] = &written[..] else { panic!("{written:?}") };
        assert_eq!(written.file_name(), path.file_name());

        let (mut old, mut new) =
            (records(&fs::read(&path).unwrap()), records(&fs::read(written).unwrap()));
        // The index holds positions, which depend on how well the encoder compresses, so only its length
        // is compared.
        let (old_index, new_index) = (old.pop().unwrap(), new.pop().unwrap());
        assert_eq!((old_index.0, old_index.1.len()), (new_index.0, new_index.1.len()));
        assert!(old == new, "{}", path.display());
        assert_eq!(all(BlockReader::open(written)).unwrap().len() as u64, BLOCKS_PER_ERA);
    }
}

#[test]
fn files_follow_each_other_in_a_stream() {
    let mut stream = Vec::new();
    for path in [FILES[1].0, FILES[2].0] {
        let Some(path) = fixture(path) else { return };
        stream.extend(fs::read(path).unwrap());
    }
    let blocks = read(stream).unwrap();
    assert_eq!(blocks.len() as u64, 2 * BLOCKS_PER_ERA);
    check(&blocks[..8192], 0);
}

#[test]
fn a_directory_is_read_in_the_order_of_its_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let error = BlockReader::open(path).unwrap_err();
    assert!(matches!(*error.kind, BlockFileErrorKind::Directory));

    let mut total = 0;
    for (file, _, _) in &FILES[1..] {
        let Some(file) = fixture(file) else { return };
        total += fs::copy(&file, path.join(file.file_name().unwrap())).unwrap();
    }
    fs::write(path.join("readme.txt"), "not an era1 file").unwrap();
    let reader = BlockReader::open(path).unwrap();
    let progress = reader.progress();
    let blocks: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(progress.read(), total);
    assert_eq!(progress.total(), Some(total));
    assert_eq!(Some(check(&blocks, 0)), FILES[2].2);
    assert!(blocks[0].file.ends_with("sepolia-00000-643a00f7.era1"), "{}", blocks[0].file);
    assert!(blocks[8192].file.ends_with("sepolia-00001-f3ea493e.era1"));

    fs::write(path.join("sepolia-00001-00000000.era1"), "").unwrap();
    let text = BlockReader::open(path).unwrap_err().to_string();
    assert!(text.contains("two files of epoch 1"), "{text}");
    fs::rename(path.join("sepolia-00001-00000000.era1"), path.join("mainnet-00002-0.era1"))
        .unwrap();
    let text = BlockReader::open(path).unwrap_err().to_string();
    assert!(text.contains("files of sepolia and of mainnet"), "{text}");
    fs::rename(path.join("mainnet-00002-0.era1"), path.join("chain.era1")).unwrap();
    let text = BlockReader::open(path).unwrap_err().to_string();
    assert!(text.contains("chain.era1 in this directory"), "{text}");
}

/// Returns an era1 file with a few invented blocks.
fn small_file(blocks: u64) -> Vec<u8> {
    let chain = made_up_chain(blocks);
    let mut writer = Era1Writer::new("test", Vec::new(), 0).unwrap();
    let mut total_difficulty = U256::ZERO;
    for (block, rlp) in chain.iter().zip(encode(&chain)) {
        total_difficulty += block.header.difficulty;
        writer.push(&rlp, &[0xc0], total_difficulty).unwrap();
    }
    let (file, summary) = writer.finish().unwrap();
    assert_eq!((summary.start, summary.blocks), (0, blocks));
    file
}

#[test]
fn a_partial_era_reads_back() {
    let chain = encode(&made_up_chain(20));
    let blocks = read(small_file(20)).unwrap();
    assert!(blocks.iter().map(|block| &block.rlp[..]).eq(chain.iter().map(Vec::as_slice)));
}

#[test]
fn one_changed_byte_is_found_and_placed() {
    let file = small_file(3);
    let original = read(file.clone()).unwrap();
    let index = record_at(&file, 14);
    for at in 8..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0x04;
        match read(changed) {
            Err(error) => {
                assert!(
                    matches!(*error.kind, BlockFileErrorKind::E2Store(_)),
                    "byte {at}: {error}"
                );
            }
            // The change may be harmless, because compressed data has more than one form: a copy from
            // another place in a run of zeros is the same.
            Ok(blocks) => assert_eq!(blocks, original, "byte {at}"),
        }
    }
    assert_eq!(file[index..index + 2], [0x66, 0x32]);

    // The records of block 1 come after the version and the four records of block 0.
    let names = ["CompressedHeader", "CompressedBody", "CompressedReceipts"];
    for (n, name) in (5..).zip(names) {
        let mut changed = file.clone();
        let at = record_at(&file, n);
        changed[at + 8 + 14] ^= 1; // the checksum of the first frame
        let text = read(changed).unwrap_err().to_string();
        let expected = format!(
            "test: the {name} record at offset {at} (block 1) cannot be decompressed (snappy: corrupt"
        );
        assert!(text.starts_with(&expected), "{text}");
    }
    let mut changed = file.clone();
    changed[record_at(&file, 8) + 8] ^= 1;
    assert!(matches!(problem(changed), E2StoreProblem::TotalDifficulty { .. }));
    let mut changed = file.clone();
    changed[record_at(&file, 13) + 8] ^= 1;
    assert!(matches!(problem(changed), E2StoreProblem::Accumulator { .. }));
    for (offset, expected) in [(8, "IndexStart"), (16, "IndexOffset"), (40, "IndexCount")] {
        let mut changed = file.clone();
        changed[index + offset] ^= 1;
        let problem = format!("{:?}", problem(changed));
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn structure_is_checked() {
    let file = small_file(3);
    // A file cut at any byte is refused, because a record is either cut or missing.
    for length in 9..file.len() {
        match problem(file[..length].to_vec()) {
            E2StoreProblem::Truncated { present, expected } => assert!(present < expected),
            E2StoreProblem::Missing { .. } => {}
            other => panic!("{length}: {other}"),
        }
    }
    // A file without one of its records.
    for n in 1..14 {
        let (start, end) = (record_at(&file, n), record_at(&file, n + 1));
        let mut changed = file[..start].to_vec();
        changed.extend(&file[end..]);
        assert!(matches!(problem(changed), E2StoreProblem::Order { .. }), "record {n}");
    }
    // A file without one of its blocks.
    let mut changed = file[..record_at(&file, 5)].to_vec();
    changed.extend(&file[record_at(&file, 9)..]);
    assert_eq!(problem(changed), E2StoreProblem::Number { found: 2, expected: 1 });
    // A file without any block.
    let mut changed = file[..8].to_vec();
    changed.extend(&file[record_at(&file, 13)..]);
    assert!(matches!(problem(changed), E2StoreProblem::Order { .. }));
    // Record types that era1 does not have.
    let at = record_at(&file, 5);
    let mut changed = file.clone();
    changed[at] = 0x0a;
    assert!(matches!(problem(changed), E2StoreProblem::Order { .. }));
    let mut changed = file.clone();
    changed[at] = 0x0c;
    assert_eq!(problem(changed), E2StoreProblem::UnknownType(0x0c));
    let mut changed = file.clone();
    changed[at] = 0x01;
    assert_eq!(problem(changed), E2StoreProblem::ConsensusEra);
    // A length that would not fit into memory is refused before any memory is reserved.
    let mut changed = file;
    changed[at + 2..at + 6].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(problem(changed), E2StoreProblem::Length { .. }));
}

#[test]
fn records_of_other_kinds_may_stand_before_the_accumulator() {
    let original = read(small_file(3)).unwrap();
    let other = [&[0x42, 0x42, 100, 0, 0, 0, 0, 0][..], &[7; 100]].concat();
    for count in [1, 2] {
        let others = other.repeat(count);
        let mut file = small_file(3);
        // The positions in the index are relative to the index itself.
        let index = record_at(&file, 14) + 8;
        for place in file[index + 8..index + 32].as_chunks_mut::<8>().0 {
            let moved = i64::from_le_bytes(*place) - others.len() as i64;
            *place = moved.to_le_bytes();
        }
        let at = record_at(&file, 13);
        file.splice(at..at, others);
        assert_eq!(read(file.clone()).unwrap(), original);
        // The file is cut within the extra record, and then has no accumulator after it.
        let cut = problem(file[..at + 50].to_vec());
        assert_eq!(cut, E2StoreProblem::Truncated { present: 42, expected: 100 });
        let accumulator = record_at(&file, 13 + count);
        file.drain(accumulator..accumulator + 40);
        assert_eq!(problem(file), E2StoreProblem::UnknownType(0x4242));
    }
}

#[test]
fn the_writer_takes_only_the_next_block() {
    let chain = encode(&made_up_chain(3));
    let error = Era1Writer::new("test", Vec::new(), 8193).unwrap_err();
    assert!(matches!(error, ExportError::Start { start: 8193 }));
    assert!(error.to_string().ends_with("start it at block 8192"), "{error}");

    let mut writer = Era1Writer::new("test", Cursor::new(Vec::new()), 0).unwrap();
    let error = writer.push(&chain[1], &[0xc0], U256::ZERO).unwrap_err();
    assert!(matches!(error, ExportError::Order { found: 1, expected: 0, .. }), "{error}");
    assert!(writer.push(&chain[0][..20], &[0xc0], U256::ZERO).is_err());
    assert!(writer.push(&chain[0], &[0x80], U256::ZERO).is_err());
    assert!(matches!(writer.finish(), Err(ExportError::Empty { .. })));
}

#[test]
fn a_range_becomes_one_file_per_era() {
    let directory = tempfile::tempdir().unwrap();
    let chain = made_up_chain(BLOCKS_PER_ERA + 10);
    let mut exporter =
        ArchiveExporter::new(ArchiveFormat::Era1, directory.path(), "dev", 0).unwrap();
    let mut total_difficulty = U256::ZERO;
    for block in &chain {
        total_difficulty += block.header.difficulty;
        exporter.push(&alloy_rlp::encode(block), &[], total_difficulty).unwrap();
    }
    let files = exporter.finish().unwrap();
    assert_eq!(files.len(), 2);
    // The directory holds the files and the list of checksums.
    assert_eq!(directory.path().read_dir().unwrap().count(), 3);
    let blocks = all(BlockReader::open(directory.path())).unwrap();
    assert!(blocks.iter().map(|block| block.decode().unwrap()).eq(chain));
}
