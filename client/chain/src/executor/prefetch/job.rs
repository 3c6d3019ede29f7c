//! A block that runs ahead, and the queue of such blocks.

use super::{
    foresight::{Foresight, IsOver},
    scout::Scout,
};
use crate::executor::{CodeCache, environment::environment_ahead};
use alloy_consensus::{Block, TxEnvelope};
use alloy_evm::{Evm, FromRecoveredTx};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256};
use parking_lot::{Condvar, Mutex};
use polytrie_chainspec::ChainSpec;
use polytrie_state::{Access, StateError, StateReader};
use revm::{context::TxEnv, context_interface::Transaction};
use revm_state_hooks::HookedEvm;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Number of the next piece of work of a job that has ended.
const ENDED: usize = usize::MAX / 2;

/// A block that runs ahead of its execution.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) hash: B256,
    work: Work,
    /// Number of the next piece of work; at least the number of pieces if all of them are taken, and at least [`ENDED`] if
    /// the block's execution has started.
    next: AtomicUsize,
    /// Locked while rows are read together. The block's execution waits for them, because it would read these rows again.
    reading: Mutex<()>,
}

/// Work of a job, which finds and reads the accounts and slots that its block touches.
#[derive(Debug)]
enum Work {
    /// Each transaction runs on the state before the block, without the earlier transactions. So threads need not
    /// wait for each other, and the accesses seldom depend on the earlier transactions.
    Run { block: Box<Block<TxEnvelope>>, senders: Vec<Address>, scout: Scout },
    /// One thread runs the block on what was read together so far, where the state reads many rows in the time of one.
    Foresee {
        block: Box<Block<TxEnvelope>>,
        senders: Vec<Address>,
        state: Arc<dyn StateReader>,
        foresight: Arc<Foresight>,
        found: Mutex<Vec<Access>>,
    },
    /// The accesses are known; each is read from the state before, or all of them together.
    Read {
        accesses: Vec<Access>,
        transactions: usize,
        state: Arc<dyn StateReader>,
        together: bool,
        foresight: Arc<Foresight>,
    },
}

impl Job {
    pub(super) fn new(
        hash: B256,
        block: Block<TxEnvelope>,
        senders: Vec<Address>,
        reader: Arc<dyn StateReader>,
        codes: Arc<Mutex<CodeCache>>,
    ) -> Self {
        let scout = Scout::new(reader, codes);
        Self::of(hash, Work::Run { block: Box::new(block), senders, scout })
    }

    /// Returns the job of one thread, which finds the accesses of a block and reads many of them together.
    pub(super) fn foreseen(
        hash: B256,
        block: Block<TxEnvelope>,
        senders: Vec<Address>,
        state: Arc<dyn StateReader>,
        foresight: Arc<Foresight>,
    ) -> Self {
        let (block, found) = (Box::new(block), Mutex::default());
        Self::of(hash, Work::Foresee { block, senders, state, foresight, found })
    }

    /// Returns the job of a block with known accesses.
    pub(super) fn known(
        hash: B256,
        accesses: Vec<Access>,
        transactions: usize,
        state: Arc<dyn StateReader>,
        foresight: Arc<Foresight>,
    ) -> Self {
        let together = state.gathers();
        Self::of(hash, Work::Read { accesses, transactions, state, together, foresight })
    }

    fn of(hash: B256, work: Work) -> Self {
        Self { hash, work, next: AtomicUsize::new(0), reading: Mutex::new(()) }
    }

    /// Returns the number of transactions.
    pub(super) const fn transactions(&self) -> usize {
        match &self.work {
            Work::Run { block, .. } | Work::Foresee { block, .. } => block.body.transactions.len(),
            Work::Read { transactions, .. } => *transactions,
        }
    }

    /// Returns the number of pieces of work.
    const fn len(&self) -> usize {
        match &self.work {
            Work::Run { block, .. } => block.body.transactions.len(),
            Work::Foresee { .. } | Work::Read { together: true, .. } => 1,
            Work::Read { accesses, .. } => accesses.len(),
        }
    }

    /// Takes the next piece of work and returns its number.
    fn next(&self) -> usize {
        self.next.fetch_add(1, Relaxed)
    }

    /// Whether no piece of work is left to take.
    pub(super) fn is_over(&self) -> bool {
        self.next.load(Relaxed) >= self.len()
    }

    /// Stops the job after the current pieces.
    pub(super) fn stop(&self) {
        self.next.store(ENDED, Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.next.load(Relaxed) >= ENDED
    }

    /// Stops the job, and waits for what is being read together. Returns the accesses that are known so far.
    pub(super) fn end(&self) -> Vec<Access> {
        self.stop();
        drop(self.reading.lock());
        match &self.work {
            Work::Run { scout, .. } => scout.accesses(),
            Work::Foresee { found, .. } => std::mem::take(&mut *found.lock()),
            Work::Read { accesses, .. } => accesses.clone(),
        }
    }

    /// Does pieces of work until all are taken.
    pub(super) fn run(&self, spec: &ChainSpec) {
        self.run_until(spec, &|| self.is_stopped());
    }

    /// Does as [`Self::run`], until `is_over` says that no more transactions are to run.
    pub(super) fn run_until(&self, spec: &ChainSpec, is_over: &IsOver<'_>) {
        match &self.work {
            Work::Run { block, senders, scout } => {
                self.run_transactions(spec, block, senders, scout, is_over)
            }
            // No error is reported: the block's execution meets it when it needs the value.
            Work::Foresee { block, senders, state, foresight, found } if self.next() == 0 => {
                let mut gather = |wanted: &[Access]| {
                    found.lock().extend_from_slice(wanted);
                    self.gather(&**state, foresight, wanted)
                };
                let state = Arc::clone(state);
                let touched = foresight.touched(block, senders, state, &mut gather, is_over);
                let mut found = found.lock();
                // A run that was stopped knows less than was asked for.
                if let Ok(accesses) = touched
                    && !self.is_stopped()
                {
                    *found = accesses;
                }
            }
            Work::Read { accesses, state, together: true, foresight, .. } if self.next() == 0 => {
                let _ = self.gather(&**state, foresight, accesses);
            }
            Work::Foresee { .. } | Work::Read { together: true, .. } => {}
            Work::Read { accesses, state, .. } => {
                while let Some(access) = accesses.get(self.next()) {
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

    /// Reads accounts and slots together, and then the accounts' code, unless the block's execution has started.
    fn gather(
        &self,
        state: &dyn StateReader,
        foresight: &Foresight,
        wanted: &[Access],
    ) -> Result<(), StateError> {
        let _reading = self.reading.lock();
        if self.is_stopped() {
            return Ok(());
        }
        state.gather(wanted)?;
        foresight.read_codes(state, wanted, &|| self.is_stopped())
    }

    fn run_transactions(
        &self,
        spec: &ChainSpec,
        block: &Block<TxEnvelope>,
        senders: &[Address],
        scout: &Scout,
        is_over: &IsOver<'_>,
    ) {
        let next = || {
            let at = self.next();
            let tx = block.body.transactions.get(at).filter(|_| !is_over())?;
            Some((tx, *senders.get(at)?))
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
            // A transaction that cannot run on this state is left out, and so is one that no account could pay for.
            if tx.max_balance_spending().is_ok() {
                let _ = evm.transact_raw(tx);
            }
            transaction = next();
        }
    }
}

/// Blocks to run ahead, in the order of their execution.
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

    /// Waits for a job with work left and returns the first. Returns `None` once the queue is closed.
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

    /// Closes the queue: no job comes after this.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_all();
    }
}
