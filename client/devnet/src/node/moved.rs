//! Changes of the head by a consensus layer, and its safe and finalized blocks.

use super::Node;
use crate::{PoolTransaction, Result, View};
use alloy_consensus::TxEnvelope;
use polytrie_chain::Chain;
use polytrie_state::WriteSet;
use std::sync::Arc;

/// Numbers of the safe and finalized blocks of a consensus layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// A block that is unlikely to be reverted.
    pub safe: Option<u64>,
    /// A block that is never reverted.
    pub finalized: Option<u64>,
}

impl Node {
    /// Sets those of the safe and finalized blocks that are named. The others stay.
    pub(crate) fn set_marks(&self, named: Marks) {
        let mut marks = self.marks.lock();
        let former = marks.unwrap_or_default();
        *marks = Some(Marks {
            safe: named.safe.or(former.safe),
            finalized: named.finalized.or(former.finalized),
        });
    }

    /// Returns the blocks that a consensus layer named; no blocks before its first call.
    pub(crate) fn named_marks(&self) -> Marks {
        self.marks.lock().unwrap_or_default()
    }

    /// Returns the safe and finalized blocks. Without a consensus layer both are the last durable block, because only
    /// the user, or a failure before the flush, reverts blocks of such a chain.
    pub fn marks(&self) -> Marks {
        let named = *self.marks.lock();
        named.unwrap_or_else(|| {
            let durable = Some(self.durable());
            Marks { safe: durable, finalized: durable }
        })
    }

    /// Drops the marks above block `number`, after the blocks above it were reverted and before a view shows others in
    /// their place: these are neither named nor durable.
    pub(super) fn cut_marks(&self, number: u64) {
        if let Some(marks) = &mut *self.marks.lock() {
            marks.safe = marks.safe.filter(|safe| *safe <= number);
            marks.finalized = marks.finalized.filter(|finalized| *finalized <= number);
        }
        let mut durable = self.durable.lock();
        *durable = number.min(*durable);
    }

    /// Publishes the new head of the chain in place of that of `former`, and announces reverted and new blocks.
    /// Transactions of reverted blocks return to the pool. `writes` is the write set of the new head if it is a child
    /// of `former`, else `None`.
    pub(crate) fn moved(
        &self,
        chain: &Chain,
        former: &View,
        writes: Option<&WriteSet>,
    ) -> Result<()> {
        let head = chain.head().number();
        let mut fork = head.min(former.head.number());
        while fork > 0 && former.db.canonical(fork)? != chain.db().canonical(fork)? {
            fork -= 1;
        }
        self.cut_marks(fork);
        {
            // The pool stays locked while the view changes: a caller that adds a transaction compares the view under
            // the same lock.
            let _pool = self.pool.lock();
            self.publish(chain, Arc::default())?;
        }
        if !former.cheats.is_empty() {
            let number = former.head.number();
            tracing::warn!(
                "what was changed by hand after block {number} is gone: another block was chosen as the head before one was made of it"
            );
        }
        let view = self.view();
        if fork < former.head.number() {
            self.announce_reverted(view.db.block_head(fork)?.header, former);
        }
        for number in fork + 1..=head {
            self.announce(view.db.block_head(number)?.header);
        }
        // The changes by hand are gone and may have set nonces, so all nonces must be read again.
        let mut promoted = match writes.filter(|_| former.cheats.is_empty()) {
            Some(writes) => self.follow_block(writes),
            None => self.refresh_pool()?,
        };
        for number in fork + 1..=former.head.number() {
            let block = former.db.block(number)?;
            for tx in block.into_iter().flat_map(|block| block.body.transactions) {
                promoted.extend(self.put_back(&view, tx)?);
            }
        }
        self.announce_pending(&promoted);
        self.notify();
        Ok(())
    }

    /// Returns a transaction of a reverted block to the pool, unless another block has it or its blobs are gone.
    fn put_back(&self, view: &View, tx: TxEnvelope) -> Result<Vec<Arc<PoolTransaction>>> {
        if tx.is_eip4844() || self.transaction_place(view, tx.tx_hash())?.is_some() {
            return Ok(Vec::new());
        }
        let Ok(tx) = PoolTransaction::signed(tx) else { return Ok(Vec::new()) };
        // The pool may refuse the transaction like any other.
        Ok(self.accept(tx).map(|added| added.promoted).unwrap_or_default())
    }
}
