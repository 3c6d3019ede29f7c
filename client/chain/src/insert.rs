//! Insertion of one block.

use super::{
    BlockAccessList, Chain,
    candidate::{BlockStats, Candidate, Inserted},
    db::put_side_block,
    error::{InsertError, InvalidReason, Result},
    execute::{Execution, LateRoot},
    file_receipts::check_file_receipts,
    head::Head,
    recent::AncestorHashes,
    switch::Switch,
    waiting::WaitingBlock,
    witness::witness_maker,
};
use alloy_consensus::ReceiptEnvelope;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::B256;
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_consensus::{Ancestor, check_header, check_ommers};
use polytrie_kv::Batch;
use polytrie_state::{FinishedLater, Session};
use std::time::Instant;

impl Chain {
    /// Inserts one block.
    ///
    /// # Errors
    ///
    /// [`InsertError::Invalid`] if the block (or, in a reorganisation, one of its ancestors) breaks a rule; the
    /// chain is as before. It may also name an earlier block whose state root was still being computed, see
    /// [`Self::settle`]; the chain then ends before that one. [`InsertError::Broken`] if the chain cannot go on.
    pub fn insert(&mut self, mut candidate: Candidate) -> Result<Inserted, InsertError> {
        self.forget_proposed();
        if candidate.total_difficulty.is_some() && !self.compares_difficulty()? {
            candidate.total_difficulty = None;
        }
        if self.is_known(candidate.number(), &candidate.header.hash())? {
            return Ok(Inserted::Known);
        }
        let parent_hash = candidate.header.parent_hash;
        if parent_hash == self.head.hash() {
            return self.extend(candidate, true).map(|stats| Inserted::Extended(stats.into()));
        }
        self.settle()?;
        let Some(parent) = self.db.known(&parent_hash)? else {
            return Err(self.unknown_parent(&candidate));
        };
        self.insert_side(parent, candidate)
    }

