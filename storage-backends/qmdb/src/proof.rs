//! Proofs: of each key the operation that wrote its value last, or the one that says which key comes next.
//!
//! ```text
//! the key is there      update of this key, its value and the key after it    at a place of the log, with the bits that say
//! it is not             update of the key before it, which names one after it   which operations there are active, and the
//!                       or, where there are no keys, the last commit            nodes beside the way to the root
//! ```
//!
//! They are the crate's own, in its encoding, and its code verifies them.

use crate::{
    FLAT, NAME,
    keys::{Key, slot_key},
    trail::Trail,
    tree::{CHUNK, DbKey, DbValue, Tree, VALUE},
};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use commonware_codec::{Decode, RangeCfg};
use commonware_cryptography::{Blake3, blake3::Digest};
use commonware_storage::{
    mmr::{Family, MAX_PROOF_DIGESTS_PER_ELEMENT},
    qmdb::current::ordered::proof::constant::{ExclusionProof, KeyValueProof},
};
use polytrie_kv::{Read, Store};
use polytrie_state::{
    Account, Proof, ProofError, Proven, StateError,
    flat::{encode_account, encode_value},
    hash_address, hash_slot,
};
use serde::{Deserialize, Serialize};

/// Nodes that a proof may have.
const DIGESTS: usize = MAX_PROOF_DIGESTS_PER_ELEMENT;

type Presence = KeyValueProof<Family, DbKey, Digest, CHUNK>;
type Absence = ExclusionProof<Family, DbKey, DbValue, Digest, CHUNK>;

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
    account_proof: Bytes,
    storage_proof: Vec<Slot>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slot {
    key: U256,
    value: U256,
    proof: Bytes,
}

/// Makes a proof of the state at the end of the trail, which that of `rows` is; `None` if the database has gone on.
pub(crate) fn prove(
    rows: &dyn Read,
    tree: &Tree,
    trail: &Trail,
    store: &Store,
    (address, slots): (&Address, &[U256]),
) -> Result<Option<Proof>, StateError> {
    let (hash, mut buffer) = (hash_address(address), Vec::new());
    let account = FLAT.account(rows, &hash, &mut buffer)?;
    let mut keys = vec![hash.0];
    keys.extend(slots.iter().map(|slot| slot_key(&hash, &hash_slot(slot))));
    let Some(proofs) = tree.prove(trail, store, keys)? else { return Ok(None) };
    let mut proofs = proofs.into_iter().map(Bytes::from);
    let account_proof = proofs.next().unwrap_or_default();
    let mut storage_proof = Vec::with_capacity(slots.len());
    for (slot, proof) in slots.iter().zip(proofs) {
        let value = FLAT.slot(rows, &hash, &hash_slot(slot), &mut buffer)?;
        storage_proof.push(Slot { key: *slot, value, proof });
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
    let proof = serde_json::to_value(body)
        .map_err(|e| StateError::Corrupt(format!("a proof does not serialise: {e}")))?;
    Ok(Some(Proof { layer: NAME.to_owned(), proof }))
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
    holds(digest, hash.0, row, &account_proof)?;
    for Slot { key, value, proof } in &storage_proof {
        let mut row = Vec::with_capacity(32);
        encode_value(value, &mut row);
        let row = (!row.is_empty()).then_some(row);
        holds(digest, slot_key(&hash, &hash_slot(key)), row, proof)?;
    }
    let slots = storage_proof.iter().map(|slot| (slot.key, slot.value)).collect();
    Ok(Proven { address, exists, nonce: account.nonce, balance, code_hash, slots })
}

/// Whether a proof shows that there are no keys.
pub(crate) fn is_of_nothing(root: B256, proof: &[u8]) -> bool {
    let proof = absence(proof).ok().filter(|proof| matches!(proof, ExclusionProof::Commit(..)));
    proof.is_some_and(|proof| proof.verify::<Blake3>(&DbKey::new(Key::default()), &Digest(root.0)))
}

fn absence(proof: &[u8]) -> Result<Absence, ProofError> {
    let values = (RangeCfg::from(1..=VALUE), ());
    let config = (DIGESTS, ((), values), values);
    Absence::decode_cfg(proof.to_vec(), &config).map_err(|e| ProofError::Malformed(e.to_string()))
}

/// Whether a proof shows that a key has this value, or none. Returns the key that comes next, if it has one.
pub(crate) fn holds(
    root: B256,
    key: Key,
    value: Option<Vec<u8>>,
    proof: &[u8],
) -> Result<Option<Key>, ProofError> {
    let malformed = |error: commonware_codec::Error| ProofError::Malformed(error.to_string());
    let (key, root) = (DbKey::new(key), Digest(root.0));
    let (holds, next) = match value {
        Some(value) => {
            let proof = Presence::decode_cfg(proof.to_vec(), &(DIGESTS, ())).map_err(malformed)?;
            let next = Key::try_from(&*proof.next_key).ok();
            (proof.verify::<Blake3, DbValue>(key, value, &root), next)
        }
        None => (absence(proof)?.verify::<Blake3>(&key, &root), None),
    };
    if holds {
        return Ok(next);
    }
    Err(ProofError::Invalid(
        "an operation does not lead to the root, or says something else".into(),
    ))
}
