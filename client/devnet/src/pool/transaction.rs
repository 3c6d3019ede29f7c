//! The form in which the pool keeps a transaction.

use super::{PoolError, blob_settings};
use alloy_consensus::{
    BlobTransactionSidecarVariant, Signed, Transaction, TxEip4844Variant, TxEnvelope,
};
use alloy_eips::Encodable2718;
use alloy_primitives::{Address, B256, U256};
use polytrie_chain::executor::intrinsic_gas;
use polytrie_chainspec::Rules;
use polytrie_consensus::{
    check_transaction, check_unsigned, impersonated, recover_sender, sender_of,
};
use std::sync::Arc;

/// Maximum size of a transaction without its blobs, in bytes.
const MAX_BYTES: usize = 128 * 1024;

/// A transaction that waits for a block.
#[derive(Debug, Clone)]
pub struct PoolTransaction {
    /// The transaction, without blobs.
    pub tx: TxEnvelope,
    /// The sender.
    pub sender: Address,
    /// The blobs with commitments and proofs, if the transaction has any.
    pub sidecar: Option<Arc<BlobTransactionSidecarVariant>>,
    /// Maximum cost in wei: gas, blobs and value.
    pub cost: U256,
    /// Size in bytes, with blobs.
    pub bytes: usize,
    /// Position in the order of arrival, from 0. The pool sets it.
    pub(super) arrival: u64,
}

impl PoolTransaction {
    /// Creates a pool transaction from the network form, in which blobs are included.
    ///
    /// # Errors
    ///
    /// If no sender can be recovered from the signature, or the blobs are missing or do not match their hashes.
    pub fn signed(tx: TxEnvelope) -> Result<Self, PoolError> {
        let sender = recover_sender(&tx)?;
        let (tx, sidecar) = without_sidecar(tx);
        match (tx.blob_versioned_hashes(), &sidecar) {
            (Some(hashes), Some(sidecar)) => sidecar
                .validate(hashes, blob_settings())
                .map_err(|error| PoolError::Blobs(error.to_string()))?,
            (Some(_), None) => return Err(PoolError::MissingBlobs),
            (None, _) => {}
        }
        Ok(Self::new(tx, sender, sidecar))
    }

    /// Creates a pool transaction of one of the node's own accounts, with a true signature or an impersonated sender.
    ///
    /// # Errors
    ///
    /// If it has blobs, or no sender can be recovered from its signature.
    pub fn local(tx: TxEnvelope) -> Result<Self, PoolError> {
        if tx.is_eip4844() {
            return Err(PoolError::MissingBlobs);
        }
        let sender = sender_of(&tx)?;
        Ok(Self::new(tx, sender, None))
    }

    pub(super) fn new(
        tx: TxEnvelope,
        sender: Address,
        sidecar: Option<BlobTransactionSidecarVariant>,
    ) -> Self {
        let fee = U256::from(tx.max_fee_per_gas()) * U256::from(tx.gas_limit());
        let blobs = U256::from(tx.max_fee_per_blob_gas().unwrap_or(0))
            * U256::from(tx.blob_gas_used().unwrap_or(0));
        let cost = fee.saturating_add(blobs).saturating_add(tx.value());
        let blob_bytes = sidecar.as_ref().map_or(0, |sidecar| sidecar.size());
        let bytes = tx.encode_2718_len() + blob_bytes;
        let sidecar = sidecar.map(Arc::new);
        Self { tx, sender, sidecar, cost, bytes, arrival: 0 }
    }

    /// Returns the versioned hashes of the blobs; none if the transaction has no sidecar.
    pub(super) fn blobs(&self) -> &[B256] {
        let hashes = self.sidecar.as_ref().and_then(|_| self.tx.blob_versioned_hashes());
        hashes.unwrap_or_default()
    }

    /// Returns the transaction without its sidecar.
    pub(crate) fn without_blobs(self: &Arc<Self>) -> Arc<Self> {
        match self.sidecar {
            None => Arc::clone(self),
            Some(_) => Arc::new(Self::new(self.tx.clone(), self.sender, None)),
        }
    }

    /// Returns the hash of the transaction.
    pub fn hash(&self) -> B256 {
        *self.tx.tx_hash()
    }

    /// Returns the nonce of the transaction.
    pub fn nonce(&self) -> u64 {
        self.tx.nonce()
    }

    /// Makes all checks that do not depend on the state.
    ///
    /// # Errors
    ///
    /// The first rule that the transaction breaks.
    pub fn check(&self, rules: &Rules<'_>, gas_limit: u64) -> Result<(), PoolError> {
        let tx = &self.tx;
        let found = tx.encode_2718_len();
        if found > MAX_BYTES {
            return Err(PoolError::TooLarge { found, limit: MAX_BYTES });
        }
        match impersonated(tx) {
            None => check_transaction(rules, tx)?,
            Some(_) => check_unsigned(rules, tx)?,
        }
        if tx.gas_limit() > gas_limit {
            return Err(PoolError::BlockGasLimit { found: tx.gas_limit(), limit: gas_limit });
        }
        let tip = tx.max_priority_fee_per_gas().unwrap_or(0);
        if tip > tx.max_fee_per_gas() {
            return Err(PoolError::TipAboveFee { tip, fee: tx.max_fee_per_gas() });
        }
        let needed = intrinsic_gas(rules, tx);
        if tx.gas_limit() < needed {
            return Err(PoolError::IntrinsicGas { found: tx.gas_limit(), needed });
        }
        Ok(())
    }
}

fn without_sidecar(tx: TxEnvelope) -> (TxEnvelope, Option<BlobTransactionSidecarVariant>) {
    let TxEnvelope::Eip4844(signed) = tx else { return (tx, None) };
    let (tx, signature, hash) = signed.into_parts();
    let (tx, sidecar) = match tx {
        TxEip4844Variant::TxEip4844WithSidecar(tx) => (tx.tx, Some(tx.sidecar)),
        TxEip4844Variant::TxEip4844(tx) => (tx, None),
    };
    let tx = TxEip4844Variant::TxEip4844(tx);
    (TxEnvelope::Eip4844(Signed::new_unchecked(tx, signature, hash)), sidecar)
}
