//! Methods about blocks and their receipts.

use crate::{
    PendingBlock,
    rpc::{
        Methods, Rpc,
        args::Args,
        convert::{self, quantity},
        error::RpcResult,
    },
};
use alloy_consensus::{BlockBody, TxEnvelope};
use alloy_eips::BlockId;
use alloy_primitives::U64;
use alloy_rpc_types_eth::{Block, Header};
use jsonrpsee::core::RegisterMethodError;
use serde_json::Value;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_by(["eth_getBlockByNumber", "eth_getBlockByHash"], block)?;
    methods.add_by(["eth_getHeaderByNumber", "eth_getHeaderByHash"], header)?;
    methods.add_by(
        ["eth_getBlockTransactionCountByNumber", "eth_getBlockTransactionCountByHash"],
        |rpc, id, _| count(rpc, id, |body| body.transactions.len()),
    )?;
    methods.add_by(
        ["eth_getUncleCountByBlockNumber", "eth_getUncleCountByBlockHash"],
        |rpc, id, _| count(rpc, id, |body| body.ommers.len()),
    )?;
    methods
        .add_by(["eth_getUncleByBlockNumberAndIndex", "eth_getUncleByBlockHashAndIndex"], uncle)?;
    methods.add("eth_getBlockReceipts", receipts)
}

fn block(rpc: &Rpc, id: BlockId, args: &mut Args) -> RpcResult<Option<Value>> {
    let full: bool = args.next()?;
    let Some(found) = rpc.find(id)? else { return Ok(None) };
    let is_unsealed = rpc.is_unsealed(id, &found);
    let block = convert::block(found, full)?;
    Ok(Some(if is_unsealed { unsealed(block) } else { block }))
}

fn header(rpc: &Rpc, id: BlockId, _: &mut Args) -> RpcResult<Option<Value>> {
    let Some(found) = rpc.find(id)? else { return Ok(None) };
    let header = convert::header(&found.header)?;
    Ok(Some(if rpc.is_unsealed(id, &found) { unsealed(header) } else { header }))
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

fn count(
    rpc: &Rpc,
    id: BlockId,
    of: fn(&BlockBody<TxEnvelope>) -> usize,
) -> RpcResult<Option<Value>> {
    Ok(rpc.find(id)?.map(|found| quantity(of(&found.block.body) as u64)))
}

fn uncle(rpc: &Rpc, id: BlockId, args: &mut Args) -> RpcResult<Option<Value>> {
    let found = rpc.find(id)?;
    let index: U64 = args.next()?;
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
    convert::stored_receipts(rpc, &view, &found).map(Some)
}

fn pending_receipts(rpc: &Rpc, pending: &PendingBlock) -> RpcResult<Vec<Value>> {
    let mut receipts = convert::receipts(rpc, &rpc.pending(pending), pending.receipts.clone())?;
    for receipt in &mut receipts {
        receipt["blockHash"] = Value::Null;
        let logs = receipt.get_mut("logs").and_then(Value::as_array_mut);
        for log in logs.into_iter().flatten() {
            log["blockHash"] = Value::Null;
        }
    }
    Ok(receipts)
}
