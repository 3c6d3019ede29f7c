//! Transactions of a listed block that run at the same time.

use super::{ListedBlock, view::View};
use crate::executor::{Amsterdam, BlockHashes, BlockToExecute, Executor, environment::environment};
use alloy_consensus::{Transaction as _, TxEnvelope};
use alloy_evm::{Evm, EvmEnv, FromRecoveredTx};
use alloy_primitives::Address;
use parking_lot::{Condvar, Mutex};
use polytrie_chainspec::Rules;
use revm::{
    context::TxEnv,
    context_interface::result::{HaltReason, ResultAndState},
};
use revm_state_hooks::HookedEvm;
use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Result of a transaction, and the time that it ran.
pub(in crate::executor) type Ran = (ResultAndState<HaltReason>, Duration);

/// The transactions of a block, which any number of threads may run. The result of each follows from the list alone, so
/// the thread and the time of its run do not matter.
pub(in crate::executor) struct Transactions<'a> {
    block: &'a ListedBlock,
    hashes: &'a dyn BlockHashes,
    transactions: &'a [TxEnvelope],
    senders: &'a [Address],
    environment: EvmEnv,
    amsterdam: Amsterdam,
    /// Number of the first transaction that no thread has taken. If it is at least the number of transactions, none is
    /// started any more.
    next: AtomicUsize,
    /// Result of each transaction that has run; the inner `None` means that it could not run.
    ran: Mutex<Vec<Option<Option<Ran>>>>,
    changed: Condvar,
}

/// EVM of one thread.
pub(in crate::executor) type ViewEvm<'a> = HookedEvm<View<'a>>;

impl<'a> Transactions<'a> {
    /// Returns the transactions of a block, none of them run yet.
    pub(in crate::executor) fn new(
        executor: &Executor,
        rules: &Rules<'_>,
        hashes: &'a dyn BlockHashes,
        block: &BlockToExecute<'a>,
        listed: &'a ListedBlock,
    ) -> Self {
        let coinbase = block.coinbase.unwrap_or(block.header.beneficiary);
        let mut ran = Vec::new();
        ran.resize_with(block.transactions.len(), || None);
        Self {
            block: listed,
            hashes,
            transactions: block.transactions,
            senders: block.senders,
            environment: executor.amsterdam.adapt(environment(block.header, coinbase, rules)),
            amsterdam: executor.amsterdam,
            next: AtomicUsize::new(0),
            ran: Mutex::new(ran),
            changed: Condvar::new(),
        }
    }

    /// Runs transactions until all are taken.
    pub(in crate::executor) fn run(&self) {
        let mut evm = self.evm();
        while self.run_one(&mut evm) {}
    }

    /// Makes every thread stop after its current transaction.
    pub(in crate::executor) fn stop(&self) {
        self.next.store(self.transactions.len(), Relaxed);
    }

    /// Returns the result of the transaction with this number; `None` if it cannot run on the listed state. Each result
    /// can be taken once. Until it is there the calling thread runs other transactions.
    pub(in crate::executor) fn take(&self, evm: &mut ViewEvm<'a>, number: usize) -> Option<Ran> {
        loop {
            if let Some(ran) = self.ran.lock()[number].take() {
                return ran;
            }
            if !self.run_one(evm) {
                let mut ran = self.ran.lock();
                loop {
                    if let Some(ran) = ran[number].take() {
                        return ran;
                    }
                    self.changed.wait(&mut ran);
                }
            }
        }
    }

    /// Returns an EVM for one thread.
    pub(in crate::executor) fn evm(&self) -> ViewEvm<'a> {
        let view = View { block: self.block, hashes: self.hashes, index: 0 };
        self.amsterdam.set_static_gas(HookedEvm::new(view, self.environment.clone()))
    }

    /// Runs the next transaction. Returns `false` if there is none.
    fn run_one(&self, evm: &mut ViewEvm<'a>) -> bool {
        let number = self.next.fetch_add(1, Relaxed);
        let Some((tx, sender)) = self.transactions.get(number).zip(self.senders.get(number)) else {
            return false;
        };
        let mut slot = Slot { all: self, number, ran: None };
        evm.db_mut().index = number as u64;
        self.amsterdam.prepare(&mut evm.context_mut().cfg, tx.is_create());
        let start = Instant::now();
        let result = evm.transact_raw(TxEnv::from_recovered_tx(tx, *sender));
        slot.ran = result.ok().map(|result| (result, start.elapsed()));
        true
    }
}

/// Guard that stores the result of a transaction. If the run panics, it stores a failure, so that no thread waits
/// forever.
struct Slot<'t, 'a> {
    all: &'t Transactions<'a>,
    number: usize,
    ran: Option<Ran>,
}

impl Drop for Slot<'_, '_> {
    fn drop(&mut self) {
        self.all.ran.lock()[self.number] = Some(self.ran.take());
        self.all.changed.notify_all();
    }
}

polytrie_kv::debug_fields!(Transactions['_] { next });
