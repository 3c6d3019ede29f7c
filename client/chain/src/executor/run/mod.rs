//! A running block.

mod executor;

pub use executor::Executor;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use alloy_consensus::{
    Eip658Value, ReceiptEnvelope, Transaction as _, TxEnvelope, TxType, transaction::Recovered,
};
use alloy_eips::{eip7685::Requests, eip7928::AccountChanges};
use alloy_evm::{
    Evm,
    block::BlockExecutor as _,
    eth::{EthBlockExecutor, EthTxResult, receipt_builder::AlloyReceiptBuilder},
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, Bytes};
use polytrie_chainspec::Rules;
use polytrie_kv::EngineReads;
use polytrie_state::StateError;
use revm::context_interface::{Cfg, result::HaltReason};
use revm_state_hooks::HookedEvm;

use super::{
    Amsterdam, BlockInvalid, BlockToExecute, ExecuteError, Failed, InternalError, SystemContracts,
    access_list::AccessListBuilder,
    console::{CONSOLE, Console},
    database::SessionDatabase,
    deposits,
    listed::Transactions,
    schedule::Schedule,
};

/// Result of a block: receipts, gas, requests. The changes of state are in the session.
#[derive(Debug, Clone)]
pub struct Executed {
    /// Receipt of each transaction, with the bloom of its logs.
    pub receipts: Vec<ReceiptEnvelope>,
    /// Gas that all transactions used.
    pub gas_used: u64,
    /// Blob gas that all transactions used; 0 before Cancun.
    pub blob_gas_used: u64,
    /// Access list of the block (EIP-7928); `None` before Amsterdam, unless the executor makes lists of all
    /// blocks.
    pub access_list: Option<Vec<AccountChanges>>,
    /// Requests to the consensus layer (EIP-7685); `None` before Prague.
    pub requests: Option<Requests>,
    /// Whether the root of the receipts can be compared with the header's. Before Byzantium a receipt holds the
    /// state root after its transaction. The field is `false` if the layer could not give these roots; the
    /// receipts then hold the status instead.
    pub receipts_comparable: bool,
    /// Time of each transaction in the EVM, if transactions ran at the same time; otherwise empty.
    pub transaction_times: Vec<Duration>,
    /// The moment when the run ended, and what its thread read from the engine, if transactions ran at the same time: the
    /// calling thread may have done something else then.
    pub ended: Option<(Instant, EngineReads)>,
}

/// Result of one transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Included {
    /// Gas that the transaction used.
    pub gas_used: u64,
    /// Reason why the transaction did not succeed; `None` if it did.
    pub failed: Option<Failed>,
    /// Messages that its contracts print, as the data of their calls, see [`BlockRun::watch_console`].
    pub console: Vec<Bytes>,
}

type Inner<'a> = EthBlockExecutor<
    'a,
    HookedEvm<SessionDatabase<'a>, Console>,
    Schedule<'a>,
    AlloyReceiptBuilder,
>;

type Ran = EthTxResult<HaltReason, TxType>;

/// A running block.
///
/// [`Executor::execute_block`] executes a complete block; this type is for building one.
pub struct BlockRun<'a> {
    inner: Inner<'a>,
    rules: Rules<'a>,
    system_contracts: SystemContracts,
    amsterdam: Amsterdam,
    failure: Arc<OnceLock<InternalError>>,
    /// Whether the receipts hold state roots so far, before Byzantium.
    receipts_comparable: bool,
    /// Whether the messages of contracts are gathered.
    console: bool,
    /// Time of each transaction, if transactions run at the same time.
    times: Vec<Duration>,
}

