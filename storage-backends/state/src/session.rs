//! One block under way, the same for every layer.

use crate::{
    Access, Account, AccountWrite, LayerSession, Outcome, PendingOutcome, SessionCounters,
    StateError, StateLayer, Stateless, TxWrites, Wants, WriteSet, cache::BlockCache,
    layer::BlockRef,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// One block under way: reads see the block's own writes, writes are merged into one [`WriteSet`].
#[derive(Debug)]
pub struct Session {
    layer: Box<dyn LayerSession>,
    cache: BlockCache,
    wants_hints: bool,
    /// Changes of accounts until the layer is told of each by hash; `None` if it never is.
    until_streamed: Option<usize>,
    /// Changes since the last intermediate root; only kept when roots are asked for, and the layer is not told by hash.
    since_last_root: Option<WriteSet>,
    /// Whether the layer was asked for such a root.
    roots_asked: bool,
}

/// A finished block whose commitment may still be under way.
#[derive(Debug)]
pub struct FinishedLater {
    /// Commitment, write batch and undo record, when they are there.
    pub outcome: Box<dyn PendingOutcome>,
    /// What the block changed.
    pub writes: Arc<WriteSet>,
    /// What it asked of the layer; zeros if that was not counted.
    pub counters: SessionCounters,
}

/// A finished block, not durable yet.
#[derive(Debug)]
pub struct Finished {
    /// Commitment, write batch and undo record.
    pub outcome: Outcome,
    /// What the block changed.
    pub writes: WriteSet,
    /// What it asked of the layer; zeros if that was not counted.
    pub counters: SessionCounters,
}

impl Session {
    /// Starts a block on top of `parent`.
    ///
    /// # Errors
    ///
    /// As [`StateLayer::begin`].
    pub fn begin(layer: &dyn StateLayer, parent: BlockRef) -> Result<Self, StateError> {
        Ok(Self::on(layer.begin(parent)?))
    }

    /// Starts a block whose outcome holds its witness.
    ///
    /// # Errors
    ///
    /// As [`Stateless::begin_witnessed`].
    pub fn begin_witnessed(
        layer: &dyn Stateless,
        parent: BlockRef,
        levels: u8,
    ) -> Result<Self, StateError> {
        Ok(Self::on(layer.begin_witnessed(parent, levels)?))
    }

    /// A block that has been started.
    pub(crate) fn on(layer: Box<dyn LayerSession>) -> Self {
        let Wants { hints: wants_hints, writes_from: until_streamed } = layer.wants();
        let cache = BlockCache::default();
        Self {
            layer,
            cache,
            wants_hints,
            until_streamed,
            since_last_root: None,
            roots_asked: false,
        }
    }

    /// Asks for [`Self::state_root_so_far`] to be possible; to be called before the first write.
    pub fn with_intermediate_roots(mut self) -> Self {
        self.since_last_root = Some(WriteSet::default());
        self
    }

    /// The account as of now, within the block.
    ///
    /// # Errors
    ///
    /// As [`LayerSession::account`].
    pub fn account(&mut self, address: &Address) -> Result<Option<Account>, StateError> {
        self.cache.account(&mut *self.layer, address)
    }

    /// A slot as of now, within the block; zero where there is none.
    ///
    /// # Errors
    ///
    /// As [`LayerSession::slot`].
    pub fn slot(&mut self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        self.cache.slot(&mut *self.layer, address, slot)
    }

    /// Code by its hash; `None` if it was never stored.
    ///
    /// # Errors
    ///
    /// As [`LayerSession::code`].
    pub fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        match self.cache.code(code_hash) {
            Some(code) => Ok(Some(code)),
            None => self.cache.read_code(&mut *self.layer, code_hash),
        }
    }

    /// Counts code of so many bytes that the block needs, and that the executor kept from an earlier block.
    pub fn count_known_code(&mut self, code_hash: &B256, bytes: usize) {
        self.cache.count_known_code(code_hash, bytes);
    }

    /// Whether the account has any slot that is not zero.
    ///
    /// # Errors
    ///
    /// As [`LayerSession::has_storage`].
    pub fn has_storage(&mut self, address: &Address) -> Result<bool, StateError> {
        self.cache.has_storage(&mut *self.layer, address)
    }

    /// Time spent so far waiting for the layer to read accounts, slots and code, estimated from a sample.
    pub fn read_time(&self) -> Duration {
        let counters = self.counters();
        counters.accounts_read.time() + counters.slots_read.time() + counters.codes_read.time()
    }

    /// What was asked of the layer so far.
    pub fn counters(&self) -> SessionCounters {
        self.cache.counters
    }

    /// Whether hints have any effect on this layer.
    pub const fn wants_hints(&self) -> bool {
        self.wants_hints
    }

    /// Something will be touched soon.
    pub fn hint(&mut self, access: Access) {
        if self.wants_hints {
            self.cache.counters.hints.call(|| self.layer.hint(access));
        }
    }

    /// Takes the finalised writes of one transaction.
    ///
    /// # Errors
    ///
    /// If what was there before cannot be read, or as [`LayerSession::stream_hashed`].
    pub fn apply(&mut self, writes: &TxWrites) -> Result<(), StateError> {
        let started = self.cache.counters.applied.sampled();
        for change in &writes.accounts {
            self.cache.apply(&mut *self.layer, change)?;
        }
        match (&mut self.until_streamed, &mut self.since_last_root) {
            (Some(0), _) => self.layer.stream_hashed(self.cache.hashed(writes))?,
            (Some(left), _) => {
                *left = left.saturating_sub(writes.accounts.len());
                if *left == 0 {
                    self.layer.stream_hashed(self.cache.hashed_so_far())?;
                }
            }
            (None, Some(pending)) => merge(pending, self.cache.hashed(writes)),
            (None, None) => {}
        }
        self.cache.counters.applied.done(started);
        Ok(())
    }

    /// The state root after everything applied so far; `None` if the layer has none to give, or none was
    /// announced by [`Self::with_intermediate_roots`].
    ///
    /// # Errors
    ///
    /// As [`LayerSession::stream_hashed`] and [`LayerSession::state_root_so_far`].
    pub fn state_root_so_far(&mut self) -> Result<Option<B256>, StateError> {
        let Some(pending) = &mut self.since_last_root else { return Ok(None) };
        if let Some(left @ 1..) = &mut self.until_streamed {
            *left = 0;
            self.layer.stream_hashed(self.cache.hashed_so_far())?;
        }
        pending.accounts.sort_by_key(|a| a.hash);
        let pending = std::mem::take(pending);
        self.roots_asked = true;
        self.layer.state_root_so_far(&pending)
    }

    /// Ends the block: its commitment, what to write, and what it changed.
    ///
    /// # Errors
    ///
    /// If what was there before cannot be read, or as [`LayerSession::finish`].
    pub fn finish(mut self) -> Result<Finished, StateError> {
        let started = self.cache.counters.finished.sampled();
        let writes = self.write_set()?;
        let outcome = self.layer.finish(&writes)?;
        let counters = finished(self.cache.counters, started, &writes);
        Ok(Finished { outcome, writes, counters })
    }

    /// Ends the block without waiting for its commitment; see [`LayerSession::finish_later`].
    ///
    /// # Errors
    ///
    /// If what was there before cannot be read, or as [`LayerSession::finish_later`].
    pub fn finish_later(mut self) -> Result<FinishedLater, StateError> {
        let started = self.cache.counters.finished.sampled();
        let writes = Arc::new(self.write_set()?);
        let outcome = self.layer.finish_later(Arc::clone(&writes))?;
        let counters = finished(self.cache.counters, started, &writes);
        Ok(FinishedLater { outcome, writes, counters })
    }

    /// Ends the block without a commitment: what it changed, and what it asked of the layer.
    ///
    /// # Errors
    ///
    /// If what was there before cannot be read.
    pub fn into_writes(mut self) -> Result<(WriteSet, SessionCounters), StateError> {
        let writes = self.cache.write_set(&mut *self.layer)?;
        let counters = finished(self.cache.counters, None, &writes);
        Ok((writes, counters))
    }

    /// What the block changed in the end. It does not name what was changed before the last root and is now as it was
    /// before the block: a layer that was asked for that root is told here.
    fn write_set(&mut self) -> Result<WriteSet, StateError> {
        let untold =
            self.since_last_root.as_ref().is_some_and(|pending| !pending.accounts.is_empty());
        if self.roots_asked && untold {
            self.state_root_so_far()?;
        }
        self.cache.write_set(&mut *self.layer)
    }
}

/// The counters of a block that has just ended.
fn finished(
    mut counters: SessionCounters,
    started: Option<Instant>,
    writes: &WriteSet,
) -> SessionCounters {
    counters.finished.done(started);
    counters.count_writes(writes);
    counters
}

/// Adds the writes of one transaction to those of earlier ones, the later one winning.
fn merge(pending: &mut WriteSet, writes: Vec<AccountWrite>) {
    for mut write in writes {
        let slots = std::mem::take(&mut write.slots);
        let known = pending.accounts.iter().position(|account| account.hash == write.hash);
        let position = known.unwrap_or(pending.accounts.len());
        if known.is_none() {
            pending.accounts.push(write.clone());
        }
        let entry = &mut pending.accounts[position];
        entry.after = write.after;
        if write.wipe {
            entry.wipe = true;
            entry.slots.clear();
        }
        for slot in slots {
            match entry.slots.binary_search_by_key(&slot.hash, |s| s.hash) {
                Ok(at) => entry.slots[at] = slot,
                Err(at) => entry.slots.insert(at, slot),
            }
        }
    }
}
