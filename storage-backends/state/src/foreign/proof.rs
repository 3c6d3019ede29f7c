//! Proofs of accounts and slots, composed of one proof for each of their keys.

use super::{Foreign, Key, slot_key};
use crate::{
    Account, Proof, ProofError, Proven, Result, SlotProof, StateError,
    flat::{account_row, value_row},
    hash_address, hash_slot,
};
use alloy_primitives::{Address, B256, U64, U256};
use polytrie_kv::Read;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A proof of one key, in the form that it has in the JSON of a whole proof.
pub trait Way: Serialize + DeserializeOwned {
    /// Checks that a key has this value, or none, under a commitment with this digest.
    ///
    /// # Errors
    ///
    /// If it does not.
    fn verify(&self, digest: B256, key: Key, value: Option<Vec<u8>>) -> Result<(), ProofError>;
}

/// The JSON form of a proof.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body<W> {
    address: Address,
    /// Whether the account exists; if not, the next three fields are those of an empty account.
    exists: bool,
    nonce: U64,
    balance: U256,
    code_hash: B256,
    account_proof: W,
    storage_proof: Vec<SlotProof<W>>,
}

/// Returns the keys to prove, that of the account first.
pub(super) fn proof_keys(address: &Address, slots: &[U256]) -> Vec<Key> {
    let hash = hash_address(address);
    let slots = slots.iter().map(|slot| slot_key(&hash, &hash_slot(slot)));
    [hash.0].into_iter().chain(slots).collect()
}

/// Builds a proof from the proofs of [`proof_keys`]. `rows` must be of the same state.
pub(super) fn prove<T: Foreign>(
    rows: &dyn Read,
    (address, slots): (&Address, &[U256]),
    ways: Vec<T::Way>,
) -> Result<Proof> {
    let hash = hash_address(address);
    let account = T::FLAT.account(rows, &hash)?;
    let mut ways = ways.into_iter();
    let account_proof = ways.next().ok_or(StateError::Protocol("a key was not proven"))?;
    let mut storage_proof = Vec::with_capacity(slots.len());
    for (slot, proof) in slots.iter().zip(ways) {
        let value = T::FLAT.slot(rows, &hash, &hash_slot(slot))?;
        storage_proof.push(SlotProof { key: *slot, value, proof });
    }
    let shown = account.unwrap_or_default();
    let body = Body {
        address: *address,
        exists: account.is_some(),
        nonce: U64::from(shown.nonce),
        balance: shown.balance,
        code_hash: shown.code_hash,
        account_proof,
        storage_proof,
    };
    Proof::of(T::NAME, &body)
}

/// Checks a proof against the digest of a commitment; no layer is needed.
///
/// # Errors
///
/// If it is not a proof of this kind, or does not lead to the digest.
pub fn verify<W: Way>(digest: B256, proof: &Proof) -> Result<Proven, ProofError> {
    let Body { address, exists, nonce, balance, code_hash, account_proof, storage_proof } =
        proof.form::<Body<W>>()?;
    let account = Account { nonce: nonce.to(), balance, code_hash };
    if !exists && account != Account::default() {
        return Err(ProofError::Invalid("an account that is not there has values".into()));
    }
    let hash = hash_address(&address);
    account_proof.verify(digest, hash.0, exists.then(|| account_row(&account)))?;
    for SlotProof { key, value, proof } in &storage_proof {
        proof.verify(digest, slot_key(&hash, &hash_slot(key)), value_row(value))?;
    }
    let slots = storage_proof.iter().map(|slot| (slot.key, slot.value)).collect();
    Ok(Proven { address, exists, nonce: account.nonce, balance, code_hash, slots })
}
