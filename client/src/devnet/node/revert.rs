//! Changes by hand, and ways back.

use super::Node;
use crate::{
    chain::{Chain, ChainError},
    devnet::{
        Cheats, Clock, Event, NodeError, Settings,
        snapshots::{Point, Snapshots},
    },
};
use alloy_primitives::B256;
use polytrie_kv::MemoryEngine;
use polytrie_state::StateReader;
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
        let chain = self.chain.lock();
        let view = self.view();
        let mut cheats = Cheats::clone(&view.cheats);
        change(&mut cheats, &*view.state())?;
        self.publish(&chain, Arc::new(cheats))?;
        self.refresh_pool()?;
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
        let mut chain = self.chain.lock();
        let view = self.view();
        let point = Point {
            number: view.head.number(),
            hash: view.hash(),
            cheats: Arc::clone(&view.cheats),
            clock: *self.clock.lock(),
            settings: self.settings.lock().clone(),
        };
        let id = self.snapshots.lock().add(point);
        self.keep_ways_back(&mut chain);
        Ok(id)
    }

    /// Goes back to a moment that was remembered; it and later ones are forgotten, and so is every transaction that
    /// waits. Who may be impersonated stays as it is. Returns `false` if there is no such moment.
    ///
    /// # Errors
    ///
    /// If the way back is not kept any more, or the store fails.
    pub fn revert(&self, id: u64) -> Result<bool, NodeError> {
        self.writable()?;
        let mut chain = self.chain.lock();
        let Some(point) = self.snapshots.lock().take(id) else { return Ok(false) };
        self.keep_ways_back(&mut chain);
        let same = self.db.canonical(point.number)?.is_some_and(|(hash, _)| hash == point.hash);
        if !same {
            return Ok(false);
        }
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
        self.events.tell(Event::Reverted(chain.head().header.clone()));
        self.notify();
        Ok(true)
    }

    /// Takes the last blocks back.
    ///
    /// # Errors
    ///
    /// If the way back is not kept any more, or the store fails.
    pub fn rollback(&self, number: u64) -> Result<(), NodeError> {
        self.writable()?;
        let mut chain = self.chain.lock();
        self.unwind(&mut chain, number)?;
        self.publish(&chain, Arc::default())?;
        self.refresh_pool()?;
        self.events.tell(Event::Reverted(chain.head().header.clone()));
        self.notify();
        Ok(())
    }

    /// Back to the genesis block, with the settings of the start and an empty pool. Snapshots are forgotten.
    ///
    /// # Errors
    ///
    /// As [`Self::rollback`].
    pub fn reset(&self) -> Result<(), NodeError> {
        self.rollback(self.spec.genesis_header().number)?;
        self.pool.lock().clear();
        *self.snapshots.lock() = Snapshots::default();
        self.keep_ways_back(&mut self.chain.lock());
        *self.settings.lock() = self.initial.clone();
        *self.clock.lock() = Clock::default();
        *self.instance.lock() = new_instance();
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
