//! Blocks for an export, byte for byte as they were imported. They are checked, because the reader of the file has
//! nothing else.

use super::{
    db::ChainDb,
    error::{ChainError, Result},
};
use alloy_consensus::Header;
use alloy_primitives::{Bytes, U256};
use polytrie_consensus::{check_body_roots, decode::decode_sealed_block, impersonated};
use rayon::prelude::*;

/// Number of blocks that are read and checked in parallel.
const PORTION: u64 = 64;

/// A block of the chain, as it was imported.
#[derive(Debug)]
pub struct ExportBlock {
    /// Header of the block.
    pub header: Header,
    /// RLP of the block.
    pub rlp: Bytes,
    /// Total difficulty up to and including the block.
    pub total_difficulty: U256,
    /// Whether the block has transactions of impersonated accounts. They are not signed, so no other client accepts the
    /// block.
    pub is_impersonated: bool,
}

impl ChainDb {
    /// Passes the blocks `from..=to` to `visit` in order, after each was checked against its hash in the index, and its
    /// body against its header.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or a block is damaged, and with the errors of `visit`.
    pub fn export<E: From<ChainError>>(
        &self,
        (from, to): (u64, u64),
        mut visit: impl FnMut(ExportBlock) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = Some(from);
        while let Some(first) = next.filter(|first| *first <= to) {
            let last = to.min(first.saturating_add(PORTION - 1));
            let blocks: Vec<_> =
                (first..=last).into_par_iter().map(|number| self.export_block(number)).collect();
            for block in blocks {
                visit(block?)?;
            }
            next = last.checked_add(1);
        }
        Ok(())
    }

    fn export_block(&self, number: u64) -> Result<ExportBlock> {
        let missing = || self.missing(number);
        let (expected, total_difficulty) = self.canonical(number)?.ok_or_else(missing)?;
        let rlp = self.block_rlp(number)?.ok_or_else(missing)?;
        let corrupt = |what: String| ChainError::Corrupt(format!("block {number} {what}"));
        let (block, hash) = decode_sealed_block(&rlp)
            .map_err(|e| corrupt(format!("does not decode: {e}")))?
            .into_parts();
        if hash != expected {
            return Err(corrupt(format!("has hash {hash}, the index says {expected}")));
        }
        check_body_roots(&block).map_err(|e| corrupt(format!("is damaged: {e}")))?;
        let is_impersonated = block.body.transactions.iter().any(|tx| impersonated(tx).is_some());
        Ok(ExportBlock { header: block.header, rlp, total_difficulty, is_impersonated })
    }
}
