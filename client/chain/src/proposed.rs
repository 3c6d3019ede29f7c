//! A block that is verified before the caller decides whether it becomes the head.
//!
//! A consensus layer, over the Engine API, first asks whether a block is valid ([`Chain::propose`]), and later names
//! the head ([`Chain::choose_proposed`], [`Chain::choose`]). In between the block is in memory only, and the store has
//! the head. Any other change of the chain drops the proposed block.

use super::{
    Candidate, Chain, ChainDb, ChainOptions, Head, Inserted,
    candidate::BlockStats,
    db::put_side_block,
    error::{ChainError, InsertError, Result},
    switch::Switch,
    waiting::{VerifiedBlock, WaitingBlock},
};
use alloy_primitives::{B256, Bytes};
use polytrie_consensus::{Ancestor, decode::decode_header};
use polytrie_kv::Batch;
use polytrie_state::{Fork, WriteSet};
use std::{sync::Arc, time::Instant};

/// A verified block, and the counts and times of its execution.
#[derive(Debug)]
pub(super) struct Proposed {
    block: VerifiedBlock,
    stats: BlockStats,
}

impl Chain {
    /// Executes a block on top of the head and checks it completely. The head stays. The result is kept in memory and
    /// replaces an earlier proposed block.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::insert`] does. A block whose parent is not the head is refused as one with an unknown parent.
    pub fn propose(&mut self, mut candidate: Candidate) -> Result<BlockStats, InsertError> {
        self.forget_proposed();
        self.settle()?;
        let start = Instant::now();
        if candidate.header.parent_hash != self.head.hash() {
            return Err(self.unknown_parent(&candidate));
        }
        let spec = self.spec.clone();
        let (rules, mut stats) = self.examine(&spec, &mut candidate)?;
        let (receipts, finished) = self.execute_alone(&rules, &candidate, &mut stats)?;
        let total_difficulty = self.head.total_difficulty + candidate.header.difficulty;
        let (parent, oldest) = (self.head.clone(), stats.oldest_hash);
        let block =
            WaitingBlock::new(parent, candidate, total_difficulty, receipts, finished, oldest);
        let block = self.check_root(block, &mut stats)?;
        stats.account_for_all_since(start);
        self.proposed = Some(Proposed { block, stats });
        Ok(stats)
    }

    /// Returns the hash of the proposed block, if there is one.
    pub fn proposed(&self) -> Option<B256> {
        self.proposed.as_ref().map(|proposed| proposed.block.candidate.header.hash())
    }

    /// Returns the changes of the proposed block, if there is one.
    pub fn proposed_writes(&self) -> Option<Arc<WriteSet>> {
        self.proposed.as_ref().map(|proposed| Arc::clone(&proposed.block.writes))
    }

    /// Makes the proposed block the head, in one atomic write. Returns `false` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the store or the layer fails.
    pub fn choose_proposed(&mut self) -> Result<bool> {
        let Some(Proposed { block, mut stats }) = self.proposed.take() else { return Ok(false) };
        let (header, total_difficulty) = (block.candidate.header.clone(), block.total_difficulty);
        let ancestor = Ancestor::new(header.clone(), &block.candidate.block.body.ommers);
        self.write_verified(block, &mut stats)?;
        self.head = Head { header, total_difficulty };
        self.remember(ancestor);
        self.log_if_slow(self.head.block_ref(), &stats);
        Ok(true)
    }

    /// Drops the proposed block, if there is one.
    pub(crate) fn forget_proposed(&mut self) {
        self.proposed = None;
    }

