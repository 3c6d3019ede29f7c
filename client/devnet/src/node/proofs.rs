//! Proofs and witnesses of past blocks.
//!
//! All of them are made on a fork of the layer. The chain is locked only to check that the block belongs to it, and to
//! make the fork.

use super::Node;
use crate::{NodeError, PendingBlock, Result};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chain::executor::sandbox::Seen;
use polytrie_chain::{ChainDb, ChainError, layer_at};
use polytrie_layers as layers;
use polytrie_state::{
    BlockRef, Commitment, Finished, Fork, Proof, Session, hash_address, hash_slot, put_preimages,
};
use std::time::Instant;

impl Node {
    /// Makes a proof of the state after a block, in the form of the layer. Returns it with the commitment against which
    /// it verifies. `deadline` limits the time until the state of the block is restored.
    ///
    /// # Errors
    ///
    /// If the block was reverted, the layer makes no proofs, the undo records back to the block are not kept any more
    /// or take longer than `deadline`, or the store fails.
    pub fn prove(
        &self,
        block: BlockRef,
        address: &Address,
        slots: &[U256],
        deadline: Option<Instant>,
    ) -> Result<(Proof, Commitment)> {
        let past = self.fork_after(block, deadline)?.layer;
        Ok((layers::proofs(&*past)?.prove(address, slots)?, past.commitment()))
    }

    /// Returns the state root before a block, and the trie nodes for a stateless execution of it that reads the
    /// accounts and slots in `seen`.
    ///
    /// # Errors
    ///
    /// If the block was reverted, the undo records back to it are not kept any more or take longer than `deadline`, the
    /// layer makes no witnesses, or the store fails.
    pub fn witness(
        &self,
        block: BlockRef,
        seen: &Seen,
        deadline: Option<Instant>,
    ) -> Result<(B256, Vec<Bytes>)> {
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

    /// Returns a separate layer in the state after a block. Changes to it do not affect the node's layer.
    pub(super) fn fork_after(&self, block: BlockRef, deadline: Option<Instant>) -> Result<Fork> {
        let (fork, _) = self.fork_with(block, deadline)?;
        let store = fork.store.clone();
        Ok(Fork { layer: layer_at(fork, block.number, deadline)?, store })
    }

    /// Returns a separate layer in the state after a pending block, with the addresses and slots that the block adds. It is made
    /// anew for each page, since forks must end soon: while there is one, nomt commits no block and cannot be filled anew, and
    /// one of qmdb has a copy of the files.
    pub(super) fn fork_after_pending(
        &self,
        pending: &PendingBlock,
        deadline: Option<Instant>,
    ) -> Result<Fork> {
        let parent = pending.parent();
        let fork = self.fork_after(parent, deadline)?;
        let mut session = Session::begin(&*fork.layer, parent)?;
        session.apply(&pending.changes)?;
        let Finished { mut outcome, writes, .. } = session.finish()?;
        put_preimages(&mut outcome.batch, &writes);
        outcome.write(&fork.store)?;
        Ok(fork)
    }

    /// Returns a fork of the layer at the head of a chain that has this block, and the number of the head.
    fn fork_with(&self, block: BlockRef, deadline: Option<Instant>) -> Result<(Fork, u64)> {
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
