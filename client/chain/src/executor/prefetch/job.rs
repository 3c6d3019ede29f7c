//! A block that is run ahead of its turn, and where threads find such blocks.

use super::scout::Scout;
use crate::executor::{CodeCache, environment::environment_ahead};
use alloy_consensus::{Block, TxEnvelope};
use alloy_evm::{Evm, FromRecoveredTx};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256};
use parking_lot::{Condvar, Mutex};
use polytrie_chainspec::ChainSpec;
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

/// A block whose turn has not come.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) hash: B256,
    work: Work,
    /// What is to be done next; when the block's turn has come, or all has begun, the number of them or more.
    next: AtomicUsize,
}

/// How a job finds out what its block touches, and reads it.
#[derive(Debug)]
enum Work {
    /// Each of its transactions runs on the state before, without those that come before it: so threads need not wait
    /// for each other, and what it touches seldom depends on them.
    Run { block: Box<Block<TxEnvelope>>, senders: Vec<Address>, scout: Scout },
    /// The accesses are known: all of them are read from the state before.
    Read { accesses: Vec<Access>, transactions: usize, state: Arc<dyn StateReader> },
}

impl Job {
    pub(super) fn new(
        hash: B256,
        block: Block<TxEnvelope>,
        senders: Vec<Address>,
        reader: Arc<dyn StateReader>,
        codes: Arc<Mutex<CodeCache>>,
    ) -> Self {
        let work = Work::Run { block: Box::new(block), senders, scout: Scout::new(reader, codes) };
        Self { hash, work, next: AtomicUsize::new(0) }
    }

    /// A block of so many transactions that touches this.
    pub(super) fn known(
        hash: B256,
        accesses: Vec<Access>,
        transactions: usize,
        state: Arc<dyn StateReader>,
    ) -> Self {
        let work = Work::Read { accesses, transactions, state };
        Self { hash, work, next: AtomicUsize::new(0) }
    }

    /// The number of transactions.
    pub(super) const fn transactions(&self) -> usize {
        match &self.work {
            Work::Run { block, .. } => block.body.transactions.len(),
            Work::Read { transactions, .. } => *transactions,
        }
    }

    /// How many things there are to do.
    const fn len(&self) -> usize {
        match &self.work {
            Work::Run { block, .. } => block.body.transactions.len(),
            Work::Read { accesses, .. } => accesses.len(),
        }
    }

    /// The number of the next thing that no thread does.
    fn next(&self) -> usize {
        self.next.fetch_add(1, Relaxed)
    }

    /// Whether nothing more is to be started.
    pub(super) fn is_over(&self) -> bool {
        self.next.load(Relaxed) >= self.len()
    }

    /// Nothing more is started. Returns what the block touches, as far as that is known.
    pub(super) fn end(&self) -> Vec<Access> {
        self.next.store(self.len(), Relaxed);
        match &self.work {
            Work::Run { scout, .. } => scout.accesses(),
            Work::Read { accesses, .. } => accesses.clone(),
        }
    }

    /// Does what there is to do until all has begun.
    pub(super) fn run(&self, spec: &ChainSpec) {
        match &self.work {
            Work::Run { block, senders, scout } => {
                self.run_transactions(spec, block, senders, scout)
            }
            Work::Read { accesses, state, .. } => {
                while let Some(access) = accesses.get(self.next()) {
                    // Nothing is reported: the block meets an error where it needs the value.
                    let _ = match access {
                        Access::Account(address) => state.account(address).map(drop),
                        Access::SlotRead(address, slot) | Access::SlotWrite(address, slot) => {
                            state.slot(address, slot).map(drop)
                        }
                    };
                }
            }
        }
    }

    fn run_transactions(
        &self,
        spec: &ChainSpec,
        block: &Block<TxEnvelope>,
        senders: &[Address],
        scout: &Scout,
    ) {
        let next = || {
            let at = self.next();
            Some((block.body.transactions.get(at)?, *senders.get(at)?))
        };
        let mut transaction = next();
        if transaction.is_none() {
            return;
        }
        let header = &block.header;
        let rules = spec.rules(header.number, header.timestamp, header.difficulty.is_zero());
        let env = environment_ahead(header, &rules);
        let mut evm = HookedEvm::new(scout.database(rules.is(EthereumHardfork::Prague)), env);
        if rules.is_eip1283() {
            evm = evm.with_eip1283();
        }
        while let Some((tx, sender)) = transaction {
            let tx = TxEnv::from_recovered_tx(tx, sender);
            // One that cannot be run on this state is left out, and so is one that no account could pay for.
            if tx.max_balance_spending().is_ok() {
                let _ = evm.transact_raw(tx);
            }
            transaction = next();
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

    /// The first block with something that no thread does; waits for one. `None` if none will come any more.
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
