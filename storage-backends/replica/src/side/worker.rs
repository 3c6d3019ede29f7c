//! One worker: the tries of its part, and what it does with its time.

use super::{
    accounts::Accounts,
    message::{Answer, Hints, Job, LeafWrite, Owner, Part, Sealed, Work, Writes},
    readers::Readers,
    storage::Storages,
};
use crate::error::{gone, panicked};
#[cfg(test)]
use crate::tests::Trouble;
use alloy_primitives::{
    B256, U256,
    map::{B256HashMap, HashSet},
};
use crossbeam_channel::{Receiver, Sender, select};
use polytrie_kv::Store;
use polytrie_state::{Access, StateError, WriteSet, hash_address, hash_slot};
use polytrie_trie::{AccountLeaf, ReadPace};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The tries of one part. All of them belong to whoever holds this; nothing is shared.
#[derive(Debug)]
pub(super) struct Worker {
    store: Store,
    storages: Storages,
    /// The first worker has the account trie.
    accounts: Option<Accounts>,
    /// What the other workers tell the first, or where they tell it.
    peers: Peers,
    /// Where paths are read ahead, with the way back; the second half must not be dropped before the first.
    readers: Option<(Readers, Sender<Answer>)>,
    answers: Receiver<Answer>,
    pace: ReadPace,
    /// Bytes of nodes to keep.
    cache_bytes: usize,
    /// How old nodes may be, as far as memory decides.
    keep: u32,
    turn: u64,
    /// The same for the readers.
    now: Arc<AtomicU64>,
    /// What the blocks changed that ended and are not in the store yet.
    waiting: VecDeque<Changed>,
    /// The first thing that went wrong. Nothing is done any more after it.
    failure: Option<StateError>,
    #[cfg(test)]
    trouble: Option<std::sync::Arc<Trouble>>,
}

/// What a block changed.
#[derive(Debug)]
struct Changed {
    storages: alloy_primitives::map::B256HashSet,
    accounts: bool,
}

/// How the workers put their parts together.
#[derive(Debug)]
pub(super) enum Peers {
    /// The first worker: each of the others hands its parts over through a channel of its own, one for each block. One
    /// channel for all of them would mix up blocks, since a worker may be ahead of another.
    First(Vec<Receiver<Result<Part, StateError>>>),
    /// Another worker: its part goes there.
    Other(Sender<Result<Part, StateError>>),
}

/// What a worker is made of.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) store: Store,
    /// The root at the head, for the first worker.
    pub(super) root: Option<B256>,
    pub(super) peers: Peers,
    pub(super) readers: Option<Readers>,
    pub(super) cache_bytes: usize,
    #[cfg(test)]
    pub(super) trouble: Option<std::sync::Arc<Trouble>>,
}

/// The largest age of nodes worth telling apart.
const OLDEST: u32 = 256;

impl Worker {
    pub(super) fn new(setup: Setup) -> Self {
        let (answer, answers) = crossbeam_channel::unbounded();
        #[cfg(test)]
        let always = setup.trouble.as_ref().is_some_and(|trouble| trouble.slow_store);
        #[cfg(not(test))]
        let always = false;
        Self {
            store: setup.store,
            storages: Storages::default(),
            accounts: setup.root.map(Accounts::stored),
            peers: setup.peers,
            readers: setup.readers.map(|readers| (readers, answer)),
            answers,
            pace: ReadPace::new(always),
            cache_bytes: setup.cache_bytes,
            keep: OLDEST,
            turn: 0,
            now: Arc::default(),
            waiting: VecDeque::new(),
            failure: None,
            #[cfg(test)]
            trouble: setup.trouble,
        }
    }

