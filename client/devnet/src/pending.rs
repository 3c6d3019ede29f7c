//! The pending block: the block that the node would make now, and the state after it.

use super::{Node, Result, producer::Picked};
use alloy_consensus::{Block, Header, ReceiptEnvelope, Sealed, TxEnvelope};
use polytrie_chain::{NextBlock, Overlay};
use polytrie_state::{BlockRef, StateReader, TxWrites};
use std::sync::Arc;

/// A block that the pool yields on top of the head. It is not part of the chain.
#[derive(Debug)]
pub struct PendingBlock {
    /// Header of the block.
    pub header: Sealed<Header>,
    /// Transactions and other contents of the block.
    pub block: Block<TxEnvelope>,
    /// Receipts of the transactions.
    pub receipts: Vec<ReceiptEnvelope>,
    /// Size of the block's RLP in bytes.
    pub rlp_length: usize,
    /// State after the block.
    pub state: Arc<dyn StateReader>,
    /// Changes of the state since the parent.
    pub(super) changes: TxWrites,
    /// Parameters of the block; with the count of pool changes they show whether it is still current.
    next: NextBlock,
    pool: u64,
}

impl PendingBlock {
    /// Returns the head on which the block was built.
    pub(super) fn parent(&self) -> BlockRef {
        BlockRef { number: self.header.number - 1, hash: self.header.parent_hash }
    }
}

impl Node {
    /// Returns the pending block. It is built once for each head, content of the pool and second. There is none
    /// while the consensus layer has not decided on a proposed block, because building one would drop the result
    /// of its execution.
    ///
    /// # Errors
    ///
    /// If the node fails.
    pub fn pending(&self) -> Result<Option<Arc<PendingBlock>>> {
        // A known block needs no lock of the chain, which payloads and forkchoice updates need.
        if let Some(known) = self.known_pending() {
            return Ok(Some(known));
        }
        // Requests for a new block queue here, so that a payload waits for at most one of them.
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
        let pending = Arc::new(PendingBlock {
            state,
            changes: TxWrites { accounts: built.writes().changes().collect() },
            rlp_length: built.rlp.len(),
            header: built.header,
            block: built.block,
            receipts: built.executed.receipts,
            next,
            pool,
        });
        *self.pending.lock() = Some(Arc::clone(&pending));
        Ok(Some(pending))
    }

    /// Returns the pending block if it was built and is still current.
    fn known_pending(&self) -> Option<Arc<PendingBlock>> {
        // The view is read before the block, because `publish` drops the block before it changes the view.
        let view = self.view();
        let known = self.pending.lock().clone()?;
        let next = self.next_after(&view.head.header, None);
        let is_current = known.header.parent_hash == view.hash()
            && known.next == next
            && known.pool == self.pool.lock().changes();
        is_current.then_some(known)
    }
}
