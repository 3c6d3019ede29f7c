//! Running a block.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use alloy_consensus::{
    Eip658Value, Header, ReceiptEnvelope, Transaction as _, TxEnvelope, TxType,
    transaction::Recovered,
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
use polytrie_state::{Session, StateError};
use revm::context_interface::{Cfg, result::HaltReason};
use revm_state_hooks::HookedEvm;

use polytrie_consensus::clique::coinbase;

use super::{
    Amsterdam, BlockHashes, BlockInvalid, BlockToExecute, CodeCache, ExecuteError, Failed,
    InternalError, SystemContracts,
    access_list::AccessListBuilder,
    console::{CONSOLE, Console},
    dao,
    database::SessionDatabase,
    deposits,
    environment::{context, environment},
    hints,
    listed::{Listed, ListedBlock, Transactions},
    schedule::Schedule,
};

/// Executes blocks. Holds what is worth keeping between them: code that is ready to run.
#[derive(Debug)]
pub struct Executor {
    codes: CodeCache,
    system_contracts: SystemContracts,
    pub(super) amsterdam: Amsterdam,
    /// Whether access lists are also made of blocks that need none.
    access_lists: bool,
}

/// What came of a block. The state changes are in the session.
#[derive(Debug, Clone)]
pub struct Executed {
    /// One receipt a transaction, each with the bloom of its logs.
    pub receipts: Vec<ReceiptEnvelope>,
    /// Gas that all transactions used.
    pub gas_used: u64,
    /// Blob gas that all transactions used; 0 before Cancun.
    pub blob_gas_used: u64,
    /// What the block touched (EIP-7928); `None` before Amsterdam, unless the executor makes lists of all blocks.
    pub access_list: Option<Vec<AccountChanges>>,
    /// Requests to the consensus layer (EIP-7685); `None` before Prague.
    pub requests: Option<Requests>,
    /// Whether the root of the receipts can be compared with the header's. Before Byzantium a
    /// receipt holds the state root after its transaction; this is `false` if the layer could not
    /// give them, and the receipts then hold the status instead.
    pub receipts_comparable: bool,
    /// How long the EVM ran each transaction, where they ran at the same time; empty elsewhere.
    pub transaction_times: Vec<Duration>,
}

/// What came of one transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Included {
    /// Gas it used.
    pub gas_used: u64,
    /// Why it did not succeed, if so.
    pub failed: Option<Failed>,
    /// What its contracts want to have printed, as the data of their calls, see [`BlockRun::watch_console`].
    pub console: Vec<Bytes>,
}

type Inner<'a> = EthBlockExecutor<
    'a,
    HookedEvm<SessionDatabase<'a>, Console>,
    Schedule<'a>,
    AlloyReceiptBuilder,
>;

type Ran = EthTxResult<HaltReason, TxType>;

/// A block under way.
///
/// For the whole of a block that exists there is [`Executor::execute_block`]; this is for building
/// one.
pub struct BlockRun<'a> {
    inner: Inner<'a>,
    rules: Rules<'a>,
    system_contracts: SystemContracts,
    amsterdam: Amsterdam,
    failure: Arc<OnceLock<InternalError>>,
    /// Before Byzantium, as long as the layer gives state roots.
    receipts_comparable: bool,
    /// Whether what contracts want to have printed is gathered.
    console: bool,
    /// How long each transaction ran, as far as they ran by themselves.
    times: Vec<Duration>,
}

impl Executor {
    /// An executor that keeps about `code_cache` bytes of contract code between blocks.
    pub fn new(code_cache: usize) -> Self {
        Self {
            codes: CodeCache::new(code_cache),
            system_contracts: SystemContracts::default(),
            amsterdam: Amsterdam::default(),
            access_lists: false,
        }
    }

    /// This executor, for a chain whose Amsterdam is not the newest one.
    #[must_use]
    pub const fn with_amsterdam(mut self, amsterdam: Amsterdam) -> Self {
        self.amsterdam = amsterdam;
        self
    }

