//! A head that a consensus layer has chosen, and the blocks that it calls safe and finalized.

use super::Node;
use crate::{NodeError, PoolTransaction, View};
use alloy_consensus::TxEnvelope;
use parking_lot::Mutex;
use polytrie_chain::Chain;
use polytrie_state::WriteSet;
use std::sync::Arc;

/// Blocks that a consensus layer does not expect to be taken back, by their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Most likely not.
    pub safe: Option<u64>,
    /// Never.
    pub finalized: Option<u64>,
}

/// The marks of a node that a consensus layer drives.
#[derive(Debug, Default)]
pub(super) struct MarksCell(Mutex<Option<Marks>>);

impl MarksCell {
    pub(super) fn new(is_driven: bool) -> Self {
        Self(Mutex::new(is_driven.then(Marks::default)))
    }
}

impl Node {
    /// Notes which blocks of the chain are safe and finalized.
    pub(crate) fn set_marks(&self, marks: Marks) {
        *self.marks.0.lock() = Some(marks);
    }

    /// The blocks that a consensus layer named; none before it has.
    pub(crate) fn named_marks(&self) -> Marks {
        self.marks.0.lock().unwrap_or_default()
    }

    /// The last blocks that are not expected to be taken back: those that a consensus layer named, else the last one that is
    /// durable, as only the user takes a block of this chain back, or a failure before it is durable.
    pub fn marks(&self) -> Marks {
        let named = *self.marks.0.lock();
        named.unwrap_or_else(|| {
            let durable = Some(self.durable());
            Marks { safe: durable, finalized: durable }
        })
    }

    /// Blocks above this one were taken back: none of them is safe or finalized until a consensus layer names it again.
    pub(super) fn cut_marks(&self, number: u64) {
        if let Some(marks) = &mut *self.marks.0.lock() {
            marks.safe = marks.safe.filter(|safe| *safe <= number);
            marks.finalized = marks.finalized.filter(|finalized| *finalized <= number);
        }
    }

    /// Shows the head that the chain has now, in the place of that of `former`, and tells everybody what was taken back and
    /// what came. Transactions that were taken back wait again. `writes` is what one block on top of `former` has changed, if
    /// nothing else came.
    pub(crate) fn moved(
        &self,
        chain: &Chain,
        former: &View,
        writes: Option<&WriteSet>,
    ) -> Result<(), NodeError> {
        {
            // Both at once: who adds a transaction compares the view while holding the pool.
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
        let head = view.head.number();
        let mut fork = head.min(former.head.number());
        while fork > 0 && former.db.canonical(fork)? != view.db.canonical(fork)? {
            fork -= 1;
        }
        self.cut_marks(fork);
        if fork < former.head.number() {
            self.events.tell_reverted(view.db.block_head(fork)?.header, former);
        }
        for number in fork + 1..=head {
            self.announce(view.db.block_head(number)?.header);
        }
        // What was changed by hand is no longer so, and nobody has noted where.
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

    /// Lets a transaction wait that was in a block, unless it is in another one, or needs blobs that are gone.
    fn put_back(
        &self,
        view: &View,
        tx: TxEnvelope,
    ) -> Result<Vec<Arc<PoolTransaction>>, NodeError> {
        if tx.is_eip4844() || self.transaction_place(view, tx.tx_hash())?.is_some() {
            return Ok(Vec::new());
        }
        let Ok(tx) = PoolTransaction::signed(tx) else { return Ok(Vec::new()) };
        // The pool may not want it, as any other.
        Ok(self.accept(tx).map(|added| added.promoted).unwrap_or_default())
    }
}
