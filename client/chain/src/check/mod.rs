//! `db check`: the consistency of the chain's rows.

mod block;
mod state;

pub use state::check_state;

use super::{
    db::ChainDb,
    error::{ChainError, Result},
    tables::{BLOCKS, CANONICAL, NUMBERS, RECEIPTS, SIDE_BLOCKS, SIGNERS, UNDO},
};
use alloy_primitives::{B256, U256};
use block::{BlockCheck, follows};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::decode::decode_header;
use polytrie_kv::{KeyRange, Read, Table};
use polytrie_state::BlockRef;
use rayon::prelude::*;
use std::ops::ControlFlow;

/// Greatest number of problems in a report.
const MOST_PROBLEMS: usize = 100;
/// Number of blocks that are checked in parallel.
const PORTION: u64 = 256;

/// Result of [`ChainDb::check`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// Head of the chain; `None` in a store without genesis block.
    pub head: Option<BlockRef>,
    /// Number of blocks of the chain, with the genesis block.
    pub blocks: u64,
    /// Number of transactions in them.
    pub transactions: u64,
    /// Number of blocks whose receipts root could not be compared: before Byzantium receipts hold state
    /// roots, which some layers cannot give.
    pub receipts_not_comparable: u64,
    /// Number of blocks of other branches.
    pub side_blocks: u64,
    /// Number of blocks that can be taken back.
    pub undo_records: u64,
    /// Problems, one sentence each (at most 100); empty if there are none.
    pub problems: Vec<String>,
}

