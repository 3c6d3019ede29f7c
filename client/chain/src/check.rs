//! `db check`: what is kept of the chain, against itself.

use super::{
    db::ChainDb,
    error::ChainError,
    tables::{BLOCKS, CANONICAL, NUMBERS, RECEIPTS, SIDE_BLOCKS, SIGNERS, UNDO},
};
use alloy_consensus::{Eip658Value, Header, ReceiptEnvelope, TxReceipt, proofs};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bloom, U256};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::check_body_roots;
use polytrie_consensus::decode::{decode_header, decode_sealed_block};
use polytrie_kv::{KeyRange, Read, Table};
use polytrie_state::{BlockRef, StateError, StateLayer};
use rayon::prelude::*;
use std::ops::ControlFlow;

/// How many problems are listed.
const MOST_PROBLEMS: usize = 100;
/// Blocks checked side by side.
const PORTION: u64 = 256;

/// What [`ChainDb::check`] found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// The head; `None` in a store without genesis block.
    pub head: Option<BlockRef>,
    /// Blocks of the chain, genesis included.
    pub blocks: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Blocks whose receipts root could not be compared: before Byzantium receipts hold state roots, which
    /// not every layer can give.
    pub receipts_not_comparable: u64,
    /// Blocks of other branches.
    pub side_blocks: u64,
    /// Blocks that can be taken back.
    pub undo_records: u64,
    /// What is wrong, a sentence each (at most 100); empty means clean.
    pub problems: Vec<String>,
}

