//! Checks of incoming transactions, and updates of the pool after a change of the head.
//!
//! A transaction is checked before the pool is locked, with the state of its sender in the current view. It is added
//! under the lock. If the view has changed in between, the state of the sender is read again.

use super::{Node, code_of};
use crate::{
    Added, Event, MiningMode, Pool, PoolError, PoolTransaction, Result, View, pool::SenderState,
    producer::changed_nonces,
};
use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256};
use polytrie_state::{StateReader, WriteSet};
use std::{sync::Arc, time::Duration};
use tokio::time;

impl Node {
    /// Adds a transaction to the pool, and announces it.
    ///
    /// # Errors
    ///
    /// If the pool refuses it, the node is read only or has failed, or the state cannot be read.
    pub fn submit(&self, tx: PoolTransaction) -> Result<Added> {
        self.writable()?;
        let added = self.accept(tx)?;
        self.took(&[&added]);
        Ok(added)
    }

    /// Adds a transaction to the pool without an announcement.
    pub(super) fn accept(&self, tx: PoolTransaction) -> Result<Added> {
        let (tx, view, state) = self.examine(tx)?;
        let mut pool = self.pool.lock();
        self.put(&mut pool, tx, &view, state)
    }

    /// Adds the transactions of one request to the pool, in order. The miner is notified once all are added.
    ///
    /// # Errors
    ///
    /// For each of them, as [`Self::submit`].
    pub fn submit_all(&self, txs: Vec<PoolTransaction>) -> Vec<Result<Added>> {
        let examined: Vec<_> = txs
            .into_iter()
            .map(|tx| {
                self.writable()?;
                self.examine(tx)
            })
            .collect();
        let mut pool = self.pool.lock();
        let added: Vec<_> = examined
            .into_iter()
            .map(|examined| {
                let (tx, view, state) = examined?;
                self.put(&mut pool, tx, &view, state)
            })
            .collect();
        drop(pool);
        let taken: Vec<_> = added.iter().filter_map(|added| added.as_ref().ok()).collect();
        self.took(&taken);
        added
    }

    /// Checks a transaction by itself, and reads the state of its sender. The returned transaction has the blob proofs
    /// that the fork of the next block needs.
    fn examine(&self, tx: PoolTransaction) -> Result<(PoolTransaction, Arc<View>, SenderState)> {
        let view = self.view();
        let (gas_limit, min_fee, next_base_fee) = {
            let settings = self.settings.lock();
            let gas_limit = settings.gas_limit_after(view.head.header.gas_limit);
            (gas_limit, settings.min_fee, settings.next_base_fee)
        };
        let time = self.clock.lock().next(view.head.header.timestamp);
        let rules = view.next_rules(&self.spec, time);
        tx.check(&rules, gas_limit)?;
        let found = tx.tx.max_fee_per_gas();
        if found < min_fee {
            return Err(PoolError::BelowMinimum { found, needed: min_fee }.into());
        }
        // If only a transaction triggers a block, no empty block can lower the fees, so a transaction below them
        // would wait forever.
        if self.miner.mode() == MiningMode::OnArrival {
            let fees = self.fees_at(&view, time, next_base_fee);
            let needed = fees.base;
            if found < u128::from(needed) {
                return Err(PoolError::BelowBaseFee { found, needed }.into());
            }
            let (found, needed) = (tx.tx.max_fee_per_blob_gas(), fees.blob);
            if let Some(found) = found.filter(|found| *found < needed) {
                return Err(PoolError::BelowBlobFee { found, needed }.into());
            }
        }
        let state = sender_state(&*view.state(), &tx.sender)?;
        // Cell proofs take a large part of a second, so a transaction that the pool refuses anyhow is refused before.
        self.pool.lock().expect_new(&tx, state)?;
        let tx = tx.with_proofs_for(&rules)?;
        Ok((tx, view, state))
    }

