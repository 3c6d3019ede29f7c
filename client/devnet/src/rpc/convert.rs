//! Conversion of stored data into the JSON of answers.

use super::{
    Rpc,
    error::{RpcError, RpcResult},
    lookup::Found,
};
use crate::{PoolTransaction, View, sender_of};
use alloy_consensus::{
    Block as ConsensusBlock, Header as ConsensusHeader, ReceiptEnvelope, Sealed, Transaction as _,
    TxEnvelope,
    transaction::{Recovered, TransactionInfo},
};
use alloy_primitives::{Address, B256, U256};
use alloy_rpc_types_eth::{Block, BlockTransactions, Header, Log, Transaction, TransactionReceipt};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use std::fmt::LowerHex;

/// Returns a block, with its transactions or only their hashes.
pub(super) fn block(found: Found, full: bool) -> RpcResult<Value> {
    let Found { header, block, rlp_length, .. } = found;
    let senders = full.then(|| senders(&block)).transpose()?;
    block_with(header, block, rlp_length, senders.as_deref())
}

/// Returns a block with the transactions of these senders; without `senders`, with the hashes only.
pub(super) fn block_with(
    header: Sealed<ConsensusHeader>,
    block: ConsensusBlock<TxEnvelope>,
    rlp_length: usize,
    senders: Option<&[Address]>,
) -> RpcResult<Value> {
    let uncles = block.body.ommers.iter().map(ConsensusHeader::hash_slow).collect();
    let withdrawals = block.body.withdrawals;
    let txs = block.body.transactions;
    let transactions: BlockTransactions<Value> = match senders {
        None => BlockTransactions::Hashes(txs.iter().map(|tx| *tx.tx_hash()).collect()),
        Some(senders) => {
            let full = txs.into_iter().zip(senders).enumerate();
            let full = full.map(|(index, (tx, sender))| transaction(tx, *sender, &header, index));
            BlockTransactions::Full(full.collect::<RpcResult<_>>()?)
        }
    };
    let header = Header::from_consensus(header, None, Some(U256::from(rlp_length)));
    json_of(&Block { header, uncles, transactions, withdrawals })
}

fn senders(block: &ConsensusBlock<TxEnvelope>) -> RpcResult<Vec<Address>> {
    block.body.transactions.iter().map(sender).collect()
}

/// Returns the sender of a transaction of the chain.
pub(super) fn sender(tx: &TxEnvelope) -> RpcResult<Address> {
    sender_of(tx).map_err(|error| RpcError::internal(&error))
}

/// Returns a header without a body.
pub(super) fn header(header: &Sealed<ConsensusHeader>) -> RpcResult<Value> {
    json_of(&Header::from_consensus(header.clone(), None, None))
}

/// Returns a transaction of a block.
pub(super) fn transaction(
    tx: TxEnvelope,
    sender: Address,
    header: &Sealed<ConsensusHeader>,
    index: usize,
) -> RpcResult<Value> {
    let info = TransactionInfo {
        hash: Some(*tx.tx_hash()),
        index: Some(index as u64),
        block_hash: Some(header.hash()),
        block_number: Some(header.number),
        base_fee: header.base_fee_per_gas,
        block_timestamp: Some(header.timestamp),
    };
    let price = tx.effective_gas_price(header.base_fee_per_gas);
    let mut shown = Transaction::from_transaction(Recovered::new_unchecked(tx, sender), info);
    // The library adds the tip to the base fee, and in a simulated block the sum may exceed the transaction's fee.
    shown.effective_gas_price = Some(price);
    json_of(&shown)
}

/// Returns a transaction of the pool.
pub(super) fn pending(tx: &PoolTransaction) -> RpcResult<Value> {
    let info = TransactionInfo { hash: Some(tx.hash()), ..Default::default() };
    let tx = Recovered::new_unchecked(tx.tx.clone(), tx.sender);
    let mut value = json_of(&Transaction::from_transaction(tx, info))?;
    value["blockTimestamp"] = Value::Null;
    Ok(value)
}

/// Returns the receipts of a block of the chain.
pub(super) fn stored_receipts(rpc: &Rpc, view: &View, found: &Found) -> RpcResult<Vec<Value>> {
    receipts(rpc, found, rpc.receipts(view, found)?)
}

