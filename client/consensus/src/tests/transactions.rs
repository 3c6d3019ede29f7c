//! Tests of transactions that keep and break each rule, and the official vectors.

use super::{chain, rlp::Item, rules_at};
use crate::{TransactionError, check_transaction, check_unsigned, recover_sender};
use alloy_consensus::{
    SignableTransaction, Transaction, TxEip1559, TxEip2930, TxEip4844, TxEip4844Variant,
    TxEip4844WithSidecar, TxEip7702, TxEnvelope, TxLegacy, crypto::SECP256K1N_HALF,
};
use alloy_eips::{
    eip2718::{Decodable2718, EIP1559_TX_TYPE_ID, EIP2930_TX_TYPE_ID, Encodable2718},
    eip4844::BlobTransactionSidecar,
    eip7702::Authorization,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, hex};
use polytrie_chainspec::Rules;
use polytrie_testing::for_each_in_suite;
use revm::context_interface::cfg::gas::calculate_initial_tx_gas;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The order of the curve, in decimal.
const ORDER: &str =
    "115792089237316195423570985008687907852837564279074904382605163141518161494337";

fn signed<T: SignableTransaction<Signature>>(tx: T) -> TxEnvelope
where
    alloy_consensus::Signed<T>: Into<TxEnvelope>,
{
    signed_with(tx, U256::ONE, U256::ONE)
}

fn signed_with<T: SignableTransaction<Signature>>(tx: T, r: U256, s: U256) -> TxEnvelope
where
    alloy_consensus::Signed<T>: Into<TxEnvelope>,
{
    tx.into_signed(Signature::new(r, s, false)).into()
}

fn legacy() -> TxLegacy {
    TxLegacy { gas_limit: 21_000, to: TxKind::Call(Address::ZERO), ..TxLegacy::default() }
}

fn with_blobs(hashes: Vec<B256>) -> TxEnvelope {
    signed(TxEip4844 { chain_id: 1, blob_versioned_hashes: hashes, ..TxEip4844::default() })
}

fn blobs(count: usize) -> Vec<B256> {
    vec![B256::right_padding_from(&[1]); count]
}

fn with_authorizations(count: usize) -> TxEnvelope {
    let authorization = Authorization { chain_id: U256::ONE, address: Address::ZERO, nonce: 0 };
    let authorization = authorization.into_signed(Signature::new(U256::ONE, U256::ONE, false));
    signed(TxEip7702 {
        chain_id: 1,
        authorization_list: vec![authorization; count],
        ..TxEip7702::default()
    })
}

fn checked(network: &str, tx: &TxEnvelope) -> Result<(), TransactionError> {
    let spec = chain(network);
    check_transaction(&rules_at(&spec, 1, 1), tx)
}

#[test]
fn types_come_with_their_fork() {
    let types = [
        (signed(legacy()), None, "Frontier"),
        (
            signed(TxEip2930 { chain_id: 1, ..TxEip2930::default() }),
            Some(("Istanbul", EthereumHardfork::Berlin)),
            "Berlin",
        ),
        (
            signed(TxEip1559 { chain_id: 1, ..TxEip1559::default() }),
            Some(("Berlin", EthereumHardfork::London)),
            "London",
        ),
        (with_blobs(blobs(1)), Some(("Shanghai", EthereumHardfork::Cancun)), "Cancun"),
        (with_authorizations(1), Some(("Cancun", EthereumHardfork::Prague)), "Prague"),
    ];
    for (tx_type, (tx, before, since)) in types.into_iter().enumerate() {
        assert_eq!(checked(since, &tx), Ok(()), "type {tx_type} under {since}");
        assert_eq!(checked("Osaka", &tx), Ok(()), "type {tx_type} under Osaka");
        if let Some((before, fork)) = before {
            let expected = TransactionError::TypeNotActive { tx_type: tx_type as u8, fork };
            assert_eq!(checked(before, &tx), Err(expected));
        }
    }
}

#[test]
fn chain_id_must_be_this_chain_s() {
    let protected = |chain_id| signed(TxLegacy { chain_id: Some(chain_id), ..legacy() });
    assert_eq!(
        checked("EIP150", &protected(1)),
        Err(TransactionError::ReplayProtectionNotActive { found: 1 })
    );
    assert_eq!(checked("EIP158", &protected(1)), Ok(()));
    let expected = Err(TransactionError::ChainId { found: 2, expected: 1 });
    assert_eq!(checked("EIP158", &protected(2)), expected);
    assert_eq!(
        checked("London", &signed(TxEip1559 { chain_id: 2, ..TxEip1559::default() })),
        expected
    );
}

