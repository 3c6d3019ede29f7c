//! Proofs and witnesses of the blocks that are kept.
//!
//! All of them are made on a fork of the layer: the chain is held only for as long as it takes to see that the block is
//! part of it and to make the fork.

use super::Node;
use crate::NodeError;
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chain::executor::sandbox::Seen;
use polytrie_chain::{ChainDb, ChainError, layer_at};
use polytrie_layers as layers;
use polytrie_state::{BlockRef, Commitment, Fork, Proof, StateLayer, hash_address, hash_slot};
use std::{sync::Arc, time::Instant};

impl Node {
    /// A proof of the state after a block, in the form of the layer, and the commitment that it holds against. It is
    /// begun before `deadline`, if there is one, or not at all.
    ///
    /// # Errors
    ///
    /// If the block was taken back, the layer makes no proofs, the way back to the block is not kept any more or takes
    /// too long, or the store fails.
    pub fn prove(
        &self,
        block: BlockRef,
        address: &Address,
        slots: &[U256],
        deadline: Option<Instant>,
    ) -> Result<(Proof, Commitment), NodeError> {
        let past = self.layer_after(block, deadline)?;
        Ok((layers::proofs(&*past)?.prove(address, slots)?, past.commitment()))
    }

    /// State root before a block, and the nodes that it takes to execute it without the state, if it reads what was
    /// `seen`.
    ///
    /// # Errors
    ///
    /// If the block was taken back, the way back to it is not kept any more, the layer makes no witnesses, or the store
    /// fails.
    pub fn witness(
        &self,
        block: BlockRef,
        seen: &Seen,
        deadline: Option<Instant>,
    ) -> Result<(B256, Vec<Bytes>), NodeError> {
        let touched = seen
            .accounts
            .iter()
            .map(|(address, slots)| (hash_address(address), slots.iter().map(hash_slot).collect()));
        let touched = touched.collect();
        let (fork, head) = self.fork_with(block, deadline)?;
        let db = ChainDb::new(fork.store.clone());
        let mut back = Vec::new();
        for number in (block.number..=head).rev() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let asked = block.number;
                return Err(ChainError::TooLong { asked, head, reached: number }.into());
            }
            back.push(db.undo_writes(&*fork.layer, number)?);
        }
        Ok(layers::past_witnesses(&*fork.layer)?.past_witness(&back, &touched)?)
    }

    /// The layer as it was after a block, by itself: what is done with it changes nothing else.
    pub(super) fn layer_after(
        &self,
        block: BlockRef,
        deadline: Option<Instant>,
    ) -> Result<Arc<dyn StateLayer>, NodeError> {
        let (fork, _) = self.fork_with(block, deadline)?;
        Ok(layer_at(fork, block.number, deadline)?)
    }

    /// A fork of the layer at the head of a chain that has this block, and the head's number.
    fn fork_with(
        &self,
        block: BlockRef,
        deadline: Option<Instant>,
    ) -> Result<(Fork, u64), NodeError> {
        let mut chain = match deadline {
            None => self.chain.lock(),
            Some(deadline) => self.chain.try_lock_until(deadline).ok_or(NodeError::Busy)?,
        };
        let BlockRef { number, hash } = block;
        if self.db.canonical(number)?.is_none_or(|(found, _)| found != hash) {
            return Err(NodeError::TakenBack { number, hash });
        }
        Ok((chain.fork_layer()?, chain.head().number()))
    }
}
