//! One worker: the tries of its part, and the order of its work.

use super::{
    accounts::Accounts,
    message::{Hints, LeafWrite, Part, Sealed, Work, Writes},
    storage::Storages,
};
#[cfg(test)]
use crate::tests::Trouble;
use crate::{
    ReplicaOptions,
    error::{gone, panicked},
};
use alloy_primitives::{B256, U256, map::B256HashMap};
use crossbeam_channel::{Receiver, Sender, select};
use polytrie_kv::{Batch, caught};
use polytrie_state::{Access, Result, StateError, WriteSet, hash_address, hash_slot};
use polytrie_trie::{AccountLeaf, Prefetcher};
use std::collections::VecDeque;

/// The tries of one part. The thread that holds the worker owns all of them; nothing is shared.
#[derive(Debug)]
pub(super) struct Worker {
    /// The rows of the nodes that are not in memory.
    source: Prefetcher,
    storages: Storages,
    /// The account trie, which only the first worker has.
    accounts: Option<Accounts>,
    /// The channels between the first worker and the others.
    peers: Peers,
    /// Bytes of nodes to keep in memory.
    cache_bytes: usize,
    /// The largest age of nodes that fits into memory.
    keep: u32,
    turn: u64,
    /// The changes of the blocks that ended and are not in the store yet.
    waiting: VecDeque<Changed>,
    /// The first failure, after which the worker does nothing.
    failure: Option<StateError>,
    #[cfg(test)]
    trouble: Option<std::sync::Arc<Trouble>>,
}

/// The changes of a block.
#[derive(Debug)]
struct Changed {
    storages: alloy_primitives::map::B256HashSet,
    accounts: bool,
}

/// The channels by which the workers join their parts.
#[derive(Debug)]
pub(super) enum Peers {
    /// The first worker, with a channel from each other worker, which sends one part for each block. A single channel
    /// for all of them would mix up blocks, since a worker may be ahead of another.
    First(Vec<Receiver<Result<Part>>>),
    /// Another worker, with the channel that its parts are sent through.
    Other(Sender<Result<Part>>),
}

/// Age above which nodes are not distinguished.
const OLDEST: u32 = 256;

impl Worker {
    /// Returns a worker without any node in memory. The first one gets the root at the head.
    pub(super) fn new(
        options: &ReplicaOptions,
        source: Prefetcher,
        root: Option<B256>,
        peers: Peers,
    ) -> Self {
        Self {
            source,
            storages: Storages::default(),
            accounts: root.map(Accounts::stored),
            peers,
            cache_bytes: options.cache_bytes / options.workers.max(1),
            keep: OLDEST,
            turn: 0,
            waiting: VecDeque::new(),
            failure: None,
            #[cfg(test)]
            trouble: options.trouble.clone(),
        }
    }

    /// Runs the worker on its thread: messages first, then hints, then work ahead of the block's end; if there is
    /// nothing to do, it waits. Returns `true` when it should leave the thread, and `false` if the layer is closed.
    pub(super) fn run(&mut self, work: &Receiver<Work>, hints: &Receiver<Hints>) -> bool {
        loop {
            let next = match work.try_recv() {
                Ok(next) => Some(next),
                Err(_) if self.work_unasked(hints) => continue,
                Err(_) => select! {
                    recv(work) -> next => match next {
                        Ok(next) => Some(next),
                        Err(_) => return false,
                    },
                    recv(hints) -> hint => {
                        if let Ok(hint) = hint {
                            self.take_hints(hint);
                        }
                        None
                    }
                },
            };
            match next {
                Some(Work::Home) => {
                    // The remaining hints belong to a block that has ended.
                    hints.try_iter().for_each(drop);
                    return true;
                }
                Some(next) => self.handle(next),
                None => {}
            }
        }
    }

    /// Does one piece of optional work; returns whether there was any.
    fn work_unasked(&mut self, hints: &Receiver<Hints>) -> bool {
        if let Ok(hint) = hints.try_recv() {
            self.take_hints(hint);
            return true;
        }
        // If the store is slow, the tries are updated when the paths have been read.
        !self.source.is_slow() && self.guarded(Self::work_ahead).unwrap_or_default()
    }

    /// Runs an action that may fail; does nothing after a failure.
    fn guarded<T>(&mut self, action: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        // Whatever a panic leaves half done is never used again.
        let done = caught(|| {
            #[cfg(test)]
            if let Some(trouble) = &self.trouble {
                trouble.clone().strike()?;
            }
            action(self)
        });
        match done {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => self.failure = Some(error),
            Err(said) => self.failure = Some(panicked(said)),
        }
        None
    }

    /// Returns the result of [`Self::guarded`], or the failure.
    fn or_failure<T>(&self, done: Option<T>) -> Result<T> {
        done.ok_or_else(|| self.failure.clone().unwrap_or_else(gone))
    }

