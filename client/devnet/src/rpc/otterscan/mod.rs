//! `ots_`: the methods for the explorer Otterscan, and the one method of Erigon that it needs.

mod search;

use super::{
    Methods, Rpc,
    args::{Args, Number},
    convert::{self, gas_used},
    error::{RpcError, RpcResult},
    lookup::Found,
    replay::{no_transaction, replay_all, replay_one, traced},
};
use crate::View;
use alloy_consensus::Transaction;
use alloy_eips::BlockId;
use alloy_primitives::{Address, Bytes, U256};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::executor::{
    block_rewards,
    sandbox::{Frame, FrameKind},
};
use serde_json::{Value, json};

/// Version of the `ots_` methods.
const API_LEVEL: u64 = 8;

/// Maximum number of transactions of a page.
const MOST_ON_PAGE: usize = 1_000;

/// Number of characters of a transaction's input that are shown: 0x and four bytes.
const SELECTOR: usize = 10;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("ots_getApiLevel", |_, _| Ok(API_LEVEL))?;
    methods.add("erigon_getHeaderByNumber", |rpc, args| {
        let view = rpc.node.view();
        let found = rpc.stored(&view, block_id(args)?)?;
        found.map(|found| convert::header(&found.header)).transpose()
    })?;
    methods.add("ots_hasCode", |rpc, args| {
        let address: Address = args.next()?;
        let at = rpc.at(&rpc.node.view(), Some(block_id(args)?))?;
        Ok(at.state.account(&address)?.is_some_and(|account| account.has_code()))
    })?;
    methods.add("ots_getBlockDetails", block_details)?;
    methods.add("ots_getBlockDetailsByHash", |rpc, args| {
        let hash = args.hash()?;
        details(rpc, hash.into())
    })?;
    methods.add("ots_getBlockTransactions", block_transactions)?;
    methods.add_heavy("ots_getInternalOperations", internal_operations)?;
    methods.add_heavy("ots_traceTransaction", trace)?;
    methods.add_heavy("ots_getTransactionError", transaction_error)?;
    methods.add_search("ots_searchTransactionsBefore", search::before)?;
    methods.add_search("ots_searchTransactionsAfter", search::after)?;
    methods.add_search("ots_getTransactionBySenderAndNonce", |rpc, args| {
        let (sender, nonce): (Address, _) = (args.next()?, args.next::<Number>()?.as_u64()?);
        search::by_sender_and_nonce(rpc, &sender, nonce)
    })?;
    methods.add_search("eth_getTransactionBySenderAndNonce", |rpc, args| {
        let (sender, nonce): (Address, _) = (args.next()?, args.next::<Number>()?.as_u64()?);
        // The pool is read first: a transaction moves from there into a block, never back.
        let waiting = rpc.node.pool().of_sender(&sender, nonce).map(|tx| tx.hash());
        let hash = match waiting {
            Some(hash) => Some(hash),
            None => search::by_sender_and_nonce(rpc, &sender, nonce)?,
        };
        hash.map_or(Ok(None), |hash| super::eth::transaction(rpc, &hash))
    })?;
    methods.add_search("ots_getContractCreator", search::contract_creator)
}

/// Takes the next parameter, a block as a JSON number or in any other form.
fn block_id(args: &mut Args) -> RpcResult<BlockId> {
    let value: Value = args.next()?;
    if let Some(number) = value.as_u64() {
        return Ok(number.into());
    }
    serde_json::from_value(value)
        .map_err(|error| RpcError::params(format!("this names no block: {error}")))
}

fn block_details(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let id = block_id(args)?;
    details(rpc, id)
}

fn details(rpc: &Rpc, id: BlockId) -> RpcResult<Option<Value>> {
    let view = rpc.node.view();
    let Some(found) = rpc.stored(&view, id)? else { return Ok(None) };
    let receipts = rpc.receipts(&view, &found)?;
    let mut fees = U256::ZERO;
    for (tx, gas) in found.block.body.transactions.iter().zip(gas_used(&receipts)) {
        let price = tx.effective_gas_price(found.header.base_fee_per_gas);
        fees += U256::from(price) * U256::from(gas);
    }
    let issuance = issuance(rpc, &found);
    let count = found.block.body.transactions.len();
    let mut block = convert::block(found, false)?;
    if let Some(block) = block.as_object_mut() {
        block.remove("transactions");
        block.insert("logsBloom".into(), Value::Null);
        block.insert("transactionCount".into(), json!(count));
    }
    Ok(Some(json!({ "block": block, "issuance": issuance, "totalFees": fees })))
}

/// Returns the new ether that a block issued.
fn issuance(rpc: &Rpc, found: &Found) -> Value {
    let rewards = block_rewards(rpc.rules_of(found), &found.header, &found.block.body.ommers);
    let mut paid = rewards.into_iter().map(|(_, wei)| wei);
    let for_block = paid.next().unwrap_or_default();
    let for_ommers: U256 = paid.sum();
    json!({
        "blockReward": for_block,
        "uncleReward": for_ommers,
        "issuance": for_block + for_ommers,
    })
}

