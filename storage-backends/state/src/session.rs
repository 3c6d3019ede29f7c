//! Sessions: one block in progress, the same for every layer.

use crate::{
    Access, Account, AccountWrite, Known, LayerSession, Outcome, PendingOutcome, Result,
    SessionCounters, StateLayer, Stateless, TxWrites, Wants, WriteSet,
    cache::{BlockCache, Entries},
    counters::Timed,
    layer::BlockRef,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// One block in progress: reads see the block's own writes, and writes are merged into one [`WriteSet`].
#[derive(Debug)]
pub struct Session {
    pub(crate) cache: BlockCache,
    wants_hints: bool,
    is_slow: bool,
    /// Number of account changes until the layer gets each change by hash; `None` if it never does.
    until_streamed: Option<usize>,
    /// The changes since the last intermediate root; only kept if roots are requested and the layer does not get
    /// changes by hash.
    since_last_root: Option<WriteSet>,
    /// Whether the layer was asked for an intermediate root.
    roots_asked: bool,
}

/// A finished block. Its commitment may still be in computation.
#[derive(Debug)]
pub struct FinishedLater {
    /// The commitment, write batch and undo record, once they are computed.
    pub outcome: Box<dyn PendingOutcome>,
    /// The block's write set.
    pub writes: Arc<WriteSet>,
    /// The counts of the block's calls to the layer; zeros if they were not counted.
    pub counters: SessionCounters,
}

/// A finished block, not durable yet.
#[derive(Debug)]
pub struct Finished {
    /// The commitment, write batch and undo record.
    pub outcome: Outcome,
    /// The block's write set.
    pub writes: WriteSet,
    /// The counts of the block's calls to the layer; zeros if they were not counted.
    pub counters: SessionCounters,
}

impl Session {
    /// Begins a block on top of `parent`.
    ///
    /// # Errors
    ///
    /// Those of [`StateLayer::begin`].
    pub fn begin(layer: &dyn StateLayer, parent: BlockRef) -> Result<Self> {
        Ok(Self::on(layer.begin(parent)?))
    }

    /// Begins a block whose outcome holds its witness, without the first `levels` levels of the account trie.
    ///
    /// # Errors
    ///
    /// Those of [`Stateless::begin_witnessed`].
    pub fn begin_witnessed(layer: &dyn Stateless, parent: BlockRef, levels: u8) -> Result<Self> {
        Ok(Self::on(layer.begin_witnessed(parent, levels)?))
    }

    /// Wraps a block that the layer has begun.
    pub(crate) fn on(layer: Box<dyn LayerSession>) -> Self {
        let Wants { hints: wants_hints, slow, writes_from: until_streamed } = layer.wants();
        Self {
            cache: BlockCache::new(layer, slow),
            wants_hints,
            is_slow: wants_hints && slow,
            until_streamed,
            since_last_root: None,
            roots_asked: false,
        }
    }

    /// Wraps a block that begins with accounts and slots as they were read before.
    pub(crate) fn on_entries(layer: Box<dyn LayerSession>, entries: Entries) -> Self {
        let mut session = Self::on(layer);
        session.cache.accounts = entries;
        session
    }

    /// Makes [`Self::state_root_so_far`] available; must be called before the first write.
    pub fn with_intermediate_roots(mut self) -> Self {
        self.since_last_root = Some(WriteSet::default());
        self
    }

    /// Prepares for accounts that the block names: hashing many addresses together takes a fraction of the time of hashing
    /// each. They need not be touched.
    pub fn expect(&mut self, addresses: impl Iterator<Item = Address>) {
        self.cache.expect(addresses);
    }

    /// Returns the account at the present point of the block; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`LayerSession::account`].
    pub fn account(&mut self, address: &Address) -> Result<Option<Account>> {
        self.cache.account(address)
    }

    /// Returns the value of a slot at the present point of the block; zero if it is not set.
    ///
    /// # Errors
    ///
    /// Those of [`LayerSession::slot`].
    pub fn slot(&mut self, address: &Address, slot: &U256) -> Result<U256> {
        self.cache.slot(address, slot)
    }

    /// Returns code by its hash; `None` if it was never stored.
    ///
    /// # Errors
    ///
    /// Those of [`LayerSession::code`].
    pub fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        match self.cache.code(code_hash) {
            Some(code) => Ok(Some(code)),
            None => self.cache.read_code(code_hash),
        }
    }

    /// Counts code of this many bytes that the block needs and the executor has kept from an earlier block.
    pub fn count_known_code(&mut self, code_hash: &B256, bytes: usize) {
        self.cache.count_known_code(code_hash, bytes);
    }

    /// Whether the account has any slot that is not zero.
    ///
    /// # Errors
    ///
    /// Those of [`LayerSession::has_storage`].
    pub fn has_storage(&mut self, address: &Address) -> Result<bool> {
        self.cache.has_storage(address)
    }

    /// Splits the time since `start`, when the block began: into the time of waiting for the layer to read accounts, slots and
    /// code, and the rest. The first is estimated from a sample, except where reads wait for a disk, and no longer than all.
    pub fn reads_and_rest(&self, start: Instant) -> (Duration, Duration) {
        let (counters, all) = (self.counters(), start.elapsed());
        let slots_and_codes = counters.slots_read.time() + counters.codes_read.time();
        let reads = (counters.accounts_read.time() + slots_and_codes).min(all);
        (reads, all - reads)
    }

    /// Returns the counts of the calls to the layer so far.
    pub fn counters(&self) -> SessionCounters {
        self.cache.counters
    }

    /// Whether hints have any effect on this layer.
    pub const fn wants_hints(&self) -> bool {
        self.wants_hints
    }

    /// Whether reads wait for a disk, so that hints are worth waiting for before the first read.
    pub const fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Announces to the layer that a part of the state will be touched soon.
    pub fn hint(&mut self, access: Access) {
        let BlockCache { counters, layer, timed, .. } = &mut self.cache;
        if self.wants_hints {
            counters.hints.call(*timed, || layer.hint(access));
        }
    }

    /// Applies the finalised writes of one transaction.
    ///
    /// # Errors
    ///
    /// If a former value cannot be read, and those of [`LayerSession::stream_hashed`].
    pub fn apply(&mut self, writes: &TxWrites) -> Result<()> {
        let started = self.cache.counters.applied.begin(self.cache.timed);
        // The time of a read counts once, so it must be known wherever it is in a time.
        let timed = if started.is_some() { Timed::Each } else { Timed::None };
        let read_before = self.cache.counters.timed_reads();
        for change in &writes.accounts {
            self.cache.apply(change, timed)?;
        }
        let read = self.cache.counters.timed_reads() - read_before;
        match (&mut self.until_streamed, &mut self.since_last_root) {
            (Some(0), _) => self.cache.layer.stream_hashed(self.cache.hashed(writes))?,
            (Some(left), _) => {
                *left = left.saturating_sub(writes.accounts.len());
                if *left == 0 {
                    self.cache.layer.stream_hashed(self.cache.hashed_so_far())?;
                }
            }
            (None, Some(pending)) => merge(pending, self.cache.hashed(writes)),
            (None, None) => {}
        }
        self.cache.counters.applied.done(started.map(|started| started + read));
        Ok(())
    }

    /// Returns the state root after everything applied so far; `None` if the layer cannot compute it, or
    /// [`Self::with_intermediate_roots`] was not called.
    ///
    /// # Errors
    ///
    /// Those of [`LayerSession::stream_hashed`] and [`LayerSession::state_root_so_far`].
    pub fn state_root_so_far(&mut self) -> Result<Option<B256>> {
        let Some(pending) = &mut self.since_last_root else { return Ok(None) };
        if let Some(left @ 1..) = &mut self.until_streamed {
            *left = 0;
            self.cache.layer.stream_hashed(self.cache.hashed_so_far())?;
        }
        pending.accounts.sort_by_key(|a| a.hash);
        let pending = std::mem::take(pending);
        self.roots_asked = true;
        self.cache.layer.state_root_so_far(&pending)
    }

    /// Ends the block; returns its commitment, batch and write set.
    ///
    /// # Errors
    ///
    /// If a former value cannot be read, and those of [`LayerSession::finish`].
    pub fn finish(mut self) -> Result<Finished> {
        let started = self.cache.counters.finished.begin(Timed::Sample);
        let writes = self.write_set()?;
        let outcome = self.cache.layer.finish(&writes)?;
        let counters = finished(self.cache.counters, started, &writes);
        Ok(Finished { outcome, writes, counters })
    }

    /// Ends the block without waiting for its commitment; see [`LayerSession::finish_later`].
    ///
    /// # Errors
    ///
    /// If a former value cannot be read, and those of [`LayerSession::finish_later`].
    pub fn finish_later(mut self) -> Result<FinishedLater> {
        let started = self.cache.counters.finished.begin(Timed::Sample);
        let writes = Arc::new(self.write_set()?);
        self.end_later(started, writes)
    }

    /// Ends the block as [`Self::finish_later`] does after these changes, as if they were those of one transaction. `known`
    /// has read all of it from this session.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`](crate::StateError::Untold) if the changes name something else, and those of
    /// [`Self::finish_later`].
    pub fn finish_known(mut self, known: &Known, changes: &TxWrites) -> Result<FinishedLater> {
        let BlockCache { layer, counters, .. } = &mut self.cache;
        let started = counters.applied.begin(Timed::Each);
        let writes = Arc::new(known.write_set(changes, &mut **layer)?);
        if self.until_streamed.is_some_and(|from| changes.accounts.len() >= from) {
            layer.stream_hashed(writes.accounts.clone())?;
        }
        counters.applied.done(started);
        let started = counters.finished.begin(Timed::Sample);
        self.end_later(started, writes)
    }

    fn end_later(self, started: Option<Instant>, writes: Arc<WriteSet>) -> Result<FinishedLater> {
        let outcome = self.cache.layer.finish_later(Arc::clone(&writes))?;
        let counters = finished(self.cache.counters, started, &writes);
        Ok(FinishedLater { outcome, writes, counters })
    }

    /// Ends the block without a commitment; returns its write set and the counts of its calls to the layer.
    ///
    /// # Errors
    ///
    /// If a former value cannot be read.
    pub fn into_writes(mut self) -> Result<(WriteSet, SessionCounters)> {
        let writes = self.cache.write_set()?;
        let counters = finished(self.cache.counters, None, &writes);
        Ok((writes, counters))
    }

    /// Returns the block's write set. It leaves out values that changed before the last intermediate root and are
    /// again as they were before the block; a layer that computed that root gets those changes here.
    fn write_set(&mut self) -> Result<WriteSet> {
        let untold =
            self.since_last_root.as_ref().is_some_and(|pending| !pending.accounts.is_empty());
        if self.roots_asked && untold {
            self.state_root_so_far()?;
        }
        self.cache.write_set()
    }
}

/// Completes the counters of a block that has just ended.
fn finished(
    mut counters: SessionCounters,
    started: Option<Instant>,
    writes: &WriteSet,
) -> SessionCounters {
    counters.finished.done(started);
    counters.count_writes(writes);
    counters
}

/// Adds the writes of one transaction to those of earlier ones; the later write wins.
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
