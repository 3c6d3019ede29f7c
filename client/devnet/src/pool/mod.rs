//! The transactions that wait for a block.
//!
//! Every sender has a queue by nonce. What follows without a gap from the sender's nonce can go into the next block
//! (*pending*), the rest waits for what is missing (*queued*). The pool holds a bounded number of transactions and
//! bytes: when it is full, a new transaction must pay more than the one that pays least, whose sender then loses the
//! last of its queue. A sender must be able to pay for its whole queue.

mod blobs;
mod error;
mod room;
mod transaction;

pub(crate) use blobs::with_other_proofs;
pub use error::PoolError;
pub use transaction::PoolTransaction;

use alloy_consensus::{BlobTransactionSidecarVariant, Transaction};
use alloy_primitives::{
    Address, B256, U256,
    map::{AddressMap, B256Map},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

/// By how many percent a transaction must pay more than the one it replaces.
const PRICE_BUMP: u8 = 10;

/// By how many per cent a replacement raises the fees of a transaction with blobs, which costs others more.
const BLOB_PRICE_BUMP: u8 = 100;

/// How much a pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Transactions.
    pub total: usize,
    /// Transactions of one sender.
    pub per_sender: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Default for PoolLimits {
    /// 200,000 transactions, 20,000 of one sender, 256 MiB.
    fn default() -> Self {
        Self { total: 200_000, per_sender: 20_000, bytes: 256 << 20 }
    }
}

/// What a block asks of its transactions, in wei.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockFees {
    /// For each unit of gas; 0 before London.
    pub base: u64,
    /// For each unit of blob gas; 0 before Cancun.
    pub blob: u128,
}

/// What the state says about a sender.
#[derive(Debug, Clone, Copy, Default)]
pub struct SenderState {
    /// Its nonce.
    pub nonce: u64,
    /// Its balance in wei.
    pub balance: U256,
    /// Whether it has code other than a delegation.
    pub has_code: bool,
}

/// Transactions that wait for a block.
#[derive(Debug, Default)]
pub struct Pool {
    limits: PoolLimits,
    by_hash: B256Map<Arc<PoolTransaction>>,
    senders: AddressMap<Queue>,
    /// All of them by what they pay at most, the least first; of equals the last one that came.
    by_fee: BTreeSet<(u128, Reverse<u64>, B256)>,
    /// The versioned hashes of the blobs that are here, each with the transactions that brought it along.
    by_blob: BTreeSet<(B256, B256)>,
    bytes: usize,
    arrivals: u64,
    dropped: u64,
    /// Counts what came and went.
    changes: u64,
}

#[derive(Debug, Default)]
struct Queue {
    /// The sender's nonce.
    next: u64,
    /// The nonce that follows the pending transactions.
    end: u64,
    txs: BTreeMap<u64, Arc<PoolTransaction>>,
    /// The most that all of them may cost, in wei.
    cost: U256,
}

impl Queue {
    /// The transactions that can go into the next block.
    fn pending(&self) -> impl Iterator<Item = &Arc<PoolTransaction>> {
        (self.next..)
            .zip(&self.txs)
            .take_while(|(nonce, (found, _))| nonce == *found)
            .map(|(_, (_, tx))| tx)
    }

    /// The pending transactions from nonce `first` on.
    fn pending_from(&self, first: u64) -> Vec<Arc<PoolTransaction>> {
        match first < self.end {
            true => self.txs.range(first..self.end).map(|(_, tx)| Arc::clone(tx)).collect(),
            false => Vec::new(),
        }
    }

