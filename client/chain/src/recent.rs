//! The last blocks, which the chain keeps in memory.

use super::{
    Chain, ChainDb,
    error::{ChainError, Result},
    head::Head,
};
use crate::executor::{BlockHashes, InternalError};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use polytrie_consensus::{Ancestor, OMMER_GENERATIONS, RecentAncestors, decode::decode_block};
use polytrie_state::StateError;
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Number of blocks of which BLOCKHASH returns the hashes.
pub(super) const BLOCK_HASHES: usize = 256;

/// Hashes of the blocks up to a head, for BLOCKHASH; the last of them come from memory.
#[derive(Debug)]
pub(super) struct AncestorHashes<'a> {
    head: u64,
    recent: &'a VecDeque<B256>,
    db: &'a ChainDb,
    oldest: AtomicU64,
}

impl<'a> AncestorHashes<'a> {
    /// Returns the hashes up to `head`; `recent` has the last of them, newest first.
    pub(super) fn new(head: &Head, recent: &'a VecDeque<B256>, db: &'a ChainDb) -> Self {
        Self { head: head.number(), recent, db, oldest: AtomicU64::new(u64::MAX) }
    }

    /// Returns the number of the oldest block of which the hash was asked for, if any was.
    pub(super) fn oldest(&self) -> Option<u64> {
        Some(self.oldest.load(Relaxed)).filter(|number| *number < u64::MAX)
    }
}

impl BlockHashes for AncestorHashes<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        self.oldest.fetch_min(number, Relaxed);
        let Some(back) = self.head.checked_sub(number) else { return Ok(None) };
        match usize::try_from(back).ok().and_then(|back| self.recent.get(back)) {
            Some(hash) => Ok(Some(*hash)),
            None => self.db.block_hash(number),
        }
    }
}

/// Hashes of earlier blocks that were read together, for a caller that goes through the blocks one after the other.
#[derive(Debug, Default)]
pub(super) struct PassedHashes {
    /// Number of the first of them.
    first: u64,
    hashes: VecDeque<B256>,
    /// Number of the block after the one that was asked for last.
    next: u64,
}

impl PassedHashes {
    /// Returns the hash of the chain's block with this number, if there is one. Of blocks that are asked for in their order
    /// many are read at a time, since on other machines each row would be a request.
    pub(super) fn get(&mut self, db: &ChainDb, number: u64) -> Result<Option<B256>> {
        let follows = self.next == number;
        self.next = number.saturating_add(1);
        if let Some(hash) = self.known(number) {
            return Ok(Some(hash));
        }
        if !follows {
            return Ok(db.canonical(number)?.map(|(hash, _)| hash));
        }
        self.first = number;
        self.hashes = db.hashes(number, number.saturating_add(BLOCK_HASHES as u64 - 1), false)?;
        Ok(self.known(number))
    }

    fn known(&self, number: u64) -> Option<B256> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.hashes.get(at).copied()
    }
}

impl Chain {
    /// Returns the last blocks up to `hash`, on any branch.
    pub(super) fn ancestors_of(&self, hash: B256) -> Result<RecentAncestors> {
        let mut blocks = Vec::new();
        let mut next = hash;
        while blocks.len() < OMMER_GENERATIONS {
            let rlp = match self.db.number_of(&next)? {
                Some(number) => self.db.block_rlp(number)?,
                None => self.db.side_block(&next)?.map(|(_, rlp)| rlp),
            };
            let Some(rlp) = rlp else { break };
            let block = decode_block(&rlp)
                .map_err(|e| ChainError::Corrupt(format!("block {next} does not decode: {e}")))?;
            let header = Sealed::new_unchecked(block.header, next);
            let parent = header.parent_hash;
            let number = header.number;
            blocks.push(Ancestor::new(header, &block.body.ommers));
            if number == 0 {
                break;
            }
            next = parent;
        }
        Ok(blocks.into_iter().rev().collect())
    }

    /// Checks that the blocks are known by which ommers are judged. A chain that begins in the middle may lack
    /// some of them.
    pub(super) fn expect_ancestors(
        &self,
        number: u64,
        ommers: &[Header],
        ancestors: &RecentAncestors,
    ) -> Result<()> {
        match self.start {
            Some(start)
                if !ommers.is_empty()
                    && !ancestors.is_complete()
                    && !self.options.partial_state =>
            {
                let what = format!(
                    "block {number} has ommers, which cannot be checked without the {OMMER_GENERATIONS} blocks before it"
                );
                Err(ChainError::BeforeStart { what, start, needed: OMMER_GENERATIONS })
            }
            _ => Ok(()),
        }
    }

