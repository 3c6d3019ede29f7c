//! The signers of a chain of Clique, which follow from the headers.
//!
//! The signers after the last block of a branch are in memory, and are updated with the next block. Those after every
//! [`INTERVAL`]th block of the chain are a row, which is written with its block and removed with it. After a restart,
//! or where a branch begins, they are computed from the headers since the last row: at most that many, however long the
//! epochs are.

use super::{
    Chain, ChainDb,
    candidate::Candidate,
    check::ChainReport,
    error::{ChainError, InsertError, Result},
    tables::SIGNERS,
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use polytrie_chainspec::{ChainSpec, Clique, Rules};
use polytrie_consensus::clique::{Snapshot, recover_signer};
use polytrie_kv::{Batch, Read};
use rayon::prelude::*;

/// Number of blocks from one stored row of signers to the next.
const INTERVAL: u64 = 128;

/// Number of branches with signers in memory, so that a block on any of them needs no walk through headers.
const BRANCHES: usize = 8;

/// Signers after the latest blocks, each the last block of its branch.
#[derive(Debug, Default)]
pub(super) struct RecentSigners {
    /// Snapshots in the order of their last use, the latest last.
    tips: Vec<Snapshot>,
}

impl RecentSigners {
    fn take(&mut self, hash: &B256) -> Option<Snapshot> {
        let position = self.tips.iter().rposition(|tip| tip.hash() == *hash)?;
        Some(self.tips.remove(position))
    }

    fn put(&mut self, tip: Snapshot) {
        if self.tips.len() == BRANCHES {
            self.tips.remove(0);
        }
        self.tips.push(tip);
    }
}

impl Chain {
    /// Checks the signer of a block with a header that is right otherwise, and counts its vote. Does nothing if the block is
    /// not one of Clique.
    pub(super) fn follow_signers(
        &mut self,
        rules: &Rules<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), InsertError> {
        let Some(clique) = rules.clique() else { return Ok(()) };
        let signer = candidate.coinbase.clone().map_err(|e| candidate.invalid(e))?;
        let parent = candidate.header.parent_hash;
        let mut signers = match self.signers.take(&parent) {
            Some(signers) => signers,
            None => self.db.signers_after(clique, parent)?,
        };
        let checked = signers.check(clique, &candidate.header, signer);
        if checked.is_ok() {
            signers.apply(clique, &candidate.header, signer);
            candidate.signers = is_stored(signers.number()).then(|| signers.encode());
        }
        self.signers.put(signers);
        checked.map_err(|error| candidate.invalid(error))
    }
}

/// Whether the signers after the block with this number are stored; those of the genesis block are not.
const fn is_stored(number: u64) -> bool {
    number.is_multiple_of(INTERVAL)
}

/// Removes the signers after the block at the head, together with that block.
pub(super) fn remove_signers(batch: &mut Batch, number: u64) {
    if is_stored(number) {
        batch.delete(SIGNERS, &number.to_be_bytes());
    }
}

impl<R: Read> ChainDb<R> {
    /// Returns the signers after a known block before the merge, on any branch.
    fn signers_after(&self, clique: Clique, hash: B256) -> Result<Snapshot> {
        let mut headers: Vec<Sealed<Header>> = Vec::new();
        let mut next = hash;
        let signers = loop {
            let head = self.known(&next)?;
            let head = head.ok_or_else(|| missing(&next))?;
            if let Some(signers) = self.stored_signers(&head.header)? {
                break signers;
            }
            next = head.header.parent_hash;
            headers.push(head.header);
        };
        headers.reverse();
        replay(clique, signers, &headers)
    }

    /// Returns the signers after a block if they are stored, or follow from the block alone.
    fn stored_signers(&self, header: &Sealed<Header>) -> Result<Option<Snapshot>> {
        if header.number == 0 {
            return Ok(Some(Snapshot::genesis(header)));
        }
        if !is_stored(header.number) {
            return Ok(None);
        }
        let Some(row) = self.store().get(SIGNERS, &header.number.to_be_bytes())? else {
            return Ok(None);
        };
        let signers = Snapshot::decode(&row).ok_or_else(|| damaged(header.number))?;
        // If the block is on another branch, the row of its number belongs to another block.
        Ok((signers.hash() == header.hash()).then_some(signers))
    }
}

/// Returns the signers after the last of these blocks, which are in the store and so were verified; `signers` are those
/// before the first.
fn replay(clique: Clique, mut signers: Snapshot, headers: &[Sealed<Header>]) -> Result<Snapshot> {
    let sealed_by: Vec<_> =
        headers.par_iter().map(|header| recover_signer(header.inner())).collect();
    for (header, signer) in headers.iter().zip(sealed_by) {
        let known = signer.and_then(|signer| {
            signers.check(clique, header, signer)?;
            Ok(signer)
        });
        let signer = known
            .map_err(|error| ChainError::Corrupt(format!("block {}: {error}", header.number)))?;
        signers.apply(clique, header, signer);
    }
    Ok(signers)
}

fn missing(hash: &B256) -> ChainError {
    ChainError::Corrupt(format!("block {hash} is missing"))
}

fn damaged(number: u64) -> ChainError {
    ChainError::Corrupt(format!("the row of the signers after block {number} is damaged"))
}

impl ChainDb {
    /// Checks each row of signers against the row before it and the headers in between, up to the block `head`.
    pub(super) fn check_signers(
        &self,
        spec: &ChainSpec,
        head: u64,
        report: &mut ChainReport,
    ) -> Result<()> {
        let Some(clique) = spec.clique() else { return Ok(()) };
        // A chain that begins in the middle begins after the merge.
        if self.start()?.is_some() {
            return Ok(());
        }
        let rows: Vec<u64> = (INTERVAL..=head).step_by(INTERVAL as usize).collect();
        let checked: Vec<_> =
            rows.into_par_iter().map(|number| self.check_row(clique, number)).collect();
        for result in checked {
            report.note(result)?;
        }
        Ok(())
    }

    fn check_row(&self, clique: Clique, number: u64) -> Result<()> {
        let header = self.block_head(number)?.header;
        let row = self.store().get(SIGNERS, &number.to_be_bytes())?;
        // Blocks after the merge have no seals.
        if header.difficulty.is_zero() {
            return row.map_or(Ok(()), |_| Err(damaged(number)));
        }
        let before = self.block_head(number - INTERVAL)?.header;
        let before = match self.stored_signers(&before)? {
            Some(signers) => signers,
            None => return Err(damaged(number - INTERVAL)),
        };
        let headers = (before.number() + 1..=number)
            .map(|number| Ok(self.block_head(number)?.header))
            .collect::<Result<Vec<_>>>()?;
        let expected = replay(clique, before, &headers)?.encode();
        if row.is_some_and(|row| row == expected) { Ok(()) } else { Err(damaged(number)) }
    }
}
