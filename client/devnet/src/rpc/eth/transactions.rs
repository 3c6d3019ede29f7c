//! Methods about transactions in blocks and in the pool.

use crate::rpc::{
    Methods, Rpc, args::Args, convert, error::RpcResult, lookup::Found, txpool::Texts,
};
use alloy_eips::{BlockId, Encodable2718};
use alloy_primitives::{B256, Bytes, U64};
use jsonrpsee::core::RegisterMethodError;
use serde_json::{Value, value::RawValue};

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("eth_getTransactionByHash", by_hash)?;
    methods.add("eth_getTransactionReceipt", |rpc, args| {
        let hash = args.hash()?;
        receipt(rpc, &hash)
    })?;
    methods.add("eth_getRawTransactionByHash", raw_by_hash)?;
    methods.add_by(
        ["eth_getTransactionByBlockNumberAndIndex", "eth_getTransactionByBlockHashAndIndex"],
        in_block,
    )?;
    methods.add_by(
        ["eth_getRawTransactionByBlockNumberAndIndex", "eth_getRawTransactionByBlockHashAndIndex"],
        raw_in_block,
    )?;
    methods.add_heavy("eth_pendingTransactions", pending)
}

fn by_hash(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let hash = args.hash()?;
    with_hash(rpc, &hash)
}

/// Returns a transaction of a block, else of the pool.
pub(in crate::rpc) fn with_hash(rpc: &Rpc, hash: &B256) -> RpcResult<Option<Value>> {
    // The pool is read first: a transaction moves from there into a block, never back.
    let waiting = rpc.node.pool().get(hash).cloned();
    if let Some((found, index)) = rpc.transaction(&rpc.node.view(), hash)? {
        return one(found, index).map(Some);
    }
    waiting.map(|tx| convert::pending(&tx)).transpose()
}

fn one(found: Found, index: usize) -> RpcResult<Value> {
    let Found { header, mut block, .. } = found;
    let tx = block.body.transactions.swap_remove(index);
    let sender = convert::sender(&tx)?;
    convert::transaction(tx, sender, &header, index)
}

fn in_block(rpc: &Rpc, id: BlockId, args: &mut Args) -> RpcResult<Option<Value>> {
    let index: U64 = args.next()?;
    let Some(found) = rpc.find(id)? else { return Ok(None) };
    let index = index.saturating_to::<usize>();
    if index >= found.block.body.transactions.len() {
        return Ok(None);
    }
    let is_unsealed = rpc.is_unsealed(id, &found);
    let mut tx = one(found, index)?;
    if is_unsealed {
        tx["blockHash"] = Value::Null;
    }
    Ok(Some(tx))
}

fn raw_in_block(rpc: &Rpc, id: BlockId, args: &mut Args) -> RpcResult<Option<Bytes>> {
    let index: U64 = args.next()?;
    let Some(found) = rpc.find(id)? else { return Ok(None) };
    let tx = found.block.body.transactions.get(index.saturating_to::<usize>());
    Ok(tx.map(|tx| tx.encoded_2718().into()))
}

/// Returns the receipt of a transaction of the chain.
pub(super) fn receipt(rpc: &Rpc, hash: &B256) -> RpcResult<Option<Value>> {
    let view = rpc.node.view();
    let Some((found, index)) = rpc.transaction(&view, hash)? else { return Ok(None) };
    convert::receipt(rpc, &found, index, rpc.receipts(&view, &found)?)
}

fn raw_by_hash(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Bytes>> {
    let hash = args.hash()?;
    raw(rpc, &hash)
}

/// Returns the binary form of a transaction of a block or of the pool, without blobs.
pub(in crate::rpc) fn raw(rpc: &Rpc, hash: &B256) -> RpcResult<Option<Bytes>> {
    let waiting = rpc.node.pool().get(hash).cloned();
    if let Some((found, index)) = rpc.transaction(&rpc.node.view(), hash)? {
        return Ok(Some(found.block.body.transactions[index].encoded_2718().into()));
    }
    Ok(waiting.map(|tx| tx.tx.encoded_2718().into()))
}

fn pending(rpc: &Rpc, _: &mut Args) -> RpcResult<Vec<Box<RawValue>>> {
    let content = rpc.node.pool().content(None);
    let mut texts = Texts::new(rpc);
    content.pending.values().flatten().map(|tx| texts.text(&convert::pending(tx)?)).collect()
}