    /// This executor, making an access list of every block, whatever its fork.
    #[must_use]
    pub const fn with_access_lists(mut self) -> Self {
        self.access_lists = true;
        self
    }

    /// This executor, for a chain that has its system contracts at other addresses.
    #[must_use]
    pub const fn with_system_contracts(mut self, contracts: SystemContracts) -> Self {
        self.system_contracts = contracts;
        self
    }

    /// Where it takes the system contracts to be.
    pub const fn system_contracts(&self) -> SystemContracts {
        self.system_contracts
    }

    /// Executes a block on `session`, which stands at its parent.
    ///
    /// To have the receipts of a block before Byzantium compared, begin the session
    /// [`with_intermediate_roots`](Session::with_intermediate_roots).
    ///
    /// # Errors
    ///
    /// If the block is invalid, or if we failed. Either way the session holds half a block and must
    /// be dropped.
    pub fn execute_block(
        &mut self,
        session: &mut Session,
        rules: Rules<'_>,
        hashes: &dyn BlockHashes,
        block: BlockToExecute<'_>,
    ) -> Result<Executed, ExecuteError> {
        let (found, expected) = (block.senders.len(), block.transactions.len());
        if found != expected {
            return Err(InternalError::SenderCount { found, expected }.into());
        }
        let block = block.with_coinbase(block_coinbase(&rules, &block)?);
        if let Some(listed) = block.listed {
            return self.execute_listed(session, rules, hashes, block, listed);
        }
        hints::announce(session, &block);
        let mut run = self.begin(session, rules, hashes, block)?;
        run.transact_all(&block)?;
        run.finish()
    }

    /// Reads from `session`, which stands at the parent of a block and has no writes, all that the block needs according to
    /// its access list. The list has the form that EIP-7928 asks for.
    ///
    /// # Errors
    ///
    /// If the layer fails.
    pub fn read_listed(
        &mut self,
        session: &mut Session,
        rules: &Rules<'_>,
        coinbase: Address,
        list: Arc<Vec<AccountChanges>>,
    ) -> Result<ListedBlock, StateError> {
        let delegations = rules.is(EthereumHardfork::Prague);
        ListedBlock::read(session, &mut self.codes, list, coinbase, delegations)
    }

    /// Executes a block on what its list says. `session` is that of the list.
    fn execute_listed(
        &mut self,
        session: &mut Session,
        rules: Rules<'_>,
        hashes: &dyn BlockHashes,
        block: BlockToExecute<'_>,
        listed: Listed<'_>,
    ) -> Result<Executed, ExecuteError> {
        let transactions = Transactions::new(self, &rules, hashes, &block, listed.block);
        let others = match listed.threads {
            // One for what there is to do beside them.
            None => 1,
            Some(threads) => threads.min(block.transactions.len()).saturating_sub(1),
        };
        let other = || {
            (listed.beside)();
            if listed.threads.is_some() {
                transactions.run();
            }
        };
        thread::scope(|scope| {
            for number in 0..others {
                let name = format!("listed-{number}");
                if let Err(error) = thread::Builder::new().name(name).spawn_scoped(scope, other) {
                    tracing::debug!("transactions run on fewer threads than asked for: {error}");
                    break;
                }
            }
            let executed = self.begin(session, rules, hashes, block).and_then(|mut run| {
                match listed.threads {
                    None => run.transact_all(&block)?,
                    Some(_) => run.include_all(&block, &transactions)?,
                }
                run.finish()
            });
            transactions.stop();
            executed
        })
    }

