//! Checks of one block of the chain, by itself and against the block before it.

use super::ChainReport;
use crate::{
    db::ChainDb,
    error::{ChainError, Result},
};
use alloy_consensus::{Eip658Value, Header, ReceiptEnvelope, TxReceipt, proofs};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bloom, U256};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_consensus::{check_body_roots, decode::decode_sealed_block};

/// Result of the check of one block by itself.
#[derive(Debug, Default)]
pub(super) struct BlockCheck {
    /// Hash and total difficulty in the index.
    pub(super) index: Option<(B256, U256)>,
    pub(super) header: Option<Header>,
    pub(super) transactions: u64,
    pub(super) receipts_not_comparable: bool,
    pub(super) problems: Vec<String>,
}

impl ChainDb {
    /// Checks one block without its neighbours.
    pub(super) fn check_block(&self, spec: &ChainSpec, number: u64) -> Result<BlockCheck> {
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
        // The other rules were checked when the block was inserted, and blocks of a development node need not follow
        // all of them.
        if let Err(error) = check_body_roots(&block) {
            check.problems.push(format!("block {number}: {error}"));
        }
        match self.receipts(number) {
            Ok(Some(receipts)) => {
                let merged = block.header.difficulty.is_zero();
                let rules = spec.rules(number, block.header.timestamp, merged);
                check.receipts(&rules, &block.header, &receipts);
            }
            Ok(None) => check.problems.push(format!("the receipts of block {number} are missing")),
            Err(ChainError::Corrupt(text)) => check.problems.push(text),
            Err(error) => return Err(error),
        }
        check.header = Some(block.header);
        Ok(check)
    }
}

impl BlockCheck {
    /// Checks the receipts against the header.
    fn receipts(&mut self, rules: &Rules<'_>, header: &Header, receipts: &[ReceiptEnvelope]) {
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
        // From Amsterdam on a block counts gas in two dimensions, and its header has the one of which it used more
        // (EIP-8037).
        let adds_up = number > 0 && !rules.is(EthereumHardfork::Amsterdam);
        if adds_up && gas != header.gas_used {
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
        if !rules.is(EthereumHardfork::Byzantium) && !receipts.iter().all(is_root) {
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

/// Checks a block against its parent's hash and total difficulty in the index.
pub(super) fn follows(
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
