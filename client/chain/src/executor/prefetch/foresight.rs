//! What blocks touch, found out for another process, which executes them.

use super::{CODE_CACHE, job::Job};
use crate::executor::CodeCache;
use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{Address, B256};
use parking_lot::Mutex;
use polytrie_chainspec::ChainSpec;
use polytrie_state::{Access, StateReader};
use std::{sync::Arc, thread};

/// Runs blocks on an older state, to find out what they touch.
#[derive(Debug)]
pub struct Foresight {
    spec: Arc<ChainSpec>,
    codes: Arc<Mutex<CodeCache>>,
    threads: usize,
}

impl Foresight {
    /// Runs the blocks of a chain with this specification, on so many threads.
    pub fn new(spec: Arc<ChainSpec>, threads: usize) -> Self {
        Self { spec, codes: Arc::new(Mutex::new(CodeCache::new(CODE_CACHE))), threads }
    }

    /// What the transactions of a block touch on the state that `state` reads, each without those before it. What cannot be
    /// read there, or executed, is left out.
    pub fn touched(
        &self,
        block: Block<TxEnvelope>,
        senders: Vec<Address>,
        state: Arc<dyn StateReader>,
    ) -> Vec<Access> {
        let job = Job::new(B256::ZERO, block, senders, state, Arc::clone(&self.codes));
        thread::scope(|scope| {
            for _ in 1..self.threads.min(job.transactions()) {
                let thread = thread::Builder::new().name("foresight".to_owned());
                // Those that there are do all of it.
                if thread.spawn_scoped(scope, || job.run(&self.spec)).is_err() {
                    break;
                }
            }
            job.run(&self.spec);
        });
        job.end()
    }
}
