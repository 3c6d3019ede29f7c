//! The comparison of the receipts in a block's file with those of its execution.

use super::error::InvalidReason;
use alloy_consensus::ReceiptEnvelope;
use alloy_primitives::{Log, keccak256};
use polytrie_consensus::decode::{
    EncodedReceipts, SlimReceipt, decode_receipts, decode_slim_receipts, encode_receipts,
    encode_slim_receipts,
};
use std::fmt::Display;

/// Finds the first difference between the receipts of a file and those of the execution. Without `has_roots` the latter
/// lack the state roots that receipts hold before Byzantium, and these are not compared.
pub(super) fn check_file_receipts(
    file: &EncodedReceipts,
    executed: &[ReceiptEnvelope],
    has_roots: bool,
) -> Result<(), InvalidReason> {
    // There is only one encoding, so equal receipts have equal bytes. Receipts are decoded only to find the difference.
    let is_same = match file {
        EncodedReceipts::Full(rlp) => encode_receipts(executed)[..] == rlp[..],
        EncodedReceipts::Slim(rlp) => encode_slim_receipts(executed)[..] == rlp[..],
    };
    if is_same {
        return Ok(());
    }
    let full = match file {
        EncodedReceipts::Full(rlp) => decode_receipts(rlp)?,
        EncodedReceipts::Slim(_) => Vec::new(),
    };
    let slim: Vec<SlimReceipt<'_>> = match file {
        EncodedReceipts::Full(_) => full.iter().map(SlimReceipt::from).collect(),
        EncodedReceipts::Slim(rlp) => decode_slim_receipts(rlp)?,
    };
    for (index, (found, receipt)) in slim.iter().zip(executed).enumerate() {
        let bloom = full.get(index).map(ReceiptEnvelope::logs_bloom);
        let difference = difference(found, &receipt.into(), has_roots).or_else(|| {
            // A bloom is too long for a sentence, so its hash is shown.
            let [found, expected] = [bloom?, receipt.logs_bloom()].map(keccak256);
            differ("hash of the bloom", found, expected)
        });
        if let Some(Difference { field, found, expected }) = difference {
            return Err(InvalidReason::FileReceipt { index, field, found, expected });
        }
    }
    let (found, expected) = (slim.len(), executed.len());
    if found != expected {
        return Err(InvalidReason::FileReceiptCount { found, expected });
    }
    Ok(())
}

/// A field that differs.
struct Difference {
    field: String,
    found: String,
    expected: String,
}

fn differ<T: PartialEq + Display>(
    field: impl Into<String>,
    found: T,
    expected: T,
) -> Option<Difference> {
    (found != expected).then(|| Difference {
        field: field.into(),
        found: found.to_string(),
        expected: expected.to_string(),
    })
}

fn difference(
    found: &SlimReceipt<'_>,
    expected: &SlimReceipt<'_>,
    has_roots: bool,
) -> Option<Difference> {
    let [kind, other_kind] = [found, expected].map(|receipt| u8::from(receipt.tx_type));
    let status = |receipt: &SlimReceipt<'_>| match receipt.status.as_post_state() {
        Some(root) => root.to_string(),
        None => u8::from(receipt.status.coerce_status()).to_string(),
    };
    let root = |receipt: &SlimReceipt<'_>| receipt.status.as_post_state().is_some();
    let lacks_root = !has_roots && root(found) && !root(expected);
    differ("type", kind, other_kind)
        .or_else(|| {
            let field = if root(found) { "state root" } else { "status" };
            differ(field, status(found), status(expected)).filter(|_| !lacks_root)
        })
        .or_else(|| {
            let [gas, other] = [found, expected].map(|receipt| receipt.cumulative_gas_used);
            differ("cumulative gas", gas, other)
        })
        .or_else(|| logs_differ(&found.logs, &expected.logs))
}

fn logs_differ(found: &[Log], expected: &[Log]) -> Option<Difference> {
    let mut each = found.iter().zip(expected).enumerate();
    each.find_map(|(index, (found, expected))| log_differs(index, found, expected))
        .or_else(|| differ("number of logs", found.len(), expected.len()))
}

