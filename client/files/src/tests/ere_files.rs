//! Tests of reading and writing ere files.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    io::{Cursor, Write},
};

use alloy_consensus::{
    Block, Eip658Value, Receipt, ReceiptEnvelope, ReceiptWithBloom, TxEnvelope, TxType,
};
use alloy_primitives::{Address, B256, Bytes, Log, U256};
use flate2::{Compression, write::GzEncoder};
use polytrie_consensus::decode::{
    EncodedReceipts, decode_receipts, decode_slim_receipts, encode_slim_receipts,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use snap::write::FrameEncoder;

use super::{
    super::{
        ArchiveExporter, ArchiveFormat, BlockFileError, BlockFileErrorKind, BlockReader, EreWriter,
        ExportError, Format, RawBlock,
        e2store::{BLOCKS_PER_ERA, E2StoreProblem, accumulator_root, header_record_root},
    },
    all, encode, fixture, made_up_chain, raw_records, read, record_at, records,
};

const HEADER: u16 = 0x03;
const BODY: u16 = 0x04;
const RECEIPTS: u16 = 0x0a;
const PROOF: u16 = 0x0b;
const TOTAL_DIFFICULTY: u16 = 0x06;
const ACCUMULATOR: u16 = 0x07;
const INDEX: u16 = 0x3267;

/// The type and the data of each record of a file.
type Records = Vec<(u16, Vec<u8>)>;

/// Returns an invented chain whose blocks from `merge` on have no difficulty, and its total difficulties.
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

/// Reads a file that must be refused, and returns its problem.
fn problem(file: Vec<u8>) -> E2StoreProblem {
    problem_of(read(file).unwrap_err())
}

fn problem_of(error: BlockFileError) -> E2StoreProblem {
    match *error.kind {
        BlockFileErrorKind::E2Store(error) => error.problem,
        other => panic!("{other}"),
    }
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

#[test]
fn a_real_file_has_what_the_era1_file_of_its_blocks_has() {
    let ere = fixture("ere/sepolia-00000-8e3e7dc9-noproofs.ere");
    let era1 = fixture("era1/sepolia-00000-643a00f7.era1");
    let (Some(ere), Some(era1)) = (ere, era1) else { return };
    let reader = BlockReader::open(&ere).unwrap();
    assert_eq!(reader.format(), Format::Ere);
    let progress = reader.progress();
    let mut count = 0;
    for (found, expected) in reader.zip(BlockReader::open(&era1).unwrap()) {
        let (found, expected) = (found.unwrap(), expected.unwrap());
        assert_eq!(found.rlp, expected.rlp);
        assert_eq!(found.total_difficulty, expected.total_difficulty);
        assert_eq!(found.index, expected.index);
        assert_eq!(slim_of(&found), slim_of(&expected));
        count += 1;
    }
    assert_eq!(count, BLOCKS_PER_ERA);
    let length = fs::metadata(&ere).unwrap().len();
    assert_eq!((progress.read(), progress.total()), (length, Some(length)));
}

#[test]
fn a_real_file_across_the_merge_has_the_blocks_of_the_chain() {
    let ere = fixture("ere/ethtest-00000-44e3809c-noproofs.ere");
    let rlp = fixture("chains/ethtest/chain.rlp");
    let (Some(ere), Some(rlp)) = (ere, rlp) else { return };
    let found = all(BlockReader::open(ere)).unwrap();
    assert_eq!(found.len(), 601);
    for (found, expected) in found[1..].iter().zip(BlockReader::open(rlp).unwrap()) {
        assert_eq!(found.rlp, expected.unwrap().rlp);
        let block = found.decode().unwrap();
        let receipts = slim_of(found);
        let receipts = decode_slim_receipts(&receipts).unwrap();
        assert_eq!(receipts.len(), block.body.transactions.len());
    }
}

#[test]
fn real_files_written_again_have_the_same_records() {
    for name in ["sepolia-00000-8e3e7dc9-noproofs.ere", "ethtest-00000-44e3809c-noproofs.ere"] {
        let Some(path) = fixture(&format!("ere/{name}")) else { continue };
        let directory = tempfile::tempdir().unwrap();
        let network = name.split('-').next().unwrap();
        let mut out = EreWriter::new("test", Vec::new(), 0, directory.path()).unwrap();
        for block in BlockReader::open(&path).unwrap() {
            let block = block.unwrap();
            out.push(&block.rlp, &slim_of(&block), block.total_difficulty.unwrap()).unwrap();
        }
        let (written, summary) = out.finish().unwrap();
        assert_eq!(summary.file_name(network), name);
        let (mut old, mut new) = (records(&fs::read(&path).unwrap()), records(&written));
        // The index holds positions, which depend on how well the encoder compresses, so only its length is compared.
        let (old_index, new_index) = (old.pop().unwrap(), new.pop().unwrap());
        assert_eq!((old_index.0, old_index.1.len()), (new_index.0, new_index.1.len()));
        assert!(old == new, "{name}");
        read(written).unwrap();
    }
}

#[test]
fn the_merge_decides_what_is_written() {
    let kinds = |file: &[u8]| {
        let mut kinds: Vec<u16> = records(file).iter().map(|(kind, _)| *kind).collect();
        kinds.dedup();
        kinds
    };
    let with = [0x3265, HEADER, BODY, RECEIPTS, TOTAL_DIFFICULTY, ACCUMULATOR, INDEX];
    let without = [0x3265, HEADER, BODY, RECEIPTS, INDEX];
    for (merge, expected) in [(9, &with[..]), (3, &with), (1, &with), (0, &without)] {
        let chain = chain(5, merge);
        let file = file_of(&chain, &[]);
        assert_eq!(kinds(&file), expected, "{merge}");
        // The accumulator covers only the blocks before the merge.
        let roots: Vec<B256> = chain
            .0
            .iter()
            .zip(&chain.1)
            .filter(|(block, _)| !block.header.difficulty.is_zero())
            .map(|(block, sum)| header_record_root(block.header.hash_slow(), *sum))
            .collect();
        let found = records(&file).into_iter().find(|(kind, _)| *kind == ACCUMULATOR);
        let expected = (merge > 0).then(|| accumulator_root(&roots));
        assert_eq!(found.map(|(_, root)| B256::from_slice(&root)), expected);
        let blocks = read(file).unwrap();
        for (block, sum) in blocks.iter().zip(&chain.1) {
            assert_eq!(block.total_difficulty, (merge > 0).then_some(*sum), "{merge}");
        }
    }
}

#[test]
fn what_is_optional_may_be_missing() {
    let (file, expected) = (small_file(), encode(&chain(5, 3).0));
    let original = read(file.clone()).unwrap();
    for left_out in [
        &[][..],
        &[RECEIPTS],
        &[TOTAL_DIFFICULTY],
        &[ACCUMULATOR],
        &[RECEIPTS, TOTAL_DIFFICULTY],
        &[RECEIPTS, TOTAL_DIFFICULTY, ACCUMULATOR],
    ] {
        let mut records = parts(&file);
        records.retain(|(kind, _)| !left_out.contains(kind));
        // A record of an unknown type is skipped.
        let end = records.len() - usize::from(!left_out.contains(&ACCUMULATOR));
        records.insert(end, (0x4242, vec![7; 100]));
        let blocks = read(assemble(&records)).unwrap();
        assert_eq!(blocks.len(), 5);
        for ((block, original), rlp) in blocks.iter().zip(&original).zip(&expected) {
            assert_eq!(block.rlp, *rlp);
            let receipts = (!left_out.contains(&RECEIPTS)).then(|| slim_of(original));
            assert_eq!(block.receipts, receipts.map(EncodedReceipts::Slim));
            let sum = original.total_difficulty.filter(|_| !left_out.contains(&TOTAL_DIFFICULTY));
            assert_eq!(block.total_difficulty, sum);
        }
    }
}

/// Returns the proof of each block before the merge. They are computed the slow way, with all levels of the tree
/// written out.
fn proofs(chain: &(Vec<Block<TxEnvelope>>, Vec<U256>), merge: usize) -> Vec<Vec<u8>> {
    let pair = |left: &B256, right: &B256| {
        let hash: [u8; 32] = Sha256::new().chain_update(left).chain_update(right).finalize().into();
        B256::new(hash)
    };
    let hashes: Vec<B256> = chain.0.iter().map(|block| block.header.hash_slow()).collect();
    let records = hashes.iter().zip(&chain.1).take(merge);
    let records: Vec<B256> = records.map(|(hash, sum)| header_record_root(*hash, *sum)).collect();
    (0..chain.0.len())
        .map(|index| {
            let mut level = records.clone();
            level.resize(8192, B256::ZERO);
            let mut proof = chain.1[index].to_le_bytes::<32>().to_vec();
            let mut at = index;
            while level.len() > 1 {
                proof.extend(level[at ^ 1]);
                at /= 2;
                level = level.chunks(2).map(|both| pair(&both[0], &both[1])).collect();
            }
            proof.extend(U256::from(merge).to_le_bytes::<32>());
            proof
        })
        .collect()
}

fn proof_record(kind: u64, proof: &[u8]) -> Vec<u8> {
    let mut fields = alloy_rlp::encode(kind);
    fields.extend(alloy_rlp::encode(proof));
    let mut record = Vec::new();
    alloy_rlp::Header { list: true, payload_length: fields.len() }.encode(&mut record);
    record.extend(fields);
    record
}

#[test]
fn proofs_against_the_accumulator_are_checked() {
    let chain = chain(5, 3);
    let file = file_of(&chain, &[]);
    let proofs = proofs(&chain, 3);
    let with = |records: &[Vec<u8>], left_out: &[u16]| {
        let mut all = parts(&file);
        let at = all.iter().position(|(kind, _)| *kind == TOTAL_DIFFICULTY).unwrap();
        for (n, record) in records.iter().enumerate() {
            all.insert(at + n, (PROOF, framed(record)));
        }
        all.retain(|(kind, _)| !left_out.contains(kind));
        assemble(&all)
    };
    // The blocks after the merge have proofs of another kind.
    let good: Vec<_> = proofs
        .iter()
        .enumerate()
        .map(|(index, proof)| proof_record(if index < 3 { 0 } else { 2 }, proof))
        .collect();
    let everything = blocks_of(file.clone());
    for left_out in [&[][..], &[ACCUMULATOR], &[TOTAL_DIFFICULTY], &[ACCUMULATOR, TOTAL_DIFFICULTY]]
    {
        assert_eq!(blocks_of(with(&good, left_out)), everything, "{left_out:?}");
        let mut wrong = good.clone();
        wrong.swap(1, 2);
        let problem = problem(with(&wrong, left_out));
        assert!(matches!(problem, E2StoreProblem::NotProven { .. }), "{problem}");
    }
    let mut wrong = good.clone();
    wrong[3] = proof_record(0, &proofs[3]);
    let error = read(with(&wrong, &[])).unwrap_err().to_string();
    let words = "(block 3) does not prove that the block belongs to the accumulator 0x";
    assert!(error.contains(words), "{error}");
    for (record, words) in [
        (proof_record(0, &proofs[0][32..]), "it is 448 bytes long, 480 were expected"),
        (vec![0x80], "does not hold a proof: "),
        ([&good[0][..], b"\0"].concat(), "something follows it"),
    ] {
        let mut wrong = good.clone();
        wrong[0] = record;
        let error = read(with(&wrong, &[])).unwrap_err().to_string();
        assert!(error.contains("the Proof record at offset") && error.contains(words), "{error}");
    }
}

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

#[test]
fn a_file_is_told_from_era1_by_its_records() {
    // The format is found for a file of one block, whichever optional records it has.
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
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(&file).unwrap();
    assert_eq!(blocks_of(gz.finish().unwrap()), expected);
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

fn receipts_strategy() -> impl Strategy<Value = Vec<ReceiptEnvelope>> {
    let log = (any::<[u8; 20]>(), prop::collection::vec(any::<[u8; 32]>(), 0..5), any::<Vec<u8>>())
        .prop_map(|(address, topics, data)| {
            let topics = topics.into_iter().map(B256::new).collect();
            Log::new_unchecked(Address::new(address), topics, data.into())
        });
    let status = prop_oneof![
        any::<bool>().prop_map(Eip658Value::Eip658),
        any::<[u8; 32]>().prop_map(|root| Eip658Value::PostState(B256::new(root))),
    ];
    let receipt = (0u8..5, status, any::<u64>(), prop::collection::vec(log, 0..4)).prop_map(
        |(kind, status, cumulative_gas_used, logs)| {
            let receipt = Receipt { status, cumulative_gas_used, logs };
            let kind = TxType::try_from(kind).unwrap();
            ReceiptEnvelope::from_typed(kind, ReceiptWithBloom::from(receipt))
        },
    );
    prop::collection::vec(receipt, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_blocks_come_back(
        length in 1u64..40,
        merge in 0u64..40,
        receipts in prop::collection::vec(receipts_strategy(), 40),
    ) {
        let (blocks, sums) = chain(length, merge);
        let mut writer = EreWriter::new("test", Vec::new(), 0, &std::env::temp_dir()).unwrap();
        let rlp = encode(&blocks);
        for ((block, receipts), sum) in rlp.iter().zip(&receipts).zip(&sums) {
            writer.push(block, &encode_slim_receipts(receipts), *sum).unwrap();
        }
        let found = read(writer.finish().unwrap().0).unwrap();
        prop_assert_eq!(found.len(), blocks.len());
        for ((found, rlp), (receipts, sum)) in
            found.iter().zip(&rlp).zip(receipts.iter().zip(&sums))
        {
            prop_assert_eq!(&found.rlp, rlp);
            prop_assert_eq!(found.total_difficulty, (merge > 0).then_some(*sum));
            let slim = slim_of(found);
            let slim = decode_slim_receipts(&slim).unwrap();
            let expected: Vec<_> = receipts.iter().map(Into::into).collect();
            prop_assert_eq!(slim, expected);
        }
    }
}
