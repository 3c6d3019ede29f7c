//! Blocks and states by the names that requests have for them.

use super::{
    Rpc,
    error::{RpcError, RpcResult},
};
use crate::{PendingBlock, View};
use alloy_consensus::{Block, Header, ReceiptEnvelope, Sealed, TxEnvelope};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::BlockOverrides;
use polytrie_chain::ChainDb;
use polytrie_chain::executor::BlockHashes;
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_kv::Snapshot;
use polytrie_state::{BlockRef, StateReader};
use std::sync::Arc;

/// A block of the chain.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) header: Sealed<Header>,
    pub(super) block: Block<TxEnvelope>,
    pub(super) rlp_length: usize,
    /// The total difficulty with this block.
    pub(super) total_difficulty: U256,
}

/// A state, and the block whose environment belongs to it.
#[derive(Debug)]
pub(super) struct At {
    pub(super) header: Sealed<Header>,
    pub(super) state: Arc<dyn StateReader>,
    /// Whether it is past the merge.
    pub(super) merged: bool,
    /// The chain that the block is in, or comes after.
    db: ChainDb<Snapshot>,
}

impl At {
    /// Hashes of earlier blocks, for BLOCKHASH.
    pub(super) fn hashes(&self) -> Arc<dyn BlockHashes + Send + Sync> {
        let db = self.db.clone();
        Arc::new(move |number: u64| db.canonical(number).ok().flatten().map(|(hash, _)| hash))
    }
}

impl Rpc {
    /// The number of a block; `None` if there is no such block.
    fn number(&self, view: &View, id: BlockId) -> RpcResult<Option<u64>> {
        let head = view.head.number();
        Ok(match id {
            BlockId::Number(tag) => match tag {
                BlockNumberOrTag::Earliest => Some(self.node.spec().genesis_header().number),
                BlockNumberOrTag::Number(number) => Some(number).filter(|number| *number <= head),
                BlockNumberOrTag::Latest | BlockNumberOrTag::Pending => Some(head),
                BlockNumberOrTag::Safe => self.node.marks().safe.map(|safe| safe.min(head)),
                BlockNumberOrTag::Finalized => {
                    self.node.marks().finalized.map(|finalized| finalized.min(head))
                }
            },
            BlockId::Hash(hash) => {
                view.db().number_of(&hash.block_hash)?.filter(|number| *number <= head)
            }
        })
    }

    /// The number of a block that the request needs; an error if there is no such block.
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

    /// The block that the chain begins with: its genesis block, or the one whose state it was given. Those after it were executed
    /// here.
    pub(super) fn beginning(&self, view: &View) -> RpcResult<u64> {
        let genesis = self.node.spec().genesis_header().number;
        Ok(view.db().start()?.unwrap_or(genesis))
    }

    /// The receipts of a block. Those of a block that was not executed here are not known.
    pub(super) fn receipts(&self, view: &View, found: &Found) -> RpcResult<Vec<ReceiptEnvelope>> {
        let number = found.header.number;
        match view.db().receipts(number)? {
            Some(receipts) => Ok(receipts),
            None if found.block.body.transactions.is_empty() => Ok(Vec::new()),
            None => Err(view.db().missing(number).into()),
        }
    }

    /// The first block up to `number` that can be told of: the genesis block, or what comes after the state that the chain
    /// begins with.
    pub(super) fn first_block(&self, view: &View, number: u64) -> RpcResult<u64> {
        let start = view.db().start()?.filter(|start| *start <= number);
        let genesis = self.node.spec().genesis_header().number;
        // The body of the block with that state may be missing; its header is there.
        Ok(start.map_or(genesis, |start| number.min(start + 1)))
    }

    /// Number and hash of a block that a request makes no sense without. What is read of it afterwards is read of the block
    /// with this hash, or not at all.
    pub(super) fn block_ref(&self, view: &View, id: BlockId) -> RpcResult<BlockRef> {
        let number = self.known(view, id)?;
        let row = view.db().canonical(number)?;
        let (hash, _) = row.ok_or_else(|| view.db().missing(number))?;
        Ok(BlockRef { number, hash })
    }

