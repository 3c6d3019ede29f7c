//! Groups of blocks with one state root for the whole group, as clients that execute in stages have them.
//!
//! Everything but the root is checked block by block, and each block has its undo record. If the group's root is not
//! that of its last block, the group is dropped and its blocks are executed again one by one, each with its root: that
//! shows the invalid block. A group is one write, so the store holds verified blocks only.

use super::{
    BlockWrites, Chain,
    candidate::{BlockStats, Candidate},
    error::{ChainError, InsertError},
    execute::Execution,
    head::Head,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bytes, U256};
use polytrie_chainspec::Rules;
use polytrie_consensus::{Ancestor, check_state_root, decode::EncodedReceipts};
use polytrie_kv::Batch;
use polytrie_state::{CommitmentKind, Group, WriteSet, put_preimages};
use std::{sync::Arc, time::Instant};

/// Size at which a group ends, in bytes of memory.
const GROUP_BYTES: usize = 128 << 20;

/// Blocks that were executed and are valid but for their roots.
#[derive(Debug)]
pub(super) struct OpenGroup {
    /// Parent of the first block: the head as long as the group is open.
    pub(super) parent: Head,
    group: Group,
    blocks: Vec<Grouped>,
    /// Rows of the group's blocks.
    rows: Batch,
}

/// A block of the group, with the parts that a second execution needs.
#[derive(Debug)]
struct Grouped {
    hash: B256,
    rlp: Bytes,
    receipts: Option<EncodedReceipts>,
    total_difficulty: Option<U256>,
    /// Changes of the block, if the chain keeps them for its caller.
    writes: Option<Arc<WriteSet>>,
}

impl OpenGroup {
    /// Whether the group has this block.
    pub(super) fn has(&self, number: u64, hash: &B256) -> bool {
        let position = number.checked_sub(self.parent.number() + 1).map(usize::try_from);
        let Some(Ok(position)) = position else { return false };
        self.blocks.get(position).is_some_and(|block| block.hash == *hash)
    }

    fn is_full(&self, most: u64) -> bool {
        self.blocks.len() as u64 >= most || self.rows.byte_len() + self.group.bytes() >= GROUP_BYTES
    }
}

impl Chain {
    /// Whether this block can share its root with others. Before Byzantium each receipt holds a state root, so such a
    /// block cannot.
    pub(super) fn goes_into_group(&self, rules: &Rules<'_>, candidate: &Candidate) -> bool {
        self.options.verify_roots
            && self.options.verify_every > 1
            && self.layer.commitment().kind() == CommitmentKind::StateRoot
            && (rules.is(EthereumHardfork::Byzantium)
                || candidate.block.body.transactions.is_empty())
    }

    /// Executes a block with checked header and body as the next one of the group.
    pub(super) fn extend_group(
        &mut self,
        rules: &Rules<'_>,
        candidate: Candidate,
        stats: &mut BlockStats,
    ) -> Result<(), InsertError> {
        let mut open = match self.group.take() {
            Some(open) => open,
            None => {
                self.settle()?;
                let parent = self.head.clone();
                let store = self.db.store().clone();
                let group = Group::begin(Arc::clone(&self.layer), store, parent.block_ref())?;
                OpenGroup { parent, group, blocks: Vec::new(), rows: Batch::new() }
            }
        };
        if let Err(error) = self.execute_in(&mut open, rules, candidate, stats) {
            // An error of this block counts only if the blocks before it are valid. The layer may have seen a part of
            // this block, so the group is executed again without it.
            let OpenGroup { parent, group, blocks, .. } = open;
            drop(group);
            self.verify_each(parent, blocks)?;
            return Err(error);
        }
        let full = open.is_full(self.options.verify_every);
        self.group = Some(open);
        if full { self.close_group(stats) } else { Ok(()) }
    }

    fn execute_in(
        &mut self,
        open: &mut OpenGroup,
        rules: &Rules<'_>,
        candidate: Candidate,
        stats: &mut BlockStats,
    ) -> Result<(), InsertError> {
        let mut session = open.group.session();
        let receipts =
            self.execute(rules, &candidate, &mut session, Execution::default(), stats)?;
        let start = Instant::now();
        let added = open.group.add(session)?;
        stats.state_commit = start.elapsed();
        stats.session = added.counters;

        let start = Instant::now();
        let total_difficulty = self.head.total_difficulty + candidate.header.difficulty;
        self.put_valid(&mut open.rows, &candidate, total_difficulty, &receipts, &added.undo);
        if self.options.keep_preimages {
            put_preimages(&mut open.rows, &added.writes);
        }
        self.head = Head { header: candidate.header.clone(), total_difficulty };
        self.remember(Ancestor::new(candidate.header.clone(), &candidate.block.body.ommers));
        open.blocks.push(Grouped {
            hash: candidate.header.hash(),
            rlp: candidate.rlp,
            receipts: candidate.receipts,
            total_difficulty: candidate.total_difficulty,
            writes: self.options.keep_writes.then_some(added.writes),
        });
        stats.write = start.elapsed();
        Ok(())
    }

    /// Compares the root of the last block with that of the group, and writes the group.
    pub(super) fn close_group(&mut self, stats: &mut BlockStats) -> Result<(), InsertError> {
        let Some(OpenGroup { parent, group, blocks, rows }) = self.group.take() else {
            return Ok(());
        };
        let start = Instant::now();
        let mut outcome = group.finish()?;
        stats.state_commit += start.elapsed();
        let root = outcome.commitment.digest();
        if check_state_root(&self.head.header, root).is_err() {
            // One of the blocks is invalid, and its own error names it. If none is, this program is wrong.
            let last = self.head.number();
            outcome.discard()?;
            self.verify_each(parent, blocks)?;
            return Err(ChainError::Group { last, root }.into());
        }
        let start = Instant::now();
        outcome.batch.absorb(rows);
        let (number, hash) = (self.head.number(), self.head.hash());
        self.drop_old_undo(&mut outcome.batch, number, &hash)?;
        outcome.write(self.db.store())?;
        self.report_horizon(number);
        let numbers = parent.number() + 1..;
        let written = |(number, Grouped { hash, writes, .. })| {
            writes.map(|writes| BlockWrites { number, hash, writes })
        };
        self.written.extend(numbers.zip(blocks).filter_map(written));
        stats.write += start.elapsed();
        Ok(())
    }

    /// Executes each block of the group by itself.
    fn verify_each(&mut self, parent: Head, blocks: Vec<Grouped>) -> Result<(), InsertError> {
        self.head = parent;
        self.reload_recent()?;
        for Grouped { rlp, receipts, total_difficulty, .. } in blocks {
            let candidate = Candidate::prepare_without_senders(&self.spec, rlp)
                .map_err(|e| ChainError::Corrupt(format!("a block decodes once only: {e}")))?;
            self.extend(Candidate { receipts, total_difficulty, ..candidate }, false)?;
            self.settle()?;
        }
        Ok(())
    }
}