    /// Adds a transaction to the pool. `state` is that of its sender at `view`.
    fn put(
        &self,
        pool: &mut Pool,
        tx: PoolTransaction,
        view: &Arc<View>,
        state: SenderState,
    ) -> Result<Added> {
        // A block in between may have used the nonce. The view cannot change while the pool is locked.
        let now = self.view();
        let state = match Arc::ptr_eq(view, &now) {
            true => state,
            false => sender_state(&*now.state(), &tx.sender)?,
        };
        Ok(pool.add(tx, state)?)
    }

    /// Announces the transactions that became executable through these additions, and wakes the miner.
    fn took(&self, added: &[&Added]) {
        if added.iter().any(|added| added.pending) {
            self.miner.wake();
        }
        self.announce_pending(added.iter().flat_map(|added| &added.promoted));
    }

    /// Announces transactions that became executable in the next block. They are sent without their blobs, which would
    /// stay in memory until the slowest receiver has read them.
    pub(crate) fn announce_pending<'a>(
        &self,
        promoted: impl IntoIterator<Item = &'a Arc<PoolTransaction>>,
    ) {
        for tx in promoted {
            self.events.tell(Event::Pending(tx.without_blobs()));
        }
    }

    /// Waits until a transaction is no longer executable in the pool, or `patience` has passed. No thread is blocked
    /// meanwhile, so any number of callers may wait for a block that another request will make.
    pub async fn wait_for(&self, hash: &B256, patience: Duration) {
        let mut changes = self.changes.subscribe();
        let gone = async {
            while self.pool.lock().is_pending(hash) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // The caller looks up the transaction itself, so a timeout needs no report.
        let _ = time::timeout(patience, gone).await;
    }

    /// Returns the nonce for the next transaction of an account, after its executable transactions in the pool.
    ///
    /// # Errors
    ///
    /// If the state cannot be read.
    pub fn next_nonce(&self, address: &Address) -> Result<u64> {
        // The pool is read first: a transaction that leaves it in between is in the state already.
        let of_pool = self.pool.lock().next_nonce(address).unwrap_or(0);
        let of_state = self.view().state().account(address)?.unwrap_or_default().nonce;
        Ok(of_pool.max(of_state))
    }

    /// Updates the pool with the nonces that a new head has changed. Returns the transactions that became executable.
    pub(super) fn follow_block(&self, writes: &WriteSet) -> Vec<Arc<PoolTransaction>> {
        self.set_nonces(changed_nonces(writes))
    }

    /// Reads the nonces of all senders in the pool again. Returns the transactions that became executable. The caller
    /// has locked the chain and published its view.
    pub(super) fn refresh_pool(&self) -> Result<Vec<Arc<PoolTransaction>>> {
        let state = self.view().state();
        // The pool is not locked while the state is read, because the threads of connections wait for it too. A
        // transaction that comes meanwhile is checked against this state: no other can be published.
        let senders = self.pool.lock().senders();
        let nonces = senders
            .into_iter()
            .map(|sender| Ok((sender, state.account(&sender)?.unwrap_or_default().nonce)))
            .collect::<Result<Vec<_>>>()?;
        Ok(self.set_nonces(nonces))
    }

    fn set_nonces(&self, nonces: Vec<(Address, u64)>) -> Vec<Arc<PoolTransaction>> {
        let mut pool = self.pool.lock();
        let mut promoted = Vec::new();
        for (address, nonce) in nonces {
            promoted.extend(pool.set_nonce(&address, nonce));
        }
        drop(pool);
        self.miner.wake();
        promoted
    }
}

fn sender_state(state: &dyn StateReader, sender: &Address) -> Result<SenderState> {
    let account = state.account(sender)?.unwrap_or_default();
    let code = code_of(state, &account)?;
    let has_code = !code.is_empty() && !code.starts_with(&[0xef, 0x01, 0x00]);
    Ok(SenderState { nonce: account.nonce, balance: account.balance, has_code })
}