/// Returns the receipts of a block.
pub(super) fn receipts(
    rpc: &Rpc,
    found: &Found,
    receipts: Vec<ReceiptEnvelope>,
) -> RpcResult<Vec<Value>> {
    let mut before = Before::default();
    let mut all = Vec::with_capacity(receipts.len());
    for (index, stored) in receipts.into_iter().enumerate() {
        let after = before.and(&stored);
        all.extend(one_receipt(rpc, found, index, stored, before)?);
        before = after;
    }
    Ok(all)
}

/// Returns the receipt with this index in a block; `None` if the block has fewer transactions.
pub(super) fn receipt(
    rpc: &Rpc,
    found: &Found,
    index: usize,
    mut receipts: Vec<ReceiptEnvelope>,
) -> RpcResult<Option<Value>> {
    if index >= receipts.len() {
        return Ok(None);
    }
    let before = receipts[..index].iter().fold(Before::default(), Before::and);
    one_receipt(rpc, found, index, receipts.swap_remove(index), before)
}

/// Gas and number of logs of the transactions before one in its block.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    gas: u64,
    logs: u64,
}

impl Before {
    fn and(self, receipt: &ReceiptEnvelope) -> Self {
        let logs = self.logs + receipt.logs().len() as u64;
        Self { gas: receipt.cumulative_gas_used(), logs }
    }
}

fn one_receipt(
    rpc: &Rpc,
    found: &Found,
    index: usize,
    receipt: ReceiptEnvelope,
    before: Before,
) -> RpcResult<Option<Value>> {
    let Found { header, block, .. } = found;
    let Some(tx) = block.body.transactions.get(index) else { return Ok(None) };
    let blob_fee = if tx.is_eip4844() { rpc.node.spec().blob_fee(header) } else { None };
    let from = sender(tx)?;
    let gas_used = receipt.cumulative_gas_used() - before.gas;
    let mut next = before.logs;
    let inner = receipt.map_logs(|inner| {
        let log = log(header, (tx.tx_hash(), index), next, inner);
        next += 1;
        log
    });
    let is_create = tx.is_create();
    json_of(&TransactionReceipt {
        inner,
        transaction_hash: *tx.tx_hash(),
        transaction_index: Some(index as u64),
        block_hash: Some(header.hash()),
        block_number: Some(header.number),
        gas_used,
        effective_gas_price: tx.effective_gas_price(header.base_fee_per_gas),
        blob_gas_used: tx.blob_gas_used(),
        blob_gas_price: blob_fee,
        from,
        to: tx.to(),
        contract_address: is_create.then(|| from.create(tx.nonce())),
    })
    .map(Some)
}

/// Returns the logs of a block, in order.
pub(super) fn logs(
    header: &Sealed<ConsensusHeader>,
    block: &ConsensusBlock<TxEnvelope>,
    receipts: Vec<ReceiptEnvelope>,
) -> Vec<Log> {
    let mut logs = Vec::new();
    for (index, (tx, receipt)) in block.body.transactions.iter().zip(receipts).enumerate() {
        for inner in receipt.logs() {
            logs.push(log(header, (tx.tx_hash(), index), logs.len() as u64, inner.clone()));
        }
    }
    logs
}

/// Returns a log of a block, with the hash and the index of its transaction, and its own index in the block.
pub(super) fn log(
    header: &Sealed<ConsensusHeader>,
    (tx, tx_index): (&B256, usize),
    index: u64,
    inner: alloy_primitives::Log,
) -> Log {
    Log {
        inner,
        block_hash: Some(header.hash()),
        block_number: Some(header.number),
        block_timestamp: Some(header.timestamp),
        transaction_hash: Some(*tx),
        transaction_index: Some(tx_index as u64),
        log_index: Some(index),
        removed: false,
    }
}

/// Returns a number as hex text with 0x and without leading zeros.
pub(super) fn quantity(number: impl LowerHex) -> Value {
    Value::String(format!("{number:#x}"))
}

/// Serializes any other value.
pub(super) fn json_of(value: &impl serde::Serialize) -> RpcResult<Value> {
    serde_json::to_value(value).map_err(|error| RpcError::internal(&error))
}

/// Serializes a value as the text of an answer.
pub(super) fn text_of(value: &impl serde::Serialize) -> RpcResult<Box<RawValue>> {
    to_raw_value(value).map_err(|error| RpcError::internal(&error))
}

/// Returns the gas that each transaction of a block used.
pub(super) fn gas_used(receipts: &[ReceiptEnvelope]) -> Vec<u64> {
    let mut before = 0;
    let used = |receipt: &ReceiptEnvelope| {
        let sum = receipt.cumulative_gas_used();
        sum - std::mem::replace(&mut before, sum)
    };
    receipts.iter().map(used).collect()
}
