//! What layers with the canonical state root say in the same words: errors, and proofs in the form of `eth_getProof`
//! (EIP-1186).

use crate::{
    AccountLeaf, AccountProof, RowSource, SlotProof, SlotValue, TrieError, prove_key,
    verify_account_proof,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{Proof, ProofError, Proven, StateError, hash_address, hash_slot};

/// An error of the trie as the seam reports it.
pub fn state_error(error: TrieError) -> StateError {
    match error {
        TrieError::Store(error) => error.into(),
        damaged => StateError::Corrupt(damaged.to_string()),
    }
}

/// A visitor's error on its way out through a scan of trie rows, which has errors of its own.
#[derive(Debug, Default)]
pub struct Detour(Option<StateError>);

impl Detour {
    /// Turns the visitor's error into one that ends the scan.
    pub fn take(&mut self, error: StateError) -> TrieError {
        self.0 = Some(error);
        TrieError::Store(polytrie_kv::KvError::Corrupt("the visitor ended the scan".into()))
    }

    /// The visitor's error, if that is what ended the scan.
    ///
    /// # Errors
    ///
    /// That error, or the scan's own.
    pub fn resolve<T>(self, result: Result<T, TrieError>) -> Result<T, StateError> {
        match self.0 {
            Some(error) => Err(error),
            None => result.map_err(state_error),
        }
    }
}

impl AccountProof {
    /// A proof of an account, from the rows of the account trie and of the storage trie of the account with a hash.
    ///
    /// # Errors
    ///
    /// If rows are missing or damaged, or the store fails.
    pub fn from_rows<R: RowSource>(
        address: &Address,
        slots: &[U256],
        accounts: &impl RowSource,
        storage: impl Fn(B256) -> R,
    ) -> Result<Self, TrieError> {
        let account = hash_address(address);
        let (leaf, account_proof) = prove_key::<AccountLeaf>(&account, accounts)?;
        let storage = storage(account);
        Self::new(address, leaf.unwrap_or_default(), account_proof, slots, |slot| {
            prove_key::<SlotValue>(slot, &storage)
        })
    }

    /// A proof of an account whose leaf (or that of an empty account) and nodes are known; `slot` proves the slot with
    /// a hash.
    ///
    /// # Errors
    ///
    /// As `slot`.
    pub fn new(
        address: &Address,
        leaf: AccountLeaf,
        account_proof: Vec<Bytes>,
        slots: &[U256],
        slot: impl Fn(&B256) -> Result<(Option<SlotValue>, Vec<Bytes>), TrieError>,
    ) -> Result<Self, TrieError> {
        let prove = |key: &U256| {
            let (value, proof) = slot(&hash_slot(key))?;
            Ok(SlotProof { key: *key, value: value.map_or(U256::ZERO, |v| v.0), proof })
        };
        Ok(Self {
            address: *address,
            account_proof,
            balance: leaf.balance,
            code_hash: leaf.code_hash,
            nonce: leaf.nonce,
            storage_hash: leaf.storage_root,
            storage_proof: slots.iter().map(prove).collect::<Result<_, TrieError>>()?,
        })
    }

    /// The proof as the layer of this name hands it out.
    ///
    /// # Errors
    ///
    /// If it does not serialise.
    pub fn into_proof(self, layer: &str) -> Result<Proof, StateError> {
        let proof = serde_json::to_value(self)
            .map_err(|e| StateError::Corrupt(format!("a proof does not serialise: {e}")))?;
        Ok(Proof { layer: layer.to_owned(), proof })
    }
}

/// Checks a proof against a state root; no layer is needed.
///
/// # Errors
///
/// If it is no [`AccountProof`], or does not hold.
pub fn verify(root: B256, proof: &Proof) -> Result<Proven, ProofError> {
    let proof: AccountProof = serde_json::from_value(proof.proof.clone())
        .map_err(|error| ProofError::Malformed(error.to_string()))?;
    let account = verify_account_proof(root, &proof).map_err(ProofError::Invalid)?;
    Ok(Proven {
        address: proof.address,
        exists: account.is_some(),
        nonce: proof.nonce,
        balance: proof.balance,
        code_hash: proof.code_hash,
        slots: proof.storage_proof.iter().map(|slot| (slot.key, slot.value)).collect(),
    })
}
