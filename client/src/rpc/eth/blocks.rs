//! Blocks and their receipts.

use crate::rpc::{
    Methods, Rpc,
    args::Args,
    convert::{self, quantity},
    error::RpcResult,
    lookup::Found,
};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::B256;
use alloy_rpc_types_eth::{Block, Header};
use jsonrpsee::core::RegisterMethodError;
use serde_json::Value;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("eth_getBlockByNumber", by_number)?;
    methods.add("eth_getBlockByHash", by_hash)?;
    methods.add("eth_getHeaderByNumber", header_by_number)?;
    methods.add("eth_getHeaderByHash", header_by_hash)?;
    methods.add("eth_getBlockTransactionCountByNumber", |rpc, args| {
        Ok(count(by(rpc, args)?, |found| found.block.body.transactions.len()))
    })?;
    methods.add("eth_getBlockTransactionCountByHash", |rpc, args| {
        Ok(count(by_its_hash(rpc, args)?, |found| found.block.body.transactions.len()))
    })?;
    methods.add("eth_getUncleCountByBlockNumber", |rpc, args| {
        Ok(count(by(rpc, args)?, |found| found.block.body.ommers.len()))
    })?;
    methods.add("eth_getUncleCountByBlockHash", |rpc, args| {
        Ok(count(by_its_hash(rpc, args)?, |found| found.block.body.ommers.len()))
    })?;
    methods.add("eth_getUncleByBlockNumberAndIndex", |rpc, args| {
        let found = by(rpc, args)?;
        uncle(found, args)
    })?;
    methods.add("eth_getUncleByBlockHashAndIndex", |rpc, args| {
        let found = by_its_hash(rpc, args)?;
        uncle(found, args)
    })?;
    methods.add("eth_getBlockReceipts", receipts)
}

fn by(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Found>> {
    let tag: BlockNumberOrTag = args.next()?;
    find(rpc, tag.into())
}

fn by_its_hash(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Found>> {
    let hash: B256 = args.hash()?;
    find(rpc, hash.into())
}

fn find(rpc: &Rpc, id: BlockId) -> RpcResult<Option<Found>> {
    match rpc.number(&rpc.node.view(), id)? {
        Some(number) => rpc.block(number),
        None => Ok(None),
    }
}

fn by_number(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let tag: BlockNumberOrTag = args.next()?;
    let full = args.optional()?.unwrap_or(false);
    if tag.is_pending() {
        return pending(rpc, full).map(Some);
    }
    find(rpc, tag.into())?.map(|found| convert::block(found, full)).transpose()
}

/// The block that would be made now. It has no hash, nonce or beneficiary yet.
fn pending(rpc: &Rpc, full: bool) -> RpcResult<Value> {
    let pending = rpc.node.pending()?;
    let (header, block) = (pending.header.clone(), pending.block.clone());
    let found = Found { header, block, rlp_length: pending.rlp_length };
    let mut block = convert::block(found, full)?;
    for field in ["hash", "nonce", "miner", "logsBloom"] {
        block[field] = Value::Null;
    }
    for tx in block["transactions"].as_array_mut().into_iter().flatten().filter(|tx| tx.is_object())
    {
        tx["blockHash"] = Value::Null;
    }
    Ok(block)
}

fn by_hash(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let found = by_its_hash(rpc, args)?;
    let full = args.optional()?.unwrap_or(false);
    found.map(|found| convert::block(found, full)).transpose()
}

fn header_by_number(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    by(rpc, args)?.map(|found| convert::header(&found.header)).transpose()
}

fn header_by_hash(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    by_its_hash(rpc, args)?.map(|found| convert::header(&found.header)).transpose()
}

fn count(found: Option<Found>, of: impl Fn(&Found) -> usize) -> Option<Value> {
    found.map(|found| quantity(of(&found) as u64))
}

fn uncle(found: Option<Found>, args: &mut Args) -> RpcResult<Option<Value>> {
    let index: alloy_primitives::U64 = args.next()?;
    let Some(found) = found else { return Ok(None) };
    let Some(uncle) = found.block.body.ommers.get(index.to::<usize>()) else { return Ok(None) };
    let block: Block<Value, Header> = Block::uncle_from_header(uncle.clone());
    convert::json_of(&block).map(Some)
}

fn receipts(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Vec<Value>>> {
    let id: BlockId = args.next()?;
    let Some(found) = find(rpc, id)? else { return Ok(None) };
    let receipts = rpc.node.db().receipts(found.header.number)?.unwrap_or_default();
    let blobs = rpc.node.spec().blob_params(found.header.timestamp);
    convert::receipts(&found, receipts, blobs).map(Some)
}
