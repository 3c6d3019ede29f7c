//! The block that would be made now, and the state after it.

use super::{Node, NodeError, producer::Picked};
use alloy_consensus::{Block, Header, ReceiptEnvelope, Sealed, TxEnvelope};
use polytrie_chain::{NextBlock, Overlay};
use polytrie_state::StateReader;
use std::sync::Arc;

/// A block that is not part of the chain: what waits in the pool on top of the head.
#[derive(Debug)]
pub struct PendingBlock {
    /// Its header, as if it were made now.
    pub header: Sealed<Header>,
    /// The block.
    pub block: Block<TxEnvelope>,
    /// The receipts of its transactions.
    pub receipts: Vec<ReceiptEnvelope>,
    /// Bytes of its RLP.
    pub rlp_length: usize,
    /// The state after it.
    pub state: Arc<dyn StateReader>,
    /// What it was made of.
    next: NextBlock,
    pool: u64,
}

impl Node {
    /// The block that would be made now. It is made once for each head, content of the pool and second. While a consensus layer
    /// has not decided on the block that it sent there is none: making one would forget what came of that.
    ///
    /// # Errors
    ///
    /// If we failed.
    pub fn pending(&self) -> Result<Option<Arc<PendingBlock>>, NodeError> {
        // The chain is left to payloads and choices where the block is there.
        if let Some(known) = self.known_pending() {
            return Ok(Some(known));
        }
        // Requests for a new one wait here, so that a payload has at most one of them ahead of it.
        let _making = self.making.lock();
        if let Some(known) = self.known_pending() {
            return Ok(Some(known));
        }
        let mut chain = self.chain();
        if chain.proposed().is_some() {
            return Ok(None);
        }
        let next = self.next_block(&chain, None);
        let pool = self.pool.lock().changes();
        let built = self.build(&mut chain, next.clone(), &mut Picked::default())?.into_block();
        let base = Arc::clone(&self.view().reader);
        let state = Arc::new(Overlay::of_block(base, built.writes()));
        let rlp_length = built.rlp.len();
        let (header, block, receipts) = (built.header, built.block, built.executed.receipts);
        let pending =
            Arc::new(PendingBlock { header, block, receipts, rlp_length, state, next, pool });
        *self.pending.lock() = Some(Arc::clone(&pending));
        Ok(Some(pending))
    }

    /// The block that would be made now, if it was made already.
    fn known_pending(&self) -> Option<Arc<PendingBlock>> {
        // Before what is known: a new head or a change by hand takes that away first (`publish`).
        let view = self.view();
        let known = self.pending.lock().clone()?;
        let next = self.next_after(&view.head.header, None);
        let is_current = known.header.parent_hash == view.hash()
            && known.next == next
            && known.pool == self.pool.lock().changes();
        is_current.then_some(known)
    }
}
