//! Transactions of a listed block that run at the same time.

use super::{ListedBlock, view::View};
use crate::executor::{
    Amsterdam, BlockHashes, BlockToExecute, Executor, Senders, environment::environment,
    in_order::InOrder,
};
use alloy_consensus::{Transaction as _, TxEnvelope};
use alloy_evm::{Evm, EvmEnv, FromRecoveredTx};
use polytrie_chainspec::Rules;
use revm::{
    context::TxEnv,
    context_interface::result::{HaltReason, ResultAndState},
};
use revm_state_hooks::HookedEvm;
use std::time::{Duration, Instant};

/// Result of a transaction, and the time that it ran.
pub(in crate::executor) type Ran = (ResultAndState<HaltReason>, Duration);

/// The transactions of a block, which any number of threads may run. The result of each follows from the list alone, so
/// the thread and the time of its run do not matter.
pub(in crate::executor) struct Transactions<'a> {
    block: &'a ListedBlock,
    hashes: &'a dyn BlockHashes,
    transactions: &'a [TxEnvelope],
    senders: Senders<'a>,
    environment: EvmEnv,
    amsterdam: Amsterdam,
    ran: InOrder<Ran>,
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
        Self {
            block: listed,
            hashes,
            transactions: block.transactions,
            senders: block.senders,
            environment: executor.amsterdam.adapt(environment(block.header, coinbase, rules)),
            amsterdam: executor.amsterdam,
            ran: InOrder::new(block.transactions.len()),
        }
    }

    /// Runs transactions until all are taken.
    pub(in crate::executor) fn run(&self) {
        let mut evm = self.evm();
        while self.ran.do_next(|number| self.run_one(&mut evm, number)) {}
    }

    /// Makes every thread stop after its current transaction.
    pub(in crate::executor) fn stop(&self) {
        self.ran.stop();
    }

    /// Returns the result of the transaction with this number; `None` if it cannot run on the listed state. Each result
    /// can be taken once. Until it is there the calling thread runs other transactions.
    pub(in crate::executor) fn take(&self, evm: &mut ViewEvm<'a>, number: usize) -> Option<Ran> {
        self.ran.when_done(number, |other| self.run_one(evm, other), Option::take)
    }

    /// Returns an EVM for one thread.
    pub(in crate::executor) fn evm(&self) -> ViewEvm<'a> {
        let view = View { block: self.block, hashes: self.hashes, index: 0 };
        self.amsterdam.set_static_gas(HookedEvm::new(view, self.environment.clone()))
    }

    fn run_one(&self, evm: &mut ViewEvm<'a>, number: usize) -> Option<Ran> {
        let (tx, sender) = (&self.transactions[number], self.senders.get(number).ok()?);
        evm.db_mut().index = number as u64;
        self.amsterdam.prepare(&mut evm.context_mut().cfg, tx.is_create());
        let start = Instant::now();
        let result = evm.transact_raw(TxEnv::from_recovered_tx(tx, sender)).ok()?;
        Some((result, start.elapsed()))
    }
}

polytrie_kv::debug_fields!(Transactions['_] { ran });