    /// Begins a block: everything that comes before its transactions. Those that `block` has are not run.
    ///
    /// # Errors
    ///
    /// As [`Self::execute_block`].
    pub fn begin<'a>(
        &'a mut self,
        session: &'a mut Session,
        rules: Rules<'a>,
        hashes: &'a dyn BlockHashes,
        block: BlockToExecute<'a>,
    ) -> Result<BlockRun<'a>, ExecuteError> {
        let BlockToExecute { header, ommers, .. } = block;
        let block = block.with_coinbase(block_coinbase(&rules, &block)?);
        check_header(header, &rules)?;
        check_ommers(header, ommers)?;
        let drained = dao::drain(&rules, |address| session.account(address));
        let drained = drained.map_err(InternalError::from)?;
        if !drained.accounts.is_empty() {
            session.apply(&drained).map_err(InternalError::from)?;
        }
        let mut run = self.run(session, rules, hashes, block);
        run.inner
            .apply_pre_execution_changes()
            .map_err(|error| ExecuteError::new(error, run.failure.get(), None))?;
        run.check_failure()?;
        Ok(run)
    }

    /// Begins with the transactions, as if nothing had to be done before them: for transactions that are no block's, as
    /// the official state tests have them. Nor has such a run an end: what its transactions did is in the session.
    ///
    /// # Errors
    ///
    /// If the header has not what the EVM needs.
    pub fn begin_without_block<'a>(
        &'a mut self,
        session: &'a mut Session,
        rules: Rules<'a>,
        hashes: &'a dyn BlockHashes,
        header: &'a Header,
    ) -> Result<BlockRun<'a>, BlockInvalid> {
        check_header(header, &rules)?;
        Ok(self.run(session, rules, hashes, BlockToExecute::to_fill(header, None)))
    }

    fn run<'a>(
        &'a mut self,
        session: &'a mut Session,
        rules: Rules<'a>,
        hashes: &'a dyn BlockHashes,
        block: BlockToExecute<'a>,
    ) -> BlockRun<'a> {
        let BlockToExecute { header, coinbase, ommers, withdrawals, .. } = block;
        let coinbase = coinbase.unwrap_or(header.beneficiary);
        let failure = Arc::new(OnceLock::new());
        let prague = rules.is(EthereumHardfork::Prague);
        let mut database =
            SessionDatabase::new(session, &mut self.codes, hashes, prague, Arc::clone(&failure));
        let compared = block.listed.is_some_and(|listed| listed.threads.is_some());
        if self.access_lists || compared || rules.is(EthereumHardfork::Amsterdam) {
            database.access_list = Some(AccessListBuilder::default());
        }
        // The inspector looks on only where a transaction is run for it, see `BlockRun::transact`.
        let environment = self.amsterdam.adapt(environment(header, coinbase, &rules));
        let mut evm = HookedEvm::with_inspector(database, environment, Console::new(true));
        evm.set_inspector_enabled(false);
        evm = self.amsterdam.set_static_gas(self.system_contracts.announce(evm));
        if rules.is_eip1283() {
            evm = evm.with_eip1283();
        }
        let context = context(header, ommers, withdrawals);
        let schedule = Schedule { rules, amsterdam: self.amsterdam };
        let inner = EthBlockExecutor::new(evm, context, schedule, AlloyReceiptBuilder::default());
        let (system_contracts, amsterdam) = (self.system_contracts, self.amsterdam);
        BlockRun {
            inner,
            rules,
            system_contracts,
            amsterdam,
            failure,
            receipts_comparable: true,
            console: false,
            times: Vec::new(),
        }
    }
}

