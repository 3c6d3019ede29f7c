//! Executes a candidate and checks the result against its header, except for the state root, which is known only with
//! the commitment. The root of many receipts may be checked then, too.

use super::{
    candidate::{BlockStats, Candidate},
    error::{InsertError, executed},
    ordered_root::receipts_root,
};
use crate::executor::{BlockHashes, BlockToExecute, Executed, Executor, Listed, accesses};
use alloy_consensus::ReceiptEnvelope;
use alloy_eips::eip7928::AccountChanges;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::B256;
use polytrie_chainspec::Rules;
use polytrie_consensus::{
    ConsensusError, ExecutedResult, ReceiptsRoot,
    access_list::{
        AccessListError, access_list_hash, check_access_list, check_access_list_size,
        first_difference,
    },
    check_receipts_root, check_result,
};
use polytrie_kv::EngineReads;
use polytrie_state::{Beside, Session};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Number of transactions from which on the root of their receipts is worth another thread: that of fewer is computed
/// before the thread has woken up.
const MANY_RECEIPTS: usize = 32;

/// Options of a candidate's execution.
#[derive(Debug, Default, Clone, Copy)]
pub struct Execution<'a> {
    /// Whether the root of the receipts is compared, if the layer gives what the receipts hold.
    pub receipts_root: bool,
    /// Whether the caller compares that root by itself if nothing else is wrong.
    pub root_later: bool,
    /// Access list by which the block runs, on a session of that list.
    pub listed: Option<Listed<'a>>,
}

impl Candidate {
    /// Executes the block on `session`, which is at its parent, and checks the result except for the state root, and for
    /// the root of the receipts if `how` says that the caller does. The times are added to `stats`. Senders that are
    /// not recovered yet are recovered meanwhile on all cores, the first ones first: each transaction is executed as
    /// soon as its sender is there.
    ///
    /// # Errors
    ///
    /// Fails if the block is invalid, or the layer fails.
    pub fn execute(
        &self,
        executor: &mut Executor,
        rules: &Rules<'_>,
        session: &mut Session,
        ancestor_hash: &dyn BlockHashes,
        how: Execution<'_>,
        stats: &mut BlockStats,
    ) -> Result<Executed, InsertError> {
        let start = Instant::now();
        let transactions = self.block.body.transactions.len();
        let (executed, came, waited) = self.beside_senders(|senders| {
            let coinbase = self.coinbase.as_ref().map_err(|e| self.invalid(e.clone()))?;
            // A list by which the block runs was checked before.
            let came = self.access_list.as_ref().filter(|_| how.listed.is_none());
            let came = came.map(|rlp| check_access_list(&self.header, transactions, rlp));
            let came = came.transpose().map_err(|e| self.invalid(ConsensusError::from(e)))?;
            let authorities = self.authorities(session.is_slow());
            let is_from_list = self.accesses.is_empty() && session.wants_hints();
            let from_list = self.listed.as_ref().filter(|_| is_from_list);
            let from_list = from_list.map(|list| accesses(list));
            let block = BlockToExecute {
                coinbase: Some(*coinbase),
                authorities,
                accesses: from_list.as_ref().unwrap_or(&self.accesses),
                listed: how.listed,
                ..BlockToExecute::new(&self.block, senders)
            };
            let before = EngineReads::of_this_thread();
            let executed = executor
                .execute_block(session, *rules, ancestor_hash, block)
                .map_err(|e| executed(e).map_or_else(InsertError::Broken, |r| self.invalid(r)))?;
            Ok((executed, came, EngineReads::of_this_thread() - before))
        })?;
        // What this thread did beside the run is not a part of it.
        let (late, waited) = match executed.ended {
            Some((end, waited)) => (end.elapsed(), waited),
            None => (Duration::ZERO, waited),
        };
        stats.waited += waited;
        let listed = how.listed.map(|listed| listed.block.list()).or(came.as_deref());
        (stats.state_read, stats.execute) = session.reads_and_rest(start + late);

        let start = Instant::now();
        stats.receipts_checked = executed.receipts_comparable && how.receipts_root;
        let mode = if stats.receipts_checked { ReceiptsRoot::Compare } else { ReceiptsRoot::Skip };
        let is_amsterdam = rules.is(EthereumHardfork::Amsterdam);
        let access_list = executed.access_list.as_ref().filter(|_| is_amsterdam);
        if let Some(found) = &executed.access_list {
            self.check_access_list(listed, found, is_amsterdam)
                .map_err(|e| self.invalid(ConsensusError::from(e)))?;
        }
        let result = ExecutedResult {
            gas_used: executed.gas_used,
            receipts: &executed.receipts,
            requests: executed.requests.as_ref(),
            blob_gas_used: executed.blob_gas_used,
            block_access_list_hash: access_list.map(|list| access_list_hash(list)),
        };
        let check = |root| check_result(rules, &self.header, &result, root);
        let checked = match how.root_later {
            // If anything is wrong, the first fault counts, and that may be the root.
            true => check(ReceiptsRoot::Skip).or_else(|_| check(mode)),
            false => check(mode),
        };
        checked.map_err(|e| self.invalid(e))?;
        stats.check += start.elapsed();
        Ok(executed)
    }

    /// Whether another thread may compute the root of the receipts: they are many, and none came from a file, which are
    /// compared after the root.
    pub(super) fn has_late_root(&self) -> bool {
        self.receipts.is_none() && self.block.body.transactions.len() >= MANY_RECEIPTS
    }

    /// Checks the accounts and slots that the execution touched against the block's list, if there is one, and against
    /// the block's limit.
    fn check_access_list(
        &self,
        listed: Option<&[AccountChanges]>,
        executed: &[AccountChanges],
        is_limited: bool,
    ) -> Result<(), AccessListError> {
        let transactions = self.block.body.transactions.len();
        let difference = listed.and_then(|listed| first_difference(listed, executed, transactions));
        match difference {
            Some(difference) => Err(difference.into()),
            None if is_limited => check_access_list_size(&self.header, executed),
            None => Ok(()),
        }
    }
}

/// Receipts of an executed block. Another thread may compute their root meanwhile.
#[derive(Debug)]
pub(super) struct LateRoot {
    receipts: Arc<Vec<ReceiptEnvelope>>,
    /// The computation of the root; `None` if it is not compared.
    root: Option<Beside<B256>>,
}

impl LateRoot {
    /// Starts the computation, if the root is to be compared.
    pub(super) fn start(receipts: Vec<ReceiptEnvelope>, is_compared: bool) -> Self {
        let receipts = Arc::new(receipts);
        let shared = Arc::clone(&receipts);
        let root = is_compared.then(|| Beside::start(move || receipts_root(&shared)));
        Self { receipts, root }
    }

    /// Compares the root with the header of the block. Returns the receipts.
    ///
    /// # Errors
    ///
    /// Fails if the roots differ.
    pub(super) fn check(self, block: &Candidate) -> Result<Vec<ReceiptEnvelope>, InsertError> {
        let Self { receipts, root } = self;
        if let Some(root) = root {
            let root = root.finish().unwrap_or_else(|| receipts_root(&receipts));
            check_receipts_root(&block.header, root).map_err(|error| block.invalid(error))?;
        }
        Ok(Arc::unwrap_or_clone(receipts))
    }
}
