//! Speculative execution: while one block is executed, those after it run on the state before it, and what they read
//! there is in memory (and announced to the layer) when their turn comes. A wrong guess costs time and nothing else. Of a
//! block whose access list is known nothing is guessed: what it lists is read.
//!
//! ```text
//! executing thread:   block 7         block 8         block 9
//!                     │ begin 8, 9    │ take 8,       │ take 9,
//!                     │               │ begin 10      │ begin 11
//!                     ▼               ▼               ▼
//! queue:              8 9             9 10            10 11         hundreds of transactions
//!                     └─► threads: each the next transaction, whichever block it is in
//! ```

mod foresight;
mod job;
mod pace;
mod scout;

pub use foresight::Foresight;

use crate::executor::CodeCache;
use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{Address, B256};
use job::{Job, Queue};
use pace::Pace;
use parking_lot::Mutex;
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{KvError, Worker};
use polytrie_state::{Access, StateError, StateReader};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, sync::Arc};

/// Threads that run transactions ahead. Nearly all of the time they wait for the disk, and a disk answers so many of
/// them in two or three times the time that it takes for one. On two cores more gained nothing.
const THREADS: usize = 16;
/// As long as there are fewer transactions ahead of their turn than this, one more block is taken. A block's turn ends
/// what is run of it ahead, so the threads must be done with it by then, and with many of the next ones when some wait
/// longer; more than this is more than a small cache holds until its turn.
const TRANSACTIONS_AHEAD: usize = 512;
/// Blocks that may be ahead of their turn.
const BLOCKS_AHEAD: usize = 64;
/// Bytes of contract code that the threads keep ready to run.
const CODE_CACHE: usize = 16 << 20;

/// When blocks are run ahead of their turn.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefetch {
    /// While the store is slow: while transactions wait for a disk.
    Auto,
    /// Always.
    On,
    /// Never.
    #[default]
    Off,
}

/// Runs blocks ahead of their turn.
#[derive(Debug)]
pub struct Prefetcher {
    spec: Arc<ChainSpec>,
    /// What decides whether to run ahead; `None` if that is decided.
    pace: Option<Pace>,
    codes: Arc<Mutex<CodeCache>>,
    threads: Threads,
    /// Blocks whose turn has not come, in the order in which they were started.
    begun: VecDeque<Arc<Job>>,
    transactions: u64,
}

#[derive(Debug)]
enum Threads {
    /// Not needed so far.
    NotStarted,
    Running(Arc<Queue>, Vec<Worker>),
    /// The system gave none.
    Unavailable,
}

impl Prefetcher {
    /// What runs the blocks of a chain with this specification ahead; `None` if nothing is to.
    pub fn new(when: Prefetch, spec: &Arc<ChainSpec>) -> Option<Self> {
        let pace = match when {
            Prefetch::Auto => Some(Pace::default()),
            Prefetch::On => None,
            Prefetch::Off => return None,
        };
        Some(Self {
            spec: Arc::clone(spec),
            pace,
            codes: Arc::new(Mutex::new(CodeCache::new(CODE_CACHE))),
            threads: Threads::NotStarted,
            begun: VecDeque::new(),
            transactions: 0,
        })
    }

    /// A block with this many transactions was executed. `slow_reads` tells how many reads of the engine were slow by
    /// now, those ahead of their turn included; it is not asked each time.
    pub fn executed(&mut self, transactions: usize, slow_reads: impl FnOnce() -> u64) {
        if let Some(pace) = &mut self.pace {
            pace.executed(transactions as u64, slow_reads);
        }
    }

    /// Whether one more block should be started.
    pub fn has_room(&self) -> bool {
        self.pace.as_ref().is_none_or(Pace::is_slow)
            && !matches!(self.threads, Threads::Unavailable)
            && self.begun.len() < BLOCKS_AHEAD
            && self.begun.iter().map(|job| job.transactions()).sum::<usize>() < TRANSACTIONS_AHEAD
    }

    /// Blocks that were started and whose turn has not come.
    pub fn blocks_ahead(&self) -> usize {
        self.begun.len()
    }

