//! The pool of transactions that wait for a block.
//!
//! Every sender has a queue by nonce. The transactions that follow without a gap from the sender's nonce can go into
//! the next block (*pending*); those after a gap wait until it is filled (*queued*). The pool holds a bounded number of
//! transactions and bytes: when it is full, a new transaction must pay more than the one that pays least, whose sender
//! then loses the last of its queue. A sender must be able to pay for its whole queue.

mod blobs;
mod error;
mod room;
mod transaction;

pub(crate) use blobs::{blob_settings, with_other_proofs};
pub use error::PoolError;
pub use transaction::PoolTransaction;

use alloy_consensus::{BlobTransactionSidecarVariant, Transaction, TxEnvelope};
use alloy_primitives::{
    Address, B256, U256,
    map::{AddressMap, B256Map},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

/// Percentage by which a replacement must raise the fees.
const PRICE_BUMP: u8 = 10;

/// Percentage by which a replacement must raise the fees of a blob transaction. It is higher because blobs cost
/// the network more.
const BLOB_PRICE_BUMP: u8 = 100;

/// Limits of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Maximum number of transactions.
    pub total: usize,
    /// Maximum number of transactions of one sender.
    pub per_sender: usize,
    /// Maximum number of bytes of all transactions, with their blobs.
    pub bytes: usize,
}

impl Default for PoolLimits {
    /// Returns limits of 200,000 transactions, 20,000 of one sender, and 256 MiB.
    fn default() -> Self {
        Self { total: 200_000, per_sender: 20_000, bytes: 256 << 20 }
    }
}

/// The fees that a block demands of its transactions, in wei.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockFees {
    /// Base fee for each unit of gas; 0 before London.
    pub base: u64,
    /// Base fee for each unit of blob gas; 0 before Cancun.
    pub blob: u128,
}

/// The fields of a sender's account that the pool needs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SenderState {
    /// Nonce of the account.
    pub nonce: u64,
    /// Balance of the account in wei.
    pub balance: U256,
    /// Whether the account has code other than a delegation.
    pub has_code: bool,
}

/// The transactions that wait for a block.
#[derive(Debug, Default)]
pub struct Pool {
    limits: PoolLimits,
    by_hash: B256Map<Arc<PoolTransaction>>,
    senders: AddressMap<Queue>,
    /// Fee cap, arrival and hash of all transactions, lowest fee first; of equal fees the last arrival first.
    by_fee: BTreeSet<(u128, Reverse<u64>, B256)>,
    /// Versioned hash of each blob in the pool, with the hash of each transaction that has it.
    by_blob: BTreeSet<(B256, B256)>,
    bytes: usize,
    arrivals: u64,
    dropped: u64,
    /// Counter of additions and removals.
    changes: u64,
}

#[derive(Debug, Default)]
struct Queue {
    /// Nonce of the sender.
    next: u64,
    /// The nonce that follows the pending transactions.
    end: u64,
    txs: BTreeMap<u64, Arc<PoolTransaction>>,
    /// Maximum cost of all transactions of the queue, in wei.
    cost: U256,
}

impl Queue {
    /// Returns the pending transactions from nonce `first` on.
    fn pending_from(&self, first: u64) -> Vec<Arc<PoolTransaction>> {
        match first < self.end {
            true => self.txs.range(first..self.end).map(|(_, tx)| Arc::clone(tx)).collect(),
            false => Vec::new(),
        }
    }

    /// Computes the end of the pending transactions, given that there is no gap before nonce `from`.
    fn extend(&mut self, from: u64) {
        self.end = from;
        for nonce in self.txs.range(from..).map(|(nonce, _)| *nonce) {
            if nonce != self.end {
                break;
            }
            self.end = nonce.saturating_add(1);
        }
    }
}

/// The result of an addition.
#[derive(Debug, Clone)]
pub struct Added {
    /// The transaction.
    pub tx: Arc<PoolTransaction>,
    /// Whether it can go into the next block.
    pub pending: bool,
    /// The transactions that became executable, in order: this one, and those that it unblocked.
    pub promoted: Vec<Arc<PoolTransaction>>,
}

