//! Changes of the state by hand, snapshots and reverts.

use super::Node;
use crate::{Cheats, Clock, MineOptions, NodeError, Result, Settings, snapshots::Point};
use alloy_primitives::{Address, B256};
use polytrie_chain::{Chain, ChainError, StateHistory};
use polytrie_kv::MemoryEngine;
use polytrie_state::{BlockRef, CommitmentKind};
use std::sync::Arc;

impl Node {
    /// Changes accounts by hand. `change` gets the earlier changes by hand.
    ///
    /// # Errors
    ///
    /// If the node is read only or has failed, or the state cannot be read.
    pub fn cheat(&self, accounts: &[Address], change: impl FnOnce(&mut Cheats)) -> Result<()> {
        self.writable()?;
        let chain = self.chain();
        let view = self.view();
        let unchanged = view.cheats.unchanged(accounts, &*view.reader)?;
        drop(view);
        self.publish_cheats(|cheats| {
            cheats.begin(unchanged);
            change(cheats);
        });
        let promoted = self.refresh_pool()?;
        drop(chain);
        self.announce_pending(&promoted);
        self.notify();
        Ok(())
    }

    /// Takes a snapshot for [`Self::revert`] and returns its ID.
    ///
    /// # Errors
    ///
    /// If the node is read only or has failed.
    pub fn snapshot(&self) -> Result<u64> {
        self.writable()?;
        let mut chain = self.chain();
        let view = self.view();
        // The clock is read after the settings are unlocked: elsewhere the settings are locked first.
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

    /// Returns the ID of each snapshot, and the block that was the head.
    pub fn snapshots(&self) -> Vec<(u64, BlockRef)> {
        let snapshots = self.snapshots.lock();
        let block = |point: &Point| BlockRef { number: point.number, hash: point.hash };
        snapshots.points().iter().map(|(id, point)| (*id, block(point))).collect()
    }

    /// Reverts to a snapshot, which is dropped with all later ones; the pool is emptied. Impersonated accounts stay so.
    /// Returns `false` if there is no such snapshot.
    ///
    /// # Errors
    ///
    /// If the node is read only or has failed, the block of the snapshot has left the chain, the undo records back to it
    /// are not kept any more, or the store fails.
    pub fn revert(&self, id: u64) -> Result<bool> {
        self.writable()?;
        let mut chain = self.chain();
        let point = self.snapshots.lock().points().get(&id).cloned();
        let Some(point) = point else { return Ok(false) };
        let Point { number, hash, .. } = point;
        if self.db.canonical(number)?.is_none_or(|(found, _)| found != hash) {
            // Later snapshots may be on the chain, and a consensus layer may choose this branch again.
            return Err(NodeError::Refused(format!(
                "there is no way back to snapshot {id:#x}: its block {number} with the hash {hash} has left the chain"
            )));
        }
        self.snapshots.lock().drop_from(id);
        let former = self.view();
        self.unwind(&mut chain, number)?;
        *self.clock.lock() = point.clock;
        {
            let mut settings = self.settings.lock();
            let impersonated = std::mem::take(&mut settings.impersonated);
            let impersonate_all = settings.impersonate_all;
            *settings = Settings { impersonated, impersonate_all, ..point.settings };
        }
        {
            // The pool stays locked while the view changes, so that a new transaction is checked against one state
            // or the other.
            let mut pool = self.pool.lock();
            pool.clear();
            self.publish(&chain, point.cheats)?;
        }
        self.announce_reverted(chain.head().header.clone(), &former);
        self.notify();
        Ok(true)
    }

    /// Reverts the last `depth` blocks.
    ///
    /// # Errors
    ///
    /// If the node is read only or has failed, the chain has fewer blocks, the undo records are not kept any more, or
    /// the store fails.
    pub fn rollback(&self, depth: u64) -> Result<()> {
        self.writable()?;
        let mut chain = self.chain();
        self.take_back(&mut chain, depth)?;
        drop(chain);
        self.notify();
        Ok(())
    }

    /// Replaces the last `depth` blocks with as many new ones, built from the pool.
    ///
    /// # Errors
    ///
    /// As [`Self::rollback`] and [`Self::mine`]; some of the new blocks may have been made then.
    pub fn reorg(&self, depth: u64) -> Result<()> {
        self.writable()?;
        let mut chain = self.chain();
        let head = chain.head().number();
        let replaced = (head.saturating_sub(depth) + 1..=head)
            .map(|number| self.db.canonical(number))
            .collect::<Result<Vec<_>, _>>()?;
        self.take_back(&mut chain, depth)?;
        let made = replaced.into_iter().flatten().try_for_each(|(hash, _)| {
            // Without another value of RANDAO an empty block would equal the one that it replaces.
            self.settings.lock().next_prev_randao.get_or_insert(hash);
            self.mine_on(&mut chain, MineOptions::EVEN_EMPTY).map(drop)
        });
        drop(chain);
        // Even if one failed: others may have been made before it.
        self.notify();
        made
    }

    fn take_back(&self, chain: &mut Chain, depth: u64) -> Result<()> {
        let head = chain.head().number();
        let first = self.spec.genesis_header().number;
        let target = head.checked_sub(depth).filter(|target| *target >= first);
        let target = target.ok_or(NodeError::TooFew { depth, there: head - first })?;
        let former = self.view();
        self.unwind(chain, target)?;
        self.publish(chain, Arc::default())?;
        self.announce_reverted(chain.head().header.clone(), &former);
        let promoted = self.refresh_pool()?;
        self.announce_pending(&promoted);
        Ok(())
    }

    /// Reverts to the genesis block, with the settings of the start and an empty pool. Snapshots are dropped.
    ///
    /// # Errors
    ///
    /// As [`Self::rollback`].
    pub fn reset(&self) -> Result<()> {
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
            // The pool stays locked while the view changes, as in `revert`.
            let mut pool = self.pool.lock();
            pool.clear();
            self.publish(&chain, Arc::default())?;
        }
        self.announce_reverted(chain.head().header.clone(), &former);
        drop(chain);
        self.notify();
        Ok(())
    }

    fn unwind(&self, chain: &mut Chain, number: u64) -> Result<()> {
        let unwound = match chain.unwind_to(number) {
            // The genesis state is written anew, so it needs no undo records.
            Err(ChainError::NoUndo { .. }) if number == self.spec.genesis_header().number => {
                let genesis = self.dir.genesis().map_err(NodeError::Genesis)?;
                chain.begin_anew(genesis)
            }
            unwound => unwound.map(drop),
        };
        // The history knows blocks by their hashes. Without a commitment, blocks that only differ in their changes by
        // hand have the same one.
        if self.layer.commitment().kind() == CommitmentKind::None {
            *self.history.lock() = StateHistory::new(Arc::clone(&self.layer));
        }
        let reached = chain.head().number();
        self.cut_marks(reached);
        // For the same reason another block may take the place and the hash of a snapshot's.
        self.snapshots.lock().cut(reached);
        self.keep_ways_back(chain);
        if let Err(error) = unwound {
            // Some of the blocks may have been reverted before the error.
            let former = self.view();
            self.publish(chain, Arc::default())?;
            if chain.head().hash() != former.hash() {
                self.announce_reverted(chain.head().header.clone(), &former);
            }
            return Err(error.into());
        }
        Ok(())
    }

    /// Keeps the undo records back to the oldest snapshot; where all blocks are in memory, back to the genesis.
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
