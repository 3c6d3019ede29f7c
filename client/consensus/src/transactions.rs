//! Checks of a transaction by itself, which do not depend on the state.

use super::error::TransactionError;
use alloy_consensus::{
    Transaction, TxEip4844Variant, TxEnvelope, Typed2718, crypto::SECP256K1N_HALF,
    transaction::SignerRecoverable,
};
use alloy_eips::{
    eip2718::{EIP1559_TX_TYPE_ID, EIP2930_TX_TYPE_ID, EIP4844_TX_TYPE_ID, EIP7702_TX_TYPE_ID},
    eip4844::VERSIONED_HASH_VERSION_KZG,
    eip7594::MAX_BLOBS_PER_TX_FUSAKA,
    eip7825::MAX_TX_GAS_LIMIT_OSAKA,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, Signature, U256, uint};
use polytrie_chainspec::Rules;
use polytrie_ecrecover::Signed;

/// Order of the curve secp256k1.
const SECP256K1N: U256 =
    uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// Greatest length of init code from Shanghai on, in bytes (EIP-3860).
const MAX_INIT_CODE_SIZE: usize = 0xc000;

/// Greatest length of init code from Amsterdam on, in bytes (EIP-7954).
const MAX_INIT_CODE_SIZE_AMSTERDAM: usize = 0x2_0000;

/// Checks a transaction as part of a block under `rules`, by the rules that need neither its sender nor the
/// state. The table in the [module's documentation](super) lists them.
///
/// # Errors
///
/// Fails with the first rule that the transaction breaks.
pub fn check_transaction(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    check_network(rules, tx)?;
    check_signature(rules, tx)?;
    check_fields(rules, tx)
}

/// Checks what [`check_transaction`] checks but for the signature: for a transaction without a true one
/// ([`impersonated`](super::impersonated)).
///
/// # Errors
///
/// Fails with the first rule that the transaction breaks.
pub fn check_unsigned(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    check_network(rules, tx)?;
    check_fields(rules, tx)
}

/// Checks that the fork has the transaction's type and that the chain id is this chain's.
fn check_network(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    check_type(rules, tx)?;
    check_chain_id(rules, tx)
}

fn check_fields(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    if tx.nonce() == u64::MAX {
        return Err(TransactionError::NonceTooHigh);
    }
    check_sizes(rules, tx)?;
    check_blobs(rules, tx)?;
    if tx.authorization_list().is_some_and(<[_]>::is_empty) {
        return Err(TransactionError::EmptyAuthorizationList);
    }
    Ok(())
}

/// Recovers the sender of a transaction from its signature.
///
/// The result depends on no fork, so a caller may compute it ahead of the chain on another core. Whether `s` may
/// be in the upper half of its range does depend on the fork, and [`check_transaction`] checks it.
///
/// # Errors
///
/// Fails with [`TransactionError::NoSender`] if the signature belongs to no public key.
pub fn recover_sender(tx: &TxEnvelope) -> Result<Address, TransactionError> {
    tx.recover_signer_unchecked().map_err(|_| TransactionError::NoSender)
}

/// Does as [`recover_sender`] with each of `transactions`. Together they take less time.
pub fn recover_senders(transactions: &[TxEnvelope]) -> Vec<Result<Address, TransactionError>> {
    let signed = |tx: &TxEnvelope| Signed { hash: tx.signature_hash(), signature: *tx.signature() };
    let signed: Vec<_> = transactions.iter().map(signed).collect();
    let found = polytrie_ecrecover::recover(&signed).into_iter();
    found.map(|sender| sender.ok_or(TransactionError::NoSender)).collect()
}

fn check_type(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    let tx_type = tx.ty();
    let fork = match tx_type {
        EIP2930_TX_TYPE_ID => EthereumHardfork::Berlin,
        EIP1559_TX_TYPE_ID => EthereumHardfork::London,
        EIP4844_TX_TYPE_ID => EthereumHardfork::Cancun,
        EIP7702_TX_TYPE_ID => EthereumHardfork::Prague,
        _ => return Ok(()),
    };
    if rules.is(fork) { Ok(()) } else { Err(TransactionError::TypeNotActive { tx_type, fork }) }
}

fn check_chain_id(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    // Only a legacy transaction can lack a chain id, and it is then valid on every chain.
    let Some(found) = tx.chain_id() else {
        return Ok(());
    };
    if !rules.is(EthereumHardfork::SpuriousDragon) {
        return Err(TransactionError::ReplayProtectionNotActive { found });
    }
    let expected = rules.spec.chain_id();
    if found == expected { Ok(()) } else { Err(TransactionError::ChainId { found, expected }) }
}

fn check_signature(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    let signature: &Signature = tx.signature();
    for (part, found) in [("r", signature.r()), ("s", signature.s())] {
        if found.is_zero() || found >= SECP256K1N {
            return Err(TransactionError::SignatureOutOfRange { part, found });
        }
    }
    if signature.s() > SECP256K1N_HALF && rules.is(EthereumHardfork::Homestead) {
        return Err(TransactionError::HighS { found: signature.s() });
    }
    Ok(())
}

fn check_sizes(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    let amsterdam = rules.is(EthereumHardfork::Amsterdam);
    // From Amsterdam on the cap bounds only one of the two dimensions of gas (EIP-8037), and only the execution
    // can separate them.
    let found = tx.gas_limit();
    if rules.is(EthereumHardfork::Osaka) && !amsterdam && found > MAX_TX_GAS_LIMIT_OSAKA {
        return Err(TransactionError::GasLimitAboveCap { found, max: MAX_TX_GAS_LIMIT_OSAKA });
    }
    if tx.is_create() && rules.is(EthereumHardfork::Shanghai) {
        let max = if amsterdam { MAX_INIT_CODE_SIZE_AMSTERDAM } else { MAX_INIT_CODE_SIZE };
        let found = tx.input().len();
        if found > max {
            return Err(TransactionError::InitCodeTooLarge { found, max });
        }
    }
    Ok(())
}

fn check_blobs(rules: &Rules<'_>, tx: &TxEnvelope) -> Result<(), TransactionError> {
    let TxEnvelope::Eip4844(signed) = tx else {
        return Ok(());
    };
    let inner = match signed.tx() {
        TxEip4844Variant::TxEip4844(inner) => inner,
        TxEip4844Variant::TxEip4844WithSidecar(_) => return Err(TransactionError::CarriesBlobs),
    };
    let hashes = &inner.blob_versioned_hashes;
    if hashes.is_empty() {
        return Err(TransactionError::NoBlobs);
    }
    let per_block = rules.blob_params().map_or(0, |params| params.max_blob_count);
    let max = if rules.is(EthereumHardfork::Osaka) {
        per_block.min(MAX_BLOBS_PER_TX_FUSAKA)
    } else {
        per_block
    };
    if hashes.len() as u64 > max {
        return Err(TransactionError::TooManyBlobs { found: hashes.len(), max });
    }
    match hashes.iter().find(|hash| hash[0] != VERSIONED_HASH_VERSION_KZG) {
        Some(found) => Err(TransactionError::BlobHashVersion { found: *found }),
        None => Ok(()),
    }
}
