//! Witnesses: blocks with everything that their execution needs, so that no state is required.

use super::{
    Chain,
    candidate::Candidate,
    error::{ChainError, Result},
    recent::BLOCK_HASHES,
};
use alloy_primitives::{B256, Bytes};
use polytrie_state::{StateError, StateLayer, Stateless, Witness};

/// A block of the chain with everything that is needed to execute and verify it without state.
#[derive(Debug, Clone)]
pub struct BlockWitness {
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// RLP of the block.
    pub rlp: Bytes,
    /// RLP of the headers before it, from the parent back to the oldest one whose hash the block asked for.
    pub ancestors: Vec<Bytes>,
    /// Part of the state that the block needs.
    pub witness: Witness,
}

/// Returns the layer's interface for witnesses, or an error if it makes none while blocks run.
pub(super) fn witness_maker(layer: &dyn StateLayer) -> Result<&dyn Stateless, StateError> {
    layer.stateless().ok_or_else(|| StateError::Unsupported {
        layer: layer.name(),
        reason: "makes no witnesses of blocks as they are executed".into(),
    })
}

impl Chain {
    /// Returns the witnesses of the blocks that were executed since the last call, oldest first. It is empty without
    /// [`ChainOptions::witness_levels`](super::ChainOptions::witness_levels).
    pub fn take_witnesses(&mut self) -> Vec<BlockWitness> {
        std::mem::take(&mut self.witnesses)
    }

    /// Returns a block's witness, made from the layer's part and the headers. `oldest` is the oldest block whose hash
    /// the block asked for.
    pub(super) fn witness_of(
        &self,
        candidate: &Candidate,
        oldest: Option<u64>,
        witness: Witness,
    ) -> Result<BlockWitness> {
        let number = candidate.header.number;
        let mut ancestors = Vec::new();
        for before in (oldest.unwrap_or(number - 1)..number).rev() {
            let head = self.db.block_head(before).map_err(|error| match error {
                ChainError::NotHere { start, .. } => {
                    let what = format!(
                        "the witness of block {number} has the header of block {before}, which is not known"
                    );
                    ChainError::BeforeStart { what, start, needed: BLOCK_HASHES + 1 }
                }
                other => other,
            })?;
            ancestors.push(alloy_rlp::encode(head.header.inner()).into());
        }
        let (hash, rlp) = (candidate.header.hash(), candidate.rlp.clone());
        Ok(BlockWitness { number, hash, rlp, ancestors, witness })
    }
}
