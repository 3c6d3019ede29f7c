//! Threads that read paths ahead, where the store is slow.

use super::message::{Answer, Job};
use crate::{FLAT, error::panicked};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, select, unbounded};
use parking_lot::Mutex;
use polytrie_kv::Store;
use polytrie_state::StateError;
use polytrie_trie::{AccountLeaf, RowsAhead, SlotValue, TrieError};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
    time::Instant,
};

/// Where jobs go. The readers end when the last of these is gone.
#[derive(Debug, Clone)]
pub(super) struct Readers {
    /// Somebody waits for these.
    needed: Sender<Job>,
    /// These may be dropped.
    hinted: Sender<Job>,
    threads: Arc<ReaderThreads>,
}

/// The threads, started with the first job: where the store is fast there is none.
#[derive(Debug)]
pub(super) struct ReaderThreads {
    count: usize,
    store: Store,
    flat: Store,
    urgent: Receiver<Job>,
    idle: Receiver<Job>,
    running: Mutex<Option<Vec<JoinHandle<()>>>>,
}

impl Readers {
    pub(super) fn new(count: usize, queue: usize, store: &Store, flat: &Store) -> Self {
        let (needed, urgent) = unbounded();
        let (hinted, idle) = bounded(queue.max(1));
        let (store, flat) = (store.clone(), flat.clone());
        let running = Mutex::default();
        let threads = Arc::new(ReaderThreads { count, store, flat, urgent, idle, running });
        Self { needed, hinted, threads }
    }

    /// Hands a job over; returns whether it was taken. One that is needed always is, if there is any thread.
    pub(super) fn ask(&self, job: Job) -> bool {
        if !self.threads.run() {
            return false;
        }
        if job.needed { self.needed.send(job).is_ok() } else { self.hinted.try_send(job).is_ok() }
    }

    /// The threads, for whoever waits for their end.
    pub(super) fn threads(&self) -> Arc<ReaderThreads> {
        Arc::clone(&self.threads)
    }
}

impl ReaderThreads {
    /// Starts them if that was not done yet; returns whether there are any.
    fn run(&self) -> bool {
        let mut running = self.running.lock();
        // As many as the system allows: whoever gets no answer reads by himself.
        let start = || (0..self.count).map_while(|_| self.start().ok()).collect();
        !running.get_or_insert_with(start).is_empty()
    }

    fn start(&self) -> io::Result<JoinHandle<()>> {
        let (urgent, idle) = (self.urgent.clone(), self.idle.clone());
        let (store, flat) = (self.store.clone(), self.flat.clone());
        thread::Builder::new().name("replica-read".into()).spawn(move || {
            while let Some(job) = next(&urgent, &idle) {
                answer(&store, &flat, job);
            }
        })
    }

    /// Waits until all have ended; nobody may have a [`Readers`] any more.
    pub(super) fn join(&self) {
        for thread in self.running.lock().take().into_iter().flatten() {
            // A reader catches what goes wrong; it has been told to whoever asked.
            let _ = thread.join();
        }
    }
}

/// What is needed comes first.
fn next(urgent: &Receiver<Job>, idle: &Receiver<Job>) -> Option<Job> {
    match urgent.try_recv() {
        Ok(job) => return Some(job),
        Err(TryRecvError::Disconnected) => return None,
        Err(TryRecvError::Empty) => {}
    }
    select! {
        recv(urgent) -> job => job.ok(),
        recv(idle) -> job => job.ok(),
    }
}

fn answer(store: &Store, flat: &Store, job: Job) {
    let start = Instant::now();
    let read = match job.now.load(Relaxed) == job.turn {
        // A panic is an answer too: somebody may wait for it.
        true => catch_unwind(AssertUnwindSafe(|| read(store, flat, &job))),
        // The block is over, and nobody waits.
        false => return,
    };
    let rows = match read {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(TrieError::Store(error))) => Err(error.into()),
        // Too late, perhaps: the block is over and the rows are those of the next one. If not, the worker
        // comes to the same place and reports it.
        Ok(Err(TrieError::Missing { .. } | TrieError::Malformed { .. })) => {
            Ok(RowsAhead::default())
        }
        Err(panic) => Err(panicked(&*panic)),
    };
    let Job { owner, key, turn, answer, .. } = job;
    let nanos = start.elapsed().as_nanos() as u64;
    // Nobody listens any more when the layer is being closed.
    let _ = answer.send(Answer { owner, key, turn, rows, nanos });
}

fn read(store: &Store, flat: &Store, job: &Job) -> Result<RowsAhead, TrieError> {
    let source = crate::TRIE.rows_of(store, job.owner);
    match job.owner {
        Some(_) => RowsAhead::of_path::<SlotValue>(&job.key, job.from, &source),
        None => {
            // An account that is not in the trie's memory was not touched lately; the EVM will ask for it
            // soon, and finds it in the engine's cache then.
            if !job.needed {
                FLAT.account(flat, &job.key, &mut Vec::new()).map_err(|error| match error {
                    StateError::Store(error) => TrieError::Store(error),
                    damaged => TrieError::Store(polytrie_kv::KvError::Corrupt(damaged.to_string())),
                })?;
            }
            RowsAhead::of_path::<AccountLeaf>(&job.key, job.from, &source)
        }
    }
}
