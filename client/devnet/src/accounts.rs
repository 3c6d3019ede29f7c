//! The development accounts: accounts for which the node itself can sign.

use alloy_primitives::{Address, B256, Signature, map::AddressMap};
use alloy_signer::SignerSync;
use alloy_signer_local::{MnemonicBuilder, PrivateKeySigner, coins_bip39::English};
use thiserror::Error;

/// The mnemonic that all development tools use by default.
pub const DEFAULT_MNEMONIC: &str = "test test test test test test test test test test test junk";

/// Accounts derived from a mnemonic, at the paths m/44'/60'/0'/0/0, m/44'/60'/0'/0/1 and so on.
#[derive(Debug, Clone)]
pub struct DevAccounts {
    addresses: Vec<Address>,
    signers: AddressMap<PrivateKeySigner>,
}

/// The error of a mnemonic from which no accounts can be derived.
#[derive(Debug, Error)]
#[error(
    "the mnemonic is not valid ({0}); it must be 12, 15, 18, 21 or 24 English words of BIP-39 with the right checksum"
)]
pub struct MnemonicError(String);

impl DevAccounts {
    /// Derives the first `count` accounts of a mnemonic.
    ///
    /// # Errors
    ///
    /// If `mnemonic` is not a valid BIP-39 mnemonic.
    pub fn new(mnemonic: &str, count: u32) -> Result<Self, MnemonicError> {
        let mut accounts = Self { addresses: Vec::new(), signers: AddressMap::default() };
        for index in 0..count {
            let signer = MnemonicBuilder::<English>::default()
                .phrase(mnemonic)
                .index(index)
                .and_then(|builder| builder.build())
                .map_err(|error| MnemonicError(error.to_string()))?;
            accounts.addresses.push(signer.address());
            accounts.signers.insert(signer.address(), signer);
        }
        Ok(accounts)
    }

    /// Returns the addresses, in the order of their derivation paths.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the private key of an account, or `None` if `address` is no development account.
    pub fn private_key(&self, address: &Address) -> Option<B256> {
        self.signers.get(address).map(PrivateKeySigner::to_bytes)
    }

    /// Signs a hash with the key of an account; `None` if `address` is no development account.
    pub fn sign(&self, address: &Address, hash: &B256) -> Option<Signature> {
        self.signers.get(address)?.sign_hash_sync(hash).ok()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::address;

    #[test]
    fn the_usual_accounts() {
        let accounts = DevAccounts::new(DEFAULT_MNEMONIC, 10).unwrap();
        assert_eq!(accounts.addresses()[0], address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
        assert_eq!(accounts.addresses()[9], address!("a0Ee7A142d267C1f36714E4a8F75612F20a79720"));
    }

    #[test]
    fn who_signs_is_recovered() {
        let accounts = DevAccounts::new(DEFAULT_MNEMONIC, 2).unwrap();
        let [first, second] = accounts.addresses() else { panic!("two accounts") };
        let hash = B256::repeat_byte(7);
        let signature = accounts.sign(second, &hash).unwrap();
        assert_eq!(signature.recover_address_from_prehash(&hash).unwrap(), *second);
        assert_ne!(accounts.sign(first, &hash), Some(signature));
        assert_eq!(accounts.sign(&Address::ZERO, &hash), None);
    }

    #[test]
    fn what_is_no_mnemonic_is_refused() {
        let error = DevAccounts::new("test test junk", 1).unwrap_err().to_string();
        assert!(error.contains("12, 15, 18, 21 or 24"), "{error}");
    }
}
