//! Resolution of the blocks and states that requests name.

use super::{
    Rpc,
    error::{RpcError, RpcResult},
};
use crate::{PendingBlock, View};
use alloy_consensus::{Block, Header, ReceiptEnvelope, Sealed, TxEnvelope};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use polytrie_chain::ChainDb;
use polytrie_chain::executor::{
    BlockHashes,
    sandbox::{CallRequest, Sandbox},
};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_kv::Snapshot;
use polytrie_state::{BlockRef, StateReader};
use std::sync::Arc;

/// A block that a request named.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) header: Sealed<Header>,
    pub(super) block: Block<TxEnvelope>,
    pub(super) rlp_length: usize,
    /// Total difficulty up to and including this block.
    pub(super) total_difficulty: U256,
}

/// A state, and the header of the block that gives calls on it their environment.
#[derive(Debug)]
pub(super) struct At {
    pub(super) header: Sealed<Header>,
    pub(super) state: Arc<dyn StateReader>,
    /// Whether the block is past the merge.
    pub(super) merged: bool,
    /// The block, if it is the pending one.
    pub(super) pending: Option<Arc<PendingBlock>>,
    /// The chain that has the block or, for the pending block, its parent.
    db: ChainDb<Snapshot>,
}

impl At {
    /// Returns a sandbox on the state. Execution in it ends at the deadline of the request.
    pub(super) fn sandbox(&self, rpc: &Rpc) -> Sandbox {
        Sandbox::new(Arc::clone(&self.state), self.hashes()).until(rpc.deadline())
    }

    /// Returns the hashes of earlier blocks, for BLOCKHASH.
    pub(super) fn hashes(&self) -> Arc<dyn BlockHashes + Send + Sync> {
        Arc::new(self.db.clone())
    }
}

impl Rpc {
    /// Returns the number of a block; `None` if there is no such block. As in geth, it is an error to ask for the safe or
    /// finalized block before a consensus layer has named one.
    fn number(&self, view: &View, id: BlockId) -> RpcResult<Option<u64>> {
        let head = view.head.number();
        let named = |mark: Option<u64>, tag: &str| match mark {
            Some(number) => Ok(Some(number.min(head))),
            None => Err(RpcError::not_found(format!("{tag} block not found"))),
        };
        Ok(match id {
            BlockId::Number(tag) => match tag {
                BlockNumberOrTag::Earliest => Some(self.node.spec().genesis_header().number),
                BlockNumberOrTag::Number(number) => Some(number).filter(|number| *number <= head),
                BlockNumberOrTag::Latest | BlockNumberOrTag::Pending => Some(head),
                BlockNumberOrTag::Safe => named(self.node.marks().safe, "safe")?,
                BlockNumberOrTag::Finalized => named(self.node.marks().finalized, "finalized")?,
            },
            BlockId::Hash(hash) => {
                view.db().number_of(&hash.block_hash)?.filter(|number| *number <= head)
            }
        })
    }

    /// Returns the number of a block; an error if there is no such block.
    pub(super) fn known(&self, view: &View, id: BlockId) -> RpcResult<u64> {
        self.number(view, id)?.ok_or_else(|| {
            RpcError::not_found(match id {
                BlockId::Hash(hash) => format!("block {} not found", hash.block_hash),
                BlockId::Number(number) => {
                    let head = view.head.number();
                    format!("block {number} not found: the head is block {head}")
                }
            })
        })
    }

    /// Returns the number of the first block: the genesis block, or the block whose state the chain was started from.
    /// The blocks after it were executed here.
    pub(super) fn beginning(&self, view: &View) -> RpcResult<u64> {
        let genesis = self.node.spec().genesis_header().number;
        Ok(view.db().start()?.unwrap_or(genesis))
    }

    /// Returns the receipts of a block; an error for a block with transactions that was not executed here.
    pub(super) fn receipts(&self, view: &View, found: &Found) -> RpcResult<Vec<ReceiptEnvelope>> {
        let number = found.header.number;
        match view.db().receipts(number)? {
            Some(receipts) => Ok(receipts),
            None if found.block.body.transactions.is_empty() => Ok(Vec::new()),
            None => Err(view.db().missing(number).into()),
        }
    }

    /// Returns the first block up to `number` that can be shown: the genesis block, or the one after the state from
    /// which the chain was started.
    pub(super) fn first_block(&self, view: &View, number: u64) -> RpcResult<u64> {
        let start = view.db().start()?.filter(|start| *start <= number);
        let genesis = self.node.spec().genesis_header().number;
        // The block of the starting state may have no body, but it has a header.
        Ok(start.map_or(genesis, |start| number.min(start + 1)))
    }

