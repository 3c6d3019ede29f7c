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
        let malformed = |error: commonware_codec::Error| ProofError::Malformed(error.to_string());
        let (proof, key, root) = (self.0.to_vec(), DbKey::new(key), Digest(root.0));
        let holds = match value {
            Some(value) => {
                let proof = Presence::decode_cfg(proof, &(DIGESTS, ())).map_err(malformed)?;
                proof.verify::<Blake3, DbValue>(key, value, &root)
            }
            None => {
                let values = (RangeCfg::from(1..=VALUE), ());
                let config = (DIGESTS, ((), values), values);
                let proof = Absence::decode_cfg(proof, &config).map_err(malformed)?;
                proof.verify::<Blake3>(&key, &root)
            }
        };
        match holds {
            true => Ok(()),
            false => Err(ProofError::Invalid(
                "an operation does not lead to the root, or says something else".into(),
            )),
        }
    }
}
