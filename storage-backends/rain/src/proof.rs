//! Proofs, in the form of `eth_getProof` (EIP-1186).

use crate::{
    RainLayer,
    error::state_error,
    reader::RainReader,
    version::{account_rows, shard_of, storage_rows},
};
use alloy_primitives::{Address, B256, U256};
use polytrie_state::{Proof, ProofError, StateError, hash_address, hash_slot};
use polytrie_trie::{AccountLeaf, AccountProof, SlotProof, cow::CowTrie, verify_account_proof};
use serde::Serialize;

/// Makes a proof of what a reader sees.
pub(crate) fn prove(
    reader: &RainReader,
    address: &Address,
    slots: &[U256],
) -> Result<Proof, StateError> {
    let RainReader { version, rows: store, touches } = reader;
    let account = hash_address(address);
    touches.add_many(shard_of(&account), 1 + slots.len() as u64);
    let seq = version.seq;
    let (entry, account_proof) =
        CowTrie::prove_joined(&version.parts, &account, &account_rows(store), seq)
            .map_err(state_error)?;
    let storage = entry.map_or_else(CowTrie::empty, |entry| entry.storage.clone());
    let storage_proof = slots
        .iter()
        .map(|slot| {
            let rows = storage_rows(store, account);
            let (value, proof) = storage.prove(&hash_slot(slot), &rows, seq)?;
            Ok(SlotProof { key: *slot, value: value.map_or(U256::ZERO, |v| v.0), proof })
        })
        .collect::<Result<_, _>>()
        .map_err(state_error)?;
    let leaf = entry.map_or_else(AccountLeaf::default, |entry| AccountLeaf {
        nonce: entry.account.nonce,
        balance: entry.account.balance,
        storage_root: entry.storage.root(),
        code_hash: entry.account.code_hash,
    });
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
    Ok(Proof { layer: RainLayer::NAME.to_owned(), proof })
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
/// If it is no proof of this form, or does not hold.
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
