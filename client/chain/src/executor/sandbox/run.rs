//! A simulated block (`eth_simulateV1`).

use super::{
    CallError, CallOutcome, Sandbox,
    call::{outcome, run},
    message::{Strictness, message, override_block},
    replay::{complete, prepare},
    transfers::{NumberedLog, TransferLogs},
};
use crate::executor::{InternalError, environment::environment};
use alloy_consensus::{Header, ReceiptEnvelope};
use alloy_eips::{eip4895::Withdrawal, eip7685::Requests};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Address;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use polytrie_chainspec::Rules;
use polytrie_state::{Account, AccountChange};
use revm::DatabaseCommit;

/// Options of a simulated block.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions {
    /// Whether nonces, fees and balances are checked as in a real block.
    pub validation: bool,
    /// Whether transfers of ether are logged too, where the EVM does not log them by itself.
    pub trace_transfers: bool,
}

/// A running block that is never added to the chain. It has no signer: the fees go to the header's beneficiary.
#[derive(Debug)]
pub struct SimulatedRun<'a> {
    sandbox: &'a mut Sandbox,
    header: &'a Header,
    rules: Rules<'a>,
    overrides: Option<&'a BlockOverrides>,
    options: RunOptions,
    /// Number of transactions so far.
    transactions: usize,
    /// Number of logs so far, with those of reverted calls.
    logs_seen: u64,
}

impl<'a> SimulatedRun<'a> {
    /// Begins a block: makes all changes before its transactions.
    ///
    /// # Errors
    ///
    /// Fails if the state cannot be read.
    pub fn begin(
        sandbox: &'a mut Sandbox,
        header: &'a Header,
        rules: Rules<'a>,
        overrides: Option<&'a BlockOverrides>,
        options: RunOptions,
    ) -> Result<Self, InternalError> {
        sandbox.set_delegations(rules.is(EthereumHardfork::Prague));
        prepare(sandbox, header, header.beneficiary, rules)?;
        Ok(Self { sandbox, header, rules, overrides, options, transactions: 0, logs_seen: 0 })
    }

    /// Returns the state between transactions.
    pub const fn sandbox(&self) -> &Sandbox {
        self.sandbox
    }

    /// Returns the changes since the last call, or since the sandbox began to record.
    pub fn take_recorded(&mut self) -> Vec<AccountChange> {
        self.sandbox.take_recorded()
    }

    /// Runs the next transaction. Returns its outcome and its numbered logs, with those of transfers if they are
    /// wanted; the outcome has the true logs only. The numbers count the logs of reverted calls too, as in geth.
    ///
    /// # Errors
    ///
    /// Fails if the request is refused, or the state cannot be read.
    pub fn call(
        &mut self,
        request: TransactionRequest,
    ) -> Result<(CallOutcome, Vec<NumberedLog>), CallError> {
        let mut env = environment(self.header, self.header.beneficiary, &self.rules);
        override_block(self.sandbox, &mut env, self.overrides);
        let strictness = match self.options.validation {
            true => Strictness::Transaction,
            false => Strictness::Call,
        };
        let tx = message(self.sandbox, &mut env, &self.rules, request, strictness)?;
        // The EVM does not increment the greatest nonce. Where nonces do not matter, the nonce goes on from zero.
        let sender = tx.caller;
        let account = self.sandbox.account(&sender).map_err(InternalError::from)?;
        let wraps = strictness == Strictness::Call
            && account.is_some_and(|account| account.nonce == u64::MAX);
        // From Amsterdam on the EVM logs transfers by itself (EIP-7708).
        let transfers = self.options.trace_transfers && !self.rules.is(EthereumHardfork::Amsterdam);
        let observer = TransferLogs::new(transfers, self.logs_seen);
        let (ran, observer) = run(self.sandbox, &self.rules, env, tx, observer)?;
        let (logs, logs_seen) = observer.into_logs();
        self.logs_seen = logs_seen;
        self.sandbox.go_on_after(self.transactions);
        self.transactions += 1;
        self.sandbox.commit(ran.state);
        if wraps {
            self.wrap_nonce(sender)?;
        }
        let outcome = outcome(ran.result);
        let logs = if outcome.success { logs } else { Vec::new() };
        Ok((outcome, logs))
    }

    fn wrap_nonce(&mut self, address: Address) -> Result<(), InternalError> {
        let account = self.sandbox.account(&address)?.unwrap_or_default();
        if account.nonce == u64::MAX {
            self.sandbox.apply(AccountChange {
                address,
                account: Some(Account { nonce: 0, ..account }),
                wiped: false,
                code: None,
                slots: Vec::new(),
            });
        }
        Ok(())
    }

    /// Ends the block: makes the system calls and pays the withdrawals. Returns the requests to the consensus layer.
    ///
    /// # Errors
    ///
    /// Fails if a system call fails, or the state cannot be read.
    pub fn finish(
        self,
        receipts: Vec<ReceiptEnvelope>,
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<Option<Requests>, InternalError> {
        let Self { sandbox, header, rules, transactions, .. } = self;
        sandbox.go_on_after(transactions);
        complete(sandbox, header, header.beneficiary, rules, receipts, &[], withdrawals)
    }
}
