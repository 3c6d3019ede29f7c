//! Proofs and witnesses of the blocks that are kept.

use super::Node;
use crate::{chain::layer_at, devnet::NodeError, executor::sandbox::Seen};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_state::{Commitment, Proof, hash_address, hash_slot};

impl Node {
    /// A proof of the state after a block, in the form of the layer, and the commitment that it holds against.
    ///
    /// # Errors
    ///
    /// If the layer makes none, the way back to the block is not kept any more, or the store fails.
    pub fn prove(
        &self,
        number: u64,
        address: &Address,
        slots: &[U256],
    ) -> Result<(Proof, Commitment), NodeError> {
        let fork = {
            // No block may come in between.
            let chain = self.chain.lock();
            if chain.head().number() == number {
                return Ok((self.layer.prove(address, slots)?, self.layer.commitment()));
            }
            self.layer.fork()?
        };
        let past = layer_at(fork, number)?;
        Ok((past.prove(address, slots)?, past.commitment()))
    }

    /// State root before a block, and the nodes that it takes to execute it without the state, if it reads what was
    /// `seen`.
    ///
    /// # Errors
    ///
    /// If the way back to it is not kept any more, the layer makes no witnesses, or the store fails.
    pub fn witness(&self, number: u64, seen: &Seen) -> Result<(B256, Vec<Bytes>), NodeError> {
        let touched = seen
            .accounts
            .iter()
            .map(|(address, slots)| (hash_address(address), slots.iter().map(hash_slot).collect()));
        let touched = touched.collect();
        let chain = self.chain.lock();
        let mut back = Vec::new();
        for number in (number..=chain.head().number()).rev() {
            back.push(chain.undo_writes(number)?);
        }
        Ok(self.layer.witness(&back, &touched)?)
    }
}