    /// What a worker does on its thread: what must be done first, then what may help, then what saves work
    /// later; at last it waits. Returns when it is to leave the thread; `false` if the layer is closed.
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
                            self.guarded(|worker| worker.take_hints(hint));
                        }
                        None
                    }
                    recv(self.answers) -> answer => {
                        if let Ok(answer) = answer {
                            self.guarded(|worker| worker.arrived(answer));
                        }
                        None
                    }
                },
            };
            match next {
                Some(Work::Home) => {
                    // Those that are left are about a block that is over.
                    hints.try_iter().for_each(drop);
                    return true;
                }
                Some(next) => self.handle(next),
                None => {}
            }
        }
    }

    /// Does one thing that may help or saves work later; returns whether there was one.
    fn work_unasked(&mut self, hints: &Receiver<Hints>) -> bool {
        if let Ok(answer) = self.answers.try_recv() {
            self.guarded(|worker| worker.arrived(answer));
            return true;
        }
        if let Ok(hint) = hints.try_recv() {
            self.guarded(|worker| worker.take_hints(hint));
            return true;
        }
        self.guarded(Self::work_ahead).unwrap_or_default()
    }

    /// Does something that may fail; after a failure, nothing.
    fn guarded<T>(&mut self, action: impl FnOnce(&mut Self) -> Result<T, StateError>) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        // What a panic leaves half done is never used again.
        let done = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            if let Some(trouble) = &self.trouble {
                trouble.clone().strike()?;
            }
            action(self)
        }));
        match done {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => self.failure = Some(error),
            Err(panic) => self.failure = Some(panicked(&*panic)),
        }
        None
    }

    /// What [`Self::guarded`] did, or why it did not.
    fn or_failure<T>(&self, done: Option<T>) -> Result<T, StateError> {
        done.ok_or_else(|| self.failure.clone().unwrap_or_else(gone))
    }

    /// Does what must be done. Whoever waits gets an answer, whatever happens.
    pub(super) fn handle(&mut self, work: Work) {
        match work {
            Work::Begin => {
                self.turn += 1;
                self.now.store(self.turn, Relaxed);
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
                    // Nobody waits for a block that was given up.
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
            }
            // Whoever has the worker already need not call it.
            Work::Home => {}
            Work::Load(root) => {
                self.waiting.clear();
                self.storages = Storages::default();
                self.accounts = self.accounts.take().map(|_| Accounts::stored(root));
            }
        }
    }

    fn write(&mut self, writes: Writes) -> Result<(), StateError> {
        let asks = self.reads_slowly();
        for write in writes.storage {
            if asks {
                for slot in &write.slots {
                    self.ask_slot(write.account, &slot.hash);
                }
            }
            let change = (write.account, write.wipe, &write.slots[..]);
            let root = || self.accounts.as_mut()?.known_storage_root(&write.account);
            self.storages.write(change, root, &self.store, &self.pace)?;
        }
        for write in writes.leaves {
            if asks {
                self.ask_account(&write.account);
            }
            if let Some(accounts) = &mut self.accounts {
                accounts.write(&write);
            }
        }
        Ok(())
    }

    /// Takes in all that a block writes, at its end; `is_own` says whose slots this worker has.
    pub(super) fn take(&mut self, writes: &WriteSet, is_own: impl Fn(&B256) -> bool) {
        self.guarded(|worker| {
            for write in writes.accounts() {
                let leaf = LeafWrite::of(write);
                if leaf.storage && is_own(&write.hash) {
                    let Self { storages, accounts, store, pace, .. } = worker;
                    let change = (write.hash, write.clears_slots(), &write.slots[..]);
                    let root = || accounts.as_mut()?.known_storage_root(&write.hash);
                    storages.write(change, root, store, pace)?;
                }
                if let Some(accounts) = &mut worker.accounts {
                    accounts.write(&leaf);
                }
            }
            Ok(())
        });
    }

    fn take_hints(&mut self, hints: Hints) -> Result<(), StateError> {
        let asks = self.reads_slowly();
        for hint in hints {
            match hint {
                Access::Account(address) => {
                    let account = hash_address(&address);
                    if asks {
                        self.ask_account(&account);
                    } else if let Some(accounts) = &mut self.accounts {
                        accounts.resolve(&account, &self.store, &self.pace)?;
                    }
                }
                Access::SlotRead(address, slot) | Access::SlotWrite(address, slot) => {
                    let (account, slot) = (hash_address(&address), hash_slot(&slot));
                    if asks {
                        self.ask_slot(account, &slot);
                    } else {
                        self.storages.resolve(account, &slot, &self.store, &self.pace)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// An account after all that was taken in, if the way to it is in memory.
    pub(super) fn known_account(&mut self, account: &B256) -> Option<Option<AccountLeaf>> {
        let accounts = self.accounts.as_mut().filter(|_| self.failure.is_none())?;
        accounts.known(account)
    }

    /// The same for a slot.
    pub(super) fn known_slot(&mut self, account: &B256, slot: &B256) -> Option<U256> {
        if self.failure.is_some() {
            return None;
        }
        self.storages.known(account, slot)
    }

    fn ask_slot(&mut self, account: B256, slot: &B256) {
        if let Some(from) = self.storages.ask_from(account, slot)
            && !self.ask(Some(account), *slot, from, false)
        {
            self.storages.not_asked(&account, slot);
        }
    }

    fn ask_account(&mut self, account: &B256) {
        let Some(from) = self.accounts.as_mut().and_then(|accounts| accounts.ask_from(account))
        else {
            return;
        };
        if !self.ask(None, *account, from, false)
            && let Some(accounts) = &mut self.accounts
        {
            accounts.not_asked(account);
        }
    }

    fn ask(&mut self, owner: Owner, key: B256, from: usize, needed: bool) -> bool {
        let Some((readers, answer)) = &self.readers else { return false };
        let (turn, now, answer) = (self.turn, Arc::clone(&self.now), answer.clone());
        readers.ask(Job { owner, key, from, needed, turn, now, answer })
    }

    fn arrived(&mut self, answer: Answer) -> Result<(), StateError> {
        let Answer { owner, key, turn, rows, nanos } = answer;
        let rows = rows?;
        self.pace.took(nanos, rows.len() as u64);
        // What was read for an earlier block may have changed since.
        if turn != self.turn {
            return Ok(());
        }
        match owner {
            Some(account) => {
                self.storages.arrived(&account, &key, rows);
                self.storages.retry(&account);
            }
            None => {
                if let Some(accounts) = &mut self.accounts {
                    accounts.arrived(&key, rows);
                }
            }
        }
        Ok(())
    }

    fn work_ahead(&mut self) -> Result<bool, StateError> {
        if self.storages.work_ahead(&self.store, &self.pace)? {
            return Ok(true);
        }
        match &mut self.accounts {
            Some(accounts) => accounts.work_ahead(&self.store, &self.pace),
            None => Ok(false),
        }
    }

    /// Ends the block. The first worker has the trie after it, the others nothing.
    pub(super) fn finish(&mut self) -> Result<Option<Sealed>, StateError> {
        let sealed = self.seal(true);
        self.waiting.push_back(Changed {
            storages: self.storages.end(),
            accounts: self.accounts.as_mut().is_some_and(Accounts::end),
        });
        sealed
    }

    /// The root after everything so far, without ending the block. The first worker has it, the others nothing.
    pub(super) fn root(&mut self) -> Result<Option<B256>, StateError> {
        Ok(self.seal(false)?.map(|sealed| sealed.root))
    }

    /// Completes everything so far. The first worker puts the parts of all together; the others hand theirs
    /// over and return nothing.
    fn seal(&mut self, end: bool) -> Result<Option<Sealed>, StateError> {
        let own = self.guarded(|worker| {
            worker.fetch_what_is_needed()?;
            worker.storages.seal(&worker.store, &worker.pace, end)
        });
        let own = self.or_failure(own);
        let others = match &self.peers {
            Peers::Other(first) => {
                // Nobody listens any more when the layer is being closed.
                let _ = first.send(own);
                return Ok(None);
            }
            Peers::First(others) => others,
        };
        // All of them are heard, whatever one of them says: the next block must not find an old answer.
        let heard = others.iter().map(|other| other.recv().unwrap_or_else(|_| Err(gone())));
        let heard: Vec<_> = heard.collect();
        let sealed = self.guarded(|worker| worker.put_together(own?, heard, end));
        self.or_failure(sealed).map(Some)
    }

    fn put_together(
        &mut self,
        own: Part,
        others: Vec<Result<Part, StateError>>,
        end: bool,
    ) -> Result<Sealed, StateError> {
        let mut roots: B256HashMap<B256> = own.roots.into_iter().collect();
        let mut rows = own.rows;
        for part in others {
            let part = part?;
            roots.extend(part.roots);
            rows.absorb(part.rows);
        }
        let Some(accounts) = &mut self.accounts else { return Err(gone()) };
        let taken = end.then_some(&mut rows);
        let root = accounts.seal(&roots, &self.store, &self.pace, taken)?;
        Ok(Sealed { root, rows })
    }

    /// Where the store is slow: all paths that were written and are not there yet are read at once, unless readers are
    /// on their way to them, and waited for. Nobody waits for those that were only hinted at.
    fn fetch_what_is_needed(&mut self) -> Result<(), StateError> {
        if !self.reads_slowly() {
            return Ok(());
        }
        // What two ways have in common may have been read for one of them only: there is a second time.
        for _ in 0..2 {
            let mut awaited = HashSet::<(Owner, B256)>::default();
            for (account, slot, from) in self.storages.still_missing() {
                if self.storages.is_asked(&account, &slot)
                    || self.ask(Some(account), slot, from, true)
                {
                    awaited.insert((Some(account), slot));
                }
            }
            let missing = self.accounts.as_mut().map(Accounts::still_missing).unwrap_or_default();
            for (account, from) in missing {
                let asked =
                    self.accounts.as_ref().is_some_and(|accounts| accounts.is_asked(&account));
                if asked || self.ask(None, account, from, true) {
                    awaited.insert((None, account));
                }
            }
            if awaited.is_empty() {
                break;
            }
            while !awaited.is_empty() {
                let answer = self.answers.recv().map_err(|_| gone())?;
                if answer.turn == self.turn {
                    awaited.remove(&(answer.owner, answer.key));
                }
                self.arrived(answer)?;
            }
        }
        Ok(())
    }

    /// Whether reads wait for a disk, so that it pays to know of them early.
    pub(super) fn reads_slowly(&self) -> bool {
        self.readers.is_some() && self.pace.is_slow()
    }

    fn bytes(&self) -> usize {
        self.storages.bytes() + self.accounts.as_ref().map_or(0, Accounts::bytes)
    }

    /// Whether there is more in memory than is allowed.
    pub(super) fn is_over_budget(&self) -> bool {
        self.bytes() > self.cache_bytes
    }

    /// Keeps to the memory that is allowed. What is not in the store yet is younger than the blocks that
    /// wait.
    fn shrink(&mut self) {
        if !self.is_over_budget() {
            return;
        }
        let youngest = self.waiting.len() as u32;
        // An eighth of room, so that this is not to be done again at once.
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
