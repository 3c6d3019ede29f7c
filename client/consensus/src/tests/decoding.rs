//! Tests of the RLP that the decoder accepts as a block, and of the RLP that it refuses.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_consensus::{
    Block, Header, SignableTransaction, TxEip4844, TxEip4844WithSidecar, TxEnvelope, TxLegacy,
};
use alloy_eips::{eip2718::Encodable2718, eip4844::BlobTransactionSidecar};
use alloy_primitives::{B256, Signature, U256};
use alloy_rlp::Header as RlpHeader;

use super::made_up::made_up_chain;
use crate::decode::{
    BlockPart, DecodeProblem, block_number, decode_block, decode_receipts, encoded_transactions,
};

/// Encodes a list of encoded items.
fn list(items: &[&[u8]]) -> Vec<u8> {
    let payload = items.concat();
    let mut out = Vec::new();
    RlpHeader { list: true, payload_length: payload.len() }.encode(&mut out);
    out.extend(payload);
    out
}

fn string(payload: &[u8]) -> Vec<u8> {
    alloy_rlp::encode(payload)
}

/// Splits an encoded list into its items, each with its RLP prefix.
fn items(list: &[u8]) -> Vec<Vec<u8>> {
    let mut payload = RlpHeader::decode_bytes(&mut &*list, true).unwrap();
    let mut items = Vec::new();
    while !payload.is_empty() {
        let start = payload;
        let head = RlpHeader::decode(&mut payload).unwrap();
        payload = &payload[head.payload_length..];
        items.push(start[..start.len() - payload.len()].to_vec());
    }
    items
}

