//! A second execution of a block, transaction by transaction, with an inspector.

use super::{
    CallError, CallOutcome, Observer, Sandbox, SandboxEvm,
    call::{outcome, run},
};
use crate::executor::{
    ExecuteError, InternalError, dao,
    environment::{context, environment},
    schedule::Schedule,
};
use alloy_consensus::{Header, ReceiptEnvelope, TxEnvelope};
use alloy_eips::{eip4895::Withdrawal, eip7685::Requests};
use alloy_evm::{
    EvmEnv, FromRecoveredTx,
    block::{BlockExecutionError, BlockExecutor as _},
    eth::{EthBlockExecutor, receipt_builder::AlloyReceiptBuilder},
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Address;
use polytrie_chainspec::Rules;
use polytrie_consensus::clique::coinbase;
use revm::{
    DatabaseCommit, context::TxEnv, context_interface::result::ResultAndState,
    inspector::NoOpInspector, primitives::hardfork::SpecId, state::EvmState,
};
use revm_state_hooks::HookedEvm;

/// A valid block on a sandbox at its parent.
#[derive(Debug)]
pub struct Replay<'a> {
    sandbox: &'a mut Sandbox,
    header: &'a Header,
    coinbase: Address,
    rules: Rules<'a>,
    /// Number of transactions so far.
    transactions: usize,
    /// Number of their logs.
    logs: u64,
}

impl<'a> Replay<'a> {
    /// Begins a block: makes all changes before the transactions.
    ///
    /// # Errors
    ///
    /// Fails if the state cannot be read.
    pub fn begin(
        sandbox: &'a mut Sandbox,
        header: &'a Header,
        rules: Rules<'a>,
    ) -> Result<Self, InternalError> {
        let coinbase = coinbase(&rules, header)
            .map_err(|error| InternalError::Evm(format!("block {}: {error}", header.number)))?;
        sandbox.set_delegations(rules.is(EthereumHardfork::Prague));
        for change in dao::drain(&rules, |address| sandbox.account(address))?.accounts {
            sandbox.apply(change);
        }
        prepare(sandbox, header, coinbase, rules)?;
        Ok(Self { sandbox, header, coinbase, rules, transactions: 0, logs: 0 })
    }

    /// Runs the next transaction.
    ///
    /// # Errors
    ///
    /// Fails if the state cannot be read, the sandbox's deadline is over, or the transaction is not valid at this place
    /// after all.
    pub fn next<I: Observer>(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        observer: I,
    ) -> Result<(CallOutcome, I), CallError> {
        let (ran, observer) = self.run(tx, sender, observer)?;
        let outcome = outcome(ran.result.clone());
        self.keep(ran);
        Ok((outcome, observer))
    }

    /// Runs the next transaction. Returns the state that it loaded, with its changes, also that of reverted calls.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::next`] does.
    pub fn loads(&mut self, tx: &TxEnvelope, sender: Address) -> Result<EvmState, CallError> {
        let (ran, NoOpInspector {}) = self.run(tx, sender, NoOpInspector {})?;
        let loaded = ran.state.clone();
        self.keep(ran);
        Ok(loaded)
    }

    /// Keeps the changes of a transaction.
    pub(super) fn keep(&mut self, ran: ResultAndState) {
        self.logs += ran.result.logs().len() as u64;
        self.sandbox.go_on_after(self.transactions);
        self.transactions += 1;
        self.sandbox.commit(ran.state);
    }

    /// Returns the number of logs of the transactions so far.
    pub(super) const fn logs(&self) -> u64 {
        self.logs
    }

    /// Returns the revision of the EVM.
    pub(super) fn spec_id(&self) -> SpecId {
        self.rules.spec_id()
    }

    /// Runs the next transaction without keeping its changes.
    pub(super) fn run<I: Observer>(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        observer: I,
    ) -> Result<(ResultAndState, I), CallError> {
        let tx = TxEnv::from_recovered_tx(tx, sender);
        let ran = run(self.sandbox, &self.rules, self.environment(), tx, observer);
        ran.map_err(|error| match error {
            // The transaction was in a block, so the EVM has no reason to refuse it.
            CallError::Refused(refusal) => InternalError::Evm(refusal.message).into(),
            error => error,
        })
    }

    /// Returns the environment of its transactions.
    pub(super) fn environment(&self) -> EvmEnv {
        let mut env = environment(self.header, self.coinbase, &self.rules);
        // Impersonated senders may have code.
        env.cfg_env.disable_eip3607 = true;
        env
    }

    /// Ends the block: makes all changes after its transactions, which had these receipts.
    ///
    /// # Errors
    ///
    /// Fails if a system call fails, or the state cannot be read.
    pub fn finish(
        self,
        receipts: Vec<ReceiptEnvelope>,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(), InternalError> {
        let Self { sandbox, header, coinbase, rules, transactions, .. } = self;
        sandbox.go_on_after(transactions);
        complete(sandbox, header, coinbase, rules, receipts, ommers, withdrawals).map(drop)
    }

    /// Returns the state between transactions.
    pub const fn sandbox(&mut self) -> &mut Sandbox {
        self.sandbox
    }
}

/// Makes the system calls before the transactions.
pub(super) fn prepare(
    sandbox: &mut Sandbox,
    header: &Header,
    coinbase: Address,
    rules: Rules<'_>,
) -> Result<(), InternalError> {
    executor(sandbox, header, coinbase, rules, &[], None)
        .apply_pre_execution_changes()
        .map_err(internal)
}

/// Makes the system calls, and pays rewards and withdrawals after the transactions. Returns the requests to the
/// consensus layer.
pub(super) fn complete(
    sandbox: &mut Sandbox,
    header: &Header,
    coinbase: Address,
    rules: Rules<'_>,
    receipts: Vec<ReceiptEnvelope>,
    ommers: &[Header],
    withdrawals: Option<&[Withdrawal]>,
) -> Result<Option<Requests>, InternalError> {
    let mut block = executor(sandbox, header, coinbase, rules, ommers, withdrawals);
    block.receipts = receipts;
    let (_, result) = block.finish().map_err(internal)?;
    Ok(rules.is(EthereumHardfork::Prague).then_some(result.requests))
}

type SandboxExecutor<'a> =
    EthBlockExecutor<'a, SandboxEvm<'a, NoOpInspector>, Schedule<'a>, AlloyReceiptBuilder>;

fn executor<'a>(
    sandbox: &'a mut Sandbox,
    header: &'a Header,
    coinbase: Address,
    rules: Rules<'a>,
    ommers: &'a [Header],
    withdrawals: Option<&'a [Withdrawal]>,
) -> SandboxExecutor<'a> {
    let precompiles = sandbox.precompiles(rules.spec_id());
    let evm: SandboxEvm<'_, NoOpInspector> =
        HookedEvm::with_inspector(sandbox, environment(header, coinbase, &rules), NoOpInspector {})
            .with_precompiles(precompiles);
    let context = context(header, ommers, withdrawals);
    EthBlockExecutor::new(evm, context, Schedule::new(rules), AlloyReceiptBuilder::default())
}

fn internal(error: BlockExecutionError) -> InternalError {
    match ExecuteError::new(error, None, None) {
        ExecuteError::Internal(internal) => internal,
        ExecuteError::Invalid(invalid) => InternalError::Evm(invalid.to_string()),
    }
}
