//! Proofs: the siblings on the way to a key, and what stands at its end.
//!
//! ```text
//! the key is there      its own leaf, which follows from the claim
//! it is not             the leaf of another key that parts from it below, or nothing
//! ```

use crate::{
    FLAT, NAME,
    keys::{slot_path, slot_row},
    root::{bit, leaf, shared_bits},
    tree::{Session, run},
};
use alloy_primitives::{Address, B256, U64, U256};
use nomt::{
    hasher::{Blake3Hasher, NodeHasher, ValueHasher},
    proof::{PathProof, PathProofTerminal},
    trie::{InternalData, KeyPath, Node, TERMINATOR},
};
use polytrie_kv::Read;
use polytrie_state::{
    Account, Proof, ProofError, Proven, StateError,
    flat::{encode_account, encode_value},
    hash_address, hash_slot,
};
use serde::{Deserialize, Serialize};

/// What the layer hands out, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    address: Address,
    /// Whether the account exists; if not, the next three are those of an empty one.
    exists: bool,
    nonce: U64,
    balance: U256,
    code_hash: B256,
    account_proof: Way,
    storage_proof: Vec<Slot>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slot {
    key: U256,
    value: U256,
    proof: Way,
}

/// The way from the root to a key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    /// What stands beside it, from the top down.
    siblings: Vec<B256>,
    /// The leaf of another key at its end, if that is what shows that the key is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<Other>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Other {
    key: B256,
    value_hash: B256,
}

/// Makes a proof. `rows` and `session` must be of the same state.
pub(crate) fn prove(
    rows: &dyn Read,
    session: &Session,
    address: &Address,
    slots: &[U256],
) -> Result<Proof, StateError> {
    let (hash, mut buffer) = (hash_address(address), Vec::new());
    let account = FLAT.account(rows, &hash, &mut buffer)?;
    let mut storage_proof = Vec::with_capacity(slots.len());
    for slot in slots {
        let slot_hash = hash_slot(slot);
        let value = FLAT.slot(rows, &hash, &slot_hash, &mut buffer)?;
        let proof = Way::to(session, slot_path(&slot_row(&hash, &slot_hash)))?;
        storage_proof.push(Slot { key: *slot, value, proof });
    }
    let shown = account.unwrap_or_default();
    let body = Body {
        address: *address,
        exists: account.is_some(),
        nonce: U64::from(shown.nonce),
        balance: shown.balance,
        code_hash: shown.code_hash,
        account_proof: Way::to(session, hash.0)?,
        storage_proof,
    };
    let proof = serde_json::to_value(body)
        .map_err(|e| StateError::Corrupt(format!("a proof does not serialise: {e}")))?;
    Ok(Proof { layer: NAME.to_owned(), proof })
}

/// Checks a proof of this layer against the digest of a commitment; no layer is needed.
///
/// # Errors
///
/// If it is no proof of this layer, or does not lead to the digest.
pub fn verify(digest: B256, proof: &Proof) -> Result<Proven, ProofError> {
    let malformed = |e: serde_json::Error| ProofError::Malformed(e.to_string());
    let body: Body = serde_json::from_value(proof.proof.clone()).map_err(malformed)?;
    let Body { address, exists, nonce, balance, code_hash, account_proof, storage_proof } = body;
    let account = Account { nonce: nonce.to(), balance, code_hash };
    if !exists && account != Account::default() {
        return Err(ProofError::Invalid("an account that is not there has values".into()));
    }
    let hash = hash_address(&address);
    let row = exists.then(|| {
        let mut row = Vec::with_capacity(73);
        encode_account(&account, &mut row);
        row
    });
    account_proof.verify(digest, hash.0, row.as_deref())?;
    for Slot { key, value, proof } in &storage_proof {
        let mut row = Vec::with_capacity(32);
        encode_value(value, &mut row);
        let path = slot_path(&slot_row(&hash, &hash_slot(key)));
        proof.verify(digest, path, (!row.is_empty()).then_some(&row[..]))?;
    }
    let slots = storage_proof.iter().map(|slot| (slot.key, slot.value)).collect();
    Ok(Proven { address, exists, nonce: account.nonce, balance, code_hash, slots })
}

impl Way {
    fn to(session: &Session, key: KeyPath) -> Result<Self, StateError> {
        let PathProof { terminal, siblings } = run("prove", || session.prove(key))?;
        let other = match terminal {
            PathProofTerminal::Leaf(leaf) if leaf.key_path != key => {
                Some(Other { key: leaf.key_path.into(), value_hash: leaf.value_hash.into() })
            }
            _ => None,
        };
        Ok(Self { siblings: siblings.into_iter().map(B256::new).collect(), other })
    }

    /// Whether it shows that a key has this value, or none.
    fn verify(&self, root: B256, key: KeyPath, value: Option<&[u8]>) -> Result<(), ProofError> {
        let refused = |reason: &str| Err(ProofError::Invalid(reason.to_owned()));
        if self.siblings.len() > 256 {
            return refused("the way to a key is longer than the key");
        }
        let end = match (value, &self.other) {
            (Some(_), Some(_)) => return refused("the leaf of another key stands for a value"),
            (Some(value), None) => leaf(key, Blake3Hasher::hash_value(value)),
            (None, None) => TERMINATOR,
            (None, Some(other)) => {
                if other.key.0 == key || shared_bits(&other.key.0, &key) < self.siblings.len() {
                    return refused("the leaf of another key is not on the way to the key");
                }
                leaf(other.key.0, other.value_hash.0)
            }
        };
        match climb(end, &key, &self.siblings) == root.0 {
            true => Ok(()),
            false => refused("the way to a key does not lead to the root"),
        }
    }
}

/// The root over a node at the end of the way to a key.
fn climb(mut node: Node, key: &KeyPath, siblings: &[B256]) -> Node {
    for (level, sibling) in siblings.iter().enumerate().rev() {
        let (left, right) = if bit(key, level) { (sibling.0, node) } else { (node, sibling.0) };
        node = Blake3Hasher::hash_internal(&InternalData { left, right });
    }
    node
}

/// Whether the trie has exactly this value under a key, on a way that leads to the root, and among its values.
pub(crate) fn holds(
    session: &Session,
    root: B256,
    key: KeyPath,
    value: &[u8],
) -> Result<bool, StateError> {
    let way = Way::to(session, key)?;
    let found = run("read", || session.read(key))?;
    Ok(way.verify(root, key, Some(value)).is_ok() && found.as_deref() == Some(value))
}