    /// Makes `tip` the head, on any branch; if it is a block of the chain, the blocks above it are taken back. `blocks`
    /// are the RLP of those blocks of the branch that the chain does not know, oldest first and up to `tip`: the first
    /// has a known parent, or the list is empty. If one of them is invalid, or a crash interrupts the change, the head
    /// stays what it was. Blocks that are taken back are kept as those of another branch.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::insert`] does, and with [`ChainError::TooDeep`] if undo records on the way are dropped already;
    /// nothing is changed then.
    pub fn choose(&mut self, tip: B256, blocks: &[Bytes]) -> Result<Inserted, InsertError> {
        self.forget_proposed();
        self.settle()?;
        let (mut batch, mut base, mut above) = (Batch::new(), tip, Vec::new());
        let mut total_difficulty = None;
        for rlp in blocks {
            let header = decode_header(rlp).map_err(|e| {
                ChainError::Corrupt(format!("a block that decoded before does not decode now: {e}"))
            })?;
            let before = match total_difficulty {
                Some(before) => before,
                None => {
                    base = header.parent_hash;
                    let parent = self.db.known(&base)?.ok_or_else(|| {
                        ChainError::Corrupt(format!("block {base} was known and is not"))
                    })?;
                    parent.total_difficulty
                }
            };
            let sum = before + header.difficulty;
            total_difficulty = Some(sum);
            put_side_block(&mut batch, &header.hash(), sum, rlp);
            self.sides.add(header.hash());
            above.push((header.hash(), rlp.clone()));
        }
        let mut way = self.way_to(base)?;
        way.branch.extend(above);
        if tip == self.head.hash() {
            return Ok(Inserted::Known);
        }
        Switch::new(&self.head, tip).put(&mut batch);
        self.db.store().write(batch)?;
        self.reorganise(tip, way)
    }

