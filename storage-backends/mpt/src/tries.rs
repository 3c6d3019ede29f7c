//! The account trie and the storage tries in memory, and the application of a write set to them.

use crate::{
    TRIE,
    storages::{PARTS, Storages, nibbles},
};
use alloy_primitives::{B256, U256, map::HashMap};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Access, AccountWrite, Result, UndoRecord, WriteSet, ahead::Readers, hash_address, hash_slot,
};
use polytrie_trie::{AccountLeaf, Ages, EMPTY_ROOT, LeafChange, Prefetcher, SlotValue, Trie};
use rayon::prelude::*;
use std::{mem, sync::Arc};

/// Number of changed slots below which no second thread is used (measured: a task costs about as much as twenty
/// slots).
const PARALLEL_SLOTS: usize = 64;

/// The parts of all tries that are in memory, at one block.
#[derive(Debug)]
pub(crate) struct Tries {
    /// The rows of the nodes that are not in memory.
    pub(crate) rows: Prefetcher,
    accounts: Trie<AccountLeaf>,
    storages: Storages,
    /// The part of the tries from which nodes are dropped next.
    next_part: u8,
    /// The number of changes of the state so far, by blocks and by taking them back, modulo 2^32: the time by which
    /// nodes age.
    turn: u32,
    /// The root of the tries, if it is not that of the head because a block is in progress.
    ahead: Option<B256>,
    /// The undo record of the block in progress, if the block is finished.
    pub(crate) way_back: Option<UndoRecord>,
}

/// The change of one account's storage, processed by one thread.
struct StorageJob<'a> {
    write: &'a AccountWrite,
    trie: Trie<SlotValue>,
}

impl Tries {
    pub(crate) fn stored(store: Store, root: B256, readers: Arc<Readers>) -> Self {
        Self {
            rows: Prefetcher::new(TRIE, store, readers),
            accounts: Trie::stored(root),
            storages: Storages::default(),
            next_part: 0,
            turn: 0,
            ahead: None,
            way_back: None,
        }
    }

    /// Bytes of memory the tries take.
    pub(crate) fn bytes(&self) -> usize {
        self.accounts.bytes() + self.storages.bytes()
    }

    /// Drops all nodes from memory; the state is then that of `root` in the store.
    pub(crate) fn reset(&mut self, root: B256) {
        self.ahead = None;
        self.way_back = None;
        self.accounts = Trie::stored(root);
        self.storages = Storages::default();
    }

    /// Makes the content of the tries the head. Returns its root, if it differs from that before.
    pub(crate) fn settle(&mut self) -> Option<B256> {
        self.way_back = None;
        self.ahead.take()
    }

    /// Discards the changes of the block in progress, so that the tries have the root `root` again. The changes of a
    /// finished block are undone in memory, so that its nodes stay there.
    pub(crate) fn go_back(&mut self, root: B256) {
        if self.ahead.is_none() {
            return;
        }
        // The rows that this makes are already in the store: they depend on the state alone.
        let undone = self.way_back.take().is_some_and(|record| {
            self.apply(&record.into_writes(), Some(&mut Batch::new()))
                .is_ok_and(|back| back == root)
        });
        if undone {
            self.ahead = None;
        } else {
            self.reset(root);
        }
    }

    /// Begins a block, or taking one back.
    pub(crate) const fn begin_turn(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        self.accounts.set_block(self.turn);
    }

    /// Requests the part of the path to an account or a slot that is not in memory.
    pub(crate) fn want(&mut self, access: Access) {
        let (address, slot) = access.place();
        let account = hash_address(&address);
        let Some(slot) = slot else {
            if let Some(from) = self.accounts.missing(&account) {
                self.rows.want(None, account, from);
            }
            return;
        };
        let slot = hash_slot(&slot);
        let missing = self.storages.read(&account, self.turn, |trie| trie.missing(&slot));
        let from = missing.unwrap_or(Some(0));
        if let Some(from) = from {
            self.rows.want(Some(account), slot, from);
        }
    }

    /// Fetches from memory what will be read of these accounts.
    pub(crate) fn fetch(&self, accounts: &[B256]) {
        self.accounts.fetch(accounts);
    }

    pub(crate) fn account(&mut self, hash: &B256) -> Result<Option<AccountLeaf>> {
        Ok(self.accounts.get(hash, &self.rows.rows(None))?.copied())
    }

    pub(crate) fn slot(&mut self, account: &B256, slot: &B256) -> Result<U256> {
        if !self.storages.contains(account) {
            let Some(leaf) = self.account(account)?.filter(|a| a.storage_root != EMPTY_ROOT) else {
                return Ok(U256::ZERO);
            };
            self.storages.keep(*account, Trie::stored(leaf.storage_root), self.turn);
        }
        let rows = self.rows.rows(Some(*account));
        let value = self.storages.read(account, self.turn, |trie| {
            trie.get(slot, &rows).map(|value| value.map_or(U256::ZERO, |value| value.0))
        });
        Ok(value.transpose()?.unwrap_or_default())
    }

