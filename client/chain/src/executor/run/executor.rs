//! The executor: from a block to a running block, and from there to the result.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use alloy_consensus::Header;
use alloy_eips::eip7928::AccountChanges;
use alloy_evm::{
    Evm,
    block::BlockExecutor as _,
    eth::{EthBlockExecutor, receipt_builder::AlloyReceiptBuilder},
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Address;
use polytrie_chainspec::Rules;
use polytrie_consensus::clique::coinbase;
use polytrie_kv::EngineReads;
use polytrie_state::{HasStorage, Session, StateError};
use revm_state_hooks::HookedEvm;

use super::{BlockRun, Executed};
use crate::executor::{
    Amsterdam, BlockHashes, BlockInvalid, BlockToExecute, CodeCache, ExecuteError, InternalError,
    SystemContracts,
    access_list::AccessListBuilder,
    console::Console,
    dao,
    database::SessionDatabase,
    environment::{context, environment},
    hints,
    listed::{Elsewhere, ListedBlock, Others, Together, Transactions},
    schedule::Schedule,
};

/// Executor of blocks, which keeps analysed code between them.
#[derive(Debug)]
pub struct Executor {
    codes: CodeCache,
    system_contracts: SystemContracts,
    pub(in crate::executor) amsterdam: Amsterdam,
    /// Whether access lists are made also of blocks of a fork that has none.
    access_lists: bool,
    /// Threads for blocks with a known list, started with the first of these.
    others: OnceLock<Others>,
}

impl Executor {
    /// Returns an executor that keeps about `code_cache` bytes of contract code between blocks.
    pub fn new(code_cache: usize) -> Self {
        Self {
            codes: CodeCache::new(code_cache),
            system_contracts: SystemContracts::default(),
            amsterdam: Amsterdam::default(),
            access_lists: false,
            others: OnceLock::new(),
        }
    }

    /// Returns this executor for a chain with an earlier draft of Amsterdam.
    #[must_use]
    pub const fn with_amsterdam(mut self, amsterdam: Amsterdam) -> Self {
        self.amsterdam = amsterdam;
        self
    }

    /// Returns this executor, set to make an access list of every block in any fork.
    #[must_use]
    pub(crate) const fn with_access_lists(mut self) -> Self {
        self.access_lists = true;
        self
    }

    /// Returns this executor for a chain with other addresses of the system contracts.
    #[must_use]
    pub const fn with_system_contracts(mut self, contracts: SystemContracts) -> Self {
        self.system_contracts = contracts;
        self
    }

    /// Takes over the addresses of system contracts and the draft of Amsterdam of `other`.
    pub const fn follow(&mut self, other: &Self) {
        self.system_contracts = other.system_contracts;
        self.amsterdam = other.amsterdam;
    }

    /// Executes a block on `session`, which must be at its parent.
    ///
    /// To compare the receipts of a block before Byzantium, the caller begins the session
    /// [`with_intermediate_roots`](Session::with_intermediate_roots).
    ///
    /// # Errors
    ///
    /// Fails if the block is invalid, or if the layer fails. In both cases the session holds half a block and must be
    /// dropped.
    pub fn execute_block(
        &mut self,
        session: &mut Session,
        rules: Rules<'_>,
        hashes: &dyn BlockHashes,
        block: BlockToExecute<'_>,
    ) -> Result<Executed, ExecuteError> {
        let (found, expected) = (block.senders.count(), block.transactions.len());
        if found != expected {
            return Err(InternalError::SenderCount { found, expected }.into());
        }
        let coinbase = Some(block_coinbase(&rules, &block)?);
        let block = BlockToExecute { coinbase, ..block };
        if let Some(listed) = block.listed
            && let Some(together) = listed.together
        {
            return self.execute_together(session, rules, hashes, block, listed.block, together);
        }
        hints::expect(session, &block);
        hints::announce(session, &block);
        let mut run = self.begin(session, rules, hashes, block)?;
        run.transact_all(&block)?;
        run.finish()
    }

    /// Reads from `session`, which must be at the parent of a block and have no writes, all that the block needs
    /// according to its access list. `below` answers for the state of that parent. The list must have the form of EIP-7928.
    ///
    /// # Errors
    ///
    /// Fails if the layer fails.
    pub(crate) fn read_listed(
        &mut self,
        session: &mut Session,
        rules: &Rules<'_>,
        coinbase: Address,
        list: Arc<Vec<AccountChanges>>,
        below: HasStorage,
    ) -> Result<ListedBlock, StateError> {
        let delegations = rules.is(EthereumHardfork::Prague);
        ListedBlock::read(session, &mut self.codes, list, coinbase, delegations, below)
    }

    /// Executes a block on the state of its list, its transactions at the same time. `session` must be that of the list.
    fn execute_together(
        &mut self,
        session: &mut Session,
        rules: Rules<'_>,
        hashes: &dyn BlockHashes,
        block: BlockToExecute<'_>,
        listed: &ListedBlock,
        together: Together<'_>,
    ) -> Result<Executed, ExecuteError> {
        let transactions = &Transactions::new(self, &rules, hashes, &block, listed);
        let threads = together.threads.min(block.transactions.len());
        let others = self.others(together.threads);
        let in_order = || {
            let before = EngineReads::of_this_thread();
            let executed = self.begin(session, rules, hashes, block).and_then(|mut run| {
                run.include_all(&block, transactions)?;
                run.finish()
            });
            transactions.stop();
            let ended = Some((Instant::now(), EngineReads::of_this_thread() - before));
            executed.map(|executed| Executed { ended, ..executed })
        };
        let rest = || {
            others.helped(threads.saturating_sub(2), &|| transactions.run(), || {
                (together.first)();
                if threads > 1 {
                    transactions.run();
                }
            });
        };
        match together.elsewhere {
            Elsewhere::Run => others.beside(in_order, rest).0,
            Elsewhere::Commitment => others.beside(rest, in_order).1,
        }
    }

    /// Returns the threads beside the calling one for a block that so many threads run. The first call decides how many there
    /// are.
    pub(crate) fn others(&self, threads: usize) -> Others {
        self.others.get_or_init(|| Others::start(threads.saturating_sub(1))).clone()
    }

    /// Begins a block: does everything that comes before its transactions. The transactions in `block` are not run.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::execute_block`] does.
    pub fn begin<'a>(
        &'a mut self,
        session: &'a mut Session,
        rules: Rules<'a>,
        hashes: &'a dyn BlockHashes,
        block: BlockToExecute<'a>,
    ) -> Result<BlockRun<'a>, ExecuteError> {
        let BlockToExecute { header, ommers, .. } = block;
        let coinbase = Some(block_coinbase(&rules, &block)?);
        let block = BlockToExecute { coinbase, ..block };
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

    /// Begins with the transactions, without the changes before them: for transactions outside a block, as in the
    /// official state tests. Such a run is not finished; its changes are in the session.
    ///
    /// # Errors
    ///
    /// Fails if the header lacks a field that the EVM needs.
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
        let compared = block.listed.is_some_and(|listed| listed.together.is_some());
        if self.access_lists || compared || rules.is(EthereumHardfork::Amsterdam) {
            database.access_list = Some(AccessListBuilder::default());
        }
        // The inspector is off except where a transaction is run for it, see `BlockRun::transact`.
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

/// Returns the account that receives the fees of a block.
fn block_coinbase(rules: &Rules<'_>, block: &BlockToExecute<'_>) -> Result<Address, BlockInvalid> {
    block.coinbase.map_or_else(|| Ok(coinbase(rules, block.header)?), Ok)
}

/// Checks that the header has the fields that the EVM needs.
fn check_header(header: &Header, rules: &Rules<'_>) -> Result<(), BlockInvalid> {
    if rules.is(EthereumHardfork::Cancun) && header.excess_blob_gas.is_none() {
        return Err(BlockInvalid::MissingField { field: "excess blob gas", fork: "Cancun" });
    }
    if rules.is(EthereumHardfork::London) && header.base_fee_per_gas.is_none() {
        return Err(BlockInvalid::MissingField { field: "base fee", fork: "London" });
    }
    Ok(())
}

/// Checks that each ommer is within the last seven numbers, because older ones have no reward.
fn check_ommers(header: &Header, ommers: &[Header]) -> Result<(), BlockInvalid> {
    let number = header.number;
    match ommers.iter().find(|o| o.number >= number || o.number.saturating_add(7) < number) {
        Some(ommer) => Err(BlockInvalid::OmmerNumber { found: ommer.number, number }),
        None => Ok(()),
    }
}
