//! The accesses of blocks, found for another process, which executes them.

use super::{CODE_CACHE, job::Job};
use crate::executor::{CodeCache, hints::accesses_in};
use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{Address, B256};
use parking_lot::Mutex;
use polytrie_chainspec::ChainSpec;
use polytrie_state::{Access, StateReader};
use std::{sync::Arc, thread};

/// Runner of blocks on an older state, which finds their accesses.
#[derive(Debug)]
pub struct Foresight {
    spec: Arc<ChainSpec>,
    codes: Arc<Mutex<CodeCache>>,
    threads: usize,
}

impl Foresight {
    /// Returns a runner for the blocks of a chain with this specification, on so many threads.
    pub fn new(spec: Arc<ChainSpec>, threads: usize) -> Self {
        Self { spec, codes: Arc::new(Mutex::new(CodeCache::new(CODE_CACHE))), threads }
    }

    /// Returns the accesses that the bytes of a block contain, to be read before its transactions run.
    pub fn announced(block: &Block<TxEnvelope>, senders: &[Address]) -> Vec<Access> {
        let accounts = senders.iter().copied().chain([block.header.beneficiary]);
        let in_transactions = block.body.transactions.iter().flat_map(accesses_in);
        accounts.map(Access::Account).chain(in_transactions).collect()
    }

    /// Returns the accesses of a block's transactions, each run on the state of `state` without the earlier ones.
    /// Values that cannot be read and transactions that cannot run are left out.
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
                // The threads that exist do all the work.
                if thread.spawn_scoped(scope, || job.run(&self.spec)).is_err() {
                    break;
                }
            }
            job.run(&self.spec);
        });
        job.end()
    }
}
