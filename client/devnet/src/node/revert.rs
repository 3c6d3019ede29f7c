//! Changes by hand, and ways back.

use super::Node;
use crate::{Cheats, Clock, MineOptions, NodeError, Settings, snapshots::Point};
use alloy_primitives::B256;
use polytrie_chain::{Chain, ChainError};
use polytrie_kv::MemoryEngine;
use polytrie_state::{BlockRef, StateReader};
use std::sync::Arc;

impl Node {
    /// Changes the state by hand: `change` is given what was changed before and a reader of the state as it is now.
    ///
    /// # Errors
    ///
    /// If nothing may be changed, or the state cannot be read.
    pub fn cheat(
        &self,
        change: impl FnOnce(&mut Cheats, &dyn StateReader) -> Result<(), NodeError>,
    ) -> Result<(), NodeError> {
        self.writable()?;
        let chain = self.chain();
        let view = self.view();
        let mut cheats = Cheats::clone(&view.cheats);
        change(&mut cheats, &*view.state())?;
        self.publish(&chain, Arc::new(cheats))?;
        let promoted = self.refresh_pool()?;
        drop(chain);
        self.announce_pending(&promoted);
        self.notify();
        Ok(())
    }

    /// Remembers this moment for [`Self::revert`].
    ///
    /// # Errors
    ///
    /// If nothing may be changed.
    pub fn snapshot(&self) -> Result<u64, NodeError> {
        self.writable()?;
        let mut chain = self.chain();
        let view = self.view();
        // One after the other: where both are held, the settings are locked first.
        let settings = self.settings.lock().clone();
        let clock = *self.clock.lock();
        let point = Point {
            number: view.head.number(),
            hash: view.hash(),
            cheats: Arc::clone(&view.cheats),
            clock,
            settings,
        };
        let id = self.snapshots.lock().add(point);
        self.keep_ways_back(&mut chain);
        Ok(id)
    }

    /// The moments that are remembered: the number of each, and the block that was the head.
    pub fn snapshots(&self) -> Vec<(u64, BlockRef)> {
        let snapshots = self.snapshots.lock();
        let block = |point: &Point| BlockRef { number: point.number, hash: point.hash };
        snapshots.points().iter().map(|(id, point)| (*id, block(point))).collect()
    }

    /// Goes back to a moment that was remembered; it and later ones are forgotten, and so is every transaction that
    /// waits. Who may be impersonated stays as it is. Returns `false` if there is no such moment.
    ///
    /// # Errors
    ///
    /// If the way back is not kept any more, or the store fails.
    pub fn revert(&self, id: u64) -> Result<bool, NodeError> {
        self.writable()?;
        let mut chain = self.chain();
        let Some(point) = self.snapshots.lock().take(id) else { return Ok(false) };
        self.keep_ways_back(&mut chain);
        let same = self.db.canonical(point.number)?.is_some_and(|(hash, _)| hash == point.hash);
        if !same {
            return Ok(false);
        }
        let former = self.view();
        self.unwind(&mut chain, point.number)?;
        *self.clock.lock() = point.clock;
        {
            let mut settings = self.settings.lock();
            let impersonated = std::mem::take(&mut settings.impersonated);
            let impersonate_all = settings.impersonate_all;
            *settings = Settings { impersonated, impersonate_all, ..point.settings };
        }
        {
            // Both at once: a transaction that comes meanwhile is judged by one state or the other.
            let mut pool = self.pool.lock();
            pool.clear();
            self.publish(&chain, point.cheats)?;
        }
        self.events.tell_reverted(chain.head().header.clone(), &former);
        self.notify();
        Ok(true)
    }

    /// Takes the last `depth` blocks back.
    ///
    /// # Errors
    ///
    /// If there are not so many, the way back is not kept any more, or the store fails.
    pub fn rollback(&self, depth: u64) -> Result<(), NodeError> {
        self.writable()?;
        let mut chain = self.chain();
        self.take_back(&mut chain, depth)?;
        drop(chain);
        self.notify();
        Ok(())
    }