    /// Returns the number of the block where the branch that ends in `tip` leaves the chain, and the hashes of the
    /// branch's blocks, oldest first; there are none if `tip` is in the chain. `None` if the block is not known.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn branch_to(&self, tip: B256) -> Result<Option<(u64, Vec<B256>)>> {
        if self.db.known(&tip)?.is_none() {
            return Ok(None);
        }
        let way = self.side_branch(tip)?;
        Ok(Some((way.fork, way.branch.into_iter().map(|(hash, _)| hash).collect())))
    }

    /// Returns a second chain in memory that begins as a copy of this one and never changes it: for blocks of other
    /// branches, to which it can change. It holds what a [`polytrie_kv::Snapshot`] holds, so the caller should drop it
    /// soon.
    ///
    /// # Errors
    ///
    /// Fails if the layer or the store fails.
    pub fn fork(&mut self) -> Result<Self> {
        let Fork { store, layer } = self.fork_layer()?;
        let options = ChainOptions {
            verify_every: 1,
            keep_writes: false,
            index_transactions: false,
            keep_preimages: false,
            witness_levels: None,
            log_slow_blocks: None,
            ..self.options
        };
        let mut fork = Self::open_db(Arc::clone(&self.spec), ChainDb::new(store), layer, options)?;
        fork.executor.follow(&self.executor);
        fork.undo_reach.floor = self.undo_reach.floor;
        Ok(fork)
    }

    /// Returns a fork of the layer at the head. Its changes never reach the chain.
    ///
    /// # Errors
    ///
    /// Fails as [`polytrie_state::StateLayer::fork`] does.
    pub fn fork_layer(&mut self) -> Result<Fork> {
        self.forget_proposed();
        Ok(self.layer.fork()?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::testing::{self, branch, candidate, next};
    use polytrie_kv::MemoryEngine;
    use polytrie_layers::LAYERS;

    fn blocks(branch: &[(B256, Bytes)]) -> Vec<Bytes> {
        branch.iter().map(|(_, rlp)| rlp.clone()).collect()
    }

    #[test]
    fn what_is_proposed_is_not_there_before_it_is_chosen() {
        for layer in LAYERS {
            let engine = Arc::new(MemoryEngine::new());
            let mut chain = testing::open(layer, &engine, ChainOptions::default());
            let genesis = chain.head().hash();
            let (hash, rlp) = next(&mut chain, 1);
            assert!(!chain.choose_proposed().unwrap());
            chain.propose(candidate(&chain, &rlp)).unwrap();
            assert_eq!((chain.proposed(), chain.head().hash()), (Some(hash), genesis));
            assert!(!chain.is_known(1, &hash).unwrap(), "{}", layer.name);
            // Any other change drops the proposed block, and no trace is left.
            let (other, _) = next(&mut chain, 2);
            assert_ne!(other, hash);
            assert_eq!(chain.proposed(), None);
            chain.propose(candidate(&chain, &rlp)).unwrap();
            drop(chain.fork().unwrap());
            assert_eq!(chain.proposed(), None);
            chain.propose(candidate(&chain, &rlp)).unwrap();
            assert!(chain.choose_proposed().unwrap());
            assert_eq!((chain.proposed(), chain.head().hash()), (None, hash), "{}", layer.name);
            chain.flush().unwrap();
            let again = chain.propose(candidate(&chain, &rlp)).unwrap_err();
            assert!(again.to_string().contains("its parent"), "{again}");
            drop(chain);
            let chain = testing::open(layer, &engine, ChainOptions::default());
            assert_eq!(chain.head().hash(), hash, "{}", layer.name);
        }
    }

    #[test]
    fn a_branch_is_chosen_whole_or_not_at_all() {
        for layer in LAYERS {
            let engine = Arc::new(MemoryEngine::new());
            let mut chain = testing::open(layer, &engine, ChainOptions::default());
            let ours = branch(&mut chain, 1, 2);
            let theirs = branch(&mut chain, 2, 3);
            assert_eq!(chain.head().number(), 0, "{}", layer.name);
            assert_eq!(chain.branch_to(ours[1].0).unwrap(), None);
            chain.choose(ours[1].0, &blocks(&ours)).unwrap();
            assert_eq!(chain.head().hash(), ours[1].0, "{}", layer.name);
            chain.choose(theirs[2].0, &blocks(&theirs)).unwrap();
            assert_eq!(chain.head().hash(), theirs[2].0, "{}", layer.name);
            // A known branch needs no blocks.
            let way = chain.branch_to(ours[1].0).unwrap();
            assert_eq!(way, Some((0, vec![ours[0].0, ours[1].0])));
            chain.choose(ours[1].0, &[]).unwrap();
            assert_eq!(chain.head().hash(), ours[1].0);
            assert!(matches!(chain.choose(ours[1].0, &[]).unwrap(), Inserted::Known));
            assert_eq!(chain.branch_to(ours[0].0).unwrap(), Some((1, Vec::new())));

            // The second block is invalid, its parent is not.
            let third = branch(&mut chain, 3, 1);
            let mut block = polytrie_consensus::decode::decode_block(&third[0].1).unwrap();
            block.header.parent_hash = third[0].0;
            block.header.number += 1;
            block.header.timestamp += 1;
            block.header.gas_used = 1;
            let wrong = (block.header.hash_slow(), Bytes::from(alloy_rlp::encode(&block)));
            let both = [third[0].1.clone(), wrong.1.clone()];
            assert!(matches!(chain.choose(wrong.0, &both), Err(InsertError::Invalid(_))));
            assert_eq!(chain.head().hash(), ours[1].0, "{}", layer.name);
            assert!(!chain.is_known(4, &wrong.0).unwrap());
            chain.flush().unwrap();
            drop(chain);
            let chain = testing::open(layer, &engine, ChainOptions::default());
            assert_eq!(chain.head().hash(), ours[1].0, "{}", layer.name);
        }
    }

    #[test]
    fn blocks_above_one_that_is_chosen_are_left_and_kept() {
        for layer in LAYERS {
            let engine = Arc::new(MemoryEngine::new());
            let mut chain = testing::open(layer, &engine, ChainOptions::default());
            let genesis = chain.head().hash();
            let ours = branch(&mut chain, 1, 4);
            for (_, rlp) in &ours {
                chain.insert(candidate(&chain, rlp)).unwrap();
            }
            chain.settle().unwrap();
            for back in [ours[1].0, genesis] {
                let undone = 4 - chain.branch_to(back).unwrap().unwrap().0;
                let went = chain.choose(back, &[]).unwrap();
                let is_back = matches!(
                    &went,
                    Inserted::Reorganised { undone: found, executed } if *found == undone && executed.is_empty()
                );
                assert!(is_back, "{}: {went:?}", layer.name);
                assert_eq!(chain.head().hash(), back, "{}", layer.name);
                // The blocks that were taken back are another branch, and no change is in progress.
                chain.db().check_settled().unwrap();
                assert_eq!(chain.branch_to(ours[3].0).unwrap().unwrap().1.len() as u64, undone);
                chain.flush().unwrap();
                drop(chain);
                chain = testing::open(layer, &engine, ChainOptions::default());
                assert_eq!(chain.head().hash(), back, "{}", layer.name);
                chain.choose(ours[3].0, &[]).unwrap();
                assert_eq!(chain.head().hash(), ours[3].0, "{}", layer.name);
                chain.db().check_settled().unwrap();
            }
        }
    }

    #[test]
    fn a_way_back_to_a_block_that_was_interrupted_is_taken_back() {
        for layer in LAYERS {
            let engine = Arc::new(MemoryEngine::new());
            let mut chain = testing::open(layer, &engine, ChainOptions::default());
            let ours = branch(&mut chain, 1, 4);
            for (_, rlp) in &ours {
                chain.insert(candidate(&chain, rlp)).unwrap();
            }
            chain.settle().unwrap();
            // The store is in the state before the last step.
            let mut batch = Batch::new();
            Switch::new(&chain.head, ours[0].0).put(&mut batch);
            chain.db().store().write(batch).unwrap();
            for _ in 0..2 {
                chain.unwind_one(true).unwrap();
            }
            chain.flush().unwrap();
            chain.db().check_settled().unwrap_err();
            drop(chain);
            let mut chain = testing::open(layer, &engine, ChainOptions::default());
            assert_eq!(chain.head().hash(), ours[3].0, "{}", layer.name);
            chain.db().check_settled().unwrap();
            chain.choose(ours[0].0, &[]).unwrap();
            assert_eq!(chain.head().hash(), ours[0].0, "{}", layer.name);
        }
    }

    #[test]
    fn a_way_to_a_side_block_that_was_interrupted_leaves_none_without_its_parent() {
        for layer in LAYERS {
            let engine = Arc::new(MemoryEngine::new());
            let mut chain = testing::open(layer, &engine, ChainOptions::default());
            let ours = branch(&mut chain, 1, 3);
            let theirs = branch(&mut chain, 2, 3);
            chain.choose(ours[2].0, &blocks(&ours)).unwrap();
            chain.choose(theirs[2].0, &blocks(&theirs)).unwrap();
            // Another block has the block that is to be the head as its parent.
            let mut batch = Batch::new();
            Switch::new(&chain.head, ours[1].0).put(&mut batch);
            chain.db().store().write(batch).unwrap();
            for _ in 0..2 {
                chain.unwind_one(true).unwrap();
            }
            chain.flush().unwrap();
            drop(chain);
            let chain = testing::open(layer, &engine, ChainOptions::default());
            assert_eq!(chain.head().hash(), theirs[2].0, "{}", layer.name);
            chain.db().check_settled().unwrap();
            let report = chain.db().check(chain.spec(), &mut |_| {}).unwrap();
            assert_eq!(report.problems, Vec::<String>::new(), "{}", layer.name);
            // The parent stays, and the blocks on top of it are removed.
            let way = chain.branch_to(ours[0].0).unwrap();
            assert_eq!(way, Some((0, vec![ours[0].0])), "{}", layer.name);
            assert_eq!(chain.branch_to(ours[2].0).unwrap(), None, "{}", layer.name);
        }
    }
}
