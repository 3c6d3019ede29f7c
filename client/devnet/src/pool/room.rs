//! Selection of the transactions that are dropped from a full pool.

use super::{Pool, PoolError, PoolTransaction};
use alloy_consensus::Transaction;
use alloy_primitives::map::{AddressMap, B256Set};

impl Pool {
    /// Returns the transactions to drop so that there is room for `tx` in place of `old`: the last ones of the queues
    /// of senders that pay less, so that no gap arises. The sender of `tx` loses none, since `tx` might come after it
    /// in the same queue.
    ///
    /// # Errors
    ///
    /// If dropping all of these would not make enough room.
    pub(super) fn victims(
        &self,
        tx: &PoolTransaction,
        old: Option<&PoolTransaction>,
    ) -> Result<B256Set, PoolError> {
        let limits = self.limits;
        if tx.bytes > limits.bytes {
            return Err(PoolError::TooLarge { found: tx.bytes, limit: limits.bytes });
        }
        let mut count = self.len() + usize::from(old.is_none());
        let mut bytes = self.bytes + tx.bytes - old.map_or(0, |old| old.bytes);
        let fits = |count, bytes| count <= limits.total && bytes <= limits.bytes;
        let mut victims = B256Set::default();
        if fits(count, bytes) {
            return Ok(victims);
        }
        let mut queues = AddressMap::default();
        let fee = tx.tx.max_fee_per_gas();
        for (_, _, hash) in self.by_fee.iter().take_while(|(least, _, _)| *least < fee) {
            let Some(sender) = self.by_hash.get(hash).map(|least| least.sender) else { continue };
            if sender == tx.sender || victims.contains(hash) {
                continue;
            }
            let Some(queue) = self.senders.get(&sender) else { continue };
            // The walk through a queue continues after the transactions that were chosen before.
            let last = queues.entry(sender).or_insert_with(|| queue.txs.values().rev());
            for last in last {
                victims.insert(last.hash());
                (count, bytes) = (count - 1, bytes - last.bytes);
                if fits(count, bytes) {
                    return Ok(victims);
                }
                if last.hash() == *hash {
                    break;
                }
            }
        }
        Err(match count > limits.total {
            true => PoolError::Full { limit: limits.total },
            false => PoolError::FullBytes {
                used: self.bytes,
                limit: limits.bytes,
                needed: tx.bytes - old.map_or(0, |old| old.bytes.min(tx.bytes)),
            },
        })
    }
}
