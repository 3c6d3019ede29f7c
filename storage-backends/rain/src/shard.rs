//! What a change does to a shard, and the threads that work for shards beside the blocks.

use crate::{SHARD_COUNT, TRIE, log::ShardWrite, version::Part};
use alloy_primitives::B256;
use polytrie_kv::Read;
use polytrie_state::StateError;
use polytrie_trie::{
    Nibbles, SlotValue,
    cow::{CowTrie, Entry, Storage},
    state_error,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
};

type Job = Box<dyn FnOnce() + Send>;

/// The threads of the shards: as many as work in parallel, each of them for some shards.
#[derive(Debug)]
pub(crate) struct Shards {
    threads: Vec<Worker>,
}

/// A thread and what gives it work; both go when the shards do.
type Worker = (Option<Sender<Job>>, Option<JoinHandle<()>>);

/// A result that a shard is working on.
#[derive(Debug)]
pub(crate) struct Awaited<T>(Receiver<Result<T, StateError>>);

impl<T> Awaited<T> {
    /// One that is there.
    pub(crate) fn ready(result: T) -> Self {
        let (sender, receiver) = channel();
        // The receiver is held here.
        let _ = sender.send(Ok(result));
        Self(receiver)
    }

    /// Waits for it.
    pub(crate) fn wait(&self) -> Result<T, StateError> {
        self.0.recv().unwrap_or(Err(StateError::Protocol("a shard's thread has ended")))
    }
}

impl Shards {
    /// Starts the threads.
    pub(crate) fn start() -> Result<Self, StateError> {
        let threads = (0..rayon::current_num_threads().clamp(1, SHARD_COUNT))
            .map(|n| {
                let (sender, jobs) = channel::<Job>();
                let work = move || jobs.into_iter().for_each(|job| job());
                let thread = std::thread::Builder::new()
                    .name(format!("rain-{n:x}"))
                    .spawn(work)
                    .map_err(|_| StateError::Protocol("a shard's thread does not start"))?;
                Ok((Some(sender), Some(thread)))
            })
            .collect::<Result<_, StateError>>()?;
        Ok(Self { threads })
    }

    /// Has a shard do something, after what it was asked for before.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        shard: usize,
        work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
    ) -> Awaited<T> {
        let (sender, receiver) = channel();
        let job = move || {
            let done = catch_unwind(AssertUnwindSafe(work))
                .unwrap_or(Err(StateError::Protocol("a shard's thread panicked")));
            // Whoever asked may have gone away.
            let _ = sender.send(done);
        };
        if let Some(thread) = &self.threads[shard % self.threads.len()].0 {
            // A thread that has ended drops the job, and the receiver says so.
            let _ = thread.send(Box::new(job));
        }
        Awaited(receiver)
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        for (sender, _) in &mut self.threads {
            *sender = None;
        }
        for (_, thread) in &mut self.threads {
            if let Some(thread) = thread.take() {
                // A panic was reported to whoever asked.
                let _ = thread.join();
            }
        }
    }
}

/// What changes took away from the rows of a shard, to be noted when they are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lost {
    /// Where the account trie may have a row no more.
    pub(crate) accounts: Vec<Nibbles>,
    /// The same in the storage of accounts.
    pub(crate) storages: Vec<(B256, Vec<Nibbles>)>,
    /// Accounts all of whose slots were removed at once.
    pub(crate) wiped: Vec<B256>,
}

impl Lost {
    /// Adds what another change took away.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.accounts.extend(other.accounts);
        self.storages.extend(other.storages);
        self.wiped.extend(other.wiped);
    }
}

/// Changes a shard. References are resolved in the storage tries, not in the shard itself. After an error it is void.
pub(crate) fn apply(
    part: &mut Part,
    writes: &[ShardWrite],
    store: &dyn Read,
    seq: u64,
) -> Result<Lost, StateError> {
    let rows = TRIE.account_rows(store);
    let mut lost = Lost::default();
    let mut changes: Vec<(B256, Option<Entry>)> = Vec::new();
    for write in writes {
        let entry = part.get_mut(&write.hash, &rows, seq, &mut lost.accounts);
        let entry = entry.map_err(state_error)?;
        let mut new = None;
        let entry = match (write.after(), entry) {
            (None, None) => continue,
            (None, Some(entry)) => {
                if !entry.storage.is_empty() {
                    lost.wiped.push(write.hash);
                }
                changes.push((write.hash, None));
                continue;
            }
            (Some(account), Some(entry)) => {
                entry.account = account;
                if write.wipe && !entry.storage.is_empty() {
                    entry.storage = Storage::default();
                    lost.wiped.push(write.hash);
                }
                entry
            }
            (Some(account), None) => new.insert(Entry { account, storage: Storage::default() }),
        };
        let slots: Vec<_> = write
            .slots()
            .map(|(hash, value)| (hash, (!value.is_zero()).then_some(SlotValue(value))))
            .collect();
        if !slots.is_empty() {
            let mut gone = Vec::new();
            let rows = TRIE.storage_rows(store, write.hash);
            entry.storage.update(&slots, &rows, seq, &mut gone).map_err(state_error)?;
            if !gone.is_empty() {
                lost.storages.push((write.hash, gone));
            }
        }
        changes.extend(new.map(|entry| (write.hash, Some(entry))));
    }
    part.update(&changes, &rows, seq, &mut lost.accounts).map_err(state_error)?;
    let mut storages = Vec::new();
    for write in writes.iter().filter(|write| write.slot_count() > 0) {
        let entry = part.get(&write.hash, &rows, seq).map_err(state_error)?;
        storages.extend(entry.map(|entry| &*entry.storage));
    }
    CowTrie::resolve_all(storages);
    Ok(lost)
}
