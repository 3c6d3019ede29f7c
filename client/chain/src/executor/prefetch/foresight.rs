//! The accesses of blocks, found for another process, which executes them.

use super::{CODE_CACHE, job::Job};
use crate::executor::{CodeCache, codes::ready_to_run, hints::accesses_in};
use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{Address, B256, Bytes, U256, map::HashSet};
use parking_lot::Mutex;
use polytrie_chainspec::ChainSpec;
use polytrie_state::{Access, Account, StateError, StateReader};
use std::{
    collections::BTreeSet,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Number of runs of a block on what was gathered. Few transactions depend on longer chains of values.
const GUESSES: usize = 4;

/// Time of the runs of a block after which a prefetcher runs it no more. A prefetcher does not know when the node executes
/// the block. One run of the costliest blocks takes longer than this.
const BUDGET: Duration = Duration::from_millis(500);

/// Number of codes that are read together: 3 MiB at most, as a contract has 24 KiB at most.
const CODES_TOGETHER: usize = 128;

/// A function that reads accounts and slots together, so that the state has them in memory.
pub type Gather<'a> = dyn FnMut(&[Access]) -> Result<(), StateError> + 'a;

/// A function that says whether the accesses of the block are not wanted any more.
pub type IsOver<'a> = dyn Fn() -> bool + Sync + 'a;

/// Runner of blocks on an older state, which finds their accesses.
#[derive(Debug)]
pub struct Foresight {
    spec: Arc<ChainSpec>,
    codes: Arc<Mutex<CodeCache>>,
    threads: usize,
    /// Time of the runs of a block after which it runs no more.
    pub(super) budget: Duration,
}

impl Foresight {
    /// Returns a runner for the blocks of a chain with this specification, on so many threads.
    pub fn new(spec: Arc<ChainSpec>, threads: usize) -> Self {
        let codes = Arc::new(Mutex::new(CodeCache::new(CODE_CACHE)));
        Self { budget: BUDGET, ..Self::sharing(spec, codes, threads) }
    }

    /// Returns a runner for an import, with the code cache of its other runners. It has no budget: the execution of a block
    /// ends the runs of that block. On a busy machine a run may take long, and the execution would have to wait for each
    /// value that was not asked for.
    pub(super) fn sharing(
        spec: Arc<ChainSpec>,
        codes: Arc<Mutex<CodeCache>>,
        threads: usize,
    ) -> Self {
        Self { spec, codes, threads, budget: Duration::MAX }
    }

    /// Returns the accesses that the bytes of a block contain.
    fn announced(block: &Block<TxEnvelope>, senders: &[Address]) -> Vec<Access> {
        let accounts = senders.iter().copied().chain([block.header.beneficiary]);
        let in_transactions = block.body.transactions.iter().flat_map(accesses_in);
        accounts.map(Access::Account).chain(in_transactions).collect()
    }

    /// Returns the accesses of a block's transactions, each run on the state of `state` without the earlier ones.
    /// Values that cannot be read and transactions that cannot run are left out.
    ///
    /// The block runs some times on what `gather` has read, with nothing in place of what it has not. So a state on other
    /// machines is not asked for one key after the other, but for all keys that depend on as many others. Runs that take long
    /// are not repeated: the keys that depend on the values asked for last are left out then. Once `is_over` returns `true`,
    /// no transaction runs any more.
    ///
    /// # Errors
    ///
    /// Those of `gather`.
    pub fn touched(
        &self,
        block: &Block<TxEnvelope>,
        senders: &[Address],
        state: Arc<dyn StateReader>,
        gather: &mut Gather<'_>,
        is_over: &IsOver<'_>,
    ) -> Result<Vec<Access>, StateError> {
        let known = Arc::new(Known { state: Arc::clone(&state), places: Mutex::default() });
        let mut wanted = Self::announced(block, senders);
        let mut spent = Duration::ZERO;
        for _ in 0..GUESSES {
            gather(&wanted)?;
            known.add(&wanted);
            let began = Instant::now();
            let accesses = self.run(block, senders, Arc::clone(&known) as _, is_over);
            spent += began.elapsed();
            wanted = known.take_asked();
            if wanted.is_empty() || is_over() {
                return Ok(accesses);
            }
            if spent >= self.budget {
                return gather(&wanted).map(|()| accesses);
            }
        }
        gather(&wanted)?;
        Ok(self.run(block, senders, state, is_over))
    }

    /// Reads together the code of accounts that `state` has in memory, as far as the cache of the runners has not got it.
    /// The block's execution then finds it in the cache of the store. A block may name thousands of contracts: once `is_over`
    /// returns `true`, nothing more is read.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn read_codes(
        &self,
        state: &dyn StateReader,
        accesses: &[Access],
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), StateError> {
        let mut hashes = BTreeSet::new();
        for access in accesses {
            // The block meets an error when it needs the account.
            if let Access::Account(address) = access
                && let Ok(Some(account)) = state.account(address)
                && account.has_code()
            {
                hashes.insert(account.code_hash);
            }
        }
        let mut hashes: Vec<B256> = hashes.into_iter().collect();
        hashes.retain(|hash| self.codes.lock().get(hash, true).is_none());
        for hashes in hashes.chunks(CODES_TOGETHER) {
            if is_over() {
                break;
            }
            for (hash, code) in hashes.iter().zip(state.codes(hashes)?) {
                if let Some(code) = code {
                    self.codes.lock().insert(*hash, ready_to_run(code, true));
                }
            }
        }
        Ok(())
    }

    fn run(
        &self,
        block: &Block<TxEnvelope>,
        senders: &[Address],
        state: Arc<dyn StateReader>,
        is_over: &IsOver<'_>,
    ) -> Vec<Access> {
        let codes = Arc::clone(&self.codes);
        let job = Job::new(B256::ZERO, block.clone(), senders.to_vec(), state, codes);
        let run = || job.run_until(&self.spec, is_over);
        thread::scope(|scope| {
            for _ in 1..self.threads.min(job.transactions()) {
                let thread = thread::Builder::new().name("foresight".to_owned());
                // The threads that exist do all the work.
                if thread.spawn_scoped(scope, run).is_err() {
                    break;
                }
            }
            run();
        });
        job.end()
    }
}

/// A state of which only some accounts and slots are read. All others seem absent, and are noted.
#[derive(Debug)]
struct Known {
    state: Arc<dyn StateReader>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    known: HashSet<(Address, Option<U256>)>,
    asked: HashSet<Access>,
}

impl Known {
    fn add(&self, accesses: &[Access]) {
        self.places.lock().known.extend(accesses.iter().map(|access| access.place()));
    }

    /// Returns what was asked for and is not known.
    fn take_asked(&self) -> Vec<Access> {
        std::mem::take(&mut self.places.lock().asked).into_iter().collect()
    }

    fn is_known(&self, access: Access) -> bool {
        let mut places = self.places.lock();
        let is_known = places.known.contains(&access.place());
        if !is_known {
            places.asked.insert(access);
        }
        is_known
    }
}

impl StateReader for Known {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        if !self.is_known(Access::Account(*address)) {
            return Ok(None);
        }
        self.state.account(address)
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        if !self.is_known(Access::SlotRead(*address, *slot)) {
            return Ok(U256::ZERO);
        }
        self.state.slot(address, slot)
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        self.state.code(code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        Ok(self.is_known(Access::Account(*address)) && self.state.has_storage(address)?)
    }
}