impl ChainReport {
    fn problem(&mut self, text: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(text);
        }
    }

    /// Turns damage into a problem of the report; an error of the store stays an error.
    pub(super) fn note<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(ChainError::Corrupt(text)) => {
                self.problem(text);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

type RowVisit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

impl ChainDb {
    /// Checks every row of the chain: each block decodes, has the hash in the index and follows its parent;
    /// bodies and receipts match the headers; the index of hashes matches that of numbers; undo records
    /// reach back from the head without a gap; no row is above the head. `progress` is called with the
    /// number of each block that is reached.
    ///
    /// # Errors
    ///
    /// Fails if the store fails. Damage is no error but part of the report.
    pub fn check(&self, spec: &ChainSpec, progress: &mut dyn FnMut(u64)) -> Result<ChainReport> {
        let mut report = ChainReport::default();
        let head = match self.head_row() {
            Err(ChainError::Corrupt(text)) => {
                report.problem(text);
                return Ok(report);
            }
            head => head?,
        };
        let Some((number, hash)) = head else {
            self.nothing_from(0, "there is no head", &mut report)?;
            return Ok(report);
        };
        report.head = Some(BlockRef { number, hash });
        self.check_blocks(spec, number, hash, progress, &mut report)?;
        if let Some(above) = number.checked_add(1) {
            self.nothing_from(above, &format!("the head is block {number}"), &mut report)?;
        }
        self.check_numbers(&mut report)?;
        self.check_undo_rows(number, &mut report)?;
        self.check_signers(spec, number, &mut report)?;
        self.check_side_blocks(&mut report)?;
        Ok(report)
    }

    /// Checks the rows of the blocks up to the head, and that each block follows its parent.
    fn check_blocks(
        &self,
        spec: &ChainSpec,
        head: u64,
        head_hash: B256,
        progress: &mut dyn FnMut(u64),
        report: &mut ChainReport,
    ) -> Result<()> {
        let genesis = spec.genesis_header().number;
        let mut parent: Option<(B256, U256)> = None;
        let mut next = genesis;
        if let Some(start) = self.start()? {
            // Some of the blocks before the start have only a header or a hash here.
            let check = self.check_block(spec, genesis)?;
            report.blocks += u64::from(check.header.is_some());
            check.problems.into_iter().for_each(|problem| report.problem(problem));
            let head = self.block_head(start);
            if let Some(head) = report.note(head)? {
                parent = Some((head.hash(), head.total_difficulty));
                next = start.saturating_add(1);
            } else {
                return Ok(());
            }
        }
        while next <= head {
            let last = head.min(next.saturating_add(PORTION - 1));
            let checked: Vec<Result<BlockCheck>> = (next..=last)
                .into_par_iter()
                .map(|number| self.check_block(spec, number))
                .collect();
            for (number, check) in (next..=last).zip(checked) {
                let check = check?;
                report.blocks += u64::from(check.header.is_some());
                report.transactions += check.transactions;
                report.receipts_not_comparable += u64::from(check.receipts_not_comparable);
                check.problems.into_iter().for_each(|problem| report.problem(problem));
                if let (Some(header), Some((hash, total_difficulty))) = (&check.header, check.index)
                {
                    if number == genesis && hash != spec.genesis_hash() {
                        report.problem(format!(
                            "the genesis block is {hash}, that of {} is {}",
                            spec.name(),
                            spec.genesis_hash()
                        ));
                    }
                    follows(header, total_difficulty, parent.filter(|_| number > genesis), report);
                }
                parent = check.index;
            }
            progress(last);
            let Some(after) = last.checked_add(1) else { break };
            next = after;
        }
        match parent {
            Some((hash, _)) if hash != head_hash => report.problem(format!(
                "the head is {head_hash}, but block {head} of the chain is {hash}"
            )),
            _ => {}
        }
        Ok(())
    }

    /// Checks that no row belongs to this block number or a greater one.
    fn nothing_from(&self, number: u64, because: &str, report: &mut ChainReport) -> Result<()> {
        for table in [BLOCKS, CANONICAL, RECEIPTS, UNDO, SIGNERS] {
            let key = number.to_be_bytes();
            if let Some((key, _)) = self.store().first(table, KeyRange::from(&key))? {
                report.problem(format!(
                    "{because}, but table {} has a row of block {}",
                    table.name,
                    number_of_key(&key)
                ));
            }
        }
        Ok(())
    }

    /// Checks that every hash in the index leads to the block with that hash.
    fn check_numbers(&self, report: &mut ChainReport) -> Result<()> {
        let mut strays = Vec::new();
        self.each_row(NUMBERS, &mut |key, value| {
            let number = <[u8; 8]>::try_from(value).map(u64::from_be_bytes);
            let index = match number {
                Ok(number) => self.canonical(number).ok().flatten(),
                Err(_) => None,
            };
            let is_stray = index.is_none_or(|(hash, _)| hash.as_slice() != key);
            // A table that is lost as a whole makes a stray of every block.
            if is_stray && strays.len() < MOST_PROBLEMS {
                strays.push(alloy_primitives::hex::encode_prefixed(key));
            }
            ControlFlow::Continue(())
        })?;
        for hash in strays {
            report.problem(format!("the index leads from {hash} to a block that has another hash"));
        }
        Ok(())
    }

    /// Checks that undo records reach back from the head without a gap. How far they reach depends on what
    /// was taken back before.
    fn check_undo_rows(&self, head: u64, report: &mut ChainReport) -> Result<()> {
        let mut expected = None;
        let mut gap = None;
        let mut records = 0;
        self.each_row(UNDO, &mut |key, _| {
            let number = number_of_key(key);
            if expected.is_some_and(|expected| expected != number) {
                gap = expected;
            }
            expected = number.checked_add(1);
            records += 1;
            ControlFlow::Continue(())
        })?;
        report.undo_records = records;
        if records > 0 && expected != head.checked_add(1) {
            gap = gap.or(expected);
        }
        if let Some(number) = gap {
            report.problem(format!("the undo record of block {number} is missing"));
        }
        Ok(())
    }

    /// Checks that blocks of other branches decode, have their hash, and have a known parent.
    fn check_side_blocks(&self, report: &mut ChainReport) -> Result<()> {
        let mut hashes = Vec::new();
        self.each_row(SIDE_BLOCKS, &mut |key, _| {
            hashes.extend(B256::try_from(key));
            ControlFlow::Continue(())
        })?;
        report.side_blocks = hashes.len() as u64;
        for hash in hashes {
            let Some(Some((_, rlp))) = report.note(self.side_block(&hash))? else { continue };
            let header = match decode_header(&rlp) {
                Ok(header) => header,
                Err(error) => {
                    report.problem(format!("side block {hash} does not decode: {error}"));
                    continue;
                }
            };
            if header.hash() != hash {
                report.problem(format!("the side block kept under {hash} is {}", header.hash()));
            }
            let parent = header.parent_hash;
            if self.number_of(&parent)?.is_none() && self.side_block(&parent)?.is_none() {
                report.problem(format!("the parent {parent} of side block {hash} is missing"));
            }
        }
        Ok(())
    }

    fn each_row(&self, table: Table, visit: &mut RowVisit<'_>) -> Result<()> {
        Ok(self.store().scan(table, KeyRange::ALL, &mut |key, value| Ok(visit(key, value)))?)
    }
}

/// Returns the block number in a key. A key of another length than eight bytes counts as the last number.
fn number_of_key(key: &[u8]) -> u64 {
    key.try_into().map_or(u64::MAX, u64::from_be_bytes)
}
