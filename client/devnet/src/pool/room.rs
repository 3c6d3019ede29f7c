//! Which transactions leave a full pool for one that pays more.

use super::{Pool, PoolError, PoolTransaction};
use alloy_consensus::Transaction;
use alloy_primitives::map::{AddressMap, B256Set};

impl Pool {
    /// What has to go so that there is room for `tx` in the place of `old`: the last of the queues of those who pay
    /// least, so that no gap comes of it. Its own sender loses nothing, or `tx` might lose what it follows.
    ///
    /// # Errors
    ///
    /// If there would not be enough room, whatever was dropped.
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
            // It goes on where the sender lost something before.
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
