//! Execution of a block by its access list. The commitment is computed while the block runs, from the values that the
//! list says the block leaves, and the block's transactions may run at the same time.
//!
//! A list only saves time. If the execution differs from it, the work is dropped and the block runs again without the
//! list, which shows whether the block is invalid, and why. So no result depends on a wrong list, nor on the number of
//! threads.

use crate::{
    BlockStats, Candidate, Chain, Overlay,
    execute::{Execution, LateRoot},
    executor::{Elsewhere, Listed, Together},
};
use alloy_consensus::ReceiptEnvelope;
use alloy_eips::eip7928::AccountChanges;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Address;
use parking_lot::Mutex;
use polytrie_chainspec::Rules;
use polytrie_consensus::access_list::{check_access_list, check_access_list_form};
use polytrie_kv::{EngineReads, KvError};
use polytrie_state::{
    CommitmentKind, FinishedLater, HasStorage, Session, StateError, StateLayer, StateReader,
    WriteSet,
};
use std::{
    panic::resume_unwind,
    sync::{Arc, OnceLock},
    thread,
    time::Instant,
};

/// Use of an access list that is known before its block runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum ListUse {
    /// The list is compared with the execution, if the header has the hash of a list.
    #[default]
    Check,
    /// The list is checked, and the commitment is computed while the block runs, from the values in the list. This
    /// applies from Cancun on; the list of an earlier block lacks some values.
    Commit,
    /// The list is used as by `Commit`, and transactions run at the same time, each on the values that the list has
    /// before it.
    Run {
        /// Number of threads that run transactions; at least 1. The second of them is the one that computes the commitment
        /// before.
        threads: usize,
    },
}

impl Chain {
    /// Returns the list by which a block is to run, if there is one. Whether the list is right is not known yet.
    pub(crate) fn list_of(
        &self,
        rules: &Rules<'_>,
        candidate: &Candidate,
    ) -> Option<Arc<Vec<AccountChanges>>> {
        let options = &self.options;
        // A witness must hold only what the block itself reads, and a part of a state has no more than that.
        let is_whole = options.witness_levels.is_none() && !options.partial_state;
        let transactions = candidate.block.body.transactions.len();
        if options.list_use == ListUse::Check
            || !is_whole
            || transactions == 0
            || !rules.is(EthereumHardfork::Cancun)
        {
            return None;
        }
        match (&candidate.access_list, &candidate.listed) {
            (Some(rlp), _) => {
                check_access_list(&candidate.header, transactions, rlp).ok().map(Arc::new)
            }
            (None, Some(list)) => {
                check_access_list_form(list, transactions).ok().map(|()| Arc::clone(list))
            }
            (None, None) => None,
        }
    }

    /// Executes a block on top of the head by its list. Returns `None` if something differs from the list: the caller
    /// must settle the earlier blocks and execute the block without the list.
    pub(crate) fn execute_by_list(
        &mut self,
        rules: &Rules<'_>,
        candidate: &Candidate,
        list: Arc<Vec<AccountChanges>>,
        stats: &mut BlockStats,
    ) -> Option<(Vec<ReceiptEnvelope>, FinishedLater)> {
        let (kept, timed) = (self.access_lists.len(), self.transaction_times.len());
        let mut own = *stats;
        match self.try_by_list(rules, candidate, list, &mut own) {
            Ok(done) => {
                *stats = BlockStats { by_list: true, ..own };
                Some(done)
            }
            Err(reason) => {
                self.access_lists.truncate(kept);
                self.transaction_times.truncate(timed);
                let number = candidate.header.number;
                tracing::debug!(number, "a block runs without its access list: {reason}");
                None
            }
        }
    }