impl BlockRun<'_> {
    /// Executes the transactions of a block.
    fn transact_all(&mut self, block: &BlockToExecute<'_>) -> Result<(), ExecuteError> {
        self.inner.reserve(block.transactions.len());
        for (tx, sender) in block.transactions.iter().zip(block.senders) {
            self.transact(tx, *sender)?;
        }
        Ok(())
    }

    /// Applies the changes of the transactions of a block, which run on as many threads as there are.
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

    /// Whether the block has gas left for one more transaction, as alloy-evm asks before it runs one.
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
    /// If it cannot be included, [`ExecuteError::Invalid`]; the block is then as it was before, and
    /// another transaction may be tried. After [`ExecuteError::Internal`] the block is lost.
    pub fn transact(&mut self, tx: &TxEnvelope, sender: Address) -> Result<Included, ExecuteError> {
        let output = self.run(tx, sender)?;
        let failed = Failed::of(&output.result.result);
        let console = match self.console && output.result.state.contains_key(&CONSOLE) {
            // Few transactions print something, so the others need no inspector.
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

    /// What changes from now on belongs to the next place in the block's access list.
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

    /// What a transaction prints: it is run once more, with an inspector.
    fn printed(&mut self, tx: &TxEnvelope, sender: Address) -> Result<Vec<Bytes>, ExecuteError> {
        self.inner.evm.set_inspector_enabled(true);
        let ran = self.run(tx, sender);
        self.inner.evm.set_inspector_enabled(false);
        ran?;
        Ok(self.inner.evm.components_mut().1.take())
    }

    /// From now on [`Included::console`] holds what contracts want to have printed.
    pub const fn watch_console(&mut self) {
        self.console = true;
    }

    /// Executes a transaction whose sender only pretends: it may have code, as an account that a user of a
    /// development node impersonates.
    ///
    /// # Errors
    ///
    /// As [`Self::transact`].
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

    /// Gas that the transactions so far have used.
    pub const fn gas_used(&self) -> u64 {
        self.inner.cumulative_tx_gas_used
    }

    /// Gas that the block has left: where it has two kinds (EIP-8037) what is left of the one of which less is.
    pub fn gas_left(&self) -> u64 {
        let (cfg, limit) = (self.inner.evm.cfg_env(), self.inner.evm.block().gas_limit);
        let used = match cfg.enable_amsterdam_eip8037 {
            true => self.inner.block_regular_gas_used.max(self.inner.block_state_gas_used),
            false => self.inner.cumulative_tx_gas_used,
        };
        limit.saturating_sub(used)
    }

    /// The receipts of the transactions so far.
    pub fn receipts(&self) -> &[ReceiptEnvelope] {
        &self.inner.receipts
    }

    /// Ends the block: system calls, rewards, withdrawals.
    ///
    /// # Errors
    ///
    /// As [`Executor::execute_block`].
    pub fn finish(mut self) -> Result<Executed, ExecuteError> {
        self.go_on();
        let Self {
            mut inner, rules, system_contracts, failure, receipts_comparable, times, ..
        } = self;
        let prague = rules.is(EthereumHardfork::Prague);
        if let Some(contract) = rules.spec.deposit_contract().filter(|_| prague) {
            deposits::check(&inner.receipts, contract)?;
        }
        if prague {
            system_contracts.check(inner.evm.db_mut().session)?;
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
        })
    }

    /// Before Byzantium: the state root after the transaction instead of its status, if the layer
    /// knows it (EIP-658).
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

    /// A commit cannot return an error, so it is asked for afterwards.
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

/// Who is paid the fees of a block.
fn block_coinbase(rules: &Rules<'_>, block: &BlockToExecute<'_>) -> Result<Address, BlockInvalid> {
    block.coinbase.map_or_else(|| Ok(coinbase(rules, block.header)?), Ok)
}

/// The fields that the EVM cannot do without.
fn check_header(header: &Header, rules: &Rules<'_>) -> Result<(), BlockInvalid> {
    if rules.is(EthereumHardfork::Cancun) && header.excess_blob_gas.is_none() {
        return Err(BlockInvalid::MissingField { field: "excess blob gas", fork: "Cancun" });
    }
    if rules.is(EthereumHardfork::London) && header.base_fee_per_gas.is_none() {
        return Err(BlockInvalid::MissingField { field: "base fee", fork: "London" });
    }
    Ok(())
}

/// An ommer's reward shrinks with its age; beyond seven blocks there is none to speak of.
fn check_ommers(header: &Header, ommers: &[Header]) -> Result<(), BlockInvalid> {
    let number = header.number;
    match ommers.iter().find(|o| o.number >= number || o.number.saturating_add(7) < number) {
        Some(ommer) => Err(BlockInvalid::OmmerNumber { found: ommer.number, number }),
        None => Ok(()),
    }
}
