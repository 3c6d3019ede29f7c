//! A candidate through the executor, and what came of it against its header: all but the state root, which is the
//! commitment's.

use super::{
    candidate::{BlockStats, Candidate},
    error::{InsertError, executed},
};
use crate::executor::{BlockHashes, BlockToExecute, Executed, Executor};
use alloy_eips::eip7928::AccountChanges;
use alloy_hardforks::EthereumHardfork;
use polytrie_chainspec::Rules;
use polytrie_consensus::{
    ConsensusError, ExecutedResult, ReceiptsRoot,
    access_list::{
        AccessListError, access_list_hash, check_access_list, check_access_list_size,
        first_difference,
    },
    check_result,
};
use polytrie_state::Session;
use std::time::Instant;

impl Candidate {
    /// Executes the block on `session`, which stands at its parent, and checks what comes of it, but for the state root.
    /// The root of its receipts is compared if `receipts_root` says so and the layer gives what they hold. The times are
    /// added to `stats`.
    ///
    /// # Errors
    ///
    /// If the block is invalid, or the layer fails.
    pub fn execute(
        &self,
        executor: &mut Executor,
        rules: &Rules<'_>,
        session: &mut Session,
        ancestor_hash: &dyn BlockHashes,
        receipts_root: bool,
        stats: &mut BlockStats,
    ) -> Result<Executed, InsertError> {
        let start = Instant::now();
        let senders = self.senders.as_ref().map_err(|e| self.invalid(e.clone()))?;
        let coinbase = self.coinbase.as_ref().map_err(|e| self.invalid(e.clone()))?;
        let transactions = self.block.body.transactions.len();
        let listed = self.access_list.as_ref();
        let listed = listed.map(|rlp| check_access_list(&self.header, transactions, rlp));
        let listed = listed.transpose().map_err(|e| self.invalid(ConsensusError::from(e)))?;
        let block = BlockToExecute::new(&self.block, senders)
            .with_coinbase(*coinbase)
            .with_authorities(&self.authorities)
            .with_accesses(&self.accesses);
        let executed = executor
            .execute_block(session, *rules, ancestor_hash, block)
            .map_err(|e| executed(e).map_or_else(InsertError::Broken, |r| self.invalid(r)))?;
        stats.state_read = session.read_time();
        stats.execute = start.elapsed().saturating_sub(stats.state_read);

        let start = Instant::now();
        stats.receipts_checked = executed.receipts_comparable && receipts_root;
        let mode = if stats.receipts_checked { ReceiptsRoot::Compare } else { ReceiptsRoot::Skip };
        let access_list =
            executed.access_list.as_ref().filter(|_| rules.is(EthereumHardfork::Amsterdam));
        if let Some(found) = access_list {
            self.check_access_list(listed.as_deref(), found)
                .map_err(|e| self.invalid(ConsensusError::from(e)))?;
        }
        let result = ExecutedResult {
            gas_used: executed.gas_used,
            receipts: &executed.receipts,
            requests: executed.requests.as_ref(),
            blob_gas_used: executed.blob_gas_used,
            block_access_list_hash: access_list.map(|list| access_list_hash(list)),
        };
        check_result(rules, &self.header, &result, mode).map_err(|e| self.invalid(e))?;
        stats.check += start.elapsed();
        Ok(executed)
    }

    /// Holds what running the block touched against the list that came beside it, if one did.
    fn check_access_list(
        &self,
        listed: Option<&[AccountChanges]>,
        executed: &[AccountChanges],
    ) -> Result<(), AccessListError> {
        let transactions = self.block.body.transactions.len();
        let difference = listed.and_then(|listed| first_difference(listed, executed, transactions));
        match difference {
            Some(difference) => Err(difference.into()),
            None => check_access_list_size(&self.header, executed),
        }
    }
}