fn log_differs(index: usize, found: &Log, expected: &Log) -> Option<Difference> {
    let [topics, other] = [found, expected].map(|log| log.topics());
    let topic = topics.iter().zip(other).position(|(a, b)| a != b);
    let data = |log: &Log| {
        format!("{} bytes with the hash {}", log.data.data.len(), keccak256(&log.data.data))
    };
    differ(format!("address of log {index}"), found.address, expected.address)
        .or_else(|| {
            let at = topic?;
            differ(format!("topic {at} of log {index}"), topics.get(at)?, other.get(at)?)
        })
        .or_else(|| differ(format!("number of topics of log {index}"), topics.len(), other.len()))
        .or_else(|| differ(format!("data of log {index}"), data(found), data(expected)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::{Eip658Value, Receipt, ReceiptWithBloom, TxType};
    use alloy_primitives::{Address, B256, Bytes};

    fn receipt(tx_type: TxType, status: Eip658Value, logs: Vec<Log>) -> ReceiptEnvelope {
        let receipt = Receipt { status, cumulative_gas_used: 21_000, logs };
        ReceiptEnvelope::from_typed(tx_type, ReceiptWithBloom::from(receipt))
    }

    fn log(address: u8, topics: &[u8], data: &[u8]) -> Log {
        let topics = topics.iter().map(|topic| B256::repeat_byte(*topic)).collect();
        Log::new_unchecked(Address::repeat_byte(address), topics, Bytes::copy_from_slice(data))
    }

    fn both(receipts: &[ReceiptEnvelope]) -> [EncodedReceipts; 2] {
        [
            EncodedReceipts::Full(encode_receipts(receipts).into()),
            EncodedReceipts::Slim(encode_slim_receipts(receipts).into()),
        ]
    }

    #[test]
    fn the_field_that_differs_is_named() {
        let ok = Eip658Value::success();
        let logs = || vec![log(1, &[2, 3], b"data"), log(4, &[], b"")];
        let right = [receipt(TxType::Legacy, ok, vec![]), receipt(TxType::Eip1559, ok, logs())];
        for file in both(&right) {
            assert!(check_file_receipts(&file, &right, true).is_ok());
        }
        let with = |change: &dyn Fn(&mut Receipt)| {
            let mut receipt = Receipt { status: ok, cumulative_gas_used: 21_000, logs: logs() };
            change(&mut receipt);
            ReceiptEnvelope::from_typed(TxType::Eip1559, ReceiptWithBloom::from(receipt))
        };
        let wrong_type = receipt(TxType::Eip2930, ok, logs());
        for (wrong, words) in [
            (
                wrong_type,
                "another type for the receipt of transaction 1 than its execution gives: 1, 2",
            ),
            (with(&|r| r.status = false.into()), "another status for"),
            (with(&|r| r.status = B256::ZERO.into()), "another state root for"),
            (
                with(&|r| r.cumulative_gas_used += 1),
                "cumulative gas for the receipt of transaction 1 than its execution gives: 21001, 21000 was expected",
            ),
            (with(&|r| r.logs.truncate(1)), "another number of logs"),
            (with(&|r| r.logs[1].address = Address::ZERO), "address of log 1"),
            (with(&|r| r.logs[0] = log(1, &[2, 9], b"data")), "topic 1 of log 0"),
            (with(&|r| r.logs[0] = log(1, &[2], b"data")), "number of topics of log 0"),
            (with(&|r| r.logs[0] = log(1, &[2, 3], b"Data")), "data of log 0"),
        ] {
            for file in both(&[right[0].clone(), wrong.clone()]) {
                let text = check_file_receipts(&file, &right, true).unwrap_err().to_string();
                assert!(text.contains(words), "{text}");
            }
        }
        for file in both(&right[..1]) {
            let text = check_file_receipts(&file, &right, true).unwrap_err().to_string();
            assert!(text.contains("1 receipts for it, its execution gives 2"), "{text}");
        }
        // Only era1 files have blooms.
        let mut wrong = right.clone();
        wrong[1].as_receipt_with_bloom_mut().unwrap().logs_bloom.0[7] ^= 1;
        let [full, slim] = both(&wrong);
        let text = check_file_receipts(&full, &right, true).unwrap_err().to_string();
        assert!(text.contains("another hash of the bloom"), "{text}");
        assert!(check_file_receipts(&slim, &right, true).is_ok());
        let text = EncodedReceipts::Slim(Bytes::from_static(b"\xc1\x80"));
        let text = check_file_receipts(&text, &right, true).unwrap_err().to_string();
        assert!(text.contains("receipt 0"), "{text}");
    }

    #[test]
    fn roots_that_a_layer_does_not_give_are_not_compared() {
        let with = |status, gas| {
            let receipt = Receipt { status, cumulative_gas_used: gas, logs: vec![] };
            [ReceiptEnvelope::Legacy(ReceiptWithBloom::from(receipt))]
        };
        let root = Eip658Value::PostState(B256::repeat_byte(7));
        let executed = with(Eip658Value::success(), 5);
        for file in both(&with(root, 5)) {
            assert!(check_file_receipts(&file, &executed, false).is_ok());
            assert!(check_file_receipts(&file, &executed, true).is_err());
        }
        for file in both(&with(root, 6)) {
            assert!(check_file_receipts(&file, &executed, false).is_err());
        }
    }
}
