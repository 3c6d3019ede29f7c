//! Blocks that run by their access lists: their commitment is computed while they run, from what the list says that they
//! leave, and their transactions may run at the same time.
//!
//! A list only makes things faster. If anything disagrees with it, what was computed is dropped, and the block runs without
//! it: that says whether the block is invalid, and why. So no result depends on a list that is not the block's, nor on the
//! number of threads.

use crate::{BlockStats, Candidate, Chain, executor::Listed};
use alloy_consensus::ReceiptEnvelope;
use alloy_eips::eip7928::AccountChanges;
use alloy_hardforks::EthereumHardfork;
use parking_lot::Mutex;
use polytrie_chainspec::Rules;
use polytrie_consensus::access_list::{check_access_list, check_access_list_form};
use polytrie_state::{FinishedLater, Session, StateError};
use std::{sync::Arc, time::Instant};

/// How an access list that is there before its block runs is used.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum ListUse {
    /// The list is compared with what the block did, where the header has the hash of a list.
    #[default]
    Check,
    /// Beside that, the commitment is computed while the block runs, from the values that the list gives. (From Cancun on: for
    /// earlier blocks a list does not say enough.)
    Commit,
    /// Beside that, transactions run at the same time, on this many threads, each on the values that the list gives before it.
    Run {
        /// The threads, the one included that executes; 1 and more.
        threads: usize,
    },
}

impl Chain {
    /// The list by which a block is to run, if there is one. Whether it is that of the block is not known yet.
    pub(crate) fn list_of(
        &self,
        rules: &Rules<'_>,
        candidate: &Candidate,
    ) -> Option<Arc<Vec<AccountChanges>>> {
        let options = &self.options;
        // A witness holds what a block asks for, and a part of a state no more than that.
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

    /// Runs a block on top of the head by its list. `None` if something does not agree: the block is to be run without the
    /// list, once those before it are settled.
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

    /// As [`Self::execute_by_list`], or why that does not do. If it is the layer that failed, it fails again.
    fn try_by_list(
        &mut self,
        rules: &Rules<'_>,
        candidate: &Candidate,
        list: Arc<Vec<AccountChanges>>,
        stats: &mut BlockStats,
    ) -> Result<(Vec<ReceiptEnvelope>, FinishedLater), String> {
        let start = Instant::now();
        let layer = |error: StateError| error.to_string();
        let coinbase = *candidate.coinbase.as_ref().map_err(ToString::to_string)?;
        let mut session = Session::begin(&*self.layer, self.head.block_ref()).map_err(layer)?;
        let block =
            self.executor.read_listed(&mut session, rules, coinbase, list).map_err(layer)?;
        session.apply(&block.writes().map_err(layer)?).map_err(layer)?;
        let state_read = session.read_time();
        let prepared = start.elapsed().saturating_sub(state_read);

        let (session, finished) = (Mutex::new(Some(session)), Mutex::new(None));
        let finish = || {
            let session = session.lock().take();
            if let Some(session) = session {
                *finished.lock() = Some(session.finish_later());
            }
        };
        let threads = match self.options.list_use {
            ListUse::Run { threads } => Some(threads),
            ListUse::Check | ListUse::Commit => None,
        };
        let mut run = block.session();
        let listed = Listed { block: &block, threads, beside: &finish };
        let executed = self.execute(rules, candidate, &mut run, Some(listed), stats);
        let start = Instant::now();
        finish();
        let finished = finished.into_inner().ok_or("its session was lost")?.map_err(layer)?;
        stats.state_commit = start.elapsed();
        stats.state_read = state_read;
        stats.execute += prepared;
        stats.session = finished.counters;
        let receipts = executed.map_err(|error| error.to_string())?;
        if run.into_writes().map_err(layer)?.0 != *finished.writes {
            return Err("it leaves something else than the list says".into());
        }
        Ok((receipts, finished))
    }
}