    /// Finds where the pending transactions end, knowing that there is no gap before nonce `from`.
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

/// What a transaction that went in did.
#[derive(Debug, Clone)]
pub struct Added {
    /// The transaction.
    pub tx: Arc<PoolTransaction>,
    /// Whether it can go into the next block.
    pub pending: bool,
    /// What can go into the next block since then, in order: this one, and what waited for it.
    pub promoted: Vec<Arc<PoolTransaction>>,
}

impl Pool {
    /// An empty pool.
    pub fn new(limits: PoolLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// How many transactions are here.
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// How many were thrown out so far without having been in a block.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A number that changes whenever a transaction comes or goes.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Numbers of pending and of queued transactions.
    pub fn status(&self) -> (usize, usize) {
        let pending = |queue: &Queue| queue.txs.range(..queue.end).count();
        let pending: usize = self.senders.values().map(pending).sum();
        (pending, self.len() - pending)
    }

    /// A transaction by its hash.
    pub fn get(&self, hash: &B256) -> Option<&Arc<PoolTransaction>> {
        self.by_hash.get(hash)
    }

    /// The blobs of the transactions that have one with this versioned hash.
    pub(crate) fn sidecars_with(
        &self,
        blob: &B256,
    ) -> impl Iterator<Item = &Arc<BlobTransactionSidecarVariant>> {
        let all = (*blob, B256::ZERO)..=(*blob, B256::repeat_byte(0xff));
        self.by_blob.range(all).filter_map(move |(_, tx)| self.by_hash.get(tx)?.sidecar.as_ref())
    }

    /// Whether a transaction is here and can go into the next block.
    pub fn is_pending(&self, hash: &B256) -> bool {
        let Some(tx) = self.by_hash.get(hash) else { return false };
        self.senders.get(&tx.sender).is_some_and(|queue| tx.nonce() < queue.end)
    }

    /// Whether anything can go into the next block.
    pub fn has_pending(&self) -> bool {
        self.senders.values().any(|queue| queue.txs.contains_key(&queue.next))
    }

    /// Whether the next transaction of any sender pays `fees`.
    pub fn has_next(&self, fees: BlockFees) -> bool {
        self.senders
            .values()
            .filter_map(|queue| queue.txs.get(&queue.next))
            .any(|tx| Next::new(tx, fees).is_some())
    }

    /// The nonce that follows a sender's pending transactions; `None` if it has none here.
    pub fn next_nonce(&self, sender: &Address) -> Option<u64> {
        Some(self.senders.get(sender)?.end)
    }

    /// The pending and the queued transactions of each sender, or of one.
    pub fn content(&self, of: Option<&Address>) -> Content {
        let mut content = Content::default();
        for (sender, queue) in &self.senders {
            if of.is_some_and(|of| of != sender) {
                continue;
            }
            let pending: Vec<_> = queue.pending().cloned().collect();
            let queued: Vec<_> = queue.txs.values().skip(pending.len()).cloned().collect();
            for (txs, map) in [(pending, &mut content.pending), (queued, &mut content.queued)] {
                if !txs.is_empty() {
                    map.insert(*sender, txs);
                }
            }
        }
        content
    }

    /// Whether a transaction is not here yet, and its sender may send it and can pay for it by itself: all of this is known
    /// at once, before anything is made for it that takes long.
    ///
    /// # Errors
    ///
    /// The first of these that is not so.
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

    /// Takes in a transaction that is right by itself, given what the state says about its sender.
    ///
    /// # Errors
    ///
    /// If it cannot follow, does not pay enough, or there is no room.
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
        // Up to here they were pending before.
        let end = self.next_nonce(&tx.sender);
        if let Some(old) = old {
            self.discard(&old.hash());
        }
        Ok(self.insert(tx, state.nonce, end.unwrap_or(0).max(state.nonce)))
    }

    /// Puts a transaction in, given the sender's nonce and where its pending transactions ended.
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
        // One that replaces a pending one is news, and what follows it is none.
        if tx.nonce() < end && pending {
            promoted.insert(0, Arc::clone(&tx));
        }
        Added { tx, pending, promoted }
    }

    /// Takes a transaction out.
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

    /// Takes a transaction out that can never be in a block.
    pub fn discard(&mut self, hash: &B256) {
        if self.remove(hash).is_some() {
            self.dropped += 1;
        }
    }

    /// Takes all out.
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

    /// The senders of what is here.
    pub fn senders(&self) -> Vec<Address> {
        self.senders.keys().copied().collect()
    }

    /// A sender's nonce is another one now: what is before it is done with. Returns what can go into the next block and
    /// could not before.
    #[must_use]
    pub fn set_nonce(&mut self, sender: &Address, nonce: u64) -> Vec<Arc<PoolTransaction>> {
        let Some(queue) = self.senders.get_mut(sender) else { return Vec::new() };
        let (first, end) = (queue.next, queue.end);
        queue.next = nonce;
        if queue.end < nonce || nonce < first {
            queue.extend(nonce);
        }
        // Where the nonce is lower, what was pending has a gap before it, and is announced again once that is filled.
        let promoted = queue.pending_from(end.max(nonce));
        let done: Vec<_> = queue.txs.range(..nonce).map(|(_, tx)| tx.hash()).collect();
        for hash in done {
            self.remove(&hash);
        }
        promoted
    }

    /// The first pending transaction of each sender that pays `fees`, the best tip on top; of equal ones the first that
    /// came.
    pub fn best(&self, fees: BlockFees) -> BinaryHeap<Next> {
        self.senders
            .values()
            .filter_map(|queue| Next::new(queue.txs.get(&queue.next)?, fees))
            .collect()
    }

    /// What comes after a transaction in its sender's queue, if it pays `fees`.
    pub fn after(&self, tx: &PoolTransaction, fees: BlockFees) -> Option<Next> {
        let nonce = tx.nonce().checked_add(1)?;
        Next::new(self.senders.get(&tx.sender)?.txs.get(&nonce)?, fees)
    }
}

/// What is in a pool, by sender, in order of the nonces.
#[derive(Debug, Default)]
pub struct Content {
    /// What can go into the next block.
    pub pending: AddressMap<Vec<Arc<PoolTransaction>>>,
    /// What waits for another one.
    pub queued: AddressMap<Vec<Arc<PoolTransaction>>>,
}

/// A transaction on its way into a block; the greatest goes first.
#[derive(Debug, Clone)]
pub struct Next {
    /// What it pays to the beneficiary for each unit of gas, in wei.
    tip: u128,
    /// The transaction.
    pub tx: Arc<PoolTransaction>,
}

impl Next {
    /// `None` if it does not pay `fees`.
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

/// Whether `new` pays enough to replace `old`.
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
        && (tip(old) == 0 || enough(tip(old), tip(new)))
        && (old.sidecar.is_none() || enough(blob_fee(old), blob_fee(new)));
    if pays { Ok(()) } else { Err(PoolError::Underpriced { percent }) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
