//! Accounts whose keys follow from a seed.

use alloy_consensus::{
    SignableTransaction, TxEnvelope, TypedTransaction, crypto::secp256k1::public_key_to_address,
};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Keccak256, Signature, U256, keccak256};
use rayon::prelude::*;
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use std::ops::Range;

/// Externally owned accounts, numbered from 0. Keys follow from a seed; the wallet counts the nonces that were used.
#[derive(Debug, Clone)]
pub struct Wallet {
    seed: u64,
    addresses: Vec<Address>,
    nonces: Vec<u32>,
}

impl Wallet {
    /// Derives the first `accounts` accounts of a seed, at about 20 microseconds an account, on all cores.
    pub fn new(seed: u64, accounts: usize) -> Self {
        Self::from_addresses(seed, derive_addresses(seed, 0..accounts))
    }

    /// The wallet of a seed whose addresses were derived before, in the order of their numbers.
    pub fn from_addresses(seed: u64, addresses: Vec<Address>) -> Self {
        Self { seed, nonces: vec![0; addresses.len()], addresses }
    }

    /// Seed of the keys.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of accounts.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether the wallet has no accounts.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Addresses of all accounts, in the order of their numbers.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Address of an account; panics if the number is too large.
    pub fn address(&self, account: usize) -> Address {
        self.addresses[account]
    }

    /// Nonce of the account's next transaction.
    pub fn nonce(&self, account: usize) -> u64 {
        self.nonces[account].into()
    }

    /// Returns the nonce of the account's next transaction and counts it as used.
    pub fn use_nonce(&mut self, account: usize) -> u64 {
        let nonce = self.nonce(account);
        self.nonces[account] += 1;
        nonce
    }

    /// Signs a transaction with the key of the account.
    pub fn sign(&self, account: usize, tx: TypedTransaction) -> TxEnvelope {
        let signature = self.sign_hash(account, tx.signature_hash());
        tx.into_envelope(signature)
    }

    /// Signs an authorization (EIP-7702) with the key of the account.
    pub fn authorize(&self, account: usize, authorization: Authorization) -> SignedAuthorization {
        let signature = self.sign_hash(account, authorization.signature_hash());
        authorization.into_signed(signature)
    }

    /// Signs a hash with the nonce of RFC 6979, so that the same key and hash always give the same signature.
    fn sign_hash(&self, account: usize, hash: B256) -> Signature {
        let key = secret_key(self.seed, account);
        let signature = SECP256K1.sign_ecdsa_recoverable(&Message::from_digest(hash.0), &key);
        let (id, bytes) = signature.serialize_compact();
        let (r, s) = bytes.split_at(32);
        Signature::new(U256::from_be_slice(r), U256::from_be_slice(s), i32::from(id) % 2 != 0)
    }
}

/// Derives the addresses of these accounts of a seed; about 20 microseconds each, on all cores.
pub(super) fn derive_addresses(seed: u64, accounts: Range<usize>) -> Vec<Address> {
    let address = |index| {
        let key = secret_key(seed, index);
        public_key_to_address(PublicKey::from_secret_key(SECP256K1, &key))
    };
    accounts.into_par_iter().map(address).collect()
}

/// The secret key keccak256("polytrie account" ‖ seed ‖ number). A hash that is no valid key, which never happens,
/// is hashed again.
fn secret_key(seed: u64, account: usize) -> SecretKey {
    let mut hasher = Keccak256::new();
    hasher.update(b"polytrie account");
    hasher.update(seed.to_be_bytes());
    hasher.update((account as u64).to_be_bytes());
    let mut bytes = hasher.finalize();
    loop {
        match SecretKey::from_slice(bytes.as_slice()) {
            Ok(key) => return key,
            Err(_) => bytes = keccak256(bytes),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::{TxEip1559, transaction::SignerRecoverable};
    use alloy_primitives::address;

    #[test]
    fn accounts_never_change() {
        let wallet = Wallet::new(1, 2);
        assert_eq!(
            wallet.addresses(),
            [
                address!("ef0953dd1de6e3be758c15a30a99e50a82fd6d71"),
                address!("ac917ac9687c9dfe990729b8364b780cacc60da3"),
            ]
        );
        assert_ne!(Wallet::new(2, 1).address(0), wallet.address(0));
    }

    #[test]
    fn who_signs_is_recovered() {
        let wallet = Wallet::new(7, 3);
        for account in 0..3 {
            let tx = TxEip1559 { chain_id: 1, nonce: 5, ..Default::default() };
            let signed = wallet.sign(account, tx.into());
            assert_eq!(signed.recover_signer().unwrap(), wallet.address(account));
            let authorization =
                Authorization { chain_id: U256::ZERO, address: Address::ZERO, nonce: 9 };
            let signed = wallet.authorize(account, authorization);
            assert_eq!(signed.recover_authority().unwrap(), wallet.address(account));
        }
    }

    #[test]
    fn nonces_count() {
        let mut wallet = Wallet::new(1, 2);
        assert_eq!((wallet.use_nonce(0), wallet.use_nonce(0), wallet.use_nonce(1)), (0, 1, 0));
        assert_eq!((wallet.nonce(0), wallet.nonce(1)), (2, 1));
    }
}
