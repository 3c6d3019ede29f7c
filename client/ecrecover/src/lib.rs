#![doc = include_str!("../README.md")]

#[cfg(target_arch = "x86_64")]
mod ifma;

use alloy_consensus::crypto::secp256k1::recover_signer_unchecked;
use alloy_primitives::{Address, B256, Signature};

/// Signature, and the hash that was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signed {
    /// Hash that was signed.
    pub hash: B256,
    /// Signature, with s in either half of its range.
    pub signature: Signature,
}

/// Returns the address of the key that made each signature, or `None` for a signature that belongs to no key. Every result is
/// that of libsecp256k1.
pub fn recover(signed: &[Signed]) -> Vec<Option<Address>> {
    #[cfg(target_arch = "x86_64")]
    return signed.chunks(ifma::BATCH).flat_map(recover_batch).collect();
    #[cfg(not(target_arch = "x86_64"))]
    signed.iter().map(recover_one).collect()
}

/// Returns the number of signatures to recover together where the first result is needed soon. More at once would save little.
pub fn few() -> usize {
    #[cfg(target_arch = "x86_64")]
    if ifma::is_available() {
        return ifma::FEW;
    }
    1
}

fn recover_one(Signed { hash, signature }: &Signed) -> Option<Address> {
    recover_signer_unchecked(signature, *hash).ok()
}

#[cfg(target_arch = "x86_64")]
fn recover_batch(signed: &[Signed]) -> Vec<Option<Address>> {
    if signed.len() < ifma::WORTH_LANES || !ifma::is_available() {
        return signed.iter().map(recover_one).collect();
    }
    // SAFETY: the processor has the instructions.
    let keys = unsafe { ifma::keys(signed) };
    let address = |key: [u8; 64]| Address::from_raw_public_key(&key);
    let found = keys.into_iter().zip(signed);
    found.map(|(key, signed)| key.map(address).or_else(|| recover_one(signed))).collect()
}

#[cfg(test)]
mod tests;
