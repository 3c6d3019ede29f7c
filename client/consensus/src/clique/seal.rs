//! The signature in a header, and the account that receives the fees.

use super::CliqueError;
use alloy_consensus::{Header, crypto::secp256k1::recover_signer_unchecked};
use alloy_primitives::{Address, B256, Signature, U256};
use polytrie_chainspec::{Clique, Rules};

/// Returns the account that receives the fees of a block and that COINBASE returns. This is the header's beneficiary;
/// under Clique, where that field is a vote, it is the signer.
///
/// The result depends on no other block, so a caller may compute it ahead of the chain on another core.
///
/// # Errors
///
/// Fails if the header must have the seal of a signer and has none.
pub fn coinbase(rules: &Rules<'_>, header: &Header) -> Result<Address, CliqueError> {
    let is_genesis = header.number == rules.spec.genesis_header().number;
    match rules.clique() {
        Some(_) if !is_genesis => recover_signer(header),
        _ => Ok(header.beneficiary),
    }
}

/// Recovers the signer of a header. [`Snapshot::check`](super::Snapshot::check) checks whether it is authorized.
///
/// # Errors
///
/// Fails with [`CliqueError::ExtraDataTooShort`] or [`CliqueError::Seal`].
pub fn recover_signer(header: &Header) -> Result<Address, CliqueError> {
    let Some((_, seal)) = header.extra_data.split_last_chunk::<{ Clique::SEAL }>() else {
        let (found, min) = (header.extra_data.len(), Clique::VANITY + Clique::SEAL);
        return Err(CliqueError::ExtraDataTooShort { found, min });
    };
    // Unlike in a transaction, `s` may lie in the upper half of its range, as in geth.
    let [r, s] = [&seal[..32], &seal[32..64]].map(U256::from_be_slice);
    let is_odd = match seal[64] {
        0 => false,
        1 => true,
        _ => return Err(CliqueError::Seal),
    };
    recover_signer_unchecked(&Signature::new(r, s, is_odd), seal_hash(header))
        .map_err(|_| CliqueError::Seal)
}

/// Returns the hash that a signer signs: that of the header without the seal. Extra data that are too short for a seal
/// count as empty.
pub fn seal_hash(header: &Header) -> B256 {
    let end = header.extra_data.len().saturating_sub(Clique::SEAL);
    Header { extra_data: header.extra_data.slice(..end), ..header.clone() }.hash_slow()
}
