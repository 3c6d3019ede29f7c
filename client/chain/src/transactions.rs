//! The index of transactions by hash. It is kept only on request, because an import does not need it.

use super::{
    Chain, ChainDb,
    error::{ChainError, Result},
    recent::BLOCK_HASHES,
    tables::{INDEXED_KEY, META, TRANSACTIONS},
};
use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{B256, map::B256Map};
use polytrie_kv::{Batch, Read};

/// Number of blocks that are indexed in one write.
const STEP: u64 = 256;

/// Place of a transaction: number of the block, and index in it.
pub type TransactionPlace = (u64, u32);

impl<R: Read> ChainDb<R> {
    /// Returns the place of a transaction in the index. It may be out of date, so the caller must check that the
    /// transaction is there.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn transaction_place(&self, hash: &B256) -> Result<Option<TransactionPlace>> {
        let Some(row) = self.store().get(TRANSACTIONS, hash.as_slice())? else { return Ok(None) };
        let damaged = || ChainError::Corrupt(format!("the place of transaction {hash} is damaged"));
        let (number, index) = row.split_first_chunk::<8>().ok_or_else(damaged)?;
        let index = index.try_into().map_err(|_| damaged())?;
        Ok(Some((u64::from_be_bytes(*number), u32::from_be_bytes(index))))
    }

    /// Returns the number of the first block that is not indexed.
    fn first_unindexed(&self) -> Result<u64> {
        let row = self.store().get(META, INDEXED_KEY)?;
        let hash = row.and_then(|row| B256::try_from(row.as_slice()).ok());
        let indexed = hash.map(|hash| self.number_of(&hash)).transpose()?.flatten();
        if let Some(indexed) = indexed {
            return Ok(indexed + 1);
        }
        // A chain that begins in the middle has millions of numbers without a block before its start.
        Ok(self.start()?.map_or(0, |start| start.saturating_sub(BLOCK_HASHES as u64)))
    }
}

impl Chain {
    /// Indexes all blocks up to the head that are not indexed yet.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn index_transactions(&mut self) -> Result<()> {
        self.options.index_transactions = true;
        let head = self.head.number();
        let mut next = self.db.first_unindexed()?;
        while next <= head {
            let until = head.min(next + STEP - 1);
            let mut batch = Batch::new();
            for number in next..=until {
                let (Some(block), Some((hash, _))) =
                    (self.db.block(number)?, self.db.canonical(number)?)
                else {
                    continue;
                };
                put_transactions(&mut batch, &block, &hash);
            }
            self.db.store().write(batch)?;
            next = until + 1;
        }
        Ok(())
    }

    /// Returns the missing entries of the index, for a directory that must not be written to: the latest
    /// transactions, at most `limit`.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn unindexed_transactions(&self, limit: usize) -> Result<B256Map<TransactionPlace>> {
        let first = self.db.first_unindexed()?;
        let mut places = B256Map::default();
        for number in (first..=self.head.number()).rev() {
            let Some(block) = self.db.block(number)? else { break };
            if places.len() + block.body.transactions.len() > limit {
                tracing::warn!(
                    "transactions before block {number} are not found by their hashes: the directory is read-only and has no index of them"
                );
                break;
            }
            for (tx, index) in block.body.transactions.iter().zip(0..) {
                places.insert(*tx.tx_hash(), (number, index));
            }
        }
        Ok(places)
    }
}

/// Adds the transactions of a block to the index, which then reaches up to that block.
pub(super) fn put_transactions(batch: &mut Batch, block: &Block<TxEnvelope>, hash: &B256) {
    for (tx, index) in block.body.transactions.iter().zip(0u32..) {
        let mut place = [0; 12];
        place[..8].copy_from_slice(&block.header.number.to_be_bytes());
        place[8..].copy_from_slice(&index.to_be_bytes());
        batch.put(TRANSACTIONS, tx.tx_hash().as_slice(), &place);
    }
    batch.put(META, INDEXED_KEY, hash.as_slice());
}

/// Removes the transactions of the block at the head; the index then reaches up to its parent.
pub(super) fn remove_transactions(batch: &mut Batch, block: &Block<TxEnvelope>) {
    for tx in &block.body.transactions {
        batch.delete(TRANSACTIONS, tx.tx_hash().as_slice());
    }
    batch.put(META, INDEXED_KEY, block.header.parent_hash.as_slice());
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Head, Start, TABLES};
    use alloy_consensus::{Header, Sealable};
    use alloy_primitives::U256;
    use polytrie_chainspec::ChainSpec;
    use polytrie_kv::Store;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_not_there_is_not_looked_for() {
        let db = ChainDb::new(Store::memory(TABLES).unwrap());
        assert_eq!(db.first_unindexed().unwrap(), 0);
        let header = Header { number: 20_000_000, ..Header::default() }.seal_slow();
        let head = Head { header, total_difficulty: U256::ZERO };
        let start = Start { head, block: None, ancestors: BTreeMap::new() };
        let spec = ChainSpec::load("dev").unwrap();
        db.begin_at(&spec, &start).unwrap();
        assert_eq!(db.first_unindexed().unwrap(), 20_000_000 - 256);
    }
}