impl ChainReport {
    fn problem(&mut self, text: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(text);
        }
    }

    /// Turns damage into a problem; a store that fails stays an error.
    pub(super) fn note<T>(
        &mut self,
        result: Result<T, ChainError>,
    ) -> Result<Option<T>, ChainError> {
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

/// What was found out about one block by itself.
#[derive(Debug, Default)]
struct BlockCheck {
    /// Hash and total difficulty in the index.
    index: Option<(B256, U256)>,
    header: Option<Header>,
    transactions: u64,
    receipts_not_comparable: bool,
    problems: Vec<String>,
}

impl ChainDb {
    /// Checks every row of the chain: each block decodes, has the hash the index gives and follows its
    /// parent; bodies and receipts are those of the headers; the index leads there and back; undo records
    /// reach back from the head without a gap; nothing lies beyond the head. `progress` receives the number
    /// of the block it has come to.
    ///
    /// # Errors
    ///
    /// If the store fails. Damage is no error but part of the report.
    pub fn check(
        &self,
        spec: &ChainSpec,
        progress: &mut dyn FnMut(u64),
    ) -> Result<ChainReport, ChainError> {
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

    /// The rows of the blocks up to the head, and how they follow each other.
    fn check_blocks(
        &self,
        spec: &ChainSpec,
        head: u64,
        head_hash: B256,
        progress: &mut dyn FnMut(u64),
        report: &mut ChainReport,
    ) -> Result<(), ChainError> {
        let genesis = spec.genesis_header().number;
        let mut parent: Option<(B256, U256)> = None;
        let mut next = genesis;
        if let Some(start) = self.start()? {
            // Of what comes before, headers and hashes are known, not all of them.
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
            let checked: Vec<Result<BlockCheck, ChainError>> = (next..=last)
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

    /// One block, without its neighbours.
    fn check_block(&self, spec: &ChainSpec, number: u64) -> Result<BlockCheck, ChainError> {
        let mut check = BlockCheck::default();
        match self.canonical(number) {
            Ok(None) => check.problems.push(format!("the index has no row of block {number}")),
            Err(ChainError::Corrupt(text)) => check.problems.push(text),
            index => check.index = index?,
        }
        let Some(rlp) = self.block_rlp(number)? else {
            check.problems.push(format!("block {number} is missing"));
            return Ok(check);
        };
        let (block, hash) = match decode_sealed_block(&rlp) {
            Ok(sealed) => sealed.into_parts(),
            Err(error) => {
                check.problems.push(format!("block {number} does not decode: {error}"));
                return Ok(check);
            }
        };
        if let Some((expected, _)) = check.index.filter(|(expected, _)| *expected != hash) {
            check
                .problems
                .push(format!("block {number} has hash {hash}, the index says {expected}"));
        }
        match self.block_head(number) {
            Ok(head) if head.header.inner() == &block.header => {}
            Ok(_) => check
                .problems
                .push(format!("the index has another header of block {number} than the block")),
            Err(ChainError::Corrupt(text)) => check.problems.push(text),
            Err(error) => return Err(error),
        }
        if block.header.number != number {
            let found = block.header.number;
            check.problems.push(format!("the row of block {number} holds block {found}"));
        }
        match self.number_of(&hash) {
            Ok(Some(found)) if found == number => {}
            Ok(Some(found)) => {
                check.problems.push(format!("the hash of block {number} leads to block {found}"))
            }
            Ok(None) => check.problems.push(format!("the hash of block {number} leads nowhere")),
            Err(ChainError::Corrupt(text)) => check.problems.push(text),
            Err(error) => return Err(error),
        }
        check.transactions = block.body.transactions.len() as u64;
        // The rules were judged when the block came in, and not all of them hold for the blocks of a development node.
        if let Err(error) = check_body_roots(&block) {
            check.problems.push(format!("block {number}: {error}"));
        }
        match self.receipts(number) {
            Ok(Some(receipts)) => {
                let merged = block.header.difficulty.is_zero();
                let rules = spec.rules(number, block.header.timestamp, merged);
                let has_roots = !rules.is(EthereumHardfork::Byzantium);
                check.receipts(&block.header, &receipts, has_roots);
            }
            Ok(None) => check.problems.push(format!("the receipts of block {number} are missing")),
            Err(ChainError::Corrupt(text)) => check.problems.push(text),
            Err(error) => return Err(error),
        }
        check.header = Some(block.header);
        Ok(check)
    }

    /// Nothing lies at or above a block number.
    fn nothing_from(
        &self,
        number: u64,
        because: &str,
        report: &mut ChainReport,
    ) -> Result<(), ChainError> {
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

    /// Every hash in the index leads to a block that has it.
    fn check_numbers(&self, report: &mut ChainReport) -> Result<(), ChainError> {
        let mut strays = Vec::new();
        self.each_row(NUMBERS, &mut |key, value| {
            let number = <[u8; 8]>::try_from(value).map(u64::from_be_bytes);
            let index = match number {
                Ok(number) => self.canonical(number).ok().flatten(),
                Err(_) => None,
            };
            if index.is_none_or(|(hash, _)| hash.as_slice() != key) {
                strays.push(alloy_primitives::hex::encode_prefixed(key));
            }
            ControlFlow::Continue(())
        })?;
        for hash in strays.iter().take(MOST_PROBLEMS) {
            report.problem(format!("the index leads from {hash} to a block that has another hash"));
        }
        Ok(())
    }

    /// Undo records reach back from the head without a gap. How far depends on what was taken back before.
    fn check_undo_rows(&self, head: u64, report: &mut ChainReport) -> Result<(), ChainError> {
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

    /// Blocks of other branches decode, have their hash, and stand on a known block.
    fn check_side_blocks(&self, report: &mut ChainReport) -> Result<(), ChainError> {
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

    fn each_row(&self, table: Table, visit: &mut RowVisit<'_>) -> Result<(), ChainError> {
        Ok(self.store().scan(table, KeyRange::ALL, &mut |key, value| Ok(visit(key, value)))?)
    }
}

impl BlockCheck {
    /// The receipts against the header. `has_roots` says whether receipts of this time hold state roots.
    fn receipts(&mut self, header: &Header, receipts: &[ReceiptEnvelope], has_roots: bool) {
        let number = header.number;
        if receipts.len() as u64 != self.transactions {
            self.problems.push(format!(
                "block {number} has {} transactions, but {} receipts",
                self.transactions,
                receipts.len()
            ));
            return;
        }
        let gas = receipts.last().map_or(0, |receipt| receipt.cumulative_gas_used());
        if number > 0 && gas != header.gas_used {
            let used = header.gas_used;
            self.problems.push(format!(
                "the receipts of block {number} add up to {gas} gas, its header says {used}"
            ));
        }
        let bloom = receipts.iter().fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.bloom());
        if bloom != header.logs_bloom {
            self.problems
                .push(format!("the logs of block {number} make another bloom than its header has"));
        }
        let is_root = |receipt: &ReceiptEnvelope| {
            matches!(receipt.status_or_post_state(), Eip658Value::PostState(_))
        };
        if has_roots && !receipts.iter().all(is_root) {
            self.receipts_not_comparable = true;
            return;
        }
        let root = proofs::calculate_receipt_root(receipts);
        if root != header.receipts_root {
            let expected = header.receipts_root;
            self.problems.push(format!(
                "the receipts of block {number} make the root {root}, its header has {expected}"
            ));
        }
    }
}

/// A block against what the index says of its parent.
fn follows(
    header: &Header,
    total_difficulty: U256,
    parent: Option<(B256, U256)>,
    report: &mut ChainReport,
) {
    let number = header.number;
    let before = match parent {
        Some((hash, total)) => {
            if header.parent_hash != hash {
                let found = header.parent_hash;
                report.problem(format!(
                    "block {number} has the parent {found}, the block before it is {hash}"
                ));
            }
            total
        }
        None => total_difficulty.saturating_sub(header.difficulty),
    };
    let expected = before.saturating_add(header.difficulty);
    if total_difficulty != expected {
        report.problem(format!(
            "block {number} has the total difficulty {total_difficulty}, expected {expected}"
        ));
    }
}

/// Keys of other lengths than eight bytes are no block numbers; they count as the last one.
fn number_of_key(key: &[u8]) -> u64 {
    key.try_into().map_or(u64::MAX, u64::from_be_bytes)
}

/// Holds the state against the chain: the commitment against the header of the head, and what the undo
/// record of the head leads to against the header before it. Nothing is changed. Returns what is wrong.
///
/// # Errors
///
/// If the store or the layer fails.
pub fn check_state(db: &ChainDb, layer: &dyn StateLayer) -> Result<Vec<String>, ChainError> {
    let head = match db.head() {
        Ok(Some(head)) => head,
        // Said by the check of the chain.
        Ok(None) | Err(ChainError::Corrupt(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let number = head.number();
    let mut problems = Vec::new();
    if db.way_back()?.is_some() {
        // The state is that of no block, and will be that of the parent.
        return Ok(problems);
    }
    if let Some(found) = layer.commitment().as_state_root()
        && found != head.header.state_root
    {
        let expected = head.header.state_root;
        problems
            .push(format!("the state has root {found}, block {number} at the head has {expected}"));
    }
    let Some(record) = db.undo(number)? else { return Ok(problems) };
    let parent = match db.block_head(number.saturating_sub(1)) {
        Ok(parent) => parent,
        Err(ChainError::Corrupt(_)) => return Ok(problems),
        Err(error) => return Err(error),
    };
    // Of a way back in several steps it is only said whether all is there that they need: to take them would change what is
    // stored.
    let undone = layer.undo_records().steps(&record, db.store()).and_then(|mut steps| {
        let first = steps.next(db.store())?.unwrap_or_default();
        match steps.next(db.store())? {
            Some(_) => Ok(None),
            None => layer.undo(&first).map(Some),
        }
    });
    match undone {
        Ok(None) => return Ok(problems),
        Ok(Some(outcome)) => {
            let found = outcome.commitment.as_state_root();
            outcome.discard()?;
            if let Some(found) = found.filter(|found| *found != parent.header.state_root) {
                let expected = parent.header.state_root;
                problems.push(format!(
                    "taking back block {number} leads to the state root {found}, block {} has {expected}",
                    parent.number()
                ));
            }
        }
        Err(StateError::Corrupt(text)) => {
            problems.push(format!("block {number} cannot be taken back: {text}"));
            return Ok(problems);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(problems)
}