    /// Transactions that were started so far.
    pub const fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Begins to run the block with this hash on the state that `reader` reads, unless that was done before.
    ///
    /// # Errors
    ///
    /// If there is no reader.
    pub fn begin(
        &mut self,
        hash: B256,
        block: &Block<TxEnvelope>,
        senders: &[Address],
        reader: impl FnOnce() -> Result<Arc<dyn StateReader>, StateError>,
    ) -> Result<(), StateError> {
        if block.body.transactions.is_empty() || self.begun.iter().any(|job| job.hash == hash) {
            return Ok(());
        }
        let codes = Arc::clone(&self.codes);
        let job = || Ok(Job::new(hash, block.clone(), senders.to_vec(), reader()?, codes));
        self.start(job)
    }

    /// Begins to read what the block with this hash, and so many transactions, is known to touch, unless that was done
    /// before.
    ///
    /// # Errors
    ///
    /// If there is no reader.
    pub fn begin_known(
        &mut self,
        hash: B256,
        accesses: Vec<Access>,
        transactions: usize,
        reader: impl FnOnce() -> Result<Arc<dyn StateReader>, StateError>,
    ) -> Result<(), StateError> {
        if transactions == 0 || self.begun.iter().any(|job| job.hash == hash) {
            return Ok(());
        }
        self.start(|| Ok(Job::known(hash, accesses, transactions, reader()?)))
    }

    fn start(&mut self, job: impl FnOnce() -> Result<Job, StateError>) -> Result<(), StateError> {
        let Some(queue) = self.queue() else { return Ok(()) };
        let job = Arc::new(job()?);
        self.transactions += job.transactions() as u64;
        queue.push(Arc::clone(&job));
        self.begun.push_back(job);
        Ok(())
    }

    /// The turn of the block with this hash has come: what it is going to touch, as far as that is known.
    pub fn take(&mut self, hash: &B256) -> Vec<Access> {
        let Some(at) = self.begun.iter().position(|job| job.hash == *hash) else {
            return Vec::new();
        };
        let mut accesses = Vec::new();
        // The turn of those before it will not come any more.
        for job in self.begun.drain(..=at) {
            accesses = job.end();
        }
        accesses
    }

    /// Where the threads take their work from. They are started now if they were not.
    fn queue(&mut self) -> Option<Arc<Queue>> {
        if let Threads::NotStarted = self.threads {
            let queue = Arc::new(Queue::default());
            let mut threads = Vec::with_capacity(THREADS);
            let started = (0..THREADS).try_for_each(|_| -> Result<_, KvError> {
                threads.push(start(&self.spec, &queue)?);
                Ok(())
            });
            self.threads = match started {
                Ok(()) => Threads::Running(queue, threads),
                Err(error) => {
                    // Dropping those that were started waits for their end.
                    queue.close();
                    tracing::warn!("nothing is read ahead: {error}");
                    Threads::Unavailable
                }
            };
        }
        match &self.threads {
            Threads::Running(queue, _) => Some(Arc::clone(queue)),
            Threads::NotStarted | Threads::Unavailable => None,
        }
    }
}

impl Drop for Prefetcher {
    /// Waits for the threads, which end with the transaction they are at: the store may be closed afterwards.
    fn drop(&mut self) {
        for job in &self.begun {
            job.end();
        }
        if let Threads::Running(queue, threads) = &mut self.threads {
            queue.close();
            threads.clear();
        }
    }
}

/// From now on this thread runs when others leave it a core: each of its reads that ends would take one from the thread
/// that executes, and so many threads nearly all of it.
fn give_way() {
    // Elsewhere it is the whole process that this would concern.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(10) {
        tracing::debug!("a thread that reads ahead has the priority of all others: {error}");
    }
}

/// Starts a thread that takes its work from a queue.
fn start(spec: &Arc<ChainSpec>, queue: &Arc<Queue>) -> Result<Worker, KvError> {
    let (spec, queue) = (Arc::clone(spec), Arc::clone(queue));
    let work = move || {
        give_way();
        while let Some(job) = queue.next() {
            job.run(&spec);
        }
    };
    Worker::start("prefetch", work)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
