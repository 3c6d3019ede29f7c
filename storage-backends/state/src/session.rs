//! One block under way, the same for every layer.

use crate::{
    Access, Account, AccountWrite, LayerSession, Outcome, PendingOutcome, SlotWrite, StateError,
    StateLayer, TxWrites, WriteSet, cache::BlockCache, hash_address, hash_slot, layer::BlockRef,
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
    wants_hashed: bool,
    /// Changes since the last intermediate root; only kept when roots are asked for.
    since_last_root: Option<WriteSet>,
    /// Time spent waiting for the layer's reads.
    read_time: Duration,
}

/// A finished block whose commitment may still be under way.
#[derive(Debug)]
pub struct FinishedLater {
    /// Commitment, write batch and undo record, when they are there.
    pub outcome: Box<dyn PendingOutcome>,
    /// What the block changed.
    pub writes: Arc<WriteSet>,
}

/// A finished block, not durable yet.
#[derive(Debug)]
pub struct Finished {
    /// Commitment, write batch and undo record.
    pub outcome: Outcome,
    /// What the block changed.
    pub writes: WriteSet,
}

impl Session {
    /// Starts a block on top of `parent`.
    pub fn begin(layer: &dyn StateLayer, parent: BlockRef) -> Result<Self, StateError> {
        let layer = layer.begin(parent)?;
        let wants_hints = layer.wants_hints();
        let wants_hashed = layer.wants_hashed();
        Ok(Self {
            layer,
            cache: BlockCache::default(),
            wants_hints,
            wants_hashed,
            since_last_root: None,
            read_time: Duration::ZERO,
        })
    }

    /// Asks for [`Self::state_root_so_far`] to be possible; to be called before the first write.
    pub fn with_intermediate_roots(mut self) -> Self {
        self.since_last_root = Some(WriteSet::default());
        self
    }

    /// The account as of now, within the block.
    pub fn account(&mut self, address: &Address) -> Result<Option<Account>, StateError> {
        if let Some(account) = self.cache.known_account(address) {
            return Ok(account);
        }
        let start = Instant::now();
        let account = self.cache.account(&mut *self.layer, address);
        self.read_time += start.elapsed();
        account
    }

    /// A slot as of now, within the block; zero where there is none.
    pub fn slot(&mut self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        if let Some(value) = self.cache.known_slot(address, slot) {
            return Ok(value);
        }
        let start = Instant::now();
        let value = self.cache.slot(&mut *self.layer, address, slot);
        self.read_time += start.elapsed();
        value
    }

    /// Code by its hash; `None` if nobody ever stored it.
    pub fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        match self.cache.code(code_hash) {
            Some(code) => Ok(Some(code)),
            None => self.layer.code(code_hash),
        }
    }

    /// Whether the account has any slot that is not zero.
    pub fn has_storage(&mut self, address: &Address) -> Result<bool, StateError> {
        self.cache.has_storage(&mut *self.layer, address)
    }

    /// Time spent so far waiting for the layer to read accounts and slots.
    pub const fn read_time(&self) -> Duration {
        self.read_time
    }

    /// Whether hints have any effect on this layer.
    pub const fn wants_hints(&self) -> bool {
        self.wants_hints
    }

    /// Something will be touched soon.
    pub fn hint(&mut self, access: Access) {
        if self.wants_hints {
            self.layer.hint(access);
        }
    }

    /// Takes the finalised writes of one transaction.
    pub fn apply(&mut self, writes: &TxWrites) -> Result<(), StateError> {
        for change in &writes.accounts {
            self.cache.apply(&mut *self.layer, change)?;
        }
        if let Some(pending) = &mut self.since_last_root {
            merge(pending, writes);
        }
        if self.wants_hashed {
            self.layer.stream_hashed(self.cache.hashed(writes))?;
        }
        self.layer.stream(writes)
    }

    /// The state root after everything applied so far; `None` if the layer has none to give, or none was
    /// announced by [`Self::with_intermediate_roots`].
    pub fn state_root_so_far(&mut self) -> Result<Option<B256>, StateError> {
        let Some(pending) = &mut self.since_last_root else { return Ok(None) };
        pending.accounts.sort_by_key(|a| a.hash);
        let pending = std::mem::take(pending);
        self.layer.state_root_so_far(&pending)
    }

    /// Ends the block: its commitment, what to write, and what it changed.
    pub fn finish(mut self) -> Result<Finished, StateError> {
        let writes = self.cache.write_set(&mut *self.layer)?;
        let outcome = self.layer.finish(&writes)?;
        Ok(Finished { outcome, writes })
    }

    /// Ends the block without waiting for its commitment; see [`LayerSession::finish_later`].
    pub fn finish_later(mut self) -> Result<FinishedLater, StateError> {
        let writes = Arc::new(self.cache.write_set(&mut *self.layer)?);
        let outcome = self.layer.finish_later(Arc::clone(&writes))?;
        Ok(FinishedLater { outcome, writes })
    }
}

/// Adds the writes of one transaction to those of earlier ones, the later one winning.
fn merge(pending: &mut WriteSet, writes: &TxWrites) {
    for change in &writes.accounts {
        let hash = hash_address(&change.address);
        let position = pending.accounts.iter().position(|a| a.hash == hash).unwrap_or_else(|| {
            pending.accounts.push(AccountWrite {
                hash,
                address: Some(change.address),
                before: None,
                after: None,
                wipe: false,
                slots: Vec::new(),
            });
            pending.accounts.len() - 1
        });
        let entry = &mut pending.accounts[position];
        entry.after = change.account;
        if change.wiped || change.account.is_none() {
            entry.wipe = true;
            entry.slots.clear();
        }
        if change.account.is_none() {
            continue;
        }
        for (slot, value) in &change.slots {
            let hash = hash_slot(slot);
            match entry.slots.binary_search_by_key(&hash, |s| s.hash) {
                Ok(at) => entry.slots[at].after = *value,
                Err(at) => entry.slots.insert(
                    at,
                    SlotWrite { hash, slot: Some(*slot), before: U256::ZERO, after: *value },
                ),
            }
        }
    }
}
