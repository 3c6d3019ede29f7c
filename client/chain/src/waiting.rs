//! Blocks that were executed and wait for their state root.
//!
//! A layer may compute the commitment of a block while the next ones are executed. Such a block is the parent of the
//! next one, but none of its rows is in the store before its root was compared with the header. If the two differ,
//! the block and all blocks on top of it are dropped.

use super::{
    Chain,
    candidate::{BlockStats, Candidate},
    db::{BlockRow, put_block, remove_side_block},
    error::{InsertError, Result},
    head::Head,
    switch::remove_switch,
    tables::SIGNERS,
    transactions::put_transactions,
};
use alloy_consensus::ReceiptEnvelope;
use alloy_primitives::{B256, U256};
use polytrie_consensus::check_state_root;
use polytrie_kv::Batch;
use polytrie_state::{FinishedLater, Outcome, PendingOutcome, WriteSet, put_preimages};
use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

/// A block that was executed and is valid but for its root, which is not known yet.
#[derive(Debug)]
pub(super) struct WaitingBlock {
    /// Parent of the block: the head if the block is invalid.
    pub(super) parent: Head,
    candidate: Candidate,
    total_difficulty: U256,
    receipts: Vec<ReceiptEnvelope>,
    outcome: Box<dyn PendingOutcome>,
    pub(super) writes: Arc<WriteSet>,
    /// Number of the oldest block of which the block asked for the hash.
    oldest_hash: Option<u64>,
}

/// A valid block that is not written yet. If it is dropped, the chain stays as it is.
#[derive(Debug)]
pub(super) struct VerifiedBlock {
    pub(super) candidate: Candidate,
    pub(super) total_difficulty: U256,
    receipts: Vec<ReceiptEnvelope>,
    outcome: Outcome,
    pub(super) writes: Arc<WriteSet>,
    oldest_hash: Option<u64>,
}

/// Changes of a block.
#[derive(Debug, Clone)]
pub struct BlockWrites {
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// Each value that differs from before the block, with its former value.
    pub writes: Arc<WriteSet>,
}

impl WaitingBlock {
    pub(super) fn new(
        parent: Head,
        candidate: Candidate,
        total_difficulty: U256,
        receipts: Vec<ReceiptEnvelope>,
        finished: FinishedLater,
        oldest_hash: Option<u64>,
    ) -> Self {
        let FinishedLater { outcome, writes, .. } = finished;
        Self { parent, candidate, total_difficulty, receipts, outcome, writes, oldest_hash }
    }
}

impl Chain {
    /// Waits until every inserted block is verified and written.
    ///
    /// # Errors
    ///
    /// [`InsertError::Invalid`] names the first block whose state root is not that of its header. It and its
    /// descendants are dropped; the head is the block before it. [`InsertError::Broken`] if the layer or the store
    /// failed.
    pub fn settle(&mut self) -> Result<(), InsertError> {
        self.settle_all(&mut BlockStats::default())
    }

    /// Does as [`Self::settle`], and adds the time that it took to `stats`.
    pub(super) fn settle_all(&mut self, stats: &mut BlockStats) -> Result<(), InsertError> {
        self.close_group(stats)?;
        while !self.waiting.is_empty() {
            self.settle_one(stats)?;
        }
        Ok(())
    }

    /// Writes blocks with a known root. Waits for the oldest ones while more blocks wait than the layer's depth.
    pub(super) fn settle_some(&mut self, stats: &mut BlockStats) -> Result<(), InsertError> {
        let depth = self.layer.depth();
        while self.waiting.len() > depth
            || self.waiting.front().is_some_and(|block| block.outcome.is_ready())
        {
            self.settle_one(stats)?;
        }
        Ok(())
    }

    /// Whether this block waits.
    pub(super) fn waits(&self, number: u64, hash: &B256) -> bool {
        let header = |block: &WaitingBlock| {
            block.candidate.header.number == number && block.candidate.header.hash() == *hash
        };
        self.waiting.iter().any(header)
            || self.group.as_ref().is_some_and(|group| group.has(number, hash))
    }