    /// Turns the error about an unknown hash into one about the start of the chain, if the chain begins after
    /// that block. Under a part of a state it is an error about that part, as one about missing code is. Other errors
    /// stay as they are.
    pub(super) fn before_start(&self, number: u64, error: ChainError) -> ChainError {
        let lacking = |what: String| ChainError::Lacking { number, what };
        match (error, self.start) {
            (ChainError::Execution(InternalError::State(StateError::Corrupt(what))), _)
                if self.options.partial_state =>
            {
                lacking(what)
            }
            (ChainError::Execution(error @ InternalError::MissingBlockHash { .. }), _)
                if self.options.partial_state =>
            {
                lacking(error.to_string())
            }
            (
                ChainError::Execution(InternalError::MissingBlockHash { number: asked }),
                Some(start),
            ) if asked < start => {
                let what = format!(
                    "block {number} asks for the hash of block {asked} (BLOCKHASH), which is not known"
                );
                ChainError::BeforeStart { what, start, needed: BLOCK_HASHES + 1 }
            }
            (error, _) => error,
        }
    }

    /// Reads the last blocks from the store again.
    pub(super) fn reload_recent(&mut self) -> Result<()> {
        self.ancestors = self.ancestors_of(self.head.hash())?;
        let head = self.head.number();
        let first = head.saturating_sub(BLOCK_HASHES as u64 - 1);
        self.hashes = self.db.hashes(first, head, true)?;
        Ok(())
    }

    /// Adds the new head to the last blocks.
    pub(super) fn remember(&mut self, block: Ancestor) {
        self.hashes.truncate(BLOCK_HASHES - 1);
        self.hashes.push_front(block.header.hash());
        self.ancestors.push(block);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{ChainOptions, tables::CANONICAL, testing};
    use polytrie_kv::{Batch, MemoryEngine};
    use polytrie_layers::LAYERS;
    use std::sync::Arc;

    /// Each row that is read alone is a request where the rows are on other machines.
    #[test]
    fn the_last_hashes_are_read_together() {
        let engine = Arc::new(MemoryEngine::new());
        let mut chain = testing::open(&LAYERS[0], &engine, ChainOptions::default());
        for blocks in [3, BLOCK_HASHES] {
            (0..blocks).for_each(|_| testing::extend(&mut chain, 0));
            let (expected, before) = (chain.hashes.clone(), chain.db().store().counters());
            chain.reload_recent().unwrap();
            let reads = chain.db().store().counters() - before;
            assert_eq!(chain.hashes, expected);
            assert_eq!(expected.len(), (blocks + 1).min(BLOCK_HASHES));
            assert!(reads.gets < 40 && reads.scans == 1, "{reads:?}");
        }
        let mut batch = Batch::new();
        batch.put(CANONICAL, &7u64.to_be_bytes(), b"damaged");
        chain.db().store().write(batch).unwrap();
        let error = chain.reload_recent().unwrap_err().to_string();
        assert!(error.contains("the index row of block 7 is damaged"), "{error}");
    }

    #[test]
    fn a_caller_that_goes_through_the_chain_asks_for_many_hashes_at_a_time() {
        let engine = Arc::new(MemoryEngine::new());
        let mut chain = testing::open(&LAYERS[0], &engine, ChainOptions::default());
        let mut hashes = vec![chain.head().hash()];
        for _ in 0..300 {
            testing::extend(&mut chain, 0);
            hashes.push(chain.head().hash());
        }
        let before = chain.db().store().counters();
        for (number, hash) in (0..).zip(&hashes) {
            // An import asks twice for a block that it passes over.
            assert!((0..2).all(|_| chain.is_canonical(number, hash).unwrap()), "{number}");
            assert!(!chain.is_canonical(number, &B256::repeat_byte(7)).unwrap());
        }
        let reads = chain.db().store().counters() - before;
        assert!(reads.gets <= 6 && reads.scans <= 3, "{reads:?}");
        // What was read of blocks that are taken back is not used.
        chain.unwind_to(295).unwrap();
        (0..5).for_each(|_| testing::extend(&mut chain, 1));
        for (number, hash) in (294..).zip(&hashes[294..]) {
            assert_eq!(chain.is_canonical(number, hash).unwrap(), number <= 295, "{number}");
        }
        assert!(chain.is_canonical(300, &chain.head().hash()).unwrap());
    }

    /// A call would be answered with a hash of zeros.
    #[test]
    fn a_hash_that_cannot_be_read_is_not_one_that_is_not_known() {
        let engine = Arc::new(MemoryEngine::new());
        let mut chain = testing::open(&LAYERS[0], &engine, ChainOptions::default());
        (0..2).for_each(|_| testing::extend(&mut chain, 0));
        let mut batch = Batch::new();
        batch.put(CANONICAL, &1u64.to_be_bytes(), b"damaged");
        chain.db().store().write(batch).unwrap();
        let none = VecDeque::new();
        let ancestors = AncestorHashes::new(chain.head(), &none, chain.db());
        assert_eq!(ancestors.oldest(), None);
        assert_eq!(ancestors.block_hash(3).unwrap(), None);
        assert_eq!(ancestors.block_hash(2).unwrap(), Some(chain.head().hash()));
        let error = ancestors.block_hash(1).unwrap_err();
        assert!(matches!(error, StateError::Corrupt(_)), "{error}");
        assert_eq!(ancestors.oldest(), Some(1));
    }
}
