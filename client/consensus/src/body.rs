//! Checks of a body against its header.

use super::{decode::encoded_transactions, error::ConsensusError, transactions::check_transaction};
use alloy_consensus::{Block, Transaction, TxEnvelope, proofs};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::B256;
use polytrie_chainspec::Rules;

/// Greatest length of a block's encoding from Osaka on, in bytes: 10 MiB less a margin of 2 MiB for the beacon block
/// around it (EIP-7934).
pub const MAX_RLP_BLOCK_SIZE: usize = 8 * 1024 * 1024;

/// Checks that the body is the one that the header names, and every rule about it that needs no other block: the roots,
/// the size of the block, each transaction, the blob gas.
///
/// `rules` are those of the block. The header must have passed [`check_header`](super::check_header),
/// and [`check_ommers`](super::check_ommers) does the rest for a body with ommers.
///
/// # Errors
///
/// Fails with the first rule that the body breaks.
pub fn check_body(rules: &Rules<'_>, block: &Block<TxEnvelope>) -> Result<(), ConsensusError> {
    check_form(rules, block)?;
    check_body_roots(block)?;
    check_transactions(rules, block)
}

/// Checks what [`check_body`] checks, of a block that [`decode_block`](super::decode::decode_block) has returned for `rlp`.
/// Since no other bytes decode to the same transactions, these are not encoded again for their root.
///
/// # Errors
///
/// Fails with the first rule that the body breaks.
pub fn check_decoded_body(
    rules: &Rules<'_>,
    block: &Block<TxEnvelope>,
    rlp: &[u8],
) -> Result<(), ConsensusError> {
    check_form(rules, block)?;
    match encoded_transactions(rlp) {
        Ok(encoded) if encoded.len() == block.body.transactions.len() => {
            check_roots(block, proofs::ordered_trie_root_encoded(&encoded))?;
        }
        _ => check_body_roots(block)?,
    }
    check_transactions(rules, block)
}

/// Checks what [`check_body`] checks but for the roots: for a block whose header was made from the body.
///
/// # Errors
///
/// Fails with the first rule that the body breaks.
pub fn check_body_rules(
    rules: &Rules<'_>,
    block: &Block<TxEnvelope>,
) -> Result<(), ConsensusError> {
    check_form(rules, block)?;
    check_transactions(rules, block)
}

/// Checks the size of the block, and that it has withdrawals exactly if the fork has them.
fn check_form(rules: &Rules<'_>, block: &Block<TxEnvelope>) -> Result<(), ConsensusError> {
    if rules.is(EthereumHardfork::Osaka) {
        let found = Block::rlp_length_for(&block.header, &block.body);
        if found > MAX_RLP_BLOCK_SIZE {
            return Err(ConsensusError::BlockTooLarge { found, max: MAX_RLP_BLOCK_SIZE });
        }
    }
    check_withdrawals(rules, block)
}

/// Checks each transaction, and the blob gas of all transactions together.
fn check_transactions(rules: &Rules<'_>, block: &Block<TxEnvelope>) -> Result<(), ConsensusError> {
    let Block { header, body } = block;
    let mut blob_gas = 0u64;
    for (index, tx) in body.transactions.iter().enumerate() {
        check_transaction(rules, tx)
            .map_err(|source| ConsensusError::Transaction { index, source })?;
        blob_gas = blob_gas.saturating_add(tx.blob_gas_used().unwrap_or(0));
    }
    // The header's field was compared with the limit of a block already.
    match header.blob_gas_used {
        Some(found) if found != blob_gas => {
            Err(ConsensusError::BlobGasUsed { found, expected: blob_gas })
        }
        _ => Ok(()),
    }
}

/// Checks that the body is the one that the header names, without the other rules: enough to show that a stored block
/// is not damaged.
///
/// # Errors
///
/// Fails with the first part of the body that has another root or hash than in the header.
pub fn check_body_roots(block: &Block<TxEnvelope>) -> Result<(), ConsensusError> {
    check_roots(block, proofs::calculate_transaction_root(&block.body.transactions))
}

/// Does as [`check_body_roots`]; `transactions` is the root of the transactions.
fn check_roots(block: &Block<TxEnvelope>, transactions: B256) -> Result<(), ConsensusError> {
    let Block { header, body } = block;
    let expected = proofs::calculate_ommers_root(&body.ommers);
    if header.ommers_hash != expected {
        return Err(ConsensusError::OmmersHash { found: header.ommers_hash, expected });
    }
    match (&body.withdrawals, header.withdrawals_root) {
        (None, None) => {}
        (None, Some(_)) => return Err(ConsensusError::WithdrawalsMissing),
        (Some(withdrawals), None) => {
            return Err(ConsensusError::WithdrawalsUnexpected { found: withdrawals.len() });
        }
        (Some(withdrawals), Some(found)) => {
            let expected = proofs::calculate_withdrawals_root(withdrawals);
            if found != expected {
                return Err(ConsensusError::WithdrawalsRoot { found, expected });
            }
        }
    }
    if header.transactions_root == transactions {
        return Ok(());
    }
    let (found, expected) = (header.transactions_root, transactions);
    Err(ConsensusError::TransactionsRoot { found, expected })
}

/// Checks that a list of withdrawals is there exactly if the fork has withdrawals.
fn check_withdrawals(rules: &Rules<'_>, block: &Block<TxEnvelope>) -> Result<(), ConsensusError> {
    let fork = EthereumHardfork::Shanghai;
    match (&block.body.withdrawals, rules.is(fork)) {
        (None, true) => Err(ConsensusError::WithdrawalsMissing),
        (Some(withdrawals), false) => {
            Err(ConsensusError::WithdrawalsUnexpected { found: withdrawals.len() })
        }
        (Some(_), true) if block.header.withdrawals_root.is_none() => {
            Err(ConsensusError::MissingField { field: "withdrawals root", fork })
        }
        (None, false) | (Some(_), true) => Ok(()),
    }
}
