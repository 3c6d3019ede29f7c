//! `txpool_`: what waits for a block.

use super::{Methods, Rpc, args::Args, convert, error::RpcResult};
use crate::PoolTransaction;
use alloy_consensus::Transaction;
use alloy_primitives::{Address, U64, map::AddressMap};
use jsonrpsee::core::RegisterMethodError;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("txpool_status", status)?;
    methods.add("txpool_content", content)?;
    methods.add("txpool_contentFrom", content_from)?;
    methods.add("txpool_inspect", inspect)
}

fn status(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let (pending, queued) = rpc.node.pool().status();
    Ok(json!({ "pending": U64::from(pending), "queued": U64::from(queued) }))
}

fn content(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let content = rpc.node.pool().content(None);
    let by_sender = |map: &AddressMap<Vec<Arc<PoolTransaction>>>| -> RpcResult<Value> {
        let mut senders = Map::new();
        for (sender, txs) in map {
            senders.insert(sender.to_checksum(None), by_nonce(txs, convert::pending)?);
        }
        Ok(senders.into())
    };
    Ok(json!({ "pending": by_sender(&content.pending)?, "queued": by_sender(&content.queued)? }))
}

fn content_from(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let sender: Address = args.next()?;
    let content = rpc.node.pool().content(Some(&sender));
    let of = |map: &AddressMap<Vec<Arc<PoolTransaction>>>| {
        by_nonce(map.get(&sender).map_or(&[], Vec::as_slice), convert::pending)
    };
    Ok(json!({ "pending": of(&content.pending)?, "queued": of(&content.queued)? }))
}

fn inspect(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let content = rpc.node.pool().content(None);
    let by_sender = |map: &AddressMap<Vec<Arc<PoolTransaction>>>| -> RpcResult<Value> {
        let mut senders = Map::new();
        for (sender, txs) in map {
            senders.insert(sender.to_checksum(None), by_nonce(txs, |tx| Ok(line(tx).into()))?);
        }
        Ok(senders.into())
    };
    Ok(json!({ "pending": by_sender(&content.pending)?, "queued": by_sender(&content.queued)? }))
}

fn line(tx: &PoolTransaction) -> String {
    let (tx, to) = (&tx.tx, tx.tx.to());
    let to = to.map_or_else(|| "contract creation".to_owned(), |to| to.to_string());
    let (value, gas, price) = (tx.value(), tx.gas_limit(), tx.max_fee_per_gas());
    format!("{to}: {value} wei + {gas} gas × {price} wei")
}

fn by_nonce(
    txs: &[Arc<PoolTransaction>],
    show: impl Fn(&PoolTransaction) -> RpcResult<Value>,
) -> RpcResult<Value> {
    let mut nonces = Map::new();
    for tx in txs {
        nonces.insert(tx.nonce().to_string(), show(tx)?);
    }
    Ok(nonces.into())
}
