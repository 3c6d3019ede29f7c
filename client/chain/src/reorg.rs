//! Change to another branch, and unwinding.

use super::{
    Chain, Inserted,
    back::{WayBack, remove_way_back},
    candidate::{BlockStats, Candidate},
    db::{put_side_block, remove_block, remove_side_block},
    error::{ChainError, InsertError, Result},
    recent::PassedHashes,
    switch::{Switch, remove_switch},
    transactions::remove_transactions,
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{B256, Bytes, map::HashSet};
use polytrie_kv::Batch;
use polytrie_state::{remove_wiped, undo_in_steps};

/// The way from the head to the end of another branch.
#[derive(Debug)]
pub(super) struct Way {
    /// Number of the last common block.
    pub(super) fork: u64,
    /// Blocks of the other branch, with their hashes, oldest first.
    pub(super) branch: Vec<(B256, Bytes)>,
    /// Last block of the other branch, if it was decoded already.
    pub(super) last: Option<Candidate>,
}

impl Chain {
    /// Takes blocks back until `number` is the head. They are deleted, and with them the blocks of other branches
    /// above `number`, whose parents they may be. Returns the number of blocks that were taken back.
    ///
    /// # Errors
    ///
    /// Fails if `number` is above the head, if an undo record is dropped already ([`ChainError::NoUndo`]; nothing is
    /// changed then), or if the store fails.
    pub fn unwind_to(&mut self, number: u64) -> Result<u64> {
        self.forget_proposed();
        let head = self.head.number();
        if number > head {
            return Err(ChainError::AboveHead { asked: number, head });
        }
        self.db.check_undo(number, head)?;
        if number == head {
            return Ok(0);
        }
        // Side blocks are removed before their possible parents, so that a crash in between leaves none without its
        // parent.
        self.forget_side_blocks(Batch::new(), &|header, _| header.number > number)?;
        let unwound = (number..head).try_for_each(|_| self.unwind_one(false));
        // The last blocks are read again even after a failure, because some blocks may have been taken back.
        self.reload_recent()?;
        unwound.map(|()| head - number)
    }

    /// Removes the blocks of other branches for which `is_void` holds, together with the changes in `batch`. The
    /// blocks come in the order of their numbers, parents before children; `is_void` also gets the hashes of those
    /// that it has chosen already.
    fn forget_side_blocks(
        &self,
        mut batch: Batch,
        is_void: &dyn Fn(&Sealed<Header>, &HashSet<B256>) -> bool,
    ) -> Result<()> {
        let mut headers = self.db.side_headers()?;
        headers.sort_unstable_by_key(|header| header.number);
        let mut void = HashSet::default();
        for header in headers {
            if is_void(&header, &void) {
                remove_side_block(&mut batch, &header.hash());
                void.insert(header.hash());
            }
        }
        if !batch.is_empty() {
            self.db.store().write(batch)?;
        }
        Ok(())
    }

    /// Takes back the block at the head, and keeps it as a block of another branch if `keep`.
    pub(super) fn unwind_one(&mut self, keep: bool) -> Result<()> {
        let number = self.head.number();
        let hash = self.head.hash();
        let parent = self.db.block_head(number - 1)?;
        let record = self
            .db
            .undo(number)?
            .ok_or(ChainError::NoUndo { asked: number - 1, lowest: number })?;
        let done = self.db.way_back()?.map_or(0, |back| back.done);
        let note = &mut |batch: &mut Batch, done: u64| WayBack { number, done, keep }.put(batch);
        let mut outcome = undo_in_steps(&*self.layer, self.db.store(), &record, done, note)?;
        if let Some(found) = outcome.commitment.as_state_root()
            && found != parent.header.state_root
            && self.options.verify_roots
        {
            outcome.discard()?;
            let expected = parent.header.state_root;
            return Err(ChainError::OtherState { number: number - 1, found, expected });
        }
        let batch = &mut outcome.batch;
        remove_way_back(batch);
        if self.switch.is_some_and(|switch| switch.to == parent.hash()) {
            remove_switch(batch);
        }
        if self.has_wiped(number, None)? {
            remove_wiped(batch, number, None);
        }
        if keep && let Some(rlp) = self.db.block_rlp(number)? {
            put_side_block(batch, &hash, self.head.total_difficulty, &rlp);
            self.sides.add(hash);
        }
        if self.options.index_transactions
            && let Some(block) = self.db.block(number)?
        {
            remove_transactions(batch, &block);
        }
        remove_block(batch, number, &hash, &parent.hash());
        *self.passed.get_mut() = PassedHashes::default();
        outcome.write(self.db.store())?;
        self.report_horizon(parent.number());
        self.head = parent;
        Ok(())
    }

    /// Returns the way to the branch that ends in `tip`. Checks that the blocks above the fork can be taken back.
    pub(super) fn way_to(&self, tip: B256) -> Result<Way> {
        let head = self.head.number();
        let way = self.side_branch(tip)?;
        let fork = way.fork;
        self.db.check_undo(fork, head).map_err(|error| match error {
            ChainError::NoUndo { lowest, .. } => ChainError::TooDeep { fork, head, lowest },
            other => other,
        })?;
        Ok(way)
    }

    /// Changes to the branch that ends in the side block `tip`. If one of its blocks is invalid, that block and its
    /// descendants are removed and the chain goes back to the old branch.
    pub(super) fn reorganise(&mut self, tip: B256, way: Way) -> Result<Inserted, InsertError> {
        let undone = self.head.number() - way.fork;
        self.switch = Some(Switch::new(&self.head, tip));
        let executed = self.go_over(way);
        self.switch = None;
        let executed = executed?;
        tracing::info!(undone, executed = executed.len(), head = self.head.number(), "reorganised");
        Ok(Inserted::Reorganised { undone, executed })
    }

    fn go_over(&mut self, way: Way) -> Result<Vec<BlockStats>, InsertError> {
        let Way { fork, branch, mut last } = way;
        let old = self.head.hash();
        self.unwind_keeping(fork)?;
        let mut executed = Vec::with_capacity(branch.len());
        for (done, (hash, rlp)) in branch.iter().enumerate() {
            let replayed = match last.take_if(|last| last.header.hash() == *hash) {
                Some(candidate) => self.extend_and_settle(candidate),
                None => self.replay(rlp.clone()),
            };
            match replayed {
                Ok(stats) => executed.push(stats),
                Err(InsertError::Invalid(invalid)) => {
                    self.restore(old)?;
                    self.forget_branch(branch[done..].iter().map(|(hash, _)| *hash))?;
                    return Err(invalid.into());
                }
                Err(broken) => return Err(broken),
            }
        }
        Ok(executed)
    }

    /// Removes blocks of other branches and their descendants, together with the row of a change of branch.
    pub(super) fn forget_branch(&self, blocks: impl Iterator<Item = B256>) -> Result<()> {
        let blocks: HashSet<B256> = blocks.collect();
        let mut batch = Batch::new();
        remove_switch(&mut batch);
        self.forget_side_blocks(batch, &|header, void| {
            blocks.contains(&header.hash()) || void.contains(&header.parent_hash)
        })
    }

    /// Makes the block `old`, a former head, the head again.
    pub(super) fn restore(&mut self, old: B256) -> Result<()> {
        let Way { fork, branch, .. } = self.side_branch(old)?;
        self.unwind_keeping(fork)?;
        for (_, rlp) in branch {
            self.replay(rlp).map_err(|error| match error {
                InsertError::Invalid(was_valid) => ChainError::Corrupt(was_valid.to_string()),
                InsertError::Broken(error) => error,
            })?;
        }
        Ok(())
    }

    /// Executes the branch that ends in the side block `tip` and goes back to the old one, so that every block of it
    /// is verified: a block of another branch is otherwise executed only when its branch becomes the better one. The
    /// head is the same afterwards. The cost is that of two reorganisations.
    ///
    /// # Errors
    ///
    /// [`InsertError::Invalid`] if one of its blocks breaks a rule; that block and its descendants are removed.
    /// [`InsertError::Broken`] if there is no such side block, or the chain cannot go on.
    pub fn execute_side(&mut self, tip: B256) -> Result<(), InsertError> {
        self.forget_proposed();
        let head = self.head.hash();
        self.reorganise(tip, self.way_to(tip)?)?;
        self.reorganise(head, self.way_to(head)?).map(|_| ()).map_err(|error| match error {
            InsertError::Invalid(was_valid) => ChainError::Corrupt(was_valid.to_string()).into(),
            broken => broken,
        })
    }

    fn unwind_keeping(&mut self, number: u64) -> Result<()> {
        while self.head.number() > number {
            self.unwind_one(true)?;
        }
        self.reload_recent()
    }

    fn replay(&mut self, rlp: Bytes) -> Result<BlockStats, InsertError> {
        let candidate = Candidate::prepare_without_senders(&self.spec, rlp)
            .map_err(|e| ChainError::Corrupt(format!("a side block does not decode: {e}")))?;
        self.extend_and_settle(candidate)
    }

    fn extend_and_settle(&mut self, candidate: Candidate) -> Result<BlockStats, InsertError> {
        let mut stats = self.extend(candidate, false)?;
        self.settle_all(&mut stats)?;
        Ok(stats)
    }

    /// Returns the side blocks that end in `tip`, and the block of the chain below them.
    pub(super) fn side_branch(&self, tip: B256) -> Result<Way> {
        let mut branch = Vec::new();
        let mut hash = tip;
        let fork = loop {
            if let Some(number) = self.db.number_of(&hash)? {
                break number;
            }
            let (_, rlp) = self
                .db
                .side_block(&hash)?
                .ok_or_else(|| ChainError::Corrupt(format!("side block {hash} is missing")))?;
            let header = polytrie_consensus::decode::decode_header(&rlp)
                .map_err(|e| ChainError::Corrupt(format!("side block {hash}: {e}")))?;
            branch.push((hash, rlp));
            hash = header.parent_hash;
        };
        branch.reverse();
        Ok(Way { fork, branch, last: None })
    }
}
