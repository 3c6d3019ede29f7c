//! What a change does to a shard, and the threads that work for shards beside the blocks.

use crate::{
    SHARD_COUNT,
    account::Entry,
    log::ShardWrite,
    version::{Part, account_rows, storage_rows},
};
use alloy_primitives::B256;
use polytrie_kv::Read;
use polytrie_state::StateError;
use polytrie_trie::{SlotValue, cow::CowTrie, state_error};
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

/// The shard after a change. References are resolved in the storage tries, not in the shard itself.
pub(crate) fn apply(
    part: &Part,
    writes: &[ShardWrite],
    store: &dyn Read,
    seq: u64,
) -> Result<Part, StateError> {
    let rows = account_rows(store);
    let mut changes: Vec<(B256, Option<Entry>)> = Vec::with_capacity(writes.len());
    for write in writes {
        let Some(account) = write.after() else {
            changes.push((write.hash, None));
            continue;
        };
        let before = part.get(&write.hash, &rows, seq).map_err(state_error)?;
        let (storage, begun) = match before {
            Some(before) if !write.wipe => (before.storage.clone(), before.begun),
            _ => (CowTrie::empty(), seq),
        };
        let slots: Vec<_> = write
            .slots()
            .map(|(hash, value)| (hash, (!value.is_zero()).then_some(SlotValue(value))))
            .collect();
        let rows = storage_rows(store, write.hash);
        let storage = storage.updated(&slots, &rows, seq).map_err(state_error)?;
        changes.push((write.hash, Some(Entry { account, storage, begun })));
    }
    CowTrie::resolve_all(changes.iter().flat_map(|(_, entry)| entry).map(|entry| &entry.storage));
    part.updated(&changes, &rows, seq).map_err(state_error)
}