fn join(items: &[Vec<u8>]) -> Vec<u8> {
    list(&items.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Returns a block that has transactions, ommers and withdrawals, and its encoded parts: header, transactions,
/// ommers, withdrawals.
fn full_block() -> (Block<TxEnvelope>, Vec<Vec<u8>>) {
    let block = made_up_chain(2).remove(1);
    let items = items(&alloy_rlp::encode(&block));
    assert_eq!(items.len(), 4);
    (block, items)
}

/// Decodes RLP that must be refused, and returns the part and the problem that the error names.
fn refused(rlp: &[u8]) -> (BlockPart, DecodeProblem) {
    let error = decode_block(rlp).unwrap_err();
    (error.part, error.problem)
}

#[test]
fn transactions_stand_in_a_block_as_they_are_hashed() {
    let (block, _) = full_block();
    let expected: Vec<_> = block.body.transactions.iter().map(TxEnvelope::encoded_2718).collect();
    assert_eq!(expected.len(), 4);
    assert_eq!(encoded_transactions(&alloy_rlp::encode(&block)).unwrap(), expected);
    assert!(encoded_transactions(b"\xc0").is_err());
}

#[test]
fn the_number_alone_is_that_of_the_header() {
    let (mut block, _) = full_block();
    for number in [0, 1, 0x7f, 0x80, u64::MAX] {
        block.header.number = number;
        let rlp = alloy_rlp::encode(&block);
        assert_eq!(block_number(&rlp).unwrap(), number);
        // A block that is cut off has none.
        assert!(block_number(&rlp[..rlp.len() - 1]).is_err());
    }
    let wrong: [&[u8]; 6] =
        [&[], &[0x80], &[0xc0], &[0xc1, 0x80], &[0xc1, 0xc0], &[0xc3, 0xc2, 1, 1]];
    for rlp in wrong {
        assert!(block_number(rlp).is_err(), "{rlp:?}");
    }
}

#[test]
fn three_four_and_five_items_are_a_block() {
    let (block, parts) = full_block();
    assert_eq!(decode_block(&join(&parts)).unwrap(), block);

    let without = decode_block(&join(&parts[..3])).unwrap();
    assert_eq!(without.body.withdrawals, None);
    assert_eq!(without.body.transactions, block.body.transactions);

    // The access list of EIP-7928 is checked and left out of the block. It is refused if the header has no hash
    // of it.
    let account = list(&[&string(&[1; 20]), &list(&[&list(&[&string(&[2; 32])])])]);
    let mut with = parts;
    with.push(list(&[&account]));
    let (part, problem) = refused(&join(&with));
    assert_eq!(part, BlockPart::Block);
    assert!(matches!(problem, DecodeProblem::ItemCount { found: 5, .. }));
    // All optional fields that come before the hash must be present, too.
    let header = Header {
        block_access_list_hash: Some(B256::repeat_byte(1)),
        withdrawals_root: Some(B256::ZERO),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        requests_hash: Some(B256::ZERO),
        ..block.header
    };
    with[0] = alloy_rlp::encode(&header);
    let block = Block { header, ..block };
    assert_eq!(decode_block(&join(&with)).unwrap(), block);
    *with.last_mut().unwrap() = list(&[&[0x81, 0x05]]);
    assert_eq!(refused(&join(&with)).0, BlockPart::AccessList);
    *with.last_mut().unwrap() = string(b"not a list");
    assert_eq!(refused(&join(&with)), (BlockPart::AccessList, DecodeProblem::NotAList));
    let deep = (0..40).fold(list(&[]), |inner, _| list(&[&inner]));
    *with.last_mut().unwrap() = deep;
    assert_eq!(refused(&join(&with)), (BlockPart::AccessList, DecodeProblem::TooDeep));
}

#[test]
fn another_number_of_items_is_not() {
    let (_, parts) = full_block();
    for count in 0..3 {
        let (part, problem) = refused(&join(&parts[..count]));
        assert_eq!(part, BlockPart::Block);
        assert!(matches!(problem, DecodeProblem::ItemCount { found, .. } if found == count));
    }
    let mut six = parts;
    six.extend([list(&[]), list(&[])]);
    let (part, problem) = refused(&join(&six));
    assert_eq!(part, BlockPart::Block);
    assert!(matches!(problem, DecodeProblem::ItemCount { found: 6, .. }));
}

#[test]
fn nothing_may_follow() {
    let (_, parts) = full_block();
    let mut rlp = join(&parts);
    rlp.push(0x80);
    assert_eq!(refused(&rlp), (BlockPart::Block, DecodeProblem::TrailingBytes(1)));

    // One field more in the header, in a withdrawal or in a transaction.
    let longer = |item: &[u8]| {
        let mut fields = items(item);
        fields.extend(vec![string(&[1]); 10]);
        join(&fields)
    };
    let mut changed = parts.clone();
    changed[0] = longer(&parts[0]);
    assert_eq!(refused(&join(&changed)).0, BlockPart::Header);

    let mut changed = parts.clone();
    changed[1] = list(&[&longer(&items(&parts[1])[0])]);
    assert_eq!(refused(&join(&changed)).0, BlockPart::Transaction(0));

    let mut changed = parts.clone();
    changed[2] = join(&[parts[0].clone(), longer(&parts[0])]);
    assert_eq!(refused(&join(&changed)).0, BlockPart::Ommer(1));

    let mut changed = parts.clone();
    changed[3] = list(&[&longer(&items(&parts[3])[0])]);
    assert_eq!(refused(&join(&changed)).0, BlockPart::Withdrawal(0));

    // A typed transaction with an extra byte after it, inside its string.
    let mut typed = items(&parts[1]);
    let mut inner = RlpHeader::decode_bytes(&mut &typed[2][..], false).unwrap().to_vec();
    inner.push(0x80);
    typed[2] = string(&inner);
    let mut changed = parts;
    changed[1] = join(&typed);
    assert_eq!(refused(&join(&changed)).0, BlockPart::Transaction(2));
}

#[test]
fn header_fields_are_named() {
    let (_, parts) = full_block();
    let header = items(&parts[0]);
    let refused_with = |index: usize, field: Vec<u8>| {
        let mut fields = header.clone();
        fields[index] = field;
        let mut changed = parts.clone();
        changed[0] = join(&fields);
        let error = decode_block(&join(&changed)).unwrap_err();
        assert_eq!(error.part, BlockPart::Header);
        error.to_string()
    };
    let cases = [
        (0, string(&[1; 31]), "the field parentHash has 31 bytes, 32 were expected"),
        (6, string(&[1; 255]), "the field logsBloom has 255 bytes, 256 were expected"),
        (7, string(&[0, 1, 1]), "the number in the field difficulty starts with a zero byte"),
        (8, string(&[1; 9]), "the field number has 9 bytes, at most 8 were expected"),
        (9, vec![0x00], "the number in the field gasLimit starts with a zero byte"),
        (10, vec![0x81, 0x05], "the field gasUsed is malformed"),
        (11, list(&[]), "the field timestamp is a list"),
        (14, string(&[1; 7]), "the field nonce has 7 bytes"),
        (15, string(&[0, 7]), "the number in the field baseFeePerGas starts"),
    ];
    for (index, field, expected) in cases {
        let text = refused_with(index, field);
        assert!(text.starts_with("the header is malformed: "), "{text}");
        assert!(text.contains(expected), "{text}");
    }

    let mut changed = parts.clone();
    changed[0] = join(&header[..14]);
    let text = decode_block(&join(&changed)).unwrap_err().to_string();
    assert_eq!(text, "the header is malformed: the field nonce is missing");
}

#[test]
fn integers_and_lengths_have_one_form() {
    let (_, parts) = full_block();
    let transactions = items(&parts[1]);
    let fields = items(&transactions[0]);
    let refused_tx = |tx: Vec<u8>| {
        let mut changed = parts.clone();
        changed[1] = list(&[&tx]);
        assert_eq!(refused(&join(&changed)).0, BlockPart::Transaction(0), "{tx:02x?}");
    };
    let replaced = |index: usize, field: &[u8]| {
        let mut fields = fields.clone();
        fields[index] = field.to_vec();
        join(&fields)
    };
    refused_tx(replaced(0, &[0x00])); // nonce 0 as a byte
    refused_tx(replaced(0, &[0x82, 0x00, 0x05])); // leading zero
    refused_tx(replaced(0, &[0x81, 0x05])); // one byte with a prefix
    refused_tx(replaced(3, &string(&[1; 19]))); // recipient of 19 bytes
    refused_tx(replaced(3, &[0xc0])); // an empty list for no recipient
    refused_tx(replaced(6, &[0x80])); // v = 0
    refused_tx(replaced(6, &[0x1d])); // v = 29
    refused_tx(replaced(7, &string(&[1; 33]))); // r of 33 bytes
    // A length in the long form where the short form suffices.
    let mut padded = vec![0xf9, 0x00, (transactions[0].len() - 2) as u8];
    padded.extend(RlpHeader::decode_bytes(&mut &transactions[0][..], true).unwrap());
    refused_tx(padded);
}

#[test]
fn typed_transactions_stand_in_a_string_and_are_known() {
    let (_, parts) = full_block();
    let transactions = items(&parts[1]);
    let refused_tx = |tx: &[u8]| {
        let mut changed = parts.clone();
        changed[1] = list(&[tx]);
        let (part, problem) = refused(&join(&changed));
        assert!(matches!(part, BlockPart::Transaction(_)), "{part}");
        problem
    };
    let inner = RlpHeader::decode_bytes(&mut &transactions[2][..], false).unwrap();
    // A typed transaction without the string around it: a bare type byte and a list.
    refused_tx(inner);
    // A legacy transaction inside a string.
    assert!(matches!(refused_tx(&string(&transactions[0])), DecodeProblem::UnknownType(_)));
    // Unknown transaction types, among them zero.
    for unknown in [0x00, 0x05, 0x7f, 0x80] {
        let mut other = inner.to_vec();
        other[0] = unknown;
        assert_eq!(refused_tx(&string(&other)), DecodeProblem::UnknownType(unknown));
    }
    refused_tx(&string(&[]));
    refused_tx(&[0x02]);
}

#[test]
fn blobs_do_not_belong_in_a_block() {
    let (_, parts) = full_block();
    let with = TxEip4844WithSidecar {
        tx: TxEip4844 { blob_versioned_hashes: vec![Default::default()], ..Default::default() },
        sidecar: BlobTransactionSidecar {
            blobs: vec![Default::default()],
            commitments: vec![Default::default()],
            proofs: vec![Default::default()],
        },
    };
    let signed = with.into_signed(Signature::new(U256::from(1), U256::from(1), false));
    let mut encoded = Vec::new();
    signed.network_encode(&mut encoded);
    let mut changed = parts;
    changed[1] = list(&[&encoded]);
    let (part, problem) = refused(&join(&changed));
    assert_eq!(part, BlockPart::Transaction(0));
    assert_eq!(problem, DecodeProblem::BlobSidecar);
}

#[test]
fn a_list_of_millions_of_nothings_takes_no_memory() {
    let (_, mut parts) = full_block();
    // Reserving space for as many transactions as the length suggests would exhaust the memory of most
    // machines.
    parts[1] = list(&[&vec![0x80; 60 << 20]]);
    let (part, _) = refused(&join(&parts));
    assert_eq!(part, BlockPart::Transaction(0));
}

#[test]
fn a_transaction_that_is_fine_decodes_to_itself() {
    let signature = Signature::new(U256::from(1) << 255, U256::from(1), false);
    for chain_id in [None, Some(0), Some(1), Some(u64::MAX)] {
        let tx = TxLegacy { chain_id, gas_price: u128::MAX, ..Default::default() };
        let mut block = made_up_chain(1).remove(0);
        block.body.transactions = vec![tx.into_signed(signature).into()];
        assert_eq!(decode_block(&alloy_rlp::encode(&block)).unwrap(), block);
    }
}

#[test]
fn receipts_decode_by_type() {
    use alloy_consensus::{Eip658Value, Receipt, ReceiptEnvelope, ReceiptWithBloom};
    use alloy_primitives::{B256, Bloom, Log};

    let receipt = |status| ReceiptWithBloom {
        receipt: Receipt { status, cumulative_gas_used: 21_000, logs: vec![Log::default()] },
        logs_bloom: Bloom::repeat_byte(2),
    };
    let receipts = vec![
        ReceiptEnvelope::Legacy(receipt(Eip658Value::PostState(B256::repeat_byte(5)))),
        ReceiptEnvelope::Legacy(receipt(Eip658Value::Eip658(true))),
        ReceiptEnvelope::Eip1559(receipt(Eip658Value::Eip658(false))),
        ReceiptEnvelope::Eip7702(receipt(Eip658Value::Eip658(true))),
    ];
    let rlp = alloy_rlp::encode(&receipts);
    assert_eq!(decode_receipts(&rlp).unwrap(), receipts);
    assert_eq!(decode_receipts(&[0xc0]).unwrap(), []);

    let mut parts = items(&rlp);
    let mut other = RlpHeader::decode_bytes(&mut &parts[2][..], false).unwrap().to_vec();
    other[0] = 0x2a;
    parts[2] = string(&other);
    let error = decode_receipts(&join(&parts)).unwrap_err();
    assert_eq!(error.part, BlockPart::Receipt(2));
    assert_eq!(error.problem, DecodeProblem::UnknownType(0x2a));
}

#[test]
fn slim_receipts_decode_to_what_they_were() {
    use crate::decode::{SlimReceipt, decode_slim_receipts, encode_slim_receipts};
    use alloy_consensus::{Eip658Value, Receipt, ReceiptEnvelope, ReceiptWithBloom, TxType};
    use alloy_primitives::{B256, Log};

    let receipt = |kind: u8, status| {
        let receipt = Receipt { status, cumulative_gas_used: 21_000, logs: vec![Log::default()] };
        let kind = TxType::try_from(kind).unwrap();
        ReceiptEnvelope::from_typed(kind, ReceiptWithBloom::from(receipt))
    };
    let receipts = [
        receipt(0, Eip658Value::PostState(B256::repeat_byte(5))),
        receipt(0, Eip658Value::Eip658(true)),
        receipt(2, Eip658Value::Eip658(false)),
        receipt(4, Eip658Value::Eip658(true)),
    ];
    let rlp = encode_slim_receipts(&receipts);
    let slim: Vec<SlimReceipt<'_>> = receipts.iter().map(Into::into).collect();
    assert_eq!(decode_slim_receipts(&rlp).unwrap(), slim);
    assert_eq!(decode_slim_receipts(&[0xc0]).unwrap(), []);
    // The last receipt: type, status, gas, and one log with an address, no topics and no data.
    let log = [&[0xd7, 0x94][..], &[0; 20], &[0xc0, 0x80]].concat();
    let last = [&[0xde, 0x04, 0x01, 0x82, 0x52, 0x08, 0xd8][..], &log].concat();
    assert!(rlp.ends_with(&last), "{rlp:02x?}");

    let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut parts = items(&rlp);
        change(&mut parts[3]);
        let error = decode_slim_receipts(&join(&parts)).unwrap_err();
        assert_eq!(error.part, BlockPart::Receipt(3));
        error.problem
    };
    assert_eq!(wrong(&|receipt| receipt[1] = 0x2a), DecodeProblem::UnknownType(0x2a));
    assert_eq!(wrong(&|receipt| *receipt = vec![0x80]), DecodeProblem::NotAList);
    for wrong in [
        // An invalid status, a number with a leading zero, and one field too many.
        wrong(&|receipt| receipt[2] = 0x02),
        wrong(&|receipt| receipt[4] = 0),
        wrong(&|receipt| {
            receipt[0] += 1;
            receipt.push(0x80);
        }),
    ] {
        assert!(matches!(wrong, DecodeProblem::Rlp(_) | DecodeProblem::NotCanonical), "{wrong}");
    }
}