/// Returns a page of a block's transactions; page 0 has the last ones.
fn block_transactions(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Value>> {
    let id = block_id(args)?;
    let page = args.next::<Number>()?.0.saturating_to::<usize>();
    let size = page_size(args)?;
    let view = rpc.node.view();
    let Some(found) = rpc.stored(&view, id)? else { return Ok(None) };
    let mut receipts = convert::stored_receipts(rpc, &view, &found)?;
    let count = receipts.len();
    let end = count.saturating_sub(page.saturating_mul(size));
    let range = end.saturating_sub(size)..end;
    let mut block = convert::block(found, true)?;
    block["logsBloom"] = Value::Null;
    block["transactionCount"] = json!(count);
    if let Some(transactions) = block["transactions"].as_array_mut() {
        transactions.truncate(range.end);
        transactions.drain(..range.start);
        transactions.iter_mut().for_each(shorten);
    }
    receipts.truncate(range.end);
    receipts.drain(..range.start);
    receipts.iter_mut().for_each(without_logs);
    Ok(Some(json!({ "fullblock": block, "receipts": receipts })))
}

fn page_size(args: &mut Args) -> RpcResult<usize> {
    let size = args.next::<Number>()?.0.saturating_to::<usize>();
    if size > MOST_ON_PAGE {
        return Err(RpcError::params(format!("a page has at most {MOST_ON_PAGE} transactions")));
    }
    Ok(size)
}

/// Shortens the input of a transaction to the function selector.
fn shorten(transaction: &mut Value) {
    if let Some(Value::String(input)) = transaction.get_mut("input") {
        input.truncate(SELECTOR);
    }
}

fn without_logs(receipt: &mut Value) {
    receipt["logs"] = Value::Null;
    receipt["logsBloom"] = Value::Null;
}

/// Returns the calls of a transaction of the chain.
fn frames(rpc: &Rpc, args: &mut Args) -> RpcResult<Vec<Frame>> {
    let hash = args.hash()?;
    let mut bytes = rpc.max_response;
    let frames = replay_one(rpc, &hash, |replay, tx, sender, _| {
        replay.frames(tx, sender, &mut bytes).map_err(traced)
    })?;
    frames.ok_or_else(|| no_transaction(&hash))
}

/// Returns the transfers of ether, the creations and the self-destructs inside a transaction.
fn internal_operations(rpc: &Rpc, args: &mut Args) -> RpcResult<Vec<Value>> {
    let inner = frames(rpc, args)?.into_iter().filter(|frame| frame.kept && frame.depth > 0);
    let operation = |frame: Frame| {
        let kind = match frame.kind {
            FrameKind::Call if !frame.value.is_zero() => 0,
            FrameKind::SelfDestruct => 1,
            FrameKind::Create => 2,
            FrameKind::Create2 => 3,
            _ => return None,
        };
        let Frame { from, to, value, .. } = frame;
        Some(json!({ "type": kind, "from": from, "to": to, "value": value }))
    };
    Ok(inner.filter_map(operation).collect())
}

fn trace(rpc: &Rpc, args: &mut Args) -> RpcResult<Vec<Value>> {
    let entry = |frame: Frame| {
        let value = frame.kind.moves_ether().then_some(frame.value);
        json!({
            "type": frame.kind.name(),
            "depth": frame.depth,
            "from": frame.from,
            "to": frame.to,
            "value": value,
            "input": frame.input,
            "output": frame.output,
        })
    };
    Ok(frames(rpc, args)?.into_iter().map(entry).collect())
}

/// Returns the output of a failed transaction; empty if it succeeded.
fn transaction_error(rpc: &Rpc, args: &mut Args) -> RpcResult<Bytes> {
    let frames = frames(rpc, args)?;
    let failed = frames.into_iter().next().filter(|frame| !frame.kept);
    Ok(failed.map(|frame| frame.output).unwrap_or_default())
}

/// Returns the number of the genesis block.
fn genesis(rpc: &Rpc) -> u64 {
    rpc.node.spec().genesis_header().number
}

/// Returns the calls of each transaction of a block; `None` if the state before it is not kept any more.
fn frames_of_block(rpc: &Rpc, view: &View, found: &Found) -> RpcResult<Option<Vec<Vec<Frame>>>> {
    if found.header.number <= view.oldest_state()?.max(genesis(rpc)) {
        return Ok(None);
    }
    let mut bytes = rpc.max_response;
    let all = replay_all(rpc, view, found, |replay, _, tx, sender| {
        replay.frames(tx, sender, &mut bytes).map_err(traced)
    });
    all.map(Some)
}
