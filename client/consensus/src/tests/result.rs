//! Tests of the result of running a block, against a header that agrees and headers that do not.

use super::{block_at, chain, rules_at};
use crate::{ConsensusError, ExecutedResult, ReceiptsRoot, check_result, check_state_root};
use alloy_consensus::{Eip658Value, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom, proofs};
use alloy_eips::eip7685::{EMPTY_REQUESTS_HASH, Requests};
use alloy_primitives::{Address, B256, Bloom, Bytes, Log, bytes};

/// Returns a receipt with one log.
fn receipt(status: Eip658Value, gas: u64) -> ReceiptEnvelope {
    let logs = vec![Log::new_unchecked(
        Address::ZERO,
        vec![B256::with_last_byte(gas as u8)],
        Bytes::new(),
    )];
    ReceiptEnvelope::Legacy(ReceiptWithBloom::from(Receipt {
        status,
        cumulative_gas_used: gas,
        logs,
    }))
}

fn receipts() -> Vec<ReceiptEnvelope> {
    vec![receipt(Eip658Value::success(), 21_000), receipt(Eip658Value::Eip658(false), 42_000)]
}

/// Returns a header that agrees with `receipts`, under the forks of `network`.
fn header_of(network: &str, receipts: &[ReceiptEnvelope]) -> Header {
    let logs_bloom =
        receipts.iter().fold(Bloom::ZERO, |bloom, receipt| bloom | *receipt.logs_bloom());
    Header {
        gas_used: 42_000,
        receipts_root: proofs::calculate_receipt_root(receipts),
        logs_bloom,
        ..block_at(&chain(network), 100, 1_000_000).into_inner()
    }
}

fn check(
    network: &str,
    header: &Header,
    result: &ExecutedResult<'_>,
) -> Result<(), ConsensusError> {
    let spec = chain(network);
    check_result(
        &rules_at(&spec, header.number, header.timestamp),
        header,
        result,
        ReceiptsRoot::Compare,
    )
}

fn result_of(receipts: &[ReceiptEnvelope]) -> ExecutedResult<'_> {
    ExecutedResult {
        gas_used: 42_000,
        receipts,
        requests: None,
        blob_gas_used: 0,
        block_access_list_hash: None,
    }
}

#[test]
fn a_result_as_the_header_says_passes() {
    let receipts = receipts();
    for network in ["Byzantium", "London", "Shanghai", "Cancun", "Prague", "Osaka", "Amsterdam"] {
        let header = header_of(network, &receipts);
        assert_eq!(check(network, &header, &result_of(&receipts)), Ok(()), "{network}");
    }
}

#[test]
fn each_difference_is_found() {
    let receipts = receipts();
    let result = result_of(&receipts);
    let header = header_of("Prague", &receipts);
    assert_eq!(
        check("Prague", &header, &ExecutedResult { gas_used: 21_000, ..result }),
        Err(ConsensusError::GasUsed { found: 42_000, expected: 21_000 })
    );
    let wrong = Header { receipts_root: B256::ZERO, ..header.clone() };
    let expected =
        ConsensusError::ReceiptsRoot { found: B256::ZERO, expected: header.receipts_root };
    assert_eq!(check("Prague", &wrong, &result), Err(expected));
    let wrong = Header { logs_bloom: Bloom::ZERO, ..header.clone() };
    assert!(matches!(check("Prague", &wrong, &result), Err(ConsensusError::LogsBloom { .. })));
    assert_eq!(
        check("Prague", &header, &ExecutedResult { blob_gas_used: 131_072, ..result }),
        Err(ConsensusError::BlobGasUsed { found: 0, expected: 131_072 })
    );
    let requests = Requests::new(vec![bytes!("01ff")]);
    assert_eq!(
        check("Prague", &header, &ExecutedResult { requests: Some(&requests), ..result }),
        Err(ConsensusError::RequestsHash {
            found: EMPTY_REQUESTS_HASH,
            expected: requests.requests_hash()
        })
    );
    // A request without content is left out of the hash.
    let empty = Requests::new(vec![bytes!("01")]);
    assert_eq!(
        check("Prague", &header, &ExecutedResult { requests: Some(&empty), ..result }),
        Ok(())
    );
}

#[test]
fn block_access_list_is_compared_where_there_is_one() {
    let receipts = receipts();
    let header = header_of("Amsterdam", &receipts);
    let hash = B256::with_last_byte(1);
    let result = ExecutedResult { block_access_list_hash: Some(hash), ..result_of(&receipts) };
    let expected = ConsensusError::BlockAccessListHash { found: B256::ZERO, expected: hash };
    assert_eq!(check("Amsterdam", &header, &result), Err(expected));
    let header = Header { block_access_list_hash: Some(hash), ..header };
    assert_eq!(check("Amsterdam", &header, &result), Ok(()));
}

#[test]
fn receipts_before_byzantium_hold_state_roots() {
    let root = |byte| Eip658Value::PostState(B256::with_last_byte(byte));
    let receipts = [receipt(root(1), 21_000), receipt(root(2), 42_000)];
    let header = header_of("Homestead", &receipts);
    assert_eq!(check("Homestead", &header, &result_of(&receipts)), Ok(()));
    // Without the state roots in the receipts, only the other fields can be compared.
    let without = self::receipts();
    let spec = chain("Homestead");
    let rules = rules_at(&spec, header.number, header.timestamp);
    let result = result_of(&without);
    assert!(check_result(&rules, &header, &result, ReceiptsRoot::Compare).is_err());
    assert_eq!(check_result(&rules, &header, &result, ReceiptsRoot::Skip), Ok(()));
}

#[test]
fn state_root_is_compared() {
    let header = Header { state_root: B256::with_last_byte(1), ..Header::default() };
    assert_eq!(check_state_root(&header, header.state_root), Ok(()));
    let expected =
        ConsensusError::StateRootMismatch { found: header.state_root, expected: B256::ZERO };
    assert_eq!(check_state_root(&header, B256::ZERO), Err(expected));
}
