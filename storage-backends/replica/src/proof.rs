//! Proofs in the form of `eth_getProof` (EIP-1186); they are those of the canonical trie.

use crate::{ReplicaLayer, error::state_error, side::rows_of};
use alloy_primitives::{Address, B256, U256};
use polytrie_kv::Read;
use polytrie_state::{Proof, ProofError, StateError, hash_address, hash_slot};
use polytrie_trie::{
    AccountLeaf, AccountProof, SlotProof, SlotValue, prove_key, verify_account_proof,
};
use serde::Serialize;

pub(crate) fn prove(
    store: &dyn Read,
    address: &Address,
    slots: &[U256],
) -> Result<Proof, StateError> {
    let account = hash_address(address);
    let (leaf, account_proof) =
        prove_key::<AccountLeaf>(&account, &rows_of(store, None)).map_err(state_error)?;
    let leaf = leaf.unwrap_or_default();
    let storage_proof = slots
        .iter()
        .map(|slot| {
            let rows = rows_of(store, Some(account));
            let (value, proof) = prove_key::<SlotValue>(&hash_slot(slot), &rows)?;
            Ok(SlotProof { key: *slot, value: value.map_or(U256::ZERO, |v| v.0), proof })
        })
        .collect::<Result<_, _>>()
        .map_err(state_error)?;
    let proof = AccountProof {
        address: *address,
        account_proof,
        balance: leaf.balance,
        code_hash: leaf.code_hash,
        nonce: leaf.nonce,
        storage_hash: leaf.storage_root,
        storage_proof,
    };
    let proof = serde_json::to_value(proof)
        .map_err(|e| StateError::Corrupt(format!("a proof does not serialise: {e}")))?;
    Ok(Proof { layer: ReplicaLayer::NAME.to_owned(), proof })
}

/// What a proof of this layer proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proven {
    /// The account asked for.
    pub address: Address,
    /// Whether it exists; if not, the other fields are those of an empty account.
    pub exists: bool,
    /// Nonce.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
    /// The slots asked for, with their values; zero where there is none.
    pub slots: Vec<(U256, U256)>,
}

/// Checks a proof of this layer against a state root; no layer is needed.
///
/// # Errors
///
/// If it is no such proof, or does not hold.
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