impl Pool {
    /// Creates an empty pool.
    pub fn new(limits: PoolLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the number of transactions.
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Whether the pool has no transactions.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// Returns the number of transactions that were dropped so far without being in a block.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns a counter that changes whenever a transaction is added or removed.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the numbers of pending and of queued transactions.
    pub fn status(&self) -> (usize, usize) {
        let pending = |queue: &Queue| queue.txs.range(..queue.end).count();
        let pending: usize = self.senders.values().map(pending).sum();
        (pending, self.len() - pending)
    }

    /// Returns a transaction by its hash, or `None` if it is not in the pool.
    pub fn get(&self, hash: &B256) -> Option<&Arc<PoolTransaction>> {
        self.by_hash.get(hash)
    }

    /// Returns the transaction of a sender with this nonce, or `None` if it is not in the pool.
    pub fn of_sender(&self, sender: &Address, nonce: u64) -> Option<&Arc<PoolTransaction>> {
        self.senders.get(sender)?.txs.get(&nonce)
    }

    /// Returns the senders of these transactions, if all of them are in the pool. An impersonated transaction has the
    /// sender that it names.
    pub(crate) fn senders_of(&self, transactions: &[TxEnvelope]) -> Option<Vec<Address>> {
        transactions.iter().map(|tx| Some(self.get(tx.tx_hash())?.sender)).collect()
    }

    /// Returns the sidecars of the transactions that have a blob with this versioned hash.
    pub(crate) fn sidecars_with(
        &self,
        blob: &B256,
    ) -> impl Iterator<Item = &Arc<BlobTransactionSidecarVariant>> {
        let all = (*blob, B256::ZERO)..=(*blob, B256::repeat_byte(0xff));
        self.by_blob.range(all).filter_map(move |(_, tx)| self.by_hash.get(tx)?.sidecar.as_ref())
    }

    /// Whether the pool has a transaction and it can go into the next block.
    pub fn is_pending(&self, hash: &B256) -> bool {
        let Some(tx) = self.by_hash.get(hash) else { return false };
        self.senders.get(&tx.sender).is_some_and(|queue| tx.nonce() < queue.end)
    }

    /// Whether the next transaction of any sender pays `fees`.
    pub fn has_next(&self, fees: BlockFees) -> bool {
        self.senders
            .values()
            .filter_map(|queue| queue.txs.get(&queue.next))
            .any(|tx| Next::new(tx, fees).is_some())
    }

    /// Returns the nonce after a sender's pending transactions; `None` if the pool has no transaction of the sender.
    pub fn next_nonce(&self, sender: &Address) -> Option<u64> {
        Some(self.senders.get(sender)?.end)
    }

    /// Returns the pending and the queued transactions of each sender, or of one.
    pub fn content(&self, of: Option<&Address>) -> Content {
        let mut content = Content::default();
        for (sender, queue) in &self.senders {
            if of.is_some_and(|of| of != sender) {
                continue;
            }
            let (pending, queued) = (queue.txs.range(..queue.end), queue.txs.range(queue.end..));
            for (txs, map) in [(pending, &mut content.pending), (queued, &mut content.queued)] {
                let txs: Vec<_> = txs.map(|(_, tx)| Arc::clone(tx)).collect();
                if !txs.is_empty() {
                    map.insert(*sender, txs);
                }
            }
        }
        content
    }

    /// Makes the cheap checks of a new transaction: it is not in the pool, its nonce is in range, and its sender may
    /// send it and can pay for it alone. They come before costly work such as blob proofs.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub(crate) fn expect_new(
        &self,
        tx: &PoolTransaction,
        state: SenderState,
    ) -> Result<(), PoolError> {
        if self.by_hash.contains_key(&tx.hash()) {
            return Err(PoolError::Known);
        }
        if state.has_code && super::impersonated(&tx.tx).is_none() {
            return Err(PoolError::SenderHasCode(tx.sender));
        }
        let (found, expected) = (tx.nonce(), state.nonce);
        if found < expected {
            return Err(PoolError::NonceTooLow { found, expected });
        }
        let limit = self.limits.per_sender;
        if found - expected >= limit as u64 {
            return Err(PoolError::NonceTooHigh { found, expected, limit });
        }
        if tx.cost > state.balance {
            let (sender, balance, cost) = (tx.sender, state.balance, tx.cost);
            return Err(PoolError::Funds { sender, balance, cost });
        }
        Ok(())
    }