    /// Puts as many other blocks in the place of the last `depth` ones, of what waits by then.
    ///
    /// # Errors
    ///
    /// As [`Self::rollback`] and [`Self::mine`]; some of the blocks may be there then.
    pub fn reorg(&self, depth: u64) -> Result<(), NodeError> {
        self.writable()?;
        let mut chain = self.chain();
        let head = chain.head().number();
        let replaced = (head.saturating_sub(depth) + 1..=head)
            .map(|number| self.db.canonical(number))
            .collect::<Result<Vec<_>, _>>()?;
        self.take_back(&mut chain, depth)?;
        for (hash, _) in replaced.into_iter().flatten() {
            // A block without transactions would come out as the one before it did.
            self.settings.lock().next_prev_randao.get_or_insert(hash);
            self.mine_on(&mut chain, MineOptions::EVEN_EMPTY)?;
        }
        drop(chain);
        self.notify();
        Ok(())
    }

    fn take_back(&self, chain: &mut Chain, depth: u64) -> Result<(), NodeError> {
        let head = chain.head().number();
        let first = self.spec.genesis_header().number;
        let target = head.checked_sub(depth).filter(|target| *target >= first);
        let target = target.ok_or(NodeError::TooFew { depth, there: head - first })?;
        let former = self.view();
        self.unwind(chain, target)?;
        self.publish(chain, Arc::default())?;
        let promoted = self.refresh_pool()?;
        self.events.tell_reverted(chain.head().header.clone(), &former);
        self.announce_pending(&promoted);
        Ok(())
    }

    /// Back to the genesis block, with the settings of the start and an empty pool. Snapshots are forgotten.
    ///
    /// # Errors
    ///
    /// As [`Self::rollback`].
    pub fn reset(&self) -> Result<(), NodeError> {
        self.writable()?;
        let mut chain = self.chain();
        let former = self.view();
        self.unwind(&mut chain, self.spec.genesis_header().number)?;
        self.snapshots.lock().clear();
        self.keep_ways_back(&mut chain);
        *self.settings.lock() = self.initial.clone();
        *self.clock.lock() = Clock::default();
        *self.instance.lock() = new_instance();
        {
            // Both at once, as in `revert`.
            let mut pool = self.pool.lock();
            pool.clear();
            self.publish(&chain, Arc::default())?;
        }
        self.events.tell_reverted(chain.head().header.clone(), &former);
        drop(chain);
        self.notify();
        Ok(())
    }

    fn unwind(&self, chain: &mut Chain, number: u64) -> Result<(), NodeError> {
        let unwound = match chain.unwind_to(number) {
            // The genesis block needs no way back.
            Err(ChainError::NoUndo { .. }) if number == self.spec.genesis_header().number => {
                let genesis = self.dir.genesis().map_err(NodeError::Genesis)?;
                chain.begin_anew(genesis).map(|()| self.keep_ways_back(chain))
            }
            unwound => unwound.map(drop),
        };
        self.cut_marks(chain.head().number());
        if let Err(error) = unwound {
            // It may have gone some way.
            self.publish(chain, Arc::default())?;
            return Err(error.into());
        }
        let mut durable = self.durable.lock();
        *durable = number.min(*durable);
        Ok(())
    }

    /// Whatever there is a snapshot of can be gone back to, and where all blocks are in memory anyway so can the genesis.
    pub(super) fn keep_ways_back(&self, chain: &mut Chain) {
        let lowest = if self.db.store().engine_name() == MemoryEngine::NAME {
            Some(self.spec.genesis_header().number)
        } else {
            self.snapshots.lock().lowest_block()
        };
        chain.keep_way_back_to(lowest);
    }
}

pub(super) fn new_instance() -> B256 {
    B256::new(rand::random())
}