    /// A block by its number.
    pub(super) fn block(&self, view: &View, number: u64) -> RpcResult<Option<Found>> {
        let db = view.db();
        let (Some(found), Some(row)) = (db.block_and_size(number)?, db.canonical(number)?) else {
            return Ok(None);
        };
        let ((block, rlp_length), (hash, total_difficulty)) = (found, row);
        let header = Sealed::new_unchecked(block.header.clone(), hash);
        Ok(Some(Found { header, block, rlp_length, total_difficulty }))
    }

    /// The block that an id names; for the pending one, what would be made now.
    pub(super) fn find(&self, id: BlockId) -> RpcResult<Option<Found>> {
        let view = self.node.view();
        if id.is_pending()
            && let Some(pending) = self.pending_block(&view)?
        {
            return Ok(Some(self.pending(&pending)));
        }
        self.made(&view, id)
    }

    /// The block of the chain that an id names: `pending` stands for the head.
    pub(super) fn made(&self, view: &View, id: BlockId) -> RpcResult<Option<Found>> {
        let Some(number) = self.number(view, id)? else { return Ok(None) };
        match self.block(view, number)? {
            // There is one, from before the state that the chain begins with.
            None => Err(view.db().missing(number).into()),
            found => Ok(found),
        }
    }

    /// The block that would be made now. Where a signer of Clique makes the next one, or a consensus layer has just sent it,
    /// there is none, and the head takes its place; so it does where nothing is made, as the fork of today may ask for more than
    /// the state of the head has.
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

    /// The block that would be made now, as others are found.
    pub(super) fn pending(&self, pending: &PendingBlock) -> Found {
        let (header, block) = (pending.header.clone(), pending.block.clone());
        let total_difficulty = self.node.view().head.total_difficulty + header.difficulty;
        Found { header, block, rlp_length: pending.rlp_length, total_difficulty }
    }

    /// The state after a block, the head unless another one is asked for, with the block's environment. The pending
    /// block is the one that would be made now.
    pub(super) fn at(&self, view: &View, id: Option<BlockId>) -> RpcResult<At> {
        if id.is_some_and(|id| id.is_pending())
            && let Some(pending) = self.pending_block(view)?
        {
            let merged = self.node.spec().is_merged_after(view.head.total_difficulty);
            let (header, state) = (pending.header.clone(), Arc::clone(&pending.state));
            return Ok(At { header, state, merged, db: view.db().clone() });
        }
        self.at_made(view, id)
    }

    /// The state at a block that was made: `pending` stands for the head.
    pub(super) fn at_made(&self, view: &View, id: Option<BlockId>) -> RpcResult<At> {
        let number = self.known(view, id.unwrap_or_default())?;
        self.at_number(view, number)
    }

    pub(super) fn at_number(&self, view: &View, number: u64) -> RpcResult<At> {
        let (state, db) = (self.state_of(view, number)?, view.db().clone());
        if number == view.head.number() {
            let merged = self.is_merged(&view.head.header, view.head.total_difficulty);
            return Ok(At { header: view.head.header.clone(), state, merged, db });
        }
        let head = db.block_head(number)?;
        let merged = self.is_merged(&head.header, head.total_difficulty);
        Ok(At { header: head.header, state, merged, db })
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
    fn is_merged(&self, header: &Header, total_difficulty: U256) -> bool {
        let parent = total_difficulty.saturating_sub(header.difficulty);
        self.node.spec().is_merged_after(parent)
    }

    /// The rules of a block.
    pub(super) fn rules<'a>(&'a self, header: &Header, merged: bool) -> Rules<'a> {
        self.node.spec().rules(header.number, header.timestamp, merged)
    }

    /// The rules of a block whose number or time a caller wants otherwise.
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
        // PREVRANDAO came with the merge, and the merge after London.
        let claims = merged || overrides.is_some_and(|wanted| wanted.random.is_some());
        let is_as_found = merged && number == header.number;
        spec.rules(number, time, is_as_found || (claims && is_london(spec, number)))
    }

    /// The block a transaction is in, and its index there.
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

/// Whether London is in force in a block of this number.
pub(super) fn is_london(spec: &ChainSpec, number: u64) -> bool {
    spec.rules(number, 0, false).is(EthereumHardfork::London)
}
