//! The proof that a block belongs to the chain.

use alloy_primitives::B256;
use alloy_rlp::{Decodable, Header};

use crate::e2store::{E2StoreProblem, is_accumulated};

/// Type of a proof that leads to the accumulator of its file.
const HISTORICAL_HASHES_ACCUMULATOR: u64 = 0;

/// Checks the proof in a record, `[type, proof]`, of the block with this hash at `index` in its file. Proofs of other
/// types lead to roots of the consensus layer, which this program does not know, so they are not checked.
pub(super) fn check_proof(
    record: &[u8],
    block_hash: B256,
    index: u64,
    accumulator: Option<B256>,
) -> Result<(), E2StoreProblem> {
    let (kind, proof) = split(record).map_err(|error| E2StoreProblem::Proof(error.to_string()))?;
    if kind != HISTORICAL_HASHES_ACCUMULATOR {
        return Ok(());
    }
    let hashes: Vec<B256> = match proof.as_chunks::<32>() {
        (hashes, []) => hashes.iter().map(B256::from).collect(),
        _ => Vec::new(),
    };
    let Ok(hashes) = <[B256; 15]>::try_from(hashes) else {
        let text = format!("it is {} bytes long, 480 were expected of one of type 0", proof.len());
        return Err(E2StoreProblem::Proof(text));
    };
    match accumulator {
        Some(root) if !is_accumulated(block_hash, index, &hashes, root) => {
            Err(E2StoreProblem::NotProven { accumulator: root })
        }
        _ => Ok(()),
    }
}

/// Splits a record into the type of the proof and the proof.
fn split(mut record: &[u8]) -> alloy_rlp::Result<(u64, &[u8])> {
    let mut fields = Header::decode_bytes(&mut record, true)?;
    let kind = u64::decode(&mut fields)?;
    let proof = Header::decode_bytes(&mut fields, false)?;
    match record.is_empty() && fields.is_empty() {
        true => Ok((kind, proof)),
        false => Err(alloy_rlp::Error::Custom("something follows it")),
    }
}