impl BlockRun<'_> {
    /// Executes the transactions of a block.
    fn transact_all(&mut self, block: &BlockToExecute<'_>) -> Result<(), ExecuteError> {
        self.inner.reserve(block.transactions.len());
        for (number, tx) in block.transactions.iter().enumerate() {
            let sender = block.senders.get(number).map_err(BlockInvalid::from)?;
            self.transact(tx, sender)?;
        }
        Ok(())
    }

    /// Applies the changes of a block's transactions in order, while several threads run them.
    fn include_all<'t>(
        &mut self,
        block: &BlockToExecute<'_>,
        transactions: &Transactions<'t>,
    ) -> Result<(), ExecuteError> {
        self.inner.reserve(block.transactions.len());
        let mut evm = transactions.evm();
        for (number, tx) in block.transactions.iter().enumerate() {
            let ran = transactions.take(&mut evm, number);
            let (result, time) = ran.ok_or(InternalError::State(StateError::Untold))?;
            self.check_gas(number, tx)?;
            let (blob_gas_used, tx_type) = (tx.blob_gas_used().unwrap_or_default(), tx.tx_type());
            self.go_on();
            self.inner.commit_transaction(EthTxResult { result, blob_gas_used, tx_type });
            self.check_failure()?;
            self.times.push(time);
        }
        Ok(())
    }

    /// Checks that the block has gas left for one more transaction, as alloy-evm checks before it runs one.
    fn check_gas(&self, index: usize, tx: &TxEnvelope) -> Result<(), BlockInvalid> {
        let (cfg, limit) = (self.inner.evm.cfg_env(), self.inner.evm.block().gas_limit);
        let (gas_limit, two_kinds) = (tx.gas_limit(), cfg.enable_amsterdam_eip8037);
        let used = match two_kinds {
            true => self.inner.block_regular_gas_used,
            false => self.inner.cumulative_tx_gas_used,
        };
        let regular = (gas_limit.min(cfg.tx_gas_limit_cap()), limit.saturating_sub(used));
        let state = (gas_limit, limit.saturating_sub(self.inner.block_state_gas_used));
        let too_much = [Some(regular), two_kinds.then_some(state)];
        match too_much.into_iter().flatten().find(|(asked, available)| asked > available) {
            Some((_, available)) => {
                let hash = *tx.tx_hash();
                Err(BlockInvalid::TransactionGas { index, hash, gas_limit, available })
            }
            None => Ok(()),
        }
    }

    /// Executes the next transaction and applies its changes.
    ///
    /// # Errors
    ///
    /// [`ExecuteError::Invalid`] if the transaction cannot be included; the block is then as before, and another
    /// transaction may be tried. After [`ExecuteError::Internal`] the block must be dropped.
    pub fn transact(&mut self, tx: &TxEnvelope, sender: Address) -> Result<Included, ExecuteError> {
        let output = self.run(tx, sender)?;
        let failed = Failed::of(&output.result.result);
        let console = match self.console && output.result.state.contains_key(&CONSOLE) {
            // Few transactions print messages, so only those run again with the inspector.
            true => self.printed(tx, sender)?,
            false => Vec::new(),
        };
        self.go_on();
        let gas_used = self.inner.commit_transaction(output).tx_gas_used();
        self.check_failure()?;
        if !self.rules.is(EthereumHardfork::Byzantium) {
            self.put_state_root()?;
        }
        Ok(Included { gas_used, failed, console })
    }

    /// Moves to the next place of the block's access list.
    fn go_on(&mut self) {
        let transactions = self.inner.receipts.len();
        if let Some(list) = &mut self.inner.evm.db_mut().access_list {
            list.go_on_after(transactions);
        }
    }

    /// Runs a transaction without keeping its changes.
    fn run(&mut self, tx: &TxEnvelope, sender: Address) -> Result<Ran, ExecuteError> {
        self.amsterdam.prepare(&mut self.inner.evm.context_mut().cfg, tx.is_create());
        let ran =
            self.inner.execute_transaction_without_commit(Recovered::new_unchecked(tx, sender));
        ran.map_err(|error| {
            let place = (self.inner.receipts.len(), *tx.tx_hash());
            ExecuteError::new(error, self.failure.get(), Some(place))
        })
    }

    /// Returns the messages of a transaction: runs it once more, with the inspector.
    fn printed(&mut self, tx: &TxEnvelope, sender: Address) -> Result<Vec<Bytes>, ExecuteError> {
        self.inner.evm.set_inspector_enabled(true);
        let ran = self.run(tx, sender);
        self.inner.evm.set_inspector_enabled(false);
        ran?;
        Ok(self.inner.evm.components_mut().1.take())
    }

    /// Makes later transactions fill [`Included::console`] with the messages of their contracts.
    pub const fn watch_console(&mut self) {
        self.console = true;
    }

    /// Executes a transaction of an impersonated account, which may have code: a user of a development node
    /// impersonates it.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::transact`] does.
    pub fn transact_as(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
    ) -> Result<Included, ExecuteError> {
        self.inner.evm.context_mut().cfg.disable_eip3607 = true;
        let included = self.transact(tx, sender);
        self.inner.evm.context_mut().cfg.disable_eip3607 = false;
        included
    }

    /// Returns the gas that the transactions so far have used.
    pub const fn gas_used(&self) -> u64 {
        self.inner.cumulative_tx_gas_used
    }

    /// Returns the gas that the block has left; if it counts gas in two dimensions (EIP-8037), the smaller of the
    /// two.
    pub fn gas_left(&self) -> u64 {
        let (cfg, limit) = (self.inner.evm.cfg_env(), self.inner.evm.block().gas_limit);
        let used = match cfg.enable_amsterdam_eip8037 {
            true => self.inner.block_regular_gas_used.max(self.inner.block_state_gas_used),
            false => self.inner.cumulative_tx_gas_used,
        };
        limit.saturating_sub(used)
    }

    /// Returns the receipts of the transactions so far.
    pub fn receipts(&self) -> &[ReceiptEnvelope] {
        &self.inner.receipts
    }

    /// Ends the block: makes the system calls, pays the rewards and the withdrawals.
    ///
    /// # Errors
    ///
    /// Fails as [`Executor::execute_block`] does.
    pub fn finish(mut self) -> Result<Executed, ExecuteError> {
        self.go_on();
        let Self {
            mut inner,
            rules,
            system_contracts,
            amsterdam,
            failure,
            receipts_comparable,
            times,
            ..
        } = self;
        let prague = rules.is(EthereumHardfork::Prague);
        if let Some(contract) = rules.spec.deposit_contract().filter(|_| prague) {
            deposits::check(&inner.receipts, contract)?;
        }
        if prague {
            let has_builders =
                rules.is(EthereumHardfork::Amsterdam) && amsterdam.has_builder_requests();
            system_contracts.check(inner.evm.db_mut().session, has_builders)?;
        }
        let (mut evm, result) =
            inner.finish().map_err(|error| ExecuteError::new(error, failure.get(), None))?;
        if let Some(failure) = failure.get() {
            return Err(failure.clone().into());
        }
        Ok(Executed {
            receipts: result.receipts,
            gas_used: result.gas_used,
            blob_gas_used: result.blob_gas_used,
            access_list: evm.db_mut().access_list.take().map(AccessListBuilder::finish),
            requests: prague.then_some(result.requests),
            receipts_comparable,
            transaction_times: times,
            ended: None,
        })
    }

    /// Replaces the status in the last receipt by the state root after its transaction, if the layer gives it: so
    /// receipts are before Byzantium (EIP-658).
    fn put_state_root(&mut self) -> Result<(), ExecuteError> {
        if !self.receipts_comparable {
            return Ok(());
        }
        let session = &mut *self.inner.evm.db_mut().session;
        let root = session.state_root_so_far().map_err(InternalError::from)?;
        match (root, self.inner.receipts.last_mut()) {
            (Some(root), Some(ReceiptEnvelope::Legacy(receipt))) => {
                receipt.receipt.status = Eip658Value::PostState(root);
            }
            _ => self.receipts_comparable = false,
        }
        Ok(())
    }

    /// Returns the first error of the database. A commit cannot return one, so it is checked afterwards.
    fn check_failure(&self) -> Result<(), ExecuteError> {
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone().into()))
    }
}

impl fmt::Debug for BlockRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockRun")
            .field("rules", &self.rules)
            .field("transactions", &self.inner.receipts.len())
            .field("gas_used", &self.gas_used())
            .finish_non_exhaustive()
    }
}