    fn settle_one(&mut self, stats: &mut BlockStats) -> Result<(), InsertError> {
        let Some(block) = self.waiting.pop_front() else { return Ok(()) };
        let parent = block.parent.clone();
        let Err(error) = self.write(block, stats) else { return Ok(()) };
        self.waiting.clear();
        self.head = parent;
        self.reload_recent()?;
        Err(error)
    }

    /// Compares the root of a block and writes the block.
    fn write(&mut self, block: WaitingBlock, stats: &mut BlockStats) -> Result<(), InsertError> {
        let verified = self.check_root(block, stats)?;
        Ok(self.write_verified(verified, stats)?)
    }

    /// Waits for the root of a block, and compares it.
    pub(super) fn check_root(
        &self,
        block: WaitingBlock,
        stats: &mut BlockStats,
    ) -> Result<VerifiedBlock, InsertError> {
        let start = Instant::now();
        let WaitingBlock {
            candidate,
            total_difficulty,
            receipts,
            outcome,
            writes,
            oldest_hash,
            ..
        } = block;
        let outcome = outcome.resolve()?;
        stats.state_commit += start.elapsed();
        if self.options.verify_roots
            && !self.options.partial_state
            && let Some(root) = outcome.commitment.as_state_root()
            && let Err(wrong) = check_state_root(&candidate.header, root)
        {
            // If the layer cannot discard the block, its error comes first.
            outcome.discard()?;
            return Err(candidate.invalid(wrong));
        }
        Ok(VerifiedBlock { candidate, total_difficulty, receipts, outcome, writes, oldest_hash })
    }

    /// Writes a valid block.
    pub(super) fn write_verified(
        &mut self,
        block: VerifiedBlock,
        stats: &mut BlockStats,
    ) -> Result<()> {
        let start = Instant::now();
        let VerifiedBlock {
            candidate,
            total_difficulty,
            receipts,
            mut outcome,
            writes,
            oldest_hash,
        } = block;
        let number = candidate.header.number;
        // The witness is made before the block is written, because a stored block is not executed again and would
        // never get its witness.
        let witness = outcome.witness.take();
        let witness =
            witness.map(|witness| self.witness_of(&candidate, oldest_hash, witness)).transpose()?;
        if self.options.keep_preimages {
            put_preimages(&mut outcome.batch, &writes);
        }
        stats.accept += self.write_valid(&candidate, total_difficulty, &receipts, outcome)?;
        self.witnesses.extend(witness);
        if self.options.keep_writes {
            self.written.push(BlockWrites { number, hash: candidate.header.hash(), writes });
        }
        stats.write += start.elapsed();
        Ok(())
    }

    /// Writes a valid block with all of its rows in one batch. Returns the time of the layer in making it the head.
    pub(super) fn write_valid(
        &mut self,
        candidate: &Candidate,
        total_difficulty: U256,
        receipts: &[ReceiptEnvelope],
        mut outcome: Outcome,
    ) -> Result<Duration> {
        let Outcome { batch, undo, .. } = &mut outcome;
        self.put_valid(batch, candidate, total_difficulty, receipts, undo);
        let header = &candidate.header;
        self.drop_old_undo(batch, header.number, &header.hash())?;
        self.db.store().write(mem::take(batch))?;
        let start = Instant::now();
        outcome.accept()?;
        let accept = start.elapsed();
        self.report_horizon(header.number);
        Ok(accept)
    }

    /// Adds the rows of a block to a batch.
    pub(super) fn put_valid(
        &self,
        batch: &mut Batch,
        candidate: &Candidate,
        total_difficulty: U256,
        receipts: &[ReceiptEnvelope],
        undo: &[u8],
    ) {
        let number = candidate.header.number;
        let hash = candidate.header.hash();
        let rlp = &candidate.rlp;
        let header = candidate.header.inner();
        put_block(batch, &BlockRow { number, hash, total_difficulty, header, rlp, receipts, undo });
        if self.switch.is_some_and(|switch| switch.to == hash) {
            remove_switch(batch);
        }
        if self.sides.may_have(&hash) {
            remove_side_block(batch, &hash);
        }
        if let Some(row) = &candidate.signers {
            batch.put(SIGNERS, &number.to_be_bytes(), row);
        }
        if self.options.index_transactions {
            put_transactions(batch, &candidate.block, &hash);
        }
    }
}
