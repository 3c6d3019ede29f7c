//! Speculative execution: while one block is executed, the next one runs on the state before it, and what it reads there
//! is in memory (and announced to the layer) when its turn comes. A wrong guess costs time and nothing else.

use super::{
    BlockToExecute,
    sandbox::{RecordingReader, Sandbox, speculate},
};
use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{Address, B256};
use crossbeam_channel::{Receiver, Sender, bounded};
use polytrie_chainspec::ChainSpec;
use polytrie_state::{Access, StateReader};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Threads that run a block ahead, each a part of its transactions. They wait for the disk most of the time, and a disk
/// answers several of them in about the time it takes for one.
const THREADS: usize = 4;

/// Threads that run blocks ahead of their turn, one block at a time.
#[derive(Debug)]
pub struct Prefetcher {
    jobs: Vec<Sender<Arc<Job>>>,
    /// The block that is run, or was.
    current: Option<(B256, Arc<Job>)>,
}

#[derive(Debug)]
struct Job {
    block: Block<TxEnvelope>,
    senders: Vec<Address>,
    /// Also notes what the block is going to touch, as far as it is known.
    reader: Arc<RecordingReader>,
    /// The block's turn has come.
    stop: AtomicBool,
}

impl Prefetcher {
    /// Starts the threads. They end when this is dropped.
    ///
    /// # Errors
    ///
    /// If the system gives none.
    pub fn start(spec: &Arc<ChainSpec>) -> io::Result<Self> {
        let mut jobs = Vec::with_capacity(THREADS);
        for part in 0..THREADS {
            let (to_thread, work) = bounded(1);
            let spec = Arc::clone(spec);
            let run = move || run(&spec, part, &work);
            thread::Builder::new().name("prefetch".into()).spawn(run)?;
            jobs.push(to_thread);
        }
        Ok(Self { jobs, current: None })
    }

    /// Begins to run the block with this hash on the state that `reader` reads.
    pub fn begin(
        &mut self,
        hash: B256,
        block: &Block<TxEnvelope>,
        senders: &[Address],
        reader: Arc<dyn StateReader>,
    ) {
        if self.current.as_ref().is_some_and(|(current, _)| *current == hash) {
            return;
        }
        let job = Arc::new(Job {
            block: block.clone(),
            senders: senders.to_vec(),
            reader: RecordingReader::new(reader),
            stop: AtomicBool::new(false),
        });
        for thread in &self.jobs {
            // One that has not come to the end of the block before leaves out its part of this one.
            let _ = thread.try_send(Arc::clone(&job));
        }
        self.current = Some((hash, job));
    }

    /// What a block is going to touch, and that its turn has come.
    pub fn take(&mut self, hash: &B256) -> Vec<Access> {
        let Some((found, job)) = self.current.take() else { return Vec::new() };
        job.stop.store(true, Ordering::Relaxed);
        if found != *hash {
            return Vec::new();
        }
        let mut accesses = Vec::new();
        for (address, slots) in job.reader.seen().accounts {
            accesses.push(Access::Account(address));
            accesses.extend(slots.into_iter().map(|slot| Access::SlotRead(address, slot)));
        }
        accesses
    }
}

/// The work of a thread: every so many transactions of each block.
fn run(spec: &ChainSpec, part: usize, work: &Receiver<Arc<Job>>) {
    for job in work {
        let Job { block, senders, reader, stop } = &*job;
        let header = &block.header;
        let merged = header.difficulty.is_zero();
        let rules = spec.rules(header.number, header.timestamp, merged);
        // Hashes of earlier blocks are guessed wrong, which hardly any transaction notices.
        let hashes = |_: u64| -> Option<B256> { None };
        let mut sandbox =
            Sandbox::new(Arc::clone(reader) as Arc<dyn StateReader>, Arc::new(hashes));
        let block = BlockToExecute::new(block, senders);
        speculate(&mut sandbox, rules, block, (part, THREADS), stop);
    }
}