    /// Adds a transaction that passed all checks that do not depend on the state. `state` is that of its sender.
    ///
    /// # Errors
    ///
    /// If its nonce is out of range, its sender cannot pay for the whole queue, its fees are too low, or there
    /// is no room.
    pub fn add(&mut self, tx: PoolTransaction, state: SenderState) -> Result<Added, PoolError> {
        self.expect_new(&tx, state)?;
        let found = tx.nonce();
        let queue = self.senders.get(&tx.sender);
        let old = queue.and_then(|queue| queue.txs.get(&found)).cloned();
        let waiting = queue.map_or(U256::ZERO, |queue| queue.cost);
        let waiting = waiting - old.as_ref().map_or(U256::ZERO, |old| old.cost);
        let cost = waiting.checked_add(tx.cost);
        if cost.is_none_or(|cost| cost > state.balance) {
            let (sender, balance, cost) = (tx.sender, state.balance, cost.unwrap_or(U256::MAX));
            return Err(PoolError::Overdraft { sender, balance, cost });
        }
        if let Some(old) = &old {
            check_bump(old, &tx)?;
        }
        for hash in self.victims(&tx, old.as_deref())? {
            self.discard(&hash);
        }
        // The transactions before this nonce were pending before the addition.
        let end = self.next_nonce(&tx.sender);
        if let Some(old) = old {
            self.discard(&old.hash());
        }
        Ok(self.insert(tx, state.nonce, end.unwrap_or(0).max(state.nonce)))
    }

    /// Inserts a transaction. `next` is the sender's nonce, and `end` the former end of its pending transactions.
    fn insert(&mut self, mut tx: PoolTransaction, next: u64, end: u64) -> Added {
        tx.arrival = self.arrivals;
        self.arrivals += 1;
        self.changes += 1;
        let tx = Arc::new(tx);
        self.bytes += tx.bytes;
        self.by_fee.insert(fee_key(&tx));
        self.by_blob.extend(tx.blobs().iter().map(|blob| (*blob, tx.hash())));
        self.by_hash.insert(tx.hash(), Arc::clone(&tx));
        let queue = self.senders.entry(tx.sender).or_default();
        queue.txs.insert(tx.nonce(), Arc::clone(&tx));
        queue.cost += tx.cost;
        if queue.next != next || queue.end < next {
            queue.next = next;
            queue.extend(next);
        } else if queue.end == tx.nonce() {
            queue.extend(tx.nonce());
        }
        let pending = tx.nonce() < queue.end;
        let mut promoted = queue.pending_from(end);
        // The replacement of a pending transaction is announced; the transactions after it were announced before.
        if tx.nonce() < end && pending {
            promoted.insert(0, Arc::clone(&tx));
        }
        Added { tx, pending, promoted }
    }

    /// Removes a transaction and returns it, or `None` if it is not in the pool.
    pub fn remove(&mut self, hash: &B256) -> Option<Arc<PoolTransaction>> {
        let tx = self.by_hash.remove(hash)?;
        self.changes += 1;
        self.by_fee.remove(&fee_key(&tx));
        for blob in tx.blobs() {
            self.by_blob.remove(&(*blob, *hash));
        }
        self.bytes -= tx.bytes;
        if let Some(queue) = self.senders.get_mut(&tx.sender) {
            queue.txs.remove(&tx.nonce());
            queue.cost -= tx.cost;
            if queue.next <= tx.nonce() {
                queue.end = queue.end.min(tx.nonce());
            }
            if queue.txs.is_empty() {
                self.senders.remove(&tx.sender);
            }
        }
        Some(tx)
    }

    /// Removes a transaction that can never be in a block, and counts it as dropped.
    pub fn discard(&mut self, hash: &B256) {
        if self.remove(hash).is_some() {
            self.dropped += 1;
        }
    }

    /// Removes all transactions, and counts them as dropped.
    pub fn clear(&mut self) {
        self.dropped += self.len() as u64;
        *self = Self {
            limits: self.limits,
            arrivals: self.arrivals,
            dropped: self.dropped,
            changes: self.changes + 1,
            ..Self::default()
        };
    }

