//! Senders of a block's transactions.

use alloy_consensus::{Transaction, TxEnvelope};
use alloy_primitives::{Address, B256};
use polytrie_consensus::{TransactionError, recover_sender};
use rayon::prelude::*;
use thiserror::Error;

/// Error of a transaction whose sender cannot be recovered; the block is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("transaction {index} ({hash}) is invalid: {reason}")]
pub struct SenderError {
    /// Index of the transaction in the block, from 0.
    pub index: usize,
    /// Hash of the transaction.
    pub hash: B256,
    /// Reason why no sender can be recovered.
    pub reason: TransactionError,
}

/// Recovers the senders of `transactions`, in their order.
///
/// The result depends on no fork, so a caller may compute it ahead of the chain on another core. The upper half of
/// `s`, which is allowed before Homestead only, is checked in
/// [`check_transaction`](polytrie_consensus::check_transaction).
///
/// # Errors
///
/// Fails with the first transaction whose signature belongs to no public key.
pub fn recover_senders(transactions: &[TxEnvelope]) -> Result<Vec<Address>, SenderError> {
    transactions
        .iter()
        .enumerate()
        .map(|(index, tx)| {
            recover_sender(tx).map_err(|reason| SenderError { index, hash: *tx.tx_hash(), reason })
        })
        .collect()
}

/// Recovers the senders as [`recover_senders`] does, on all cores: for a block that a caller waits for. `None` if a
/// transaction has no sender.
pub fn recover_in_parallel(transactions: &[TxEnvelope]) -> Option<Vec<Address>> {
    transactions.par_iter().map(|tx| recover_sender(tx).ok()).collect()
}

/// Recovers the accounts whose signatures let `transactions` set their code (EIP-7702). A signature that does not
/// recover is left out, because the result is only a hint.
pub fn recover_authorities(transactions: &[TxEnvelope]) -> Vec<Address> {
    transactions
        .iter()
        .filter_map(Transaction::authorization_list)
        .flatten()
        .filter_map(|authorization| authorization.recover_authority().ok())
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxLegacy};
    use alloy_primitives::{Signature, U256};

    fn transaction(nonce: u64, signature: Signature) -> TxEnvelope {
        TxEnvelope::Legacy(TxLegacy { nonce, ..TxLegacy::default() }.into_signed(signature))
    }

    #[test]
    fn on_all_cores_the_same_senders_come_out() {
        let signed = |nonce| transaction(nonce, Signature::test_signature());
        let mut transactions: Vec<_> = (0..100).map(signed).collect();
        let senders = recover_senders(&transactions).unwrap();
        assert_eq!(recover_in_parallel(&transactions), Some(senders));
        transactions[40] = transaction(40, Signature::new(U256::ZERO, U256::ZERO, false));
        assert_eq!(recover_senders(&transactions).unwrap_err().index, 40);
        assert_eq!(recover_in_parallel(&transactions), None);
    }
}
