//! The hashes of the blocks of other branches. On a chain without branches no block costs a look for its row, which may
//! ask another machine, nor the removal of a row that is not there.

use super::{ChainDb, Result, tables::SIDE_BLOCKS};
use alloy_primitives::{B256, map::HashSet};
use polytrie_kv::{KeyRange, Read};

/// Hashes that include those of all blocks of other branches in the store; `None` if any block may be one.
#[derive(Debug)]
pub(super) struct SideHashes(Option<HashSet<B256>>);

impl SideHashes {
    /// Looks whether the store has such blocks. Their hashes are not read, because their rows are whole blocks.
    pub(super) fn read(db: &ChainDb) -> Result<Self> {
        let first = db.store().first(SIDE_BLOCKS, KeyRange::ALL)?;
        Ok(Self(first.is_none().then(HashSet::default)))
    }

    /// Whether the store may have a row of this block.
    pub(super) fn may_have(&self, hash: &B256) -> bool {
        self.0.as_ref().is_none_or(|hashes| hashes.contains(hash))
    }

    pub(super) fn add(&mut self, hash: B256) {
        if let Some(hashes) = &mut self.0 {
            hashes.insert(hash);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::{
        Chain, ChainOptions,
        testing::{self, branch, candidate},
    };
    use alloy_primitives::B256;
    use polytrie_kv::MemoryEngine;
    use polytrie_layers::LAYERS;
    use std::sync::Arc;

    /// Returns whether the chain has a block of another branch, and how often it asks the store for that.
    fn look(chain: &Chain, hash: &B256) -> (bool, u64) {
        let before = chain.db().store().counters();
        let is_known = chain.is_known(9, hash).unwrap();
        (is_known, (chain.db().store().counters() - before).gets)
    }

    #[test]
    fn only_blocks_that_may_be_of_another_branch_are_looked_for() {
        // Threads of other layers may read the store meanwhile.
        for layer in LAYERS.iter().filter(|layer| layer.name == "mpt") {
            let engine = Arc::new(MemoryEngine::new());
            let mut chain = testing::open(layer, &engine, ChainOptions::default());
            let (ours, theirs) = (branch(&mut chain, 1, 3), branch(&mut chain, 2, 3));
            let no_block = B256::repeat_byte(7);
            for blocks in [&ours, &theirs] {
                assert_eq!(look(&chain, &blocks[0].0), (false, 0), "{}", layer.name);
                for (_, rlp) in blocks {
                    chain.insert(candidate(&chain, rlp)).unwrap();
                }
                chain.settle().unwrap();
                assert_eq!(chain.head().hash(), blocks[2].0, "{}", layer.name);
            }
            assert!(ours.iter().all(|(hash, _)| look(&chain, hash) == (true, 1)));
            assert_eq!(look(&chain, &no_block), (false, 0), "{}", layer.name);
            // The rows of blocks that come back to the chain are removed.
            chain.choose(ours[2].0, &[]).unwrap();
            let report = chain.db().check(chain.spec(), &mut |_| {}).unwrap();
            assert_eq!((report.side_blocks, report.problems), (3, Vec::<String>::new()));
            chain.flush().unwrap();
            drop(chain);
            let chain = testing::open(layer, &engine, ChainOptions::default());
            assert_eq!(look(&chain, &theirs[2].0), (true, 1), "{}", layer.name);
            assert_eq!(look(&chain, &no_block), (false, 1), "{}", layer.name);
        }
    }
}
