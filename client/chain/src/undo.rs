//! The undo records that are kept, and the blocks that are durable.

use super::{
    Chain, ChainDb, Result,
    db::{first_undo, remove_undo},
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Progress};
use polytrie_state::{Horizon, remove_wiped};
use std::collections::VecDeque;

/// The range of the undo records in the store, and of those that must be kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct UndoReach {
    /// Number of the first block with a record; all later blocks have one.
    first: u64,
    /// Number of a block to which a caller may go back at any time.
    pub(super) floor: Option<u64>,
}

impl UndoReach {
    /// Reads the range from the store; `head` is the number of the head.
    pub(super) fn read(db: &ChainDb, head: u64) -> Result<Self> {
        Ok(Self { first: first_undo(db.store(), head)?, floor: None })
    }

    /// Returns the first block of which the record is needed once `number` is the head.
    fn needed(&self, number: u64, undo_blocks: u64) -> u64 {
        let first = number.saturating_add(1).saturating_sub(undo_blocks);
        self.floor.map_or(first, |floor| first.min(floor.saturating_add(1)))
    }
}

/// The durable block, computed from the store's numbers of the batches that made blocks the head.
#[derive(Debug)]
pub(super) struct DurableHead {
    /// Number of the last durable head.
    number: u64,
    /// Later heads: number of the batch, and number of the block.
    later: VecDeque<(u64, u64)>,
}

impl DurableHead {
    /// Returns the state for a chain that is opened: its head is durable unless batches were written since the store
    /// was opened.
    pub(super) fn read(db: &ChainDb, head: u64) -> Result<Self> {
        let Progress { written, durable } = db.store().progress();
        if written == durable {
            return Ok(Self { number: head, later: VecDeque::new() });
        }
        let flushed = ChainDb::new(db.store().flushed()).head_row()?;
        let number = flushed.map_or(0, |(number, _)| number);
        Ok(Self { number, later: VecDeque::from([(written, head)]) })
    }

    /// Updates the state after a write with the head number `head`. Returns the number of the durable block. A
    /// block that was taken back does not count as durable, even if a crash would bring it back.
    fn after(&mut self, Progress { written, durable }: Progress, head: u64) -> u64 {
        if self.later.back().map_or(self.number, |(_, number)| *number) > head {
            self.number = self.number.min(head);
            for (_, number) in &mut self.later {
                *number = head.min(*number);
            }
        }
        self.later.push_back((written, head));
        while let Some((_, number)) = self.later.pop_front_if(|(batch, _)| *batch <= durable) {
            self.number = number;
        }
        self.number
    }
}

impl Chain {
    /// Keeps the undo records down to a block, even beyond [`ChainOptions::undo_blocks`], until the next call; `None`
    /// for no such block. Records that are dropped already stay dropped.
    ///
    /// [`ChainOptions::undo_blocks`]: super::ChainOptions::undo_blocks
    pub const fn keep_way_back_to(&mut self, number: Option<u64>) {
        self.undo_reach.floor = number;
    }

    /// Returns the number of the first block that can be taken back. A branch that leaves the chain before it can never
    /// become the better one.
    pub const fn first_undo(&self) -> u64 {
        self.undo_reach.first
    }

    /// Tells the layer, after a write that made `head` the head, which block is durable, and from which block on its
    /// undo data are needed.
    pub(super) fn report_horizon(&self, head: u64) {
        let progress = self.db.store().progress();
        let durable = self.durable.lock().after(progress, head);
        self.layer.advance(Horizon { durable, undo_from: self.undo_reach.first });
    }

