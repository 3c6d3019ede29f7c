//! Proofs in the form of `eth_getProof` (EIP-1186), made and verified through alloy-trie.

use super::Oracle;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U64, U256};
use alloy_rlp::encode;
use alloy_trie::{
    EMPTY_ROOT_HASH, HashBuilder, Nibbles, TrieAccount,
    proof::{ProofRetainer, verify_proof},
};
use polytrie_state::{Account, Commitment, Proof, ProofError, hash_address, hash_slot};
use serde::{Deserialize, Serialize};

/// The result of `eth_getProof` (EIP-1186).
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AccountProof {
    address: Address,
    account_proof: Vec<Bytes>,
    balance: U256,
    code_hash: B256,
    nonce: U64,
    storage_hash: B256,
    storage_proof: Vec<StorageProof>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StorageProof {
    key: U256,
    value: U256,
    proof: Vec<Bytes>,
}

impl Oracle {
    /// Returns a proof of an account and some of its slots, present or absent.
    ///
    /// # Errors
    ///
    /// If the proof cannot be serialised.
    pub fn prove(
        &self,
        layer: &str,
        address: &Address,
        slots: &[U256],
    ) -> Result<Proof, serde_json::Error> {
        let hash = hash_address(address);
        let leaves = self.accounts.iter().map(|(hash, entry)| (hash, entry.leaf()));
        let account_proof = prove(leaves, &hash);
        let entry = self.accounts.get(&hash);
        let storage_proof = slots.iter().map(|slot| {
            let leaves = entry.iter().flat_map(|entry| entry.slots.iter());
            StorageProof {
                key: *slot,
                value: self.slot(address, slot),
                proof: prove(leaves.map(|(hash, value)| (hash, encode(value))), &hash_slot(slot)),
            }
        });
        let account = entry.map_or_else(Account::default, |entry| entry.account);
        let proof = serde_json::to_value(AccountProof {
            address: *address,
            account_proof,
            balance: account.balance,
            code_hash: account.code_hash,
            nonce: U64::from(account.nonce),
            storage_hash: entry.map_or(EMPTY_ROOT_HASH, super::OracleAccount::storage_root),
            storage_proof: storage_proof.collect(),
        })?;
        Ok(Proof { layer: layer.to_owned(), proof })
    }
}

fn prove<'a>(leaves: impl Iterator<Item = (&'a B256, Vec<u8>)>, key: &B256) -> Vec<Bytes> {
    let retainer = ProofRetainer::new(vec![Nibbles::unpack(key)]);
    let mut trie = HashBuilder::default().with_proof_retainer(retainer);
    for (hash, value) in leaves {
        trie.add_leaf(Nibbles::unpack(hash), &value);
    }
    if trie.root() == EMPTY_ROOT_HASH {
        return Vec::new();
    }
    let nodes = trie.take_proof_nodes().into_nodes_sorted().into_iter().map(|(_, node)| node);
    // A node of fewer than 32 bytes is embedded in its parent and is no separate node in a proof, except for the
    // root, which has no parent.
    nodes
        .enumerate()
        .filter(|(n, node)| *n == 0 || node.len() >= 32)
        .map(|(_, node)| node)
        .collect()
}

/// Verifies a proof in the form of `eth_getProof` against a state root. Returns the account and the slots it proves,
/// in the order of the request.
///
/// It is independent of every layer, so the proofs of a layer with state roots are verified with it in addition to
/// the layer's own verification. A trie without leaves has a proof without nodes, as geth answers. For an absent
/// account the nonce, balance and hashes must be those of an empty account (zero hashes, as some clients write, are
/// accepted).
///
/// # Errors
///
/// [`ProofError::Malformed`] if it is not a proof of this form, [`ProofError::Invalid`] if it does not hold.
pub fn verify_eip1186(
    commitment: &Commitment,
    address: &Address,
    slots: &[U256],
    proof: &Proof,
) -> Result<(Option<Account>, Vec<U256>), ProofError> {
    let invalid = |what: &str| ProofError::Invalid(what.to_owned());
    let found: AccountProof = serde_json::from_value(proof.proof.clone())
        .map_err(|e| ProofError::Malformed(e.to_string()))?;
    let root = commitment.as_state_root().ok_or_else(|| invalid("there is no state root"))?;
    if found.address != *address {
        return Err(ProofError::Invalid(format!(
            "it is about {}, expected {address}",
            found.address
        )));
    }
    if !found.storage_proof.iter().map(|slot| &slot.key).eq(slots) {
        return Err(invalid("it is about other slots"));
    }

    let account =
        Account { nonce: found.nonce.to(), balance: found.balance, code_hash: found.code_hash };
    let leaf = TrieAccount {
        nonce: account.nonce,
        balance: account.balance,
        storage_root: found.storage_hash,
        code_hash: account.code_hash,
    };
    let hash = hash_address(address);
    let present = holds(root, hash, Some(encode(leaf)), &found.account_proof).is_ok();
    if !present {
        holds(root, hash, None, &found.account_proof)?;
        let no_code = [B256::ZERO, KECCAK256_EMPTY].contains(&account.code_hash);
        let no_slots = [B256::ZERO, EMPTY_ROOT_HASH].contains(&found.storage_hash);
        if account.nonce != 0 || !account.balance.is_zero() || !no_code || !no_slots {
            return Err(invalid("it proves that the account is absent, and says what it holds"));
        }
    }
    let storage_root = if present { found.storage_hash } else { EMPTY_ROOT_HASH };
    for slot in &found.storage_proof {
        let value = (!slot.value.is_zero()).then(|| encode(slot.value));
        holds(storage_root, hash_slot(&slot.key), value, &slot.proof)?;
    }
    let values = found.storage_proof.iter().map(|slot| slot.value).collect();
    Ok((present.then_some(account), values))
}

/// Whether the nodes prove that `key` has this value, or none. The proof of an empty trie has no nodes.
fn holds(root: B256, key: B256, value: Option<Vec<u8>>, nodes: &[Bytes]) -> Result<(), ProofError> {
    if root == EMPTY_ROOT_HASH && !nodes.is_empty() {
        return Err(ProofError::Invalid("an empty trie has no nodes".to_owned()));
    }
    verify_proof(root, Nibbles::unpack(key), value, nodes)
        .map_err(|e| ProofError::Invalid(e.to_string()))
}