    /// Returns number and hash of a block; an error if there is no such block. The caller reads with the hash, so that
    /// a revert is noticed.
    pub(super) fn block_ref(&self, view: &View, id: BlockId) -> RpcResult<BlockRef> {
        let number = self.known(view, id)?;
        let row = view.db().canonical(number)?;
        let (hash, _) = row.ok_or_else(|| view.db().missing(number))?;
        Ok(BlockRef { number, hash })
    }

    /// Returns a block by its number, or `None` if its body is not stored.
    pub(super) fn block(&self, view: &View, number: u64) -> RpcResult<Option<Found>> {
        let db = view.db();
        let (Some(found), Some(row)) = (db.block_and_size(number)?, db.canonical(number)?) else {
            return Ok(None);
        };
        let ((block, rlp_length), (hash, total_difficulty)) = (found, row);
        let header = Sealed::new_unchecked(block.header.clone(), hash);
        Ok(Some(Found { header, block, rlp_length, total_difficulty }))
    }

    /// Returns the block of an ID; for `pending` the pending block, if there is one.
    pub(super) fn find(&self, id: BlockId) -> RpcResult<Option<Found>> {
        let view = self.node.view();
        if id.is_pending()
            && let Some(pending) = self.pending_block(&view)?
        {
            return Ok(Some(self.pending(&pending)));
        }
        self.made(&view, id)
    }

    /// Whether a block that [`Self::find`] has returned for this ID is not in the chain yet. For `pending` it may be the
    /// head.
    pub(super) fn is_unsealed(&self, id: BlockId, found: &Found) -> bool {
        id.is_pending() && !self.node.view().has(&found.header)
    }

    /// Returns the block of an ID in the chain; `pending` means the head.
    pub(super) fn made(&self, view: &View, id: BlockId) -> RpcResult<Option<Found>> {
        let Some(number) = self.number(view, id)? else { return Ok(None) };
        match self.block(view, number)? {
            // The block exists, but lies before the state from which the chain was started.
            None => Err(view.db().missing(number).into()),
            found => Ok(found),
        }
    }

    /// Refuses the pending block where an answer is about what is stored or proven: as in geth, it is not in the chain.
    /// Without a pending block `pending` is the head.
    pub(super) fn expect_stored(&self, view: &View, id: BlockId) -> RpcResult<()> {
        match id.is_pending() && self.pending_block(view)?.is_some() {
            false => Ok(()),
            true => Err(RpcError::not_found(
                "the pending block is not in the chain: nothing of it is stored or proven; ask for the block \"latest\"",
            )),
        }
    }

    /// Returns the block of an ID in the chain, which [`Self::expect_stored`] does not refuse.
    pub(super) fn stored(&self, view: &View, id: BlockId) -> RpcResult<Option<Found>> {
        self.expect_stored(view, id)?;
        self.made(view, id)
    }

    /// Returns the pending block. There is none, and the head takes its place, in these cases: a signer of Clique makes
    /// the next block; a consensus layer has just sent one; or the node is read only, where today's fork may need
    /// contracts that the state of the head lacks.
    pub(super) fn pending_block(&self, view: &View) -> RpcResult<Option<Arc<PendingBlock>>> {
        if self.node.is_read_only() {
            return Ok(None);
        }
        let rules = view.next_rules(self.node.spec(), view.head.header.timestamp);
        match rules.clique() {
            None => Ok(self.node.pending()?),
            Some(_) => Ok(None),
        }
    }

    /// Returns the pending block if the ID names it and it is on the head of `view`, which may have changed since.
    pub(super) fn pending_on(
        &self,
        view: &View,
        id: BlockId,
    ) -> RpcResult<Option<Arc<PendingBlock>>> {
        let pending = if id.is_pending() { self.pending_block(view)? } else { None };
        Ok(pending.filter(|pending| pending.header.parent_hash == view.hash()))
    }

    /// Returns the block of an ID, as [`Self::find`] does, to execute it again on a state of `view`.
    pub(super) fn find_on(&self, view: &View, id: BlockId) -> RpcResult<Option<Found>> {
        match self.pending_on(view, id)? {
            Some(pending) => Ok(Some(self.pending(&pending))),
            None => self.made(view, id),
        }
    }

    /// Returns the pending block in the form of other found blocks.
    pub(super) fn pending(&self, pending: &PendingBlock) -> Found {
        let (header, block) = (pending.header.clone(), pending.block.clone());
        let total_difficulty = self.node.view().head.total_difficulty + header.difficulty;
        Found { header, block, rlp_length: pending.rlp_length, total_difficulty }
    }

