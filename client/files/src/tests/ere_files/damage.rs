//! Files that are damaged, cut or put together wrongly, and blocks that the writer refuses.

use alloy_primitives::U256;

use super::{
    BODY, Records, assemble, chain, encode, fixture, framed, made_up_chain, parts, problem, put,
    raw_records, read, record_at, slim_of, small_file,
};
use crate::{
    BlockFileErrorKind, BlockReader, EreWriter, ExportError,
    e2store::{BLOCKS_PER_ERA, E2StoreProblem},
};

#[test]
fn one_changed_byte_is_found_or_changes_nothing() {
    let file = small_file();
    let original = read(file.clone()).unwrap();
    let mut refused = 0;
    for at in 8..file.len() {
        for bit in 0..8 {
            let mut changed = file.clone();
            changed[at] ^= 1 << bit;
            match read(changed) {
                Err(error) => {
                    let is_placed = matches!(*error.kind, BlockFileErrorKind::E2Store(_));
                    assert!(is_placed, "byte {at}, bit {bit}: {error}");
                    assert!(error.to_string().starts_with("test: the "), "{error}");
                    refused += 1;
                }
                // The change may be harmless: compressed data has more than one form, and an accumulator with a changed
                // type is an unknown record.
                Ok(blocks) => assert_eq!(blocks, original, "byte {at}, bit {bit}"),
            }
        }
    }
    let all = 8 * (file.len() - 8);
    assert!(refused * 100 > all * 95, "{refused} of {all}");
}

/// Changed bits in a file of real blocks are found, or change nothing. The bits are random but the same in each run.
#[test]
fn a_thousand_changed_bits_of_real_blocks() {
    use rand::{RngExt, SeedableRng};
    let Some(path) = fixture("ere/ethtest-00000-44e3809c-noproofs.ere") else { return };
    let mut out = EreWriter::new("test", Vec::new(), 0, &std::env::temp_dir()).unwrap();
    for block in BlockReader::open(path).unwrap().take(60) {
        let block = block.unwrap();
        out.push(&block.rlp, &slim_of(&block), block.total_difficulty.unwrap()).unwrap();
    }
    let file = out.finish().unwrap().0;
    let original = read(file.clone()).unwrap();
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(0xe2e);
    for _ in 0..1000 {
        let (at, bit) = (random.random_range(0..file.len()), random.random_range(0..8));
        let mut changed = file.clone();
        changed[at] ^= 1 << bit;
        match read(changed) {
            Ok(blocks) => assert!(blocks == original, "byte {at}, bit {bit}"),
            // A file that does not start with the version record may be taken for any other format.
            Err(error) if at < 8 => assert!(!error.to_string().is_empty()),
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with("test: the ") && text.contains("offset"), "{text}");
            }
        }
    }
}