    /// Returns the senders of all transactions.
    pub fn senders(&self) -> Vec<Address> {
        self.senders.keys().copied().collect()
    }

    /// Sets the nonce of a sender, and removes the transactions below it. Returns the transactions
    /// that became executable.
    #[must_use]
    pub fn set_nonce(&mut self, sender: &Address, nonce: u64) -> Vec<Arc<PoolTransaction>> {
        let Some(queue) = self.senders.get_mut(sender) else { return Vec::new() };
        let (first, end) = (queue.next, queue.end);
        queue.next = nonce;
        if queue.end < nonce || nonce < first {
            queue.extend(nonce);
        }
        // If the nonce decreases, the formerly pending transactions have a gap before them, and are announced again
        // once it is filled.
        let promoted = queue.pending_from(end.max(nonce));
        let done: Vec<_> = queue.txs.range(..nonce).map(|(_, tx)| tx.hash()).collect();
        for hash in done {
            self.remove(&hash);
        }
        promoted
    }

    /// Returns the next transaction of each sender, if it pays `fees`, with the highest tip on top; of equal tips
    /// the first arrival.
    pub fn best(&self, fees: BlockFees) -> BinaryHeap<Next> {
        self.senders
            .values()
            .filter_map(|queue| Next::new(queue.txs.get(&queue.next)?, fees))
            .collect()
    }

    /// Returns the transaction after `tx` in the queue of its sender, if it pays `fees`.
    pub fn after(&self, tx: &PoolTransaction, fees: BlockFees) -> Option<Next> {
        let nonce = tx.nonce().checked_add(1)?;
        Next::new(self.senders.get(&tx.sender)?.txs.get(&nonce)?, fees)
    }
}

/// The transactions of a pool by sender, in the order of their nonces.
#[derive(Debug, Default)]
pub struct Content {
    /// The transactions that can go into the next block.
    pub pending: AddressMap<Vec<Arc<PoolTransaction>>>,
    /// The transactions after a gap.
    pub queued: AddressMap<Vec<Arc<PoolTransaction>>>,
}

/// A candidate for a block; the greatest goes first.
#[derive(Debug, Clone)]
pub struct Next {
    /// Tip for each unit of gas, in wei.
    tip: u128,
    /// The transaction.
    pub tx: Arc<PoolTransaction>,
}

impl Next {
    /// Creates a candidate; `None` if the transaction does not pay `fees`.
    fn new(tx: &Arc<PoolTransaction>, fees: BlockFees) -> Option<Self> {
        let tip = tx.tx.effective_tip_per_gas(fees.base)?;
        let pays_blobs = tx.tx.max_fee_per_blob_gas().is_none_or(|fee| fee >= fees.blob);
        pays_blobs.then(|| Self { tip, tx: Arc::clone(tx) })
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next {}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.tip.cmp(&other.tip).then_with(|| other.tx.arrival.cmp(&self.tx.arrival))
    }
}

fn fee_key(tx: &PoolTransaction) -> (u128, Reverse<u64>, B256) {
    (tx.tx.max_fee_per_gas(), Reverse(tx.arrival), tx.hash())
}

/// Checks that `new` pays enough to replace `old`.
fn check_bump(old: &PoolTransaction, new: &PoolTransaction) -> Result<(), PoolError> {
    let percent = if old.sidecar.is_some() { BLOB_PRICE_BUMP } else { PRICE_BUMP };
    let enough = |old: u128, new: u128| {
        let bump =
            (old / 100).saturating_mul(percent.into()) + (old % 100) * u128::from(percent) / 100;
        new >= old.saturating_add(bump.max(1))
    };
    let tip = |tx: &PoolTransaction| {
        tx.tx.max_priority_fee_per_gas().unwrap_or_else(|| tx.tx.max_fee_per_gas())
    };
    let blob_fee = |tx: &PoolTransaction| tx.tx.max_fee_per_blob_gas().unwrap_or(0);
    let pays = enough(old.tx.max_fee_per_gas(), new.tx.max_fee_per_gas())
        && enough(tip(old), tip(new))
        && (old.sidecar.is_none() || enough(blob_fee(old), blob_fee(new)));
    if pays { Ok(()) } else { Err(PoolError::Underpriced { percent }) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
