//! Tests of bodies against the roots in their headers.

use super::{block_at, chain, rules_at};
use crate::{ConsensusError, MAX_RLP_BLOCK_SIZE, TransactionError, check_body, check_decoded_body};
use alloy_consensus::{
    Block, BlockBody, EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, Header, SignableTransaction,
    TxEip4844, TxEnvelope, TxLegacy, proofs,
};
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Signature, TxKind, U256};

fn signature() -> Signature {
    Signature::new(U256::ONE, U256::ONE, false)
}

fn transfer(input: usize) -> TxEnvelope {
    let to = TxKind::Call(Address::ZERO);
    TxLegacy { to, input: vec![1; input].into(), ..TxLegacy::default() }
        .into_signed(signature())
        .into()
}

fn with_blobs(count: usize) -> TxEnvelope {
    let blob_versioned_hashes = vec![B256::right_padding_from(&[1]); count];
    TxEip4844 { chain_id: 1, blob_versioned_hashes, ..TxEip4844::default() }
        .into_signed(signature())
        .into()
}

/// Returns a block with the roots of its body in the header.
fn block(network: &str, transactions: Vec<TxEnvelope>) -> Block<TxEnvelope> {
    let mut header = block_at(&chain(network), 100, 1_000_000).into_inner();
    header.transactions_root = proofs::calculate_transaction_root(&transactions);
    let withdrawals = header.withdrawals_root.map(|_| Withdrawals::default());
    Block::new(header, BlockBody { transactions, ommers: vec![], withdrawals })
}

/// Checks a block, from its bytes too.
fn check(network: &str, block: &Block<TxEnvelope>) -> Result<(), ConsensusError> {
    let spec = chain(network);
    let rules = rules_at(&spec, block.header.number, block.header.timestamp);
    let checked = check_body(&rules, block);
    assert_eq!(check_decoded_body(&rules, block, &alloy_rlp::encode(block)), checked);
    checked
}

#[test]
fn a_body_as_the_header_says_passes() {
    for network in ["Frontier", "London", "Paris", "Shanghai", "Cancun", "Osaka"] {
        assert_eq!(
            check(network, &block(network, vec![transfer(0), transfer(1)])),
            Ok(()),
            "{network}"
        );
    }
}

#[test]
fn roots_must_match() {
    let mut wrong = block("Shanghai", vec![transfer(0)]);
    let expected = wrong.header.transactions_root;
    wrong.header.transactions_root = EMPTY_ROOT_HASH;
    assert_eq!(
        check("Shanghai", &wrong),
        Err(ConsensusError::TransactionsRoot { found: EMPTY_ROOT_HASH, expected })
    );
    let mut wrong = block("Frontier", vec![]);
    wrong.body.ommers = vec![Header::default()];
    let expected = proofs::calculate_ommers_root(&wrong.body.ommers);
    assert_eq!(
        check("Frontier", &wrong),
        Err(ConsensusError::OmmersHash { found: EMPTY_OMMER_ROOT_HASH, expected })
    );
    let mut wrong = block("Shanghai", vec![]);
    let withdrawals = vec![Withdrawal::default()];
    let expected = proofs::calculate_withdrawals_root(&withdrawals);
    wrong.body.withdrawals = Some(withdrawals.into());
    assert_eq!(
        check("Shanghai", &wrong),
        Err(ConsensusError::WithdrawalsRoot { found: EMPTY_ROOT_HASH, expected })
    );
}

#[test]
fn withdrawals_come_with_shanghai() {
    let mut without = block("Shanghai", vec![]);
    without.body.withdrawals = None;
    assert_eq!(check("Shanghai", &without), Err(ConsensusError::WithdrawalsMissing));
    let mut with = block("Paris", vec![]);
    with.body.withdrawals = Some(Withdrawals::default());
    assert_eq!(check("Paris", &with), Err(ConsensusError::WithdrawalsUnexpected { found: 0 }));
}

#[test]
fn an_invalid_transaction_is_named() {
    let wrong = block("Shanghai", vec![transfer(0), with_blobs(1)]);
    let source = TransactionError::TypeNotActive { tx_type: 3, fork: EthereumHardfork::Cancun };
    let error = ConsensusError::Transaction { index: 1, source };
    assert_eq!(
        error.to_string(),
        "transaction 1 is invalid: type 3 is not allowed before the Cancun fork"
    );
    assert_eq!(check("Shanghai", &wrong), Err(error));
}

#[test]
fn blob_gas_is_that_of_the_blobs() {
    let mut right = block("Cancun", vec![with_blobs(2), with_blobs(1)]);
    right.header.blob_gas_used = Some(3 * 131_072);
    assert_eq!(check("Cancun", &right), Ok(()));
    right.header.blob_gas_used = Some(0);
    assert_eq!(
        check("Cancun", &right),
        Err(ConsensusError::BlobGasUsed { found: 0, expected: 3 * 131_072 })
    );
}

#[test]
fn encoding_is_limited_in_osaka() {
    let small = Block::rlp_length_for(&block("Osaka", vec![]).header, &block("Osaka", vec![]).body);
    // Find the length of input with which the block has exactly the largest size.
    let room = MAX_RLP_BLOCK_SIZE - small;
    let fitting = (room - 100..room)
        .rev()
        .map(|input| block("Osaka", vec![transfer(input)]))
        .find(|block| Block::rlp_length_for(&block.header, &block.body) <= MAX_RLP_BLOCK_SIZE);
    let fitting = fitting.expect("some size fits");
    assert_eq!(Block::rlp_length_for(&fitting.header, &fitting.body), MAX_RLP_BLOCK_SIZE);
    assert_eq!(check("Osaka", &fitting), Ok(()));
    let TxEnvelope::Legacy(tx) = &fitting.body.transactions[0] else {
        panic!("a legacy transaction")
    };
    let over = block("Osaka", vec![transfer(tx.tx().input.len() + 1)]);
    let expected =
        ConsensusError::BlockTooLarge { found: MAX_RLP_BLOCK_SIZE + 1, max: MAX_RLP_BLOCK_SIZE };
    assert_eq!(check("Osaka", &over), Err(expected));
    let before = block("Prague", over.body.transactions);
    assert_eq!(check("Prague", &before), Ok(()));
}
