//! Blocks for an export, byte for byte as they were imported. They are checked, because the reader of the file has
//! nothing else.

use super::{
    db::ChainDb,
    error::{ChainError, Result},
};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes, U256};
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
    /// Passes the blocks `from..=to` to `visit` in order, after each was checked against its hash in the index, its
    /// body against its header, and its parent against the block before.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or a block is damaged, and with the errors of `visit`.
    pub fn export<E: From<ChainError>>(
        &self,
        (from, to): (u64, u64),
        mut visit: impl FnMut(ExportBlock) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut next, mut before) = (Some(from), None);
        while let Some(first) = next.filter(|first| *first <= to) {
            let last = to.min(first.saturating_add(PORTION - 1));
            let blocks: Vec<_> =
                (first..=last).into_par_iter().map(|number| self.export_block(number)).collect();
            for block in blocks {
                let (block, hash) = block?;
                let Header { number, parent_hash, .. } = block.header;
                if let Some(expected) = before.replace(hash).filter(|hash| *hash != parent_hash) {
                    let text = format!(
                        "block {number} has the parent {parent_hash}, the block before it is {expected}"
                    );
                    return Err(ChainError::Corrupt(text).into());
                }
                visit(block)?;
            }
            next = last.checked_add(1);
        }
        Ok(())
    }

    /// Returns a block, checked by itself, and its hash.
    fn export_block(&self, number: u64) -> Result<(ExportBlock, B256)> {
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
        let block = ExportBlock { header: block.header, rlp, total_difficulty, is_impersonated };
        Ok((block, hash))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        Chain, ChainOptions,
        db::{BlockRow, put_block},
        testing,
    };
    use polytrie_kv::{Batch, MemoryEngine};
    use polytrie_layers::LAYERS;
    use std::sync::Arc;

    /// Returns a chain of three blocks; another salt gives other blocks.
    fn chain(salt: u8) -> Chain {
        let engine = Arc::new(MemoryEngine::new());
        let mut chain = testing::open(&LAYERS[0], &engine, ChainOptions::default());
        (0..3).for_each(|_| testing::extend(&mut chain, salt));
        chain
    }

    /// Each of them may be whole and stand where the index says.
    #[test]
    fn blocks_that_do_not_follow_each_other_are_not_exported() {
        let (chain, other) = (chain(1), chain(2));
        let export = |range| {
            let mut numbers = Vec::new();
            let exported = chain.db().export(range, |block| {
                numbers.push(block.header.number);
                Ok::<_, ChainError>(())
            });
            exported.map(|()| numbers)
        };
        assert_eq!(export((0, 3)).unwrap(), [0, 1, 2, 3]);
        let head = other.db().block_head(2).unwrap();
        let rlp = other.db().block_rlp(2).unwrap().unwrap();
        let row = BlockRow {
            number: 2,
            hash: head.hash(),
            total_difficulty: head.total_difficulty,
            header: &head.header,
            rlp: &rlp,
            receipts: &[],
            undo: &[],
        };
        let mut batch = Batch::new();
        put_block(&mut batch, &row);
        chain.db().store().write(batch).unwrap();
        for range in [(2, 2), (3, 3), (0, 1)] {
            export(range).unwrap();
        }
        for (range, number) in [((0, 3), 2), ((2, 3), 3)] {
            let text = export(range).unwrap_err().to_string();
            assert!(text.contains(&format!("block {number} has the parent 0x")), "{text}");
        }
    }
}
