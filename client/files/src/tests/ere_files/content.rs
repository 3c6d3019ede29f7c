//! What is written is what is read: the blocks of real files and of invented chains, with the records that may be
//! missing.

use std::fs;

use alloy_consensus::{Eip658Value, Receipt, ReceiptEnvelope, ReceiptWithBloom, TxType};
use alloy_primitives::{Address, B256, Log};
use polytrie_consensus::decode::{EncodedReceipts, decode_slim_receipts, encode_slim_receipts};
use proptest::prelude::*;

use super::{
    ACCUMULATOR, BODY, HEADER, INDEX, RECEIPTS, TOTAL_DIFFICULTY, all, assemble, chain, encode,
    file_of, fixture, parts, read, records, slim_of, small_file,
};
use crate::{
    BlockReader, EreWriter, Format,
    e2store::{BLOCKS_PER_ERA, accumulator_root, header_record_root},
};

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
