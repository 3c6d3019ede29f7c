//! The proof of a key: the operation that last wrote its value, or the one that names the key's successor.
//!
//! ```text
//! the key is there      update of this key, its value and the key after it    at a place of the log, with the bits that say
//! it is not             update of the key before it, which names one after it   which operations there are active, and the
//!                       or, where there are no keys, the last commit            nodes beside the way to the root
//! ```
//!
//! They are the crate's own proofs, in its encoding, and its code verifies them.

use crate::tree::{CHUNK, DbKey, DbValue, VALUE};
use alloy_primitives::{B256, Bytes};
use commonware_codec::{Decode, RangeCfg};
use commonware_cryptography::{Blake3, blake3::Digest};
use commonware_storage::{
    mmr::{Family, MAX_PROOF_DIGESTS_PER_ELEMENT},
    qmdb::current::ordered::proof::constant::{ExclusionProof, KeyValueProof},
};
use polytrie_state::{
    ProofError,
    foreign::{self, Key},
};
use serde::{Deserialize, Serialize};

/// Largest number of nodes of a proof.
const DIGESTS: usize = MAX_PROOF_DIGESTS_PER_ELEMENT;

type Presence = KeyValueProof<Family, DbKey, Digest, CHUNK>;
type Absence = ExclusionProof<Family, DbKey, DbValue, Digest, CHUNK>;

/// The proof of a key, in the crate's encoding.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Way(pub(crate) Bytes);

impl foreign::Way for Way {
    fn verify(&self, root: B256, key: Key, value: Option<Vec<u8>>) -> Result<(), ProofError> {
        holds(root, key, value, &self.0).map(drop)
    }
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

/// Whether a proof shows that a key has this value, or is absent. Returns the next key, if it has the value.
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