#[test]
fn structure_is_checked() {
    let file = small_file();
    // A file cut at any byte is refused, because a record is either cut or missing.
    for length in 9..file.len() {
        match problem(file[..length].to_vec()) {
            E2StoreProblem::Truncated { present, expected } => assert!(present < expected),
            E2StoreProblem::Missing { .. } => {}
            other => panic!("{length}: {other}"),
        }
    }
    let raw = raw_records(&file);
    for n in 1..raw.len() {
        let (start, end) = (record_at(&file, n), record_at(&file, n + 1));
        // A file without one of its records, and a file with one of them twice. A missing accumulator is allowed, but
        // then the index does not fit the file.
        for middle in [0, 2] {
            let middle = file[start..end].repeat(middle);
            let changed = [&file[..start], &middle, &file[end..]].concat();
            read(changed).unwrap_err();
        }
    }
    let with = |change: &dyn Fn(&mut Records)| {
        let mut records = parts(&file);
        change(&mut records);
        problem(assemble(&records))
    };
    // Records in the order of their numbers: the version, five each of headers, bodies, receipts and total
    // difficulties, the accumulator.
    let order = |problem| matches!(problem, E2StoreProblem::Order { .. });
    assert!(order(with(&|records| records.swap(5, 6))));
    assert!(order(with(&|records| records[20].0 = 0x05)));
    assert!(order(with(&|records| records[1].0 = BODY)));
    assert_eq!(with(&|records| records[6].0 = 0x0c), E2StoreProblem::UnknownType(0x0c));
    assert_eq!(with(&|records| records[21].0 = 0x3269), E2StoreProblem::ConsensusEra);
    let number = with(&|records| records.swap(2, 3));
    assert_eq!(number, E2StoreProblem::Number { found: 2, expected: 1 });
    let sum = with(&|records| records[17].1[0] ^= 1);
    assert!(matches!(sum, E2StoreProblem::TotalDifficulty { .. }));
    let root = with(&|records| records[21].1[0] ^= 1);
    assert!(matches!(root, E2StoreProblem::Accumulator { .. }));
    let body = with(&|records| records[7].1 = framed(b"\x80"));
    assert!(matches!(body, E2StoreProblem::Decode(_)));
    let receipts = with(&|records| records[12].1 = framed(b"\xc0\xc0"));
    assert!(matches!(receipts, E2StoreProblem::Decode(_)));
    let header = with(&|records| records[2].1 = framed(b"\xc0"));
    assert!(matches!(header, E2StoreProblem::Decode(_)));

    // A file of the consensus layer.
    let mut era = file[..8].to_vec();
    put(&mut era, 0x01, b"a block");
    let error = read(era).unwrap_err().to_string();
    assert!(
        error.contains("consensus-layer .era file, an era1 or ere file was expected"),
        "{error}"
    );
    assert!(error.ends_with("name .era1 or .ere files of the execution layer"), "{error}");

    let index = record_at(&file, raw.len() - 1) + 8;
    for (at, expected) in [
        (index, "IndexStart"),
        (index + 8, "IndexOffset { record: \"CompressedHeader\", block: 0"),
        (index + 8 + 8 * 6, "IndexOffset { record: \"CompressedSlimReceipts\", block: 1"),
        (file.len() - 16, "IndexComponents { found: 5, expected: 4"),
        (file.len() - 8, "IndexCount { found: 4, expected: 5"),
    ] {
        let mut changed = file.clone();
        changed[at] ^= 1;
        let problem = format!("{:?}", problem(changed));
        assert!(problem.starts_with(expected), "{problem}");
    }
    let mut longer = file;
    longer[index - 6] += 8;
    longer.splice(index + 8..index + 8, [0; 8]);
    assert!(matches!(problem(longer), E2StoreProblem::IndexLength { .. }));
}

#[test]
fn no_file_has_more_than_its_blocks() {
    let (chain, sums) = chain(BLOCKS_PER_ERA + 1, 0);
    let blocks = encode(&chain);
    let mut writer = EreWriter::new("test", Vec::new(), 0, &std::env::temp_dir()).unwrap();
    for (block, sum) in blocks.iter().zip(&sums).take(BLOCKS_PER_ERA as usize) {
        writer.push(block, &[0xc0], *sum).unwrap();
    }
    assert!(writer.is_full());
    let last = BLOCKS_PER_ERA as usize;
    let error = writer.push(&blocks[last], &[0xc0], sums[last]).unwrap_err();
    assert!(matches!(error, ExportError::Full { .. }), "{error}");
    let file = writer.finish().unwrap().0;
    assert_eq!(read(file.clone()).unwrap().len(), last);
    let mut records = parts(&file);
    let headers = records.partition_point(|(kind, _)| matches!(kind, 0x3265 | 0x03));
    records.insert(headers, records[1].clone());
    assert_eq!(problem(assemble(&records)), E2StoreProblem::TooManyBlocks);
}

#[test]
fn the_writer_takes_only_the_next_block() {
    let temp = std::env::temp_dir();
    let blocks = encode(&made_up_chain(3));
    let error = EreWriter::new("test", Vec::new(), 8193, &temp).unwrap_err();
    assert!(error.to_string().ends_with("start it at block 8192"), "{error}");
    let mut writer = EreWriter::new("test", Vec::new(), 0, &temp).unwrap();
    let error = writer.push(&blocks[1], &[0xc0], U256::ZERO).unwrap_err();
    assert!(matches!(error, ExportError::Order { found: 1, expected: 0, .. }), "{error}");
    assert!(writer.push(&blocks[0][..20], &[0xc0], U256::ZERO).is_err());
    assert!(writer.push(&blocks[0], &[0x80], U256::ZERO).is_err());
    assert!(matches!(writer.finish(), Err(ExportError::Empty { .. })));
}
