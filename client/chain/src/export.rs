//! Blocks on their way out, byte for byte as they were imported: a file is all that its reader has to go by.

use super::{db::ChainDb, error::ChainError};
use alloy_consensus::Header;
use alloy_primitives::{Bytes, U256};
use polytrie_consensus::{check_body_roots, decode::decode_sealed_block, impersonated};
use rayon::prelude::*;

/// Blocks read and checked side by side.
const PORTION: u64 = 64;

/// A block of the chain, as it was imported.
#[derive(Debug)]
pub struct ExportBlock {
    /// Its header.
    pub header: Header,
    /// All of it.
    pub rlp: Bytes,
    /// The total difficulty with it.
    pub total_difficulty: U256,
    /// Whether accounts were impersonated in it: their transactions are not signed, so no client takes the block.
    pub is_impersonated: bool,
}

impl ChainDb {
    /// Hands out the blocks `from..=to` in their order, each held against the hash that the index gives it and its body
    /// against its header.
    ///
    /// # Errors
    ///
    /// If the store fails or a block is damaged, and whatever `visit` returns.
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

    fn export_block(&self, number: u64) -> Result<ExportBlock, ChainError> {
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