#[test]
fn signature_is_in_range() {
    let order: U256 = ORDER.parse().expect("a number");
    let one = U256::ONE;
    for (part, r, s) in
        [("r", U256::ZERO, one), ("s", one, U256::ZERO), ("r", order, one), ("s", one, order)]
    {
        let found = if part == "r" { r } else { s };
        assert_eq!(
            checked("Frontier", &signed_with(legacy(), r, s)),
            Err(TransactionError::SignatureOutOfRange { part, found })
        );
    }
    assert_eq!(checked("Frontier", &signed_with(legacy(), order - one, order - one)), Ok(()));
}

#[test]
fn high_s_ends_with_homestead() {
    let high = signed_with(legacy(), U256::ONE, SECP256K1N_HALF + U256::ONE);
    assert_eq!(checked("Frontier", &high), Ok(()));
    let expected = Err(TransactionError::HighS { found: SECP256K1N_HALF + U256::ONE });
    assert_eq!(checked("Homestead", &high), expected);
    assert_eq!(checked("Prague", &high), expected);
    assert_eq!(checked("Homestead", &signed_with(legacy(), U256::ONE, SECP256K1N_HALF)), Ok(()));
}

#[test]
fn nonce_can_grow() {
    let with_nonce = |nonce| signed(TxLegacy { nonce, ..legacy() });
    assert_eq!(checked("Frontier", &with_nonce(u64::MAX - 1)), Ok(()));
    assert_eq!(checked("Frontier", &with_nonce(u64::MAX)), Err(TransactionError::NonceTooHigh));
}

#[test]
fn gas_limit_is_capped_in_osaka() {
    let max = 1 << 24;
    let with_limit = |gas_limit| signed(TxLegacy { gas_limit, ..legacy() });
    assert_eq!(checked("Osaka", &with_limit(max)), Ok(()));
    assert_eq!(
        checked("Osaka", &with_limit(max + 1)),
        Err(TransactionError::GasLimitAboveCap { found: max + 1, max })
    );
    assert_eq!(checked("Prague", &with_limit(max + 1)), Ok(()));
    assert_eq!(checked("Amsterdam", &with_limit(max + 1)), Ok(()));
}

#[test]
fn init_code_is_limited_since_shanghai() {
    let creating = |size: usize| {
        signed(TxLegacy { to: TxKind::Create, input: vec![0; size].into(), ..legacy() })
    };
    assert_eq!(checked("Paris", &creating(49_153)), Ok(()));
    assert_eq!(checked("Shanghai", &creating(49_152)), Ok(()));
    assert_eq!(
        checked("Shanghai", &creating(49_153)),
        Err(TransactionError::InitCodeTooLarge { found: 49_153, max: 49_152 })
    );
    assert_eq!(checked("Amsterdam", &creating(131_072)), Ok(()));
    assert!(checked("Amsterdam", &creating(131_073)).is_err());
    // The limit does not apply to the input of a call, which is not init code.
    assert_eq!(
        checked("Shanghai", &signed(TxLegacy { input: vec![0; 49_153].into(), ..legacy() })),
        Ok(())
    );
}

#[test]
fn blobs_are_counted_and_versioned() {
    assert_eq!(checked("Cancun", &with_blobs(blobs(0))), Err(TransactionError::NoBlobs));
    for (network, max) in [("Cancun", 6), ("Prague", 9), ("Osaka", 6)] {
        let over = max as usize + 1;
        assert_eq!(checked(network, &with_blobs(blobs(over - 1))), Ok(()));
        assert_eq!(
            checked(network, &with_blobs(blobs(over))),
            Err(TransactionError::TooManyBlobs { found: over, max })
        );
    }
    let found = B256::right_padding_from(&[2]);
    assert_eq!(
        checked("Cancun", &with_blobs(vec![B256::right_padding_from(&[1]), found])),
        Err(TransactionError::BlobHashVersion { found })
    );
}

#[test]
fn a_block_holds_no_blobs_themselves() {
    let tx = TxEip4844 { chain_id: 1, blob_versioned_hashes: blobs(1), ..TxEip4844::default() };
    let blobs = BlobTransactionSidecar::default();
    let carrying: TxEip4844Variant = TxEip4844WithSidecar::from_tx_and_sidecar(tx, blobs).into();
    assert_eq!(checked("Cancun", &signed(carrying)), Err(TransactionError::CarriesBlobs));
}

#[test]
fn authorization_list_is_not_empty() {
    assert_eq!(
        checked("Prague", &with_authorizations(0)),
        Err(TransactionError::EmptyAuthorizationList)
    );
}

