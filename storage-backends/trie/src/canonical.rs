//! Proofs of accounts in the form of `eth_getProof` (EIP-1186): the same for all layers with the canonical state root.

use crate::{
    AccountLeaf, RowSource, SlotValue,
    cow::{Entry, StateTries, Storage},
    verify_key,
};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use polytrie_state::{Proof, ProofError, Proven, Result, SlotProof, hash_address, hash_slot};
use serde::{Deserialize, Serialize};

/// The JSON form of a proof. An absent account has nonce and balance zero, the root of the trie without keys and the
/// hash of empty code; an absent slot has the value zero.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AccountProof {
    address: Address,
    /// Nodes of the state trie from the root to the account.
    account_proof: Vec<Bytes>,
    balance: U256,
    code_hash: B256,
    nonce: U64,
    storage_hash: B256,
    /// With each slot the nodes of the storage trie from the root to it.
    storage_proof: Vec<SlotProof<Vec<Bytes>>>,
}

impl<R: RowSource, F: Fn(Option<B256>) -> R + Sync> StateTries<F> {
    /// Proves an account and some of its slots, for a layer with this name.
    ///
    /// # Errors
    ///
    /// If rows are missing or damaged, the store fails, or the proof does not serialise.
    pub fn prove(&self, layer: &str, address: &Address, slots: &[U256]) -> Result<Proof> {
        let account = hash_address(address);
        let (entry, account_proof) = self.accounts.prove(&account, &(self.rows)(None), self.now)?;
        let leaf = entry.map_or_else(AccountLeaf::default, Entry::leaf);
        let none = Storage::default();
        let storage = entry.map_or(&none, |entry| &entry.storage);
        let rows = (self.rows)(Some(account));
        let mut storage_proof = Vec::with_capacity(slots.len());
        for key in slots {
            let (value, proof) = storage.prove(&hash_slot(key), &rows, self.now)?;
            let value = value.map_or(U256::ZERO, |value| value.0);
            storage_proof.push(SlotProof { key: *key, value, proof });
        }
        let proof = AccountProof {
            address: *address,
            account_proof,
            balance: leaf.balance,
            code_hash: leaf.code_hash,
            nonce: U64::from(leaf.nonce),
            storage_hash: leaf.storage_root,
            storage_proof,
        };
        Proof::of(layer, &proof)
    }
}

/// Checks a proof against a state root: every node must be used and lead to the next, and the leaf must hold the
/// claimed values. No layer is needed. An empty account, as there were before EIP-161, has the same fields as an
/// absent one.
///
/// # Errors
///
/// If the proof does not have this form, or does not hold.
pub fn verify(root: B256, proof: &Proof) -> Result<Proven, ProofError> {
    let proof: AccountProof = proof.form()?;
    let (address, nonce) = (proof.address, proof.nonce.to::<u64>());
    let account = verify_key::<AccountLeaf>(root, &hash_address(&address), &proof.account_proof)
        .map_err(|e| ProofError::Invalid(format!("account {address}: {e}")))?;
    let AccountProof { balance, code_hash, storage_hash: storage_root, storage_proof, .. } = proof;
    if account.unwrap_or_default() != (AccountLeaf { nonce, balance, storage_root, code_hash }) {
        return Err(ProofError::Invalid(format!(
            "account {address}: the proof shows another account than claimed"
        )));
    }
    for SlotProof { key, value, proof } in &storage_proof {
        let found = verify_key::<SlotValue>(storage_root, &hash_slot(key), proof)
            .map_err(|e| ProofError::Invalid(format!("slot {key:#x}: {e}")))?;
        let found = found.map_or(U256::ZERO, |found| found.0);
        if found != *value {
            return Err(ProofError::Invalid(format!(
                "slot {key:#x}: the proof shows {found:#x}, claimed is {value:#x}"
            )));
        }
    }
    let slots = storage_proof.iter().map(|slot| (slot.key, slot.value)).collect();
    Ok(Proven { address, exists: account.is_some(), nonce, balance, code_hash, slots })
}
