//! Transactions on their way into the pool.

use super::Node;
use crate::{
    Added, Event, MiningMode, NodeError, Pool, PoolError, PoolTransaction, View, pool::SenderState,
    producer::changed_nonces,
};
use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256};
use polytrie_state::{StateReader, WriteSet};
use std::{sync::Arc, time::Duration};
use tokio::time;

impl Node {
    /// Takes in a transaction.
    ///
    /// # Errors
    ///
    /// If the pool does not take it, nothing may be changed, or the state cannot be read.
    pub fn submit(&self, tx: PoolTransaction) -> Result<Added, NodeError> {
        self.writable()?;
        let added = self.accept(tx)?;
        self.took(&[&added]);
        Ok(added)
    }

    /// Takes in a transaction without telling anybody.
    pub(super) fn accept(&self, tx: PoolTransaction) -> Result<Added, NodeError> {
        let (tx, view, state) = self.examine(tx)?;
        let mut pool = self.pool.lock();
        self.put(&mut pool, tx, &view, state)
    }

    /// Takes in transactions that came together, in order. A block is made once all are there.
    ///
    /// # Errors
    ///
    /// For each of them, as [`Self::submit`].
    pub fn submit_all(&self, txs: Vec<PoolTransaction>) -> Vec<Result<Added, NodeError>> {
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

    /// Checks a transaction by itself, and reads what the state says about its sender. Its blobs have the proofs of the next
    /// block's fork then.
    fn examine(
        &self,
        tx: PoolTransaction,
    ) -> Result<(PoolTransaction, Arc<View>, SenderState), NodeError> {
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
        // Where every block follows from a transaction there is none in which the fees could fall.
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
        // Proofs of cells take a good part of a second: not for a transaction that the pool refuses anyhow.
        self.pool.lock().expect_new(&tx, state)?;
        let tx = tx.with_proofs_for(&rules)?;
        Ok((tx, view, state))
    }

    /// Adds a transaction to the pool, given what was known of its sender at `view`.
    fn put(
        &self,
        pool: &mut Pool,
        tx: PoolTransaction,
        view: &Arc<View>,
        state: SenderState,
    ) -> Result<Added, NodeError> {
        // A block in between may have used the nonce; no other is shown while the pool is held.
        let now = self.view();
        let state = match Arc::ptr_eq(view, &now) {
            true => state,
            false => sender_state(&*now.state(), &tx.sender)?,
        };
        Ok(pool.add(tx, state)?)
    }

    /// Announces what can go into a block now that these were taken in.
    fn took(&self, added: &[&Added]) {
        if added.iter().any(|added| added.pending) {
            self.miner.wake();
        }
        self.announce_pending(added.iter().flat_map(|added| &added.promoted));
    }

    /// Announces transactions that can go into the next block, without their blobs: those would be kept until the slowest
    /// receiver has heard of them.
    pub(crate) fn announce_pending<'a>(
        &self,
        promoted: impl IntoIterator<Item = &'a Arc<PoolTransaction>>,
    ) {
        for tx in promoted {
            self.events.tell(Event::Pending(tx.without_blobs()));
        }
    }

    /// Waits until a transaction that can go into the next block is no longer in the pool, or `patience` is over. Holds
    /// no thread meanwhile: any number may wait for a block that another request is to make.
    pub async fn wait_for(&self, hash: &B256, patience: Duration) {
        let mut changes = self.changes.subscribe();
        let gone = async {
            while self.pool.lock().is_pending(hash) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // The waiting caller looks for the transaction itself.
        let _ = time::timeout(patience, gone).await;
    }

    /// The nonce that the next transaction of an account has, those that wait counted.
    ///
    /// # Errors
    ///
    /// If the state cannot be read.
    pub fn next_nonce(&self, address: &Address) -> Result<u64, NodeError> {
        // First where it waits: what is no longer there is in the state already.
        let of_pool = self.pool.lock().next_nonce(address).unwrap_or(0);
        let of_state = self.view().state().account(address)?.unwrap_or_default().nonce;
        Ok(of_pool.max(of_state))
    }

    /// Notes the nonces that a block on top of the head has changed. Returns what can go into the next block and could not
    /// before.
    pub(super) fn follow_block(&self, writes: &WriteSet) -> Vec<Arc<PoolTransaction>> {
        let mut pool = self.pool.lock();
        let mut promoted = Vec::new();
        for (address, nonce) in changed_nonces(writes) {
            promoted.extend(pool.set_nonce(&address, nonce));
        }
        drop(pool);
        self.miner.wake();
        promoted
    }

    /// Reads the nonces of all senders that wait again. Returns what can go into the next block and could not before.
    pub(super) fn refresh_pool(&self) -> Result<Vec<Arc<PoolTransaction>>, NodeError> {
        let state = self.view().state();
        let mut pool = self.pool.lock();
        let mut promoted = Vec::new();
        for sender in pool.senders() {
            let nonce = state.account(&sender)?.unwrap_or_default().nonce;
            promoted.extend(pool.set_nonce(&sender, nonce));
        }
        drop(pool);
        self.miner.wake();
        Ok(promoted)
    }
}

fn sender_state(state: &dyn StateReader, sender: &Address) -> Result<SenderState, NodeError> {
    let account = state.account(sender)?.unwrap_or_default();
    let has_code = account.has_code()
        && state
            .code(&account.code_hash)?
            .is_some_and(|code| !code.is_empty() && !code.starts_with(&[0xef, 0x01, 0x00]));
    Ok(SenderState { nonce: account.nonce, balance: account.balance, has_code })
}