    /// Returns the state after a block (by default the head) and its environment. `pending` means the pending block, if
    /// there is one.
    pub(super) fn at(&self, view: &View, id: Option<BlockId>) -> RpcResult<At> {
        if id.is_some_and(|id| id.is_pending())
            && let Some(pending) = self.pending_block(view)?
        {
            // The pending block may stand on a later head than that of the given view, which then lacks its parent.
            let view = self.node.view();
            let merged = self.node.spec().is_merged_after(view.head.total_difficulty);
            let (header, state) = (pending.header.clone(), Arc::clone(&pending.state));
            let db = view.db().clone();
            return Ok(At { header, state, merged, pending: Some(pending), db });
        }
        let number = self.known(view, id.unwrap_or_default())?;
        self.at_number(view, number)
    }

    /// Returns the state after a block of the chain and its environment.
    pub(super) fn at_number(&self, view: &View, number: u64) -> RpcResult<At> {
        let (state, db) = (self.state_of(view, number)?, view.db().clone());
        let head = match number == view.head.number() {
            true => view.head.clone(),
            false => db.block_head(number)?,
        };
        let merged = self.is_merged(&head.header, head.total_difficulty);
        Ok(At { header: head.header, state, merged, pending: None, db })
    }

    fn state_of(&self, view: &View, number: u64) -> RpcResult<Arc<dyn StateReader>> {
        view.state_at(number)?.ok_or_else(|| {
            let head = view.head.number();
            RpcError::server(format!(
                "missing state of block {number}: it is not kept any more (the head is block {head}; start the node with a larger --history, or ask for a later block)"
            ))
        })
    }

    /// Whether a block is past the merge.
    pub(super) fn is_merged(&self, header: &Header, total_difficulty: U256) -> bool {
        let parent = total_difficulty.saturating_sub(header.difficulty);
        self.node.spec().is_merged_after(parent)
    }

    /// Returns the rules of a block that a request named.
    pub(super) fn rules_of<'a>(&'a self, found: &Found) -> Rules<'a> {
        self.rules(&found.header, self.is_merged(&found.header, found.total_difficulty))
    }

    /// Returns the rules of a block.
    pub(super) fn rules<'a>(&'a self, header: &Header, merged: bool) -> Rules<'a> {
        self.node.spec().rules(header.number, header.timestamp, merged)
    }

    /// Returns the rules of a block whose number or time may be overridden.
    pub(super) fn rules_under<'a>(
        &'a self,
        header: &Header,
        merged: bool,
        overrides: Option<&BlockOverrides>,
    ) -> Rules<'a> {
        let number = overrides.and_then(|wanted| wanted.number);
        let number = number.map_or(header.number, |number| number.saturating_to());
        let time = overrides.and_then(|wanted| wanted.time).unwrap_or(header.timestamp);
        let spec = self.node.spec();
        // An override of PREVRANDAO implies the merge, which cannot come before London.
        let claims = merged || overrides.is_some_and(|wanted| wanted.random.is_some());
        let is_as_found = merged && number == header.number;
        spec.rules(number, time, is_as_found || (claims && is_london(spec, number)))
    }

    /// Returns a call in a block, to which the gas limit of the node applies.
    pub(super) fn call_in<'a>(
        &'a self,
        header: &'a Header,
        merged: bool,
        request: TransactionRequest,
        block: Option<&'a BlockOverrides>,
    ) -> CallRequest<'a> {
        CallRequest {
            header,
            rules: self.rules_under(header, merged, block),
            request,
            block,
            gas_cap: self.limits.gas_cap,
        }
    }

    /// Returns the block of a transaction, and the transaction's index in it.
    pub(super) fn transaction(
        &self,
        view: &View,
        hash: &B256,
    ) -> RpcResult<Option<(Found, usize)>> {
        let Some((number, index)) = self.node.transaction_place(view, hash)? else {
            return Ok(None);
        };
        let Some(found) = self.block(view, number)? else { return Ok(None) };
        let index = index as usize;
        let is_there =
            found.block.body.transactions.get(index).is_some_and(|tx| tx.tx_hash() == hash);
        Ok(is_there.then_some((found, index)))
    }
}

/// Whether London is active in a block of this number.
pub(super) fn is_london(spec: &ChainSpec, number: u64) -> bool {
    spec.rules(number, 0, false).is(EthereumHardfork::London)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{MineOptions, rpc::tests::shared};

    /// A block may be made after a request has taken its view, and then the pending block stands on that one.
    #[test]
    fn the_pending_block_knows_the_hash_of_its_parent() {
        let rpc = Rpc::new(shared());
        let view = rpc.node.view();
        let parent = rpc.node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        let at = rpc.at(&view, Some(BlockId::pending())).unwrap();
        assert_eq!(at.header.parent_hash, parent.hash());
        assert_eq!(at.hashes().block_hash(parent.number).unwrap(), Some(parent.hash()));
    }
}
