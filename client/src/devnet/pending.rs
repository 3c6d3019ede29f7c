//! The block that would be made now, and the state after it.

use super::{Node, NodeError, producer::Picked};
use crate::chain::NextBlock;
use alloy_consensus::{Block, Header, ReceiptEnvelope, Sealed, TxEnvelope};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map, HashMap},
};
use polytrie_state::{Account, StateError, StateReader, WriteSet};
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
    /// The block that would be made now. It is made once for each head, content of the pool and second.
    ///
    /// # Errors
    ///
    /// If we failed.
    pub fn pending(&self) -> Result<Arc<PendingBlock>, NodeError> {
        let mut chain = self.chain();
        let next = self.next_block(&chain, None);
        let pool = self.pool.lock().changes();
        // A new head or a change by hand took it away (`publish`).
        let known = self.pending.lock().clone();
        if let Some(known) = known.filter(|known| known.next == next && known.pool == pool) {
            return Ok(known);
        }
        let built = self.build(&mut chain, next.clone(), &mut Picked::default())?;
        chain.abandon()?;
        let base = Arc::clone(&self.view().reader);
        let state = Arc::new(AfterBlock::new(base, built.writes()));
        let rlp_length = built.rlp.len();
        let (header, block, receipts) = (built.header, built.block, built.executed.receipts);
        let pending =
            Arc::new(PendingBlock { header, block, receipts, rlp_length, state, next, pool });
        *self.pending.lock() = Some(Arc::clone(&pending));
        Ok(pending)
    }
}

/// Reads a state with what a block changed on top.
#[derive(Debug)]
struct AfterBlock {
    base: Arc<dyn StateReader>,
    accounts: AddressMap<Written>,
    codes: B256Map<Bytes>,
}

#[derive(Debug)]
struct Written {
    account: Option<Account>,
    /// Whether the slots it had are gone.
    wiped: bool,
    slots: HashMap<U256, U256>,
}

impl AfterBlock {
    fn new(base: Arc<dyn StateReader>, writes: &WriteSet) -> Self {
        let accounts = writes.accounts().iter().filter_map(|write| {
            let slots = write.slots.iter().filter_map(|slot| Some((slot.slot?, slot.after)));
            let slots = slots.collect();
            Some((write.address?, Written { account: write.after, wiped: write.wipe, slots }))
        });
        Self { base, accounts: accounts.collect(), codes: writes.codes().iter().cloned().collect() }
    }
}

impl StateReader for AfterBlock {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        match self.accounts.get(address) {
            Some(written) => Ok(written.account),
            None => self.base.account(address),
        }
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let Some(written) = self.accounts.get(address) else {
            return self.base.slot(address, slot);
        };
        match written.slots.get(slot) {
            Some(value) => Ok(*value),
            None if written.wiped => Ok(U256::ZERO),
            None => self.base.slot(address, slot),
        }
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        match self.codes.get(code_hash) {
            Some(code) => Ok(Some(code.clone())),
            None => self.base.code(code_hash),
        }
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        let Some(written) = self.accounts.get(address) else {
            return self.base.has_storage(address);
        };
        let has_slots = written.slots.values().any(|value| !value.is_zero());
        Ok(has_slots || (!written.wiped && self.base.has_storage(address)?))
    }
}
