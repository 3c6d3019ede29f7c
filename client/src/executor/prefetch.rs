//! Speculative execution: while one block is executed, the next one runs on the state before it, and what it reads there
//! is in memory (and announced to the layer) when its turn comes. A wrong guess costs time and nothing else.

use super::ImportError;
use crate::{
    chain::Candidate,
    executor::{
        BlockToExecute,
        sandbox::{RecordingReader, Sandbox, speculate},
    },
};
use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{Address, B256};
use crossbeam_channel::{Sender, bounded};
use polytrie_chainspec::ChainSpec;
use polytrie_state::{Access, StateReader};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A thread that runs blocks ahead of their turn, one at a time.
#[derive(Debug)]
pub(super) struct Prefetcher {
    jobs: Sender<Job>,
    /// The block that is run, or was.
    current: Option<Guess>,
}

#[derive(Debug)]
struct Job {
    block: Block<TxEnvelope>,
    senders: Vec<Address>,
    reader: Arc<RecordingReader>,
    stop: Arc<AtomicBool>,
}

/// What a block is going to touch, as far as it is known.
#[derive(Debug)]
struct Guess {
    hash: B256,
    reader: Arc<RecordingReader>,
    stop: Arc<AtomicBool>,
}

impl Prefetcher {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system gives none.
    pub(super) fn start(spec: Arc<ChainSpec>) -> Result<Self, ImportError> {
        let (jobs, work) = bounded::<Job>(1);
        let run = move || {
            for Job { block, senders, reader, stop } in work {
                let header = &block.header;
                let merged = header.difficulty.is_zero();
                let rules = spec.rules(header.number, header.timestamp, merged);
                // Hashes of earlier blocks are guessed wrong, which hardly any transaction notices.
                let hashes = |_: u64| -> Option<B256> { None };
                let mut sandbox = Sandbox::new(reader, Arc::new(hashes));
                let block = BlockToExecute::new(&block, &senders);
                speculate(&mut sandbox, rules, block, &stop);
            }
        };
        super::pipeline::spawn("prefetch", run)?;
        Ok(Self { jobs, current: None })
    }

    /// Begins to run a block on the state that `reader` reads, unless the one before is still being run.
    pub(super) fn begin(&mut self, next: &Candidate, reader: Arc<dyn StateReader>) {
        let hash = next.header.hash();
        if self.current.as_ref().is_some_and(|guess| guess.hash == hash) {
            return;
        }
        let Ok(senders) = next.senders.clone() else { return };
        let stop = Arc::<AtomicBool>::default();
        let reader = RecordingReader::new(reader);
        let job = Job {
            block: next.block.clone(),
            senders,
            reader: Arc::clone(&reader),
            stop: Arc::clone(&stop),
        };
        if self.jobs.try_send(job).is_ok() {
            self.current = Some(Guess { hash, reader, stop });
        }
    }

    /// What a block is going to touch, and that its turn has come.
    pub(super) fn take(&mut self, hash: &B256) -> Vec<Access> {
        let Some(Guess { hash: found, reader, stop }) = self.current.take() else {
            return Vec::new();
        };
        stop.store(true, Ordering::Relaxed);
        if found != *hash {
            return Vec::new();
        }
        let mut accesses = Vec::new();
        for (address, slots) in reader.seen().accounts {
            accesses.push(Access::Account(address));
            accesses.extend(slots.into_iter().map(|slot| Access::SlotRead(address, slot)));
        }
        accesses
    }
}