    /// Does as [`Self::execute_by_list`], but returns the reason in place of `None`. If the layer failed, it fails
    /// again in the execution without the list.
    fn try_by_list(
        &mut self,
        rules: &Rules<'_>,
        candidate: &Candidate,
        list: Arc<Vec<AccountChanges>>,
        stats: &mut BlockStats,
    ) -> Result<(Vec<ReceiptEnvelope>, FinishedLater), String> {
        let (start, before) = (Instant::now(), EngineReads::of_this_thread());
        let layer = |error: StateError| error.to_string();
        let coinbase = *candidate.coinbase.as_ref().map_err(ToString::to_string)?;
        let mut session = Session::begin(&*self.layer, self.head.block_ref()).map_err(layer)?;
        let below = self.storage_at_head();
        let block =
            self.executor.read_listed(&mut session, rules, coinbase, list, below).map_err(layer)?;
        let (state_read, prepared) = session.reads_and_rest(start);
        stats.waited += EngineReads::of_this_thread() - before;

        let (session, finished) = (Mutex::new(Some(session)), Mutex::new(None));
        let commit = || {
            let session = session.lock().take();
            *finished.lock() = session.map(|session| block.finish(session));
        };
        // This thread has read the state, and writes the batch next. So the commitment belongs here: its nodes are in the
        // cache of this core, and its rows stay there. Without one the run takes longer.
        let elsewhere = match self.layer.commitment().kind() {
            CommitmentKind::None => Elsewhere::Commitment,
            CommitmentKind::StateRoot | CommitmentKind::Own => Elsewhere::Run,
        };
        let together = match self.options.list_use {
            ListUse::Run { threads } => Some(Together { threads, first: &commit, elsewhere }),
            ListUse::Check | ListUse::Commit => None,
        };
        let others = self.executor.others(together.map_or(2, |together| together.threads));
        let listed = Listed { block: &block, together };
        let root_later = candidate.has_late_root();
        let how = Execution { listed: Some(listed), root_later, ..Execution::default() };
        let mut execute = || {
            let before = stats.total();
            let mut run = block.session();
            let receipts = self.execute(rules, candidate, &mut run, how, stats);
            let receipts = receipts.map_err(|error| error.to_string())?;
            let ran = stats.total().saturating_sub(before);
            let receipts = LateRoot::start(receipts, root_later && stats.receipts_checked);
            let (writes, _) = run.into_writes().map_err(layer)?;
            let receipts = receipts.check(candidate).map_err(|error| error.to_string())?;
            Ok::<_, String>((receipts, writes, ran))
        };
        let start = Instant::now();
        let executed = match (together, elsewhere) {
            (Some(_), _) => execute(),
            (None, Elsewhere::Run) => others.beside(execute, commit).0,
            (None, Elsewhere::Commitment) => others.beside(commit, execute).1,
        };
        // If the run ended before the commitment began, its own error says why.
        let (receipts, writes, ran) = executed?;
        let finished = finished.into_inner().ok_or("its commitment was not computed")?;
        let finished = finished.map_err(layer)?;
        // What the run read is in memory. The time of the commitment beside the run is not counted twice. What follows the
        // run (its write set, the root of its receipts) counts as commitment.
        stats.execute += prepared + std::mem::replace(&mut stats.state_read, state_read);
        stats.state_commit = start.elapsed().saturating_sub(ran);
        stats.session = finished.counters;
        if writes != *finished.writes {
            return Err("it leaves something else than the list says".into());
        }
        Ok((receipts, finished))
    }

    /// Returns what tells whether an account has any slot at the head, while a session on top of it is in progress.
    pub(super) fn storage_at_head(&self) -> HasStorage {
        let layer = Arc::clone(&self.layer);
        let waiting: Vec<_> = self.waiting.iter().map(|block| Arc::clone(&block.writes)).collect();
        let read = move || -> Result<Arc<dyn StateReader>, StateError> {
            let on_top = |state, writes: &Arc<WriteSet>| -> Arc<dyn StateReader> {
                Arc::new(Overlay::of_block(state, writes))
            };
            Ok(waiting.iter().fold(reader(&*layer)?, on_top))
        };
        // Few blocks ask, but those may ask for thousands of accounts.
        let state = OnceLock::new();
        Box::new(move |address: &Address| {
            let state = state.get_or_init(&read).as_ref();
            state.map_err(StateError::clone)?.has_storage(address)
        })
    }
}

/// Returns a reader of the head that has read once.
///
/// At its first read a reader may lock the head of its layer, and let threads of a pool work. A thread of the pool that runs
/// the block would take on the next transactions while it waits for them, and those may ask for the same lock. So a thread of
/// its own reads first.
fn reader(layer: &dyn StateLayer) -> Result<Arc<dyn StateReader>, StateError> {
    let read = || -> Result<_, StateError> {
        let reader = layer.reader()?;
        reader.account(&Address::ZERO)?;
        Ok(reader)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("listed".to_owned());
        let thread = thread.spawn_scoped(scope, read).map_err(KvError::thread)?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
