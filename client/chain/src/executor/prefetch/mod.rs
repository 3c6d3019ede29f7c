//! Speculative execution. While one block is executed, worker threads run the later blocks on the state before it.
//! Their reads are then in memory (and announced to the layer) when the blocks are executed. A wrong prediction costs
//! time only. If the access list of a block is known, its accesses are read without running the block.
//!
//! ```text
//! executing thread:   block 7         block 8         block 9
//!                     │ begin 8, 9    │ take 8,       │ take 9,
//!                     │               │ begin 10      │ begin 11
//!                     ▼               ▼               ▼
//! queue:              8 9             9 10            10 11         hundreds of transactions
//!                     └─► threads: each the next transaction, of any of the blocks
//! ```
//!
//! A state on other machines reads many accounts and slots in about the time of one. There a thread takes a whole block, runs
//! it on what was read together so far, and reads what it asks for beyond that together for its next run (`foresight.rs`). The
//! code of the accounts is read together too.

mod foresight;
mod job;
mod pace;
mod scout;

pub use foresight::{Foresight, Gather, IsOver};

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

/// Number of threads that run transactions ahead. They spend nearly all their time waiting for the disk, which answers
/// this many requests in two or three times the time of one. On two cores more threads gained nothing.
const THREADS: usize = 16;
/// Number of transactions in the blocks ahead below which one more block is added. A block's execution ends its run
/// ahead, so the threads must have finished it by then, and many of the later blocks too when some take longer. More
/// transactions than this would touch more than a small cache keeps until their execution.
const TRANSACTIONS_AHEAD: usize = 512;
/// Greatest number of blocks ahead.
const BLOCKS_AHEAD: usize = 64;
/// Size of the threads' cache of analysed contract code, in bytes.
const CODE_CACHE: usize = 16 << 20;

/// Condition under which blocks run ahead.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefetch {
    /// While the store is slow, as transactions wait for a disk, and no other process reads ahead.
    Auto,
    /// Always.
    On,
    /// Never.
    #[default]
    Off,
}

/// Runner of blocks ahead of their execution.
#[derive(Debug)]
pub struct Prefetcher {
    spec: Arc<ChainSpec>,
    /// Measurement that decides whether blocks run ahead; `None` for always.
    pace: Option<Pace>,
    /// Whether other processes read ahead.
    has_others: bool,
    codes: Arc<Mutex<CodeCache>>,
    foresight: Arc<Foresight>,
    threads: Threads,
    /// Blocks that were started ahead and not executed yet, in the order of their start.
    begun: VecDeque<Arc<Job>>,
    transactions: u64,
}

#[derive(Debug)]
enum Threads {
    /// No thread was needed so far.
    NotStarted,
    Running(Arc<Queue>, Vec<Worker>),
    /// The system gave no threads.
    Unavailable,
}

impl Prefetcher {
    /// Returns the prefetcher of a chain with this specification; `None` if `when` is never.
    pub fn new(when: Prefetch, spec: &Arc<ChainSpec>) -> Option<Self> {
        let pace = match when {
            Prefetch::Auto => Some(Pace::default()),
            Prefetch::On => None,
            Prefetch::Off => return None,
        };
        let codes = Arc::new(Mutex::new(CodeCache::new(CODE_CACHE)));
        // Other threads run other blocks.
        let foresight = Foresight::sharing(Arc::clone(spec), Arc::clone(&codes), 1);
        Some(Self {
            spec: Arc::clone(spec),
            pace,
            has_others: false,
            codes,
            foresight: Arc::new(foresight),
            threads: Threads::NotStarted,
            begun: VecDeque::new(),
            transactions: 0,
        })
    }

    /// Counts a block with this number of transactions that was executed. `slow_reads` returns the number of slow reads
    /// of the engine so far, with those ahead; it is not called each time.
    pub fn executed(&mut self, transactions: usize, slow_reads: impl FnOnce() -> u64) {
        if let Some(pace) = &mut self.pace {
            pace.executed(transactions as u64, slow_reads);
        }
    }

    /// Says whether other processes read ahead, as they do from now on. Blocks run ahead beside them only with
    /// [`Prefetch::On`], because each row would be read twice.
    pub const fn leave_to_others(&mut self, has_others: bool) {
        self.has_others = has_others;
    }

    /// Whether one more block should be started.
    pub fn has_room(&self) -> bool {
        self.pace.as_ref().is_none_or(|pace| pace.is_slow() && !self.has_others)
            && !matches!(self.threads, Threads::Unavailable)
            && self.begun.len() < BLOCKS_AHEAD
            && self.begun.iter().map(|job| job.transactions()).sum::<usize>() < TRANSACTIONS_AHEAD
    }

    /// Returns the number of blocks that were started ahead and not executed yet.
    pub fn blocks_ahead(&self) -> usize {
        self.begun.len()
    }

    /// Returns the number of transactions that were started so far.
    pub const fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Starts to run the block with this hash on the state of `reader`, unless it was started before.
    ///
    /// # Errors
    ///
    /// Fails if `reader` fails.
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
        let (codes, foresight) = (Arc::clone(&self.codes), Arc::clone(&self.foresight));
        self.start(|| {
            let (reader, block, senders) = (reader()?, block.clone(), senders.to_vec());
            Ok(match reader.gathers() {
                true => Job::foreseen(hash, block, senders, reader, foresight),
                false => Job::new(hash, block, senders, reader, codes),
            })
        })
    }

    /// Starts to read the known accesses of the block with this hash and number of transactions, unless it was started
    /// before.
    ///
    /// # Errors
    ///
    /// Fails if `reader` fails.
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
        let foresight = Arc::clone(&self.foresight);
        self.start(|| Ok(Job::known(hash, accesses, transactions, reader()?, foresight)))
    }

    fn start(&mut self, job: impl FnOnce() -> Result<Job, StateError>) -> Result<(), StateError> {
        let Some(queue) = self.queue() else { return Ok(()) };
        let job = Arc::new(job()?);
        self.transactions += job.transactions() as u64;
        queue.push(Arc::clone(&job));
        self.begun.push_back(job);
        Ok(())
    }

    /// Ends the run ahead of the block with this hash, whose execution starts now. Returns its accesses as far as they
    /// are known.
    pub fn take(&mut self, hash: &B256) -> Vec<Access> {
        let Some(at) = self.begun.iter().position(|job| job.hash == *hash) else {
            return Vec::new();
        };
        // Blocks that were started before this one will not be executed any more.
        self.begun.drain(..at).for_each(|job| job.stop());
        self.begun.pop_front().map(|job| job.end()).unwrap_or_default()
    }

    /// Returns the queue of the threads, and starts them if they are not running yet.
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
                    // Dropping the threads that were started waits for their end.
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
    /// Waits for the threads, which end after their current transaction or read, so that the store may be closed afterwards.
    fn drop(&mut self) {
        self.begun.iter().for_each(|job| job.stop());
        if let Threads::Running(queue, threads) = &mut self.threads {
            queue.close();
            threads.clear();
        }
    }
}

/// Lowers the priority of this thread, so that it runs when other threads leave a core free. Otherwise each finished
/// read would take a core from the executing thread, and so many threads would take nearly all of it.
fn give_way() {
    // On other systems the call would change the priority of the whole process.
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
