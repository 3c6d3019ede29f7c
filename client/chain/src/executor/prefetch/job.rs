//! A block that is run ahead of its turn, and where threads find such blocks.

use super::scout::Scout;
use crate::executor::{CodeCache, environment::environment};
use alloy_consensus::{Block, TxEnvelope};
use alloy_evm::{Evm, FromRecoveredTx};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256};
use parking_lot::{Condvar, Mutex};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::clique::coinbase;
use polytrie_state::{Access, StateReader};
use revm::{context::TxEnv, context_interface::Transaction};
use revm_state_hooks::HookedEvm;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Gas of a transaction above which it waits for its turn. The block is not checked yet: with any more gas it could
/// take any time, and memory that is far from paid for.
const MOST_GAS: u64 = 1 << 27;

/// A block. Each of its transactions runs on the state before, without those that come before it: so threads need not
/// wait for each other, and what it touches seldom depends on them.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) hash: B256,
    block: Block<TxEnvelope>,
    senders: Vec<Address>,
    scout: Scout,
    /// The transaction to be run next; when the block's turn has come, or all have begun, the number of them or more.
    next: AtomicUsize,
}

impl Job {
    pub(super) fn new(
        hash: B256,
        block: Block<TxEnvelope>,
        senders: Vec<Address>,
        reader: Arc<dyn StateReader>,
        codes: Arc<Mutex<CodeCache>>,
    ) -> Self {
        Self { hash, block, senders, scout: Scout::new(reader, codes), next: AtomicUsize::new(0) }
    }

    /// The number of transactions.
    pub(super) const fn len(&self) -> usize {
        self.block.body.transactions.len()
    }

    /// The next transaction that no thread runs, with its sender.
    fn next(&self) -> Option<(&TxEnvelope, Address)> {
        let at = self.next.fetch_add(1, Relaxed);
        Some((self.block.body.transactions.get(at)?, *self.senders.get(at)?))
    }

    /// Whether no more transactions are to be started.
    pub(super) fn is_over(&self) -> bool {
        self.next.load(Relaxed) >= self.len()
    }

    /// No more transactions are started. Returns what those that were have read so far.
    pub(super) fn end(&self) -> Vec<Access> {
        self.next.store(self.len(), Relaxed);
        self.scout.accesses()
    }

    /// Runs transactions until all have begun.
    pub(super) fn run(&self, spec: &ChainSpec) {
        let mut next = self.next();
        if next.is_none() {
            return;
        }
        let header = &self.block.header;
        let rules = spec.rules(header.number, header.timestamp, header.difficulty.is_zero());
        // A wrong one makes the guess a little worse, and comes up in the block's turn.
        let coinbase = coinbase(&rules, header).unwrap_or(header.beneficiary);
        let mut env = environment(header, coinbase, &rules);
        // Whatever is wrong with a transaction comes up in its turn.
        let cfg = &mut env.cfg_env;
        cfg.disable_nonce_check = true;
        cfg.disable_balance_check = true;
        cfg.disable_base_fee = true;
        cfg.disable_eip3607 = true;
        cfg.disable_block_gas_limit = true;
        cfg.tx_gas_limit_cap = Some(MOST_GAS);
        let mut evm = HookedEvm::new(self.scout.database(rules.is(EthereumHardfork::Prague)), env);
        if rules.is_eip1283() {
            evm = evm.with_eip1283();
        }
        while let Some((tx, sender)) = next {
            let tx = TxEnv::from_recovered_tx(tx, sender);
            // One that cannot be run on this state is left out, and so is one that no account could pay for.
            if tx.max_balance_spending().is_ok() {
                let _ = evm.transact_raw(tx);
            }
            next = self.next();
        }
    }
}

/// Blocks that are to be run ahead, in the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<Arc<Job>>,
    closed: bool,
}

impl Queue {
    pub(super) fn push(&self, job: Arc<Job>) {
        self.waiting.lock().jobs.push_back(job);
        self.changed.notify_all();
    }

    /// The first block with transactions that no thread runs; waits for one. `None` if none will come any more.
    pub(super) fn next(&self) -> Option<Arc<Job>> {
        let mut waiting = self.waiting.lock();
        loop {
            while waiting.jobs.pop_front_if(|job| job.is_over()).is_some() {}
            match waiting.jobs.front() {
                _ if waiting.closed => return None,
                Some(job) => return Some(Arc::clone(job)),
                None => self.changed.wait(&mut waiting),
            }
        }
    }

    /// Nothing comes any more.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_all();
    }
}