    /// Processes a message. A waiting caller gets an answer in any case.
    pub(super) fn handle(&mut self, work: Work) {
        match work {
            Work::Begin => {
                self.turn += 1;
                // A hint may have overtaken the beginning of its block.
                self.guarded(|worker| Ok(worker.source.end()?));
                // Ages are compared modulo 2^32.
                let turn = self.turn as u32;
                self.storages.begin(turn);
                if let Some(accounts) = &mut self.accounts {
                    accounts.begin(turn);
                }
            }
            Work::Writes(writes) => {
                self.guarded(|worker| worker.write(writes));
            }
            Work::Finish(reply) => {
                let sealed = self.finish();
                if let (Some(reply), Some(sealed)) = (reply, sealed.transpose()) {
                    // The caller may have discarded the block.
                    let _ = reply.send(sealed);
                }
            }
            Work::Accept => {
                self.waiting.pop_front();
                self.guarded(|worker| {
                    worker.shrink();
                    Ok(())
                });
            }
            Work::Reset(root) => {
                let void: Vec<Changed> = self.waiting.drain(..).collect();
                let turn = self.turn as u32;
                if let Some(accounts) = &mut self.accounts {
                    accounts.forget(void.iter().any(|block| block.accounts), root, turn);
                }
                self.storages.forget(void.into_iter().flat_map(|block| block.storages));
                // What the void blocks have read stays, and many may be dropped before one is accepted.
                self.guarded(|worker| {
                    worker.shrink();
                    Ok(())
                });
            }
            // A caller that holds the worker need not call it back.
            Work::Home => {}
            Work::Load(root) => {
                self.waiting.clear();
                self.storages = Storages::default();
                self.accounts = self.accounts.take().map(|_| Accounts::stored(root));
            }
        }
    }

    fn write(&mut self, writes: Writes) -> Result<()> {
        let asks = self.source.is_slow();
        for write in writes.storage {
            if asks {
                write.slots.iter().for_each(|slot| self.want_slot(write.account, slot.hash));
            }
            let change = (write.account, write.wipe, &write.slots[..]);
            let root = || self.accounts.as_mut()?.known_storage_root(&write.account);
            self.storages.write(change, root, &self.source)?;
        }
        for write in writes.leaves {
            if asks {
                self.want_account(write.account);
            }
            if let Some(accounts) = &mut self.accounts {
                accounts.write(&write);
            }
        }
        Ok(())
    }

    /// Takes all writes of a block at its end; `is_own` says which accounts' slots belong to this worker.
    pub(super) fn take(&mut self, writes: &WriteSet, is_own: impl Fn(&B256) -> bool) {
        self.guarded(|worker| {
            for write in writes.accounts() {
                let leaf = LeafWrite::of(write);
                if leaf.storage && is_own(&write.hash) {
                    let Self { storages, accounts, source, .. } = worker;
                    let change = (write.hash, write.clears_slots(), &write.slots[..]);
                    let root = || accounts.as_mut()?.known_storage_root(&write.hash);
                    storages.write(change, root, source)?;
                }
                if let Some(accounts) = &mut worker.accounts {
                    accounts.write(&leaf);
                }
            }
            Ok(())
        });
    }

    /// Brings the paths of hints into memory. If one cannot be read, the others are dropped. The block meets the error if
    /// it needs the row.
    fn take_hints(&mut self, hints: Hints) {
        self.guarded(|worker| {
            let _ = worker.read_paths(hints);
            Ok(())
        });
    }

