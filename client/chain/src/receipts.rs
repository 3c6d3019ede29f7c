//! Receipts in the form in which they are stored: without the blooms, which follow from their logs.

use alloy_consensus::{Eip658Value, Receipt, ReceiptEnvelope, TxType};
use alloy_primitives::{B256, Log};
use alloy_rlp::{Decodable, Encodable, Header};

/// Encodes receipts as RLP `[[type, status or state root, cumulative gas, [log…]]…]`. The second item is
/// the state root (32 bytes) before Byzantium, otherwise 1 or 0.
pub(crate) fn encode_stored_receipts(receipts: &[ReceiptEnvelope]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut item = Vec::new();
    for receipt in receipts {
        item.clear();
        (receipt.tx_type() as u8).encode(&mut item);
        match receipt.as_receipt().map(|r| r.status) {
            Some(Eip658Value::PostState(root)) => root.encode(&mut item),
            _ => receipt.status().encode(&mut item),
        }
        receipt.cumulative_gas_used().encode(&mut item);
        let logs_length = receipt.logs().iter().map(Encodable::length).sum();
        Header { list: true, payload_length: logs_length }.encode(&mut item);
        receipt.logs().iter().for_each(|log| log.encode(&mut item));
        Header { list: true, payload_length: item.len() }.encode(&mut body);
        body.extend_from_slice(&item);
    }
    let mut out = Vec::with_capacity(body.len() + 8);
    Header { list: true, payload_length: body.len() }.encode(&mut out);
    out.extend_from_slice(&body);
    out
}

/// Decodes stored receipts, and computes their blooms.
///
/// # Errors
///
/// Fails if the bytes are not the result of [`encode_stored_receipts`].
pub(crate) fn decode_stored_receipts(
    mut rlp: &[u8],
) -> Result<Vec<ReceiptEnvelope>, alloy_rlp::Error> {
    let mut list = Header::decode_bytes(&mut rlp, true)?;
    let mut receipts = Vec::new();
    while !list.is_empty() {
        let mut item = Header::decode_bytes(&mut list, true)?;
        let tx_type = u8::decode(&mut item)?;
        let tx_type = TxType::try_from(tx_type)
            .map_err(|_| alloy_rlp::Error::Custom("unknown transaction type"))?;
        let status = if item.first() == Some(&0xa0) {
            Eip658Value::PostState(B256::decode(&mut item)?)
        } else {
            Eip658Value::Eip658(bool::decode(&mut item)?)
        };
        let cumulative_gas_used = u64::decode(&mut item)?;
        let logs = Vec::<Log>::decode(&mut item)?;
        let receipt = Receipt { status, cumulative_gas_used, logs };
        receipts.push(ReceiptEnvelope::from_typed(tx_type, receipt));
    }
    Ok(receipts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, Bytes, LogData};

    #[test]
    fn every_kind_of_receipt_comes_back() {
        let log = Log {
            address: Address::repeat_byte(7),
            data: LogData::new_unchecked(vec![B256::repeat_byte(1)], Bytes::from_static(b"data")),
        };
        let statuses = [
            Eip658Value::Eip658(true),
            Eip658Value::Eip658(false),
            Eip658Value::PostState(B256::repeat_byte(9)),
        ];
        let types =
            [TxType::Legacy, TxType::Eip2930, TxType::Eip1559, TxType::Eip4844, TxType::Eip7702];
        let mut receipts = Vec::new();
        for tx_type in types {
            for status in statuses {
                for logs in [vec![], vec![log.clone(); 3]] {
                    let receipt = Receipt { status, cumulative_gas_used: 21_000, logs };
                    receipts.push(ReceiptEnvelope::from_typed(tx_type, receipt));
                }
            }
        }
        let rlp = encode_stored_receipts(&receipts);
        assert_eq!(decode_stored_receipts(&rlp), Ok(receipts));
        assert_eq!(decode_stored_receipts(&encode_stored_receipts(&[])), Ok(vec![]));
        for cut in 0..rlp.len() {
            assert!(decode_stored_receipts(&rlp[..cut]).is_err());
        }
    }
}