    /// Whether the block is there already, on this branch or another.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn is_known(&self, number: u64, hash: &B256) -> Result<bool> {
        Ok(self.is_canonical(number, hash)?
            || self.sides.may_have(hash) && self.db.side_block(hash)?.is_some())
    }

    /// Whether the block is on the chain's branch, or will be once its root is verified.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn is_canonical(&self, number: u64, hash: &B256) -> Result<bool> {
        // There is no row above the head, and a look for one may ask another machine.
        if number > self.head.number() {
            return Ok(false);
        }
        let canonical = || self.passed.lock().get(&self.db, number);
        Ok(self.waits(number, hash) || canonical()? == Some(*hash))
    }

    pub(super) fn unknown_parent(&self, candidate: &Candidate) -> InsertError {
        let head = self.head.number();
        let next = head.saturating_add(1);
        let hint = match candidate.number() {
            0 | 1 => {
                let expected = self.spec.genesis_hash();
                format!(
                    ", genesis {expected}: the block belongs to another network than {}; name the right one with --chain",
                    self.spec.name()
                )
            }
            number if number == next => format!(
                " ({}): one of the two is damaged or belongs to another chain; get the file again from a source you trust",
                self.head.hash()
            ),
            number if number == next + 1 => format!("; block {next} must be imported before it"),
            number if number > next => {
                format!("; blocks {next} to {} must be imported before it", number - 1)
            }
            number => format!(
                ": the block belongs to another chain, or to a branch whose beginning is missing; import the file with block {} of it first, or choose another --datadir",
                number - 1
            ),
        };
        let parent = candidate.header.parent_hash;
        candidate.invalid(InvalidReason::UnknownParent { parent, head, hint })
    }

    /// Inserts a block on top of the head, by itself or, if it may, as part of a group.
    pub(super) fn extend(
        &mut self,
        mut candidate: Candidate,
        may_group: bool,
    ) -> Result<BlockStats, InsertError> {
        let (start, block) = (Instant::now(), candidate.block_ref());
        let spec = self.spec.clone();
        let (rules, mut stats) = self.examine(&spec, &mut candidate)?;
        if may_group && self.goes_into_group(&rules, &candidate) {
            self.extend_group(&rules, candidate, &mut stats)?;
        } else {
            self.close_group(&mut stats)?;
            self.extend_alone(&rules, candidate, &mut stats)?;
        }
        stats.account_for_all_since(start);
        self.log_if_slow(block, &stats);
        Ok(stats)
    }

    /// Checks the rules about header and body of a block on top of the head.
    pub(super) fn examine<'s>(
        &mut self,
        spec: &'s ChainSpec,
        candidate: &mut Candidate,
    ) -> Result<(Rules<'s>, BlockStats), InsertError> {
        let start = Instant::now();
        let merged = spec.is_merged_after(self.head.total_difficulty);
        let rules = spec.rules(candidate.number(), candidate.header.timestamp, merged);
        if self.unknown_parent == Some(candidate.header.parent_hash) {
            candidate.body.clone().map_err(|e| candidate.invalid(e))?;
        } else {
            check_candidate(&rules, &self.head, candidate)?;
        }
        let ommers = &candidate.block.body.ommers;
        self.expect_ancestors(candidate.number(), ommers, &self.ancestors)?;
        // The ancestors of a part of a state are mostly unknown.
        if !self.options.partial_state || self.ancestors.is_complete() {
            check_ommers(&rules, &candidate.header, ommers, &self.ancestors)
                .map_err(|e| candidate.invalid(e))?;
        }
        if !self.options.partial_state {
            self.follow_signers(&rules, candidate)?;
        }
        let stats = BlockStats {
            txs: candidate.block.body.transactions.len() as u64,
            gas: candidate.block.header.gas_used,
            check: start.elapsed(),
            ..BlockStats::default()
        };
        Ok((rules, stats))
    }

    fn extend_alone(
        &mut self,
        rules: &Rules<'_>,
        candidate: Candidate,
        stats: &mut BlockStats,
    ) -> Result<(), InsertError> {
        match self.execute_alone(rules, &candidate, stats) {
            Ok((receipts, finished)) => {
                let total_difficulty = self.head.total_difficulty + candidate.header.difficulty;
                let head = Head { header: candidate.header.clone(), total_difficulty };
                let parent = std::mem::replace(&mut self.head, head);
                let ommers = &candidate.block.body.ommers;
                self.remember(Ancestor::new(candidate.header.clone(), ommers));
                self.waiting.push_back(WaitingBlock::new(
                    parent,
                    candidate,
                    total_difficulty,
                    receipts,
                    finished,
                    stats.oldest_hash,
                ));
                self.settle_some(stats)
            }
            Err(error) => {
                // An error of this block counts only if the blocks before it are valid.
                self.settle()?;
                Err(error)
            }
        }
    }

    pub(super) fn execute_alone(
        &mut self,
        rules: &Rules<'_>,
        candidate: &Candidate,
        stats: &mut BlockStats,
    ) -> Result<(Vec<ReceiptEnvelope>, FinishedLater), InsertError> {
        if let Some(list) = self.list_of(rules, candidate) {
            if let Some(done) = self.execute_by_list(rules, candidate, list, stats) {
                return Ok(done);
            }
            // The layer drops the failed attempt only when the blocks that wait below it are settled.
            self.settle()?;
        }
        let parent = self.head.block_ref();
        let mut session = match self.options.witness_levels {
            None => Session::begin(&*self.layer, parent)?,
            Some(levels) => Session::begin_witnessed(witness_maker(&*self.layer)?, parent, levels)?,
        };
        let has_roots = self.options.verify_roots && !self.options.partial_state;
        if !rules.is(EthereumHardfork::Byzantium) && has_roots {
            session = session.with_intermediate_roots();
        }
        let root_later = candidate.has_late_root();
        let how = Execution { root_later, ..Execution::default() };
        let kept = self.access_lists.len();
        let receipts = self.execute(rules, candidate, &mut session, how, stats)?;
        let receipts = LateRoot::start(receipts, root_later && stats.receipts_checked);
        let start = Instant::now();
        let finished = session.finish_later();
        stats.state_commit = start.elapsed();
        // If the root is wrong, the work of the layer is dropped.
        let receipts =
            receipts.check(candidate).inspect_err(|_| self.access_lists.truncate(kept))?;
        let finished = finished?;
        stats.session = finished.counters;
        Ok((receipts, finished))
    }

    /// Executes a block on top of the head and checks the result except for the state root. The chain's options say
    /// whether the root of the receipts is compared.
    pub(super) fn execute(
        &mut self,
        rules: &Rules<'_>,
        candidate: &Candidate,
        session: &mut Session,
        how: Execution<'_>,
        stats: &mut BlockStats,
    ) -> Result<Vec<ReceiptEnvelope>, InsertError> {
        let ancestors = AncestorHashes::new(&self.head, &self.hashes, &self.db);
        let roots = self.options.verify_roots;
        let how = Execution { receipts_root: roots, ..how };
        let executor = &mut self.executor;
        let executed = candidate
            .execute(executor, rules, session, &ancestors, how, stats)
            .map_err(|error| match error {
                InsertError::Broken(error) => {
                    InsertError::Broken(self.before_start(candidate.number(), error))
                }
                invalid @ InsertError::Invalid(_) => invalid,
            })?;
        stats.oldest_hash = ancestors.oldest();
        if self.options.keep_transaction_times && !executed.transaction_times.is_empty() {
            self.transaction_times.push(executed.transaction_times);
        }
        if let Some(list) = executed.access_list.filter(|_| self.options.keep_access_lists) {
            let (number, hash) = (candidate.number(), candidate.header.hash());
            self.access_lists.push(BlockAccessList { number, hash, list });
        }
        let start = Instant::now();
        if let Some(file) = candidate.receipts.as_ref().filter(|_| roots) {
            check_file_receipts(file, &executed.receipts, executed.receipts_comparable)
                .map_err(|reason| candidate.invalid(reason))?;
        }
        stats.check += start.elapsed();
        Ok(executed.receipts)
    }

    /// Stores a block of another branch, and changes to that branch if it is better.
    fn insert_side(
        &mut self,
        parent: Head,
        mut candidate: Candidate,
    ) -> Result<Inserted, InsertError> {
        let merged = self.spec.is_merged_after(parent.total_difficulty);
        let spec = self.spec.clone();
        let rules = spec.rules(candidate.number(), candidate.header.timestamp, merged);
        check_candidate(&rules, &parent, &candidate)?;
        if !candidate.block.body.ommers.is_empty() {
            let ancestors = self.ancestors_of(parent.hash())?;
            let ommers = &candidate.block.body.ommers;
            self.expect_ancestors(candidate.number(), ommers, &ancestors)?;
            check_ommers(&rules, &candidate.header, &candidate.block.body.ommers, &ancestors)
                .map_err(|e| candidate.invalid(e))?;
        }
        self.follow_signers(&rules, &mut candidate)?;
        candidate.senders().map_err(|error| candidate.invalid(error.clone()))?;
        let hash = candidate.header.hash();
        let total_difficulty = parent.total_difficulty + candidate.header.difficulty;
        let mut batch = Batch::new();
        put_side_block(&mut batch, &hash, total_difficulty, &candidate.rlp);
        self.sides.add(hash);
        // Before the merge the branch with the greater total difficulty wins, and among equals the first. After
        // it EIP-3675 leaves the choice to the consensus layer; here the branch of the latest new block wins.
        let better = merged || total_difficulty > self.head.total_difficulty;
        let way = better.then(|| self.way_to(parent.hash())).transpose()?;
        if better {
            Switch::new(&self.head, hash).put(&mut batch);
        }
        self.db.store().write(batch)?;
        let Some(mut way) = way else { return Ok(Inserted::Side) };
        way.branch.push((hash, candidate.rlp.clone()));
        way.last = Some(candidate.alone());
        self.reorganise(hash, way)
    }
}

/// Checks the rules about header and body.
fn check_candidate(
    rules: &Rules<'_>,
    parent: &Head,
    candidate: &Candidate,
) -> Result<(), InsertError> {
    check_header(rules, &parent.header, &candidate.header).map_err(|e| candidate.invalid(e))?;
    candidate.body.clone().map_err(|e| candidate.invalid(e))?;
    let expected = parent.total_difficulty + candidate.header.difficulty;
    match candidate.total_difficulty {
        Some(found) if found != expected => {
            Err(candidate.invalid(InvalidReason::FileTotalDifficulty { found, expected }))
        }
        _ => Ok(()),
    }
}