    fn read_paths(&mut self, hints: Hints) -> Result<()> {
        let asks = self.source.is_slow();
        for hint in hints {
            match hint {
                Access::Account(address) => {
                    let account = hash_address(&address);
                    if asks {
                        self.want_account(account);
                    } else if let Some(accounts) = &mut self.accounts {
                        accounts.get(&account, &self.source)?;
                    }
                }
                Access::SlotRead(address, slot) | Access::SlotWrite(address, slot) => {
                    let (account, slot) = (hash_address(&address), hash_slot(&slot));
                    if asks {
                        self.want_slot(account, slot);
                    } else {
                        self.storages.get(account, None, &slot, &self.source)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns an account as the tries have it; `None` if they do not answer. A path that is not in memory is read if
    /// `read_path` says so, unless the store is slow.
    pub(super) fn account(
        &mut self,
        account: &B256,
        read_path: bool,
    ) -> Result<Option<Option<AccountLeaf>>> {
        let Self { accounts, source, failure, .. } = self;
        let Some(accounts) = accounts.as_mut().filter(|_| failure.is_none()) else {
            return Ok(None);
        };
        if !read_path || source.is_slow() {
            return Ok(accounts.known(account));
        }
        accounts.get(account, source).map(Some)
    }

    /// Returns a slot as the tries have it, if the path to it is in memory.
    pub(super) fn known_slot(&mut self, account: &B256, slot: &B256) -> Option<U256> {
        if self.failure.is_some() {
            return None;
        }
        self.storages.known(account, slot)
    }

    /// Returns a slot of an account with this storage root as the tries have it; `None` if they do not answer. A path that
    /// is not in memory is read, unless the store is slow.
    pub(super) fn slot(&mut self, account: &B256, root: B256, slot: &B256) -> Result<Option<U256>> {
        if self.failure.is_some() || self.source.is_slow() {
            return Ok(None);
        }
        self.storages.get(*account, Some(root), slot, &self.source).map(Some)
    }

    /// Requests the missing nodes of a slot's path, unless the queue is full.
    fn want_slot(&mut self, account: B256, slot: B256) {
        if let Some(from) = self.storages.missing(&account, &slot) {
            self.source.want(Some(account), slot, from);
        }
    }

    fn want_account(&mut self, account: B256) {
        if let Some(from) = self.accounts.as_mut().and_then(|tries| tries.missing(&account)) {
            self.source.want(None, account, from);
        }
    }

    fn work_ahead(&mut self) -> Result<bool> {
        if self.storages.work_ahead(&self.source)? {
            return Ok(true);
        }
        match &mut self.accounts {
            Some(accounts) => accounts.work_ahead(&self.source),
            None => Ok(false),
        }
    }

    /// Ends the block. The first worker returns the trie after it, the others `None`.
    pub(super) fn finish(&mut self) -> Result<Option<Sealed>> {
        let sealed = self.seal(true);
        self.waiting.push_back(Changed {
            storages: self.storages.end(),
            accounts: self.accounts.as_mut().is_some_and(Accounts::end),
        });
        sealed
    }

    /// Computes the root of everything so far, without ending the block. The first worker returns it, the others
    /// `None`.
    pub(super) fn root(&mut self) -> Result<Option<B256>> {
        Ok(self.seal(false)?.map(|sealed| sealed.root))
    }

    /// Completes everything so far. The first worker joins the parts of all workers; the others send theirs and
    /// return `None`.
    fn seal(&mut self, end: bool) -> Result<Option<Sealed>> {
        let own = self.guarded(|worker| {
            worker.read_what_is_needed()?;
            // The rows of the other workers are added to those of the first one.
            let rows = match worker.accounts {
                Some(_) if end => worker.source.store().batch(),
                _ => Batch::new(),
            };
            worker.storages.seal(&worker.source, rows, end)
        });
        let own = self.or_failure(own);
        let others = match &self.peers {
            Peers::Other(first) => {
                // The receiver may be gone, if the layer is being closed.
                let _ = first.send(own);
                return Ok(None);
            }
            Peers::First(others) => others,
        };
        // The parts of all workers are received even if one of them failed: the next block must not find an old one.
        let heard = others.iter().map(|other| other.recv().unwrap_or_else(|_| Err(gone())));
        let heard: Vec<_> = heard.collect();
        let sealed = self.guarded(|worker| worker.put_together(own?, heard, end));
        self.or_failure(sealed).map(Some)
    }

    fn put_together(&mut self, own: Part, others: Vec<Result<Part>>, end: bool) -> Result<Sealed> {
        let mut roots: B256HashMap<B256> = own.roots.into_iter().collect();
        let mut rows = own.rows;
        for part in others {
            let part = part?;
            roots.extend(part.roots);
            rows.absorb(part.rows);
        }
        let Some(accounts) = &mut self.accounts else { return Err(gone()) };
        let taken = end.then_some(&mut rows);
        let root = accounts.seal(&roots, &self.source, taken)?;
        Ok(Sealed { root, rows })
    }

    /// If the store is slow, reads all missing paths of the written keys at once, and waits for them.
    fn read_what_is_needed(&mut self) -> Result<()> {
        if self.source.is_slow() {
            for (account, slot, from) in self.storages.still_missing() {
                self.source.need(Some(account), slot, from)?;
            }
            for (account, from) in
                self.accounts.as_mut().map(Accounts::still_missing).unwrap_or_default()
            {
                self.source.need(None, account, from)?;
            }
        }
        Ok(self.source.wait()?)
    }

    fn bytes(&self) -> usize {
        self.storages.bytes() + self.accounts.as_ref().map_or(0, Accounts::bytes)
    }

    /// Whether the nodes in memory exceed the budget.
    pub(super) fn is_over_budget(&self) -> bool {
        self.bytes() > self.cache_bytes
    }

    /// Evicts nodes to keep within the memory budget. Nodes that are not in the store yet are younger than the
    /// waiting blocks, and stay.
    fn shrink(&mut self) {
        if !self.is_over_budget() {
            return;
        }
        let youngest = self.waiting.len() as u32;
        // An eighth is left free, so that the next eviction is not due at once.
        let target = self.cache_bytes - self.cache_bytes / 8;
        let mut keep = (self.keep * 4).min(OLDEST);
        loop {
            let age = keep.max(youngest);
            self.storages.evict(age);
            if let Some(accounts) = &mut self.accounts {
                accounts.evict(age);
            }
            if self.bytes() <= target || keep == 0 {
                break;
            }
            keep /= 4;
        }
        self.keep = keep.max(1);
    }
}