    /// Applies a write set to the tries. If there is a batch, the rows changed since the last call with one are added
    /// to it; without a batch, the tries are ahead of their rows. Returns the state root.
    pub(crate) fn apply(
        &mut self,
        writes: &WriteSet,
        mut batch: Option<&mut Batch>,
    ) -> Result<B256> {
        let mut jobs = self.storage_jobs(writes)?;
        let save = batch.is_some();
        let slots: usize = jobs.iter().map(|job| job.write.slots.len()).sum();
        let source = &self.rows;
        let mut done: Vec<Result<Option<Batch>>> = Vec::with_capacity(jobs.len());
        if jobs.len() > 1 && slots >= PARALLEL_SLOTS {
            let run = |job: &mut StorageJob<'_>| job.run(source, save.then(Batch::new));
            jobs.par_iter_mut().with_max_len(16).map(run).collect_into_vec(&mut done);
        } else {
            for job in &mut jobs {
                // One batch is passed from trie to trie: nothing is copied, and its memory is already allocated.
                let mut rows = job.run(source, batch.as_deref_mut().map(mem::take));
                if let (Some(batch), Ok(Some(rows))) = (batch.as_deref_mut(), &mut rows) {
                    *batch = mem::take(rows);
                }
                done.push(rows);
            }
        }
        let mut roots = HashMap::<B256, B256>::default();
        for (job, rows) in jobs.into_iter().zip(done) {
            roots.insert(job.write.hash, job.trie.last_root());
            if let (Some(batch), Some(rows)) = (batch.as_deref_mut(), rows?) {
                batch.absorb(rows);
            }
            self.storages.keep(job.write.hash, job.trie, self.turn);
        }
        for write in writes.accounts().iter().filter(|write| write.after.is_none()) {
            self.storages.forget(&write.hash);
        }
        let change = |write: &AccountWrite| {
            let storage_root = roots.get(&write.hash).copied();
            (write.hash, LeafChange { account: write.after, storage_root })
        };
        let changes: Vec<_> = writes.accounts().iter().map(change).collect();
        self.accounts.update(&changes, &self.rows.rows(None))?;
        let root = match batch {
            Some(batch) => {
                let rows = TRIE.account_sink(mem::take(batch));
                let (root, rows) = self.accounts.commit(rows);
                *batch = rows.into_inner();
                root
            }
            None => self.accounts.root(),
        };
        self.ahead = Some(root);
        Ok(root)
    }

    fn storage_jobs<'a>(&mut self, writes: &'a WriteSet) -> Result<Vec<StorageJob<'a>>> {
        let mut jobs = Vec::new();
        for write in writes.accounts().iter().filter(|w| w.wipe || !w.slots.is_empty()) {
            let mut trie = match self.storages.take(&write.hash) {
                Some(trie) => trie,
                None => {
                    let root = self.account(&write.hash)?.map_or(EMPTY_ROOT, |a| a.storage_root);
                    Trie::stored(root)
                }
            };
            trie.set_block(self.turn);
            jobs.push(StorageJob { write, trie });
        }
        Ok(jobs)
    }

    /// While more than `budget` bytes are in memory, drops the least recently touched nodes of one part of all tries
    /// after the other, so that no block waits for the whole. A part keeps as much of its memory as leaves three
    /// quarters of the budget after all parts. The tries must be saved.
    pub(crate) fn shrink_to(&mut self, budget: usize) {
        let all = self.bytes();
        for _ in 0..PARTS {
            if self.bytes() <= budget {
                return;
            }
            let part = self.next_part;
            self.next_part = part.wrapping_add(1);
            let mut ages = Ages::default();
            let mut bytes = self.accounts.add_ages(&nibbles(part), &mut ages);
            bytes += self.storages.add_ages(part, self.turn, &mut ages);
            let target = bytes as u128 * (budget / 4 * 3) as u128 / all as u128;
            // What this turn touched stays.
            let keep = ages.oldest_within(target as usize).unwrap_or(0);
            self.accounts.evict_part(&nibbles(part), keep);
            self.storages.evict(part, self.turn, keep);
        }
        // What this turn touched alone exceeds the budget.
        if self.bytes() > budget {
            self.storages = Storages::default();
        }
    }
}

impl StorageJob<'_> {
    /// Applies the changes of the storage, and adds the changed rows to a batch, if there is one.
    fn run(&mut self, source: &Prefetcher, batch: Option<Batch>) -> Result<Option<Batch>> {
        if self.write.wipe {
            self.trie.clear();
        }
        let slots = self.write.slots.iter();
        let changes: Vec<_> = slots.map(|s| (s.hash, SlotValue::of(s.after))).collect();
        let rows = source.rows(Some(self.write.hash));
        self.trie.update(&changes, &rows)?;
        let Some(batch) = batch else {
            self.trie.root();
            return Ok(None);
        };
        let (_, rows) = self.trie.commit(TRIE.storage_sink(batch, self.write.hash));
        Ok(Some(rows.into_inner()))
    }
}