/// An unsigned transaction must keep all rules but those about its signature. The development node
/// sends such transactions for accounts whose keys it does not have.
#[test]
fn what_nobody_signed_keeps_all_other_rules() {
    let spec = chain("Osaka");
    let rules = rules_at(&spec, 1, 1);
    let max = 1 << 24;
    let unsigned =
        |gas_limit| signed_with(TxLegacy { gas_limit, ..legacy() }, U256::ONE, U256::ZERO);
    assert!(check_transaction(&rules, &unsigned(max)).is_err());
    assert_eq!(check_unsigned(&rules, &unsigned(max)), Ok(()));
    assert_eq!(
        check_unsigned(&rules, &unsigned(max + 1)),
        Err(TransactionError::GasLimitAboveCap { found: max + 1, max })
    );
    let elsewhere = TxLegacy { chain_id: Some(2), ..legacy() };
    assert_eq!(
        check_unsigned(&rules, &signed_with(elsewhere, U256::ONE, U256::ZERO)),
        Err(TransactionError::ChainId { found: 2, expected: 1 })
    );
}

#[derive(Deserialize)]
struct Vector {
    result: BTreeMap<String, Outcome>,
    txbytes: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    hash: Option<B256>,
    sender: Option<Address>,
    exception: Option<String>,
    intrinsic_gas: U256,
}

/// Checks a transaction by itself. Returns its hash, sender and intrinsic gas, or the reason why it is
/// invalid.
fn validate(rules: &Rules<'_>, bytes: &[u8]) -> Result<(B256, Address, u64), String> {
    let tx = TxEnvelope::decode_2718_exact(bytes).map_err(|error| error.to_string())?;
    check_transaction(rules, &tx).map_err(|error| error.to_string())?;
    let sender = recover_sender(&tx).map_err(|error| error.to_string())?;
    // The checks from here on are the ones that revm makes before it runs a transaction.
    if tx.max_priority_fee_per_gas().is_some_and(|fee| fee > tx.max_fee_per_gas()) {
        return Err("priority fee above the fee".to_owned());
    }
    let access = tx
        .access_list()
        .map_or((0, 0), |list| (list.len() as u64, list.storage_keys_count() as u64));
    let authorizations = tx.authorization_list().map_or(0, <[_]>::len) as u64;
    let gas = calculate_initial_tx_gas(
        rules.spec_id(),
        tx.input(),
        tx.is_create(),
        access.0,
        access.1,
        authorizations,
        None,
    );
    if gas.initial_total_gas() > tx.gas_limit() || gas.floor_gas() > tx.gas_limit() {
        return Err("intrinsic gas above the gas limit".to_owned());
    }
    Ok((tx.trie_hash(), sender, gas.initial_total_gas()))
}

/// Whether the price of gas takes more than 128 bits, which neither alloy nor revm can hold. No account
/// of a real chain could pay such a price.
fn has_price_beyond_128_bits(bytes: &[u8]) -> bool {
    let (prices, list) = match bytes.first() {
        Some(&(EIP2930_TX_TYPE_ID | EIP1559_TX_TYPE_ID)) => (2..=3, &bytes[1..]),
        _ => (1..=1, bytes),
    };
    let Ok(Item::List(fields)) = Item::decode_exact(list) else { return false };
    fields.get(prices).is_some_and(|prices| {
        prices.iter().any(|price| matches!(price, Item::String(bytes) if bytes.len() > 16))
    })
}

#[test]
fn transaction_vectors() {
    let mut checked = 0;
    let files = for_each_in_suite("ethereum-tests", "TransactionTests", |path, bytes| {
        let tests: BTreeMap<String, Vector> = serde_json::from_slice(bytes).expect("a vector file");
        for Vector { result, txbytes } in tests.into_values() {
            let tx: Bytes = hex::decode(txbytes).expect("hex").into();
            for (network, outcome) in result {
                let spec = chain(&network);
                let found = validate(&rules_at(&spec, 1, 1), &tx);
                checked += 1;
                match (found, outcome) {
                    (
                        Ok(found),
                        Outcome {
                            exception: None,
                            hash: Some(hash),
                            sender: Some(sender),
                            intrinsic_gas,
                        },
                    ) => {
                        assert_eq!(found, (hash, sender, intrinsic_gas.to()), "{path} {network}");
                    }
                    (Err(_), Outcome { exception: Some(_), .. }) => {}
                    (Err(_), _) if has_price_beyond_128_bits(&tx) => {}
                    (found, Outcome { exception, .. }) => {
                        panic!("{path} under {network}: found {found:?}, expected {exception:?}")
                    }
                }
            }
        }
    });
    if files.is_some() {
        assert_eq!((files, checked), (Some(210), 2665));
    }
}
