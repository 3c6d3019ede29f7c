//! Methods about blocks and their receipts.

use crate::{
    PendingBlock,
    rpc::{
        Methods, Rpc,
        args::Args,
        convert::{self, quantity},
        error::RpcResult,
        lookup::Found,
    },
};
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
    let tag = args.tag()?;
    rpc.find(tag.into())
}

fn by_its_hash(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Found>> {
    let hash: B256 = args.hash()?;
    rpc.find(hash.into())
}

fn by_number(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let tag = args.tag()?;
    let full: bool = args.next()?;
    let Some(found) = rpc.find(tag.into())? else { return Ok(None) };
    let is_unsealed = rpc.is_unsealed(tag.into(), &found);
    let block = convert::block(found, full)?;
    Ok(Some(if is_unsealed { unsealed(block) } else { block }))
}

/// Clears the fields that the pending block does not have yet, the same as geth: hash, nonce and beneficiary.
fn unsealed(mut block: Value) -> Value {
    for field in ["hash", "nonce", "miner"] {
        block[field] = Value::Null;
    }
    let transactions = block.get_mut("transactions").and_then(Value::as_array_mut);
    for tx in transactions.into_iter().flatten().filter(|tx| tx.is_object()) {
        tx["blockHash"] = Value::Null;
    }
    block
}

fn by_hash(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let found = by_its_hash(rpc, args)?;
    let full: bool = args.next()?;
    found.map(|found| convert::block(found, full)).transpose()
}

fn header_by_number(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let tag = args.tag()?;
    let Some(found) = rpc.find(tag.into())? else { return Ok(None) };
    let header = convert::header(&found.header)?;
    Ok(Some(if rpc.is_unsealed(tag.into(), &found) { unsealed(header) } else { header }))
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
    let id = args.block()?;
    let view = rpc.node.view();
    if id.is_pending()
        && let Some(pending) = rpc.pending_block(&view)?
    {
        return pending_receipts(rpc, &pending).map(Some);
    }
    let Some(found) = rpc.made(&view, id)? else { return Ok(None) };
    let receipts = rpc.receipts(&view, &found)?;
    let blob_fee = rpc.node.spec().blob_fee(&found.header);
    convert::receipts(&found, receipts, blob_fee).map(Some)
}

fn pending_receipts(rpc: &Rpc, pending: &PendingBlock) -> RpcResult<Vec<Value>> {
    let blob_fee = rpc.node.spec().blob_fee(&pending.header);
    let mut receipts =
        convert::receipts(&rpc.pending(pending), pending.receipts.clone(), blob_fee)?;
    for receipt in &mut receipts {
        receipt["blockHash"] = Value::Null;
        let logs = receipt.get_mut("logs").and_then(Value::as_array_mut);
        for log in logs.into_iter().flatten() {
            log["blockHash"] = Value::Null;
        }
    }
    Ok(receipts)
}