    /// Removes the records that are not needed once this block is the head, in the batch that makes it the head.
    pub(super) fn drop_old_undo(
        &mut self,
        batch: &mut Batch,
        number: u64,
        hash: &B256,
    ) -> Result<()> {
        // Until the change to a new branch is complete, every record may be needed to go back.
        if self.switch.is_some_and(|switch| switch.to != *hash) {
            return Ok(());
        }
        let first = self.undo_reach.first;
        let needed = self.undo_reach.needed(number, self.options.undo_blocks);
        if first >= needed {
            return Ok(());
        }
        for old in first..needed {
            remove_undo(batch, old);
        }
        if self.has_wiped(0, Some(needed))? {
            remove_wiped(batch, 0, Some(needed));
        }
        self.undo_reach.first = needed;
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{ChainOptions, TABLES, testing::extend};
    use parking_lot::Mutex;
    use polytrie_chainspec::ChainSpec;
    use polytrie_kv::Store;
    use polytrie_mpt::{MptLayer, MptOptions};
    use polytrie_state::StateLayer;
    use polytrie_testing::{AlterLayer, AlteredLayer};
    use std::sync::Arc;

    /// A layer that records what the chain reports to it.
    #[derive(Debug, Default, Clone)]
    struct Listener(Arc<Mutex<Option<Horizon>>>);

    impl AlterLayer for Listener {
        fn advance(&self, inner: &Arc<dyn StateLayer>, horizon: Horizon) {
            *self.0.lock() = Some(horizon);
            inner.advance(horizon);
        }
    }

    #[test]
    fn a_fork_goes_back_as_far_as_the_chain() {
        let store = Store::memory(&[MptLayer::TABLES, TABLES].concat()).unwrap();
        let layer = MptLayer::open(store.clone(), MptOptions::default()).unwrap();
        let options = ChainOptions { undo_blocks: 1, ..ChainOptions::default() };
        let spec = ChainSpec::load("dev").unwrap();
        let mut chain = Chain::open(spec, store, layer, options).unwrap();
        chain.keep_way_back_to(Some(0));
        let genesis = chain.head().hash();
        (0..3).for_each(|_| extend(&mut chain, 0));
        let mut fork = chain.fork().unwrap();
        extend(&mut fork, 0);
        fork.unwind_to(0).unwrap();
        assert_eq!(fork.head().hash(), genesis);
    }

    /// An engine may look at each place in a range that ever had a row, and each block has had a record.
    #[test]
    fn an_opening_looks_for_few_records() {
        let store = Store::memory(&[MptLayer::TABLES, TABLES].concat()).unwrap();
        let layer = MptLayer::open(store.clone(), MptOptions::default()).unwrap();
        let options = ChainOptions { undo_blocks: 3, ..ChainOptions::default() };
        let mut chain =
            Chain::open(ChainSpec::load("dev").unwrap(), store.clone(), layer, options).unwrap();
        let db = ChainDb::new(store.clone());
        assert_eq!(UndoReach::read(&db, 0).unwrap().first, 1);
        (0..40).for_each(|_| extend(&mut chain, 0));
        let before = store.counters();
        assert_eq!(UndoReach::read(&db, 40).unwrap().first, 38);
        let reads = store.counters() - before;
        assert!(reads.scans == 0 && reads.gets <= 8, "{reads:?}");
    }

    #[test]
    fn a_layer_learns_which_block_is_durable_and_which_can_be_taken_back() {
        let store = Store::memory(&[MptLayer::TABLES, TABLES].concat()).unwrap();
        let layer = MptLayer::open(store.clone(), MptOptions::default()).unwrap();
        let listener = Listener::default();
        let layer = Arc::new(AlteredLayer::new(layer, listener.clone()));
        let options = ChainOptions { undo_blocks: 3, ..ChainOptions::default() };
        let spec = ChainSpec::load("dev").unwrap();
        let mut chain = Chain::open(spec, store, layer, options).unwrap();
        let heard = || listener.0.lock().take().map(|heard| (heard.durable, heard.undo_from));
        assert_eq!(heard(), Some((0, 1)));
        let block = |chain: &mut Chain| {
            extend(chain, 0);
            heard()
        };
        assert_eq!(block(&mut chain), Some((0, 1)));
        for undo_from in [1, 1, 2, 3] {
            assert_eq!(block(&mut chain), Some((0, undo_from)));
        }
        chain.flush().unwrap();
        assert_eq!(heard(), Some((5, 3)));
        assert_eq!(block(&mut chain), Some((5, 4)));
        chain.unwind_to(4).unwrap();
        assert_eq!(heard(), Some((4, 4)));
    }

    #[test]
    fn a_block_is_durable_when_its_batch_is_and_not_after_it_was_taken_back() {
        let mut head = DurableHead { number: 4, later: VecDeque::new() };
        let mut after =
            |written, durable, number| head.after(Progress { written, durable }, number);
        assert_eq!(after(11, 10, 5), 4);
        assert_eq!(after(12, 10, 6), 4);
        assert_eq!(after(13, 12, 7), 6);
        assert_eq!(after(13, 13, 7), 7);
        // Two blocks are taken back. After a crash the store still has the first of them.
        assert_eq!(after(14, 13, 6), 6);
        assert_eq!(after(15, 13, 5), 5);
        assert_eq!(after(16, 14, 6), 5);
        assert_eq!(after(16, 16, 6), 6);
    }
}
