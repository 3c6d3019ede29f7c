//! `txpool_`: the transactions of the pool.

use super::{
    Methods, Rpc,
    args::Args,
    convert,
    error::{RpcError, RpcResult},
    replay::OVERSIZED,
};
use crate::PoolTransaction;
use alloy_consensus::Transaction;
use alloy_primitives::{Address, U64, map::AddressMap};
use jsonrpsee::core::RegisterMethodError;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use std::{collections::BTreeMap, sync::Arc};

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("txpool_status", status)?;
    methods.add_heavy("txpool_content", |rpc, _| all(rpc, convert::pending))?;
    methods.add_heavy("txpool_contentFrom", content_from)?;
    methods.add_heavy("txpool_inspect", |rpc, _| all(rpc, |tx| Ok(line(tx).into())))
}

/// A function that formats a transaction.
type Show = fn(&PoolTransaction) -> RpcResult<Value>;

/// Formatted transactions of one sender by nonce.
type Shown = BTreeMap<String, Box<RawValue>>;

/// The two parts of the pool: transactions that can go into the next block, and those after a gap.
#[derive(Debug, Clone, Serialize)]
struct Waiting<T> {
    pending: T,
    queued: T,
}

/// The serializer of large answers piece by piece, because JSON values of a full pool would take several times the
/// memory of their text. It fails once the answer exceeds its maximum size.
#[derive(Debug)]
pub(super) struct Texts {
    /// Bytes that are left for the answer.
    left: usize,
}

impl Texts {
    /// Creates the serializer of one answer.
    pub(super) fn new(rpc: &Rpc) -> Self {
        Self { left: rpc.max_response }
    }

    /// Serializes a part of the answer.
    pub(super) fn text(&mut self, value: &Value) -> RpcResult<Box<RawValue>> {
        let text = convert::text_of(value)?;
        let left = self.left.checked_sub(text.get().len());
        self.left = left.ok_or_else(|| {
            RpcError::new(
                OVERSIZED,
                "more waits than fits into an answer; ask for one sender (txpool_contentFrom), or start the node with a larger --rpc.max-response",
            )
        })?;
        Ok(text)
    }

    fn by_nonce(&mut self, txs: &[Arc<PoolTransaction>], show: Show) -> RpcResult<Shown> {
        txs.iter().map(|tx| Ok((tx.nonce().to_string(), self.text(&show(tx)?)?))).collect()
    }
}

fn status(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let (pending, queued) = rpc.node.pool().status();
    Ok(json!({ "pending": U64::from(pending), "queued": U64::from(queued) }))
}

fn all(rpc: &Rpc, show: Show) -> RpcResult<Waiting<BTreeMap<String, Shown>>> {
    let content = rpc.node.pool().content(None);
    let mut texts = Texts::new(rpc);
    let mut by_sender = |map: &AddressMap<Vec<Arc<PoolTransaction>>>| -> RpcResult<_> {
        let mut senders = BTreeMap::new();
        for (sender, txs) in map {
            senders.insert(sender.to_checksum(None), texts.by_nonce(txs, show)?);
        }
        Ok(senders)
    };
    Ok(Waiting { pending: by_sender(&content.pending)?, queued: by_sender(&content.queued)? })
}

fn content_from(rpc: &Rpc, args: &mut Args) -> RpcResult<Waiting<Shown>> {
    let sender: Address = args.next()?;
    let content = rpc.node.pool().content(Some(&sender));
    let mut texts = Texts::new(rpc);
    let mut of = |map: &AddressMap<Vec<Arc<PoolTransaction>>>| {
        texts.by_nonce(map.get(&sender).map_or(&[], Vec::as_slice), convert::pending)
    };
    Ok(Waiting { pending: of(&content.pending)?, queued: of(&content.queued)? })
}

fn line(tx: &PoolTransaction) -> String {
    let (tx, to) = (&tx.tx, tx.tx.to());
    let to = to.map_or_else(|| "contract creation".to_owned(), |to| to.to_string());
    let (value, gas, price) = (tx.value(), tx.gas_limit(), tx.max_fee_per_gas());
    format!("{to}: {value} wei + {gas} gas × {price} wei")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::rpc::{
        HEAVY,
        tests::{call, methods, shared},
    };
    use std::time::Duration;
    use tokio::time;

    #[tokio::test]
    async fn the_pool_is_shown_in_turn() {
        let shared = shared();
        let methods = methods(&shared);
        let all = [
            ("txpool_content", json!([])),
            ("txpool_inspect", json!([])),
            ("txpool_contentFrom", json!([Address::ZERO])),
            ("eth_pendingTransactions", json!([])),
        ];
        // Other requests hold all permits.
        let turns = Arc::clone(&shared.turns.heavy).acquire_many_owned(HEAVY as u32).await.unwrap();
        for (method, params) in all.clone() {
            let early =
                time::timeout(Duration::from_millis(200), call(&methods, method, params)).await;
            assert!(early.is_err(), "{method}: {early:?}");
        }
        drop(turns);
        for (method, params) in all {
            call(&methods, method, params).await;
        }
    }
}
