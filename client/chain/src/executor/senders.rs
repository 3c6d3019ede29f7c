//! Senders of a block's transactions.

use alloy_consensus::{Transaction, TxEnvelope};
use alloy_primitives::{Address, B256};
use thiserror::Error;

use polytrie_consensus::{TransactionError, recover_sender};

/// A transaction whose sender cannot be recovered; the block is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("transaction {index} ({hash}) is invalid: {reason}")]
pub struct SenderError {
    /// Its place in the block, from 0.
    pub index: usize,
    /// Its hash.
    pub hash: B256,
    /// Why it has no sender.
    pub reason: TransactionError,
}

/// The senders of `transactions`, in their order.
///
/// Depends on no fork, so it can run ahead of the chain on another core: the upper half of `s`,
/// allowed before Homestead only, is left to
/// [`check_transaction`](polytrie_consensus::check_transaction).
///
/// # Errors
///
/// The first transaction whose signature belongs to no public key.
pub fn recover_senders(transactions: &[TxEnvelope]) -> Result<Vec<Address>, SenderError> {
    transactions
        .iter()
        .enumerate()
        .map(|(index, tx)| {
            recover_sender(tx).map_err(|reason| SenderError { index, hash: *tx.tx_hash(), reason })
        })
        .collect()
}

/// The accounts whose signatures let `transactions` set their code (EIP-7702). One that does not recover is left
/// out: it is not the business of a hint.
pub fn recover_authorities(transactions: &[TxEnvelope]) -> Vec<Address> {
    transactions
        .iter()
        .filter_map(Transaction::authorization_list)
        .flatten()
        .filter_map(|authorization| authorization.recover_authority().ok())
        .collect()
}
