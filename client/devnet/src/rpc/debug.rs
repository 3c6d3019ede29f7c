//! `debug_`: stored data in its binary form, and traces.

use super::{
    Methods, Rpc,
    args::Args,
    convert,
    error::{RpcError, RpcResult},
    eth::{check_environment, raw_transaction},
    lookup::Found,
    replay::{before_transaction, no_transaction, replay_all, replay_one, traced},
};
use crate::{View, sender_of};
use alloy_consensus::Sealed;
use alloy_eips::{BlockId, Encodable2718};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_rpc_types_trace::geth::{GethDebugTracingCallOptions, GethDebugTracingOptions};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::executor::sandbox::trace_call;
use polytrie_consensus::decode::decode_block;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("debug_getRawHeader", |rpc, args| {
        let found = block(rpc, &rpc.node.view(), args)?;
        Ok(Bytes::from(alloy_rlp::encode(&found.block.header)))
    })?;
    methods.add("debug_getRawBlock", raw_block)?;
    methods.add("debug_getRawReceipts", raw_receipts)?;
    methods.add("debug_getRawTransaction", |rpc, args| {
        let hash = args.hash()?;
        Ok(raw_transaction(rpc, &hash)?.unwrap_or_default())
    })?;
    methods.add("debug_codeByHash", |rpc, args| {
        let hash = args.hash()?;
        let at = rpc.at(&rpc.node.view(), args.optional_block()?)?;
        Ok(at.state.code(&hash)?)
    })?;
    methods.add_heavy("debug_getBadBlocks", bad_blocks)?;
    methods.add_heavy("debug_traceTransaction", trace_transaction)?;
    methods.add_heavy("debug_traceBlockByNumber", |rpc, args| {
        let tag = args.tag()?;
        trace_block(rpc, tag.into(), args.optional()?.unwrap_or_default())
    })?;
    methods.add_heavy("debug_traceBlockByHash", |rpc, args| {
        let hash: B256 = args.hash()?;
        trace_block(rpc, hash.into(), args.optional()?.unwrap_or_default())
    })?;
    methods.add_heavy("debug_traceBlock", |rpc, args| {
        let rlp: Bytes = args.next()?;
        let block = decode_block(&rlp)
            .map_err(|error| RpcError::params(format!("the block does not decode: {error}")))?;
        trace_block(rpc, block.header.hash_slow().into(), args.optional()?.unwrap_or_default())
    })?;
    methods.add_heavy("debug_traceCall", debug_trace_call)
}

/// Takes the next parameter, which must name a block that is stored.
pub(super) fn block(rpc: &Rpc, view: &View, args: &mut Args) -> RpcResult<Found> {
    let id = args.block()?;
    rpc.expect_stored(view, id)?;
    named(rpc, view, id)
}

fn named(rpc: &Rpc, view: &View, id: BlockId) -> RpcResult<Found> {
    let number = rpc.known(view, id)?;
    rpc.block(view, number)?.ok_or_else(|| view.db().missing(number).into())
}

/// Returns a block to execute again; for `pending` the pending block, if there is one.
pub(super) fn to_execute(rpc: &Rpc, view: &View, id: BlockId) -> RpcResult<Found> {
    match rpc.find_on(view, id)? {
        Some(found) => Ok(found),
        // The error says why there is none.
        None => named(rpc, view, id),
    }
}

fn raw_block(rpc: &Rpc, args: &mut Args) -> RpcResult<Bytes> {
    let found = block(rpc, &rpc.node.view(), args)?;
    Ok(alloy_rlp::encode(&found.block).into())
}

fn raw_receipts(rpc: &Rpc, args: &mut Args) -> RpcResult<Vec<Bytes>> {
    let view = rpc.node.view();
    let found = block(rpc, &view, args)?;
    let receipts = rpc.receipts(&view, &found)?;
    let hold_roots = !rpc.rules_of(&found).is(EthereumHardfork::Byzantium);
    if hold_roots && !rpc.node.kind().canonical && !receipts.is_empty() {
        return Err(RpcError::unsupported(format!(
            "receipts before Byzantium hold the state root after their transaction, and the state layer `{}` has none; eth_getBlockReceipts of block {} has the rest",
            rpc.node.kind().name,
            found.header.number
        )));
    }
    Ok(receipts.iter().map(|receipt| receipt.encoded_2718().into()).collect())
}

/// `debug_getBadBlocks`: the last blocks that a consensus layer sent and that are not valid.
fn bad_blocks(rpc: &Rpc, _: &mut Args) -> RpcResult<Vec<Value>> {
    let shown = |rlp: Bytes| -> RpcResult<Value> {
        let block = decode_block(&rlp).map_err(|error| RpcError::internal(&error))?;
        let hash = block.header.hash_slow();
        let header = Sealed::new_unchecked(block.header.clone(), hash);
        // As in geth, a signature without a sender shows zero.
        let senders = block.body.transactions.iter().map(|tx| sender_of(tx).unwrap_or_default());
        let senders: Vec<_> = senders.collect();
        let block = convert::block_with(header, block, rlp.len(), Some(&senders))?;
        Ok(json!({ "block": block, "hash": hash, "rlp": rlp }))
    };
    rpc.node.bad_blocks().into_iter().map(shown).collect()
}

fn trace_transaction(rpc: &Rpc, args: &mut Args) -> RpcResult<Box<RawValue>> {
    let hash = args.hash()?;
    let options: GethDebugTracingOptions = args.optional()?.unwrap_or_default();
    let trace = replay_one(rpc, &hash, |replay, tx, sender, place| {
        let mut bytes = rpc.max_response;
        replay.trace(tx, sender, place, options, &mut bytes).map_err(traced)
    })?;
    trace.ok_or_else(|| no_transaction(&hash))
}

/// The trace of one transaction of a block.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Traced {
    tx_hash: B256,
    result: Box<RawValue>,
}

fn trace_block(rpc: &Rpc, id: BlockId, options: GethDebugTracingOptions) -> RpcResult<Vec<Traced>> {
    let view = rpc.node.view();
    let found = to_execute(rpc, &view, id)?;
    if found.header.number == rpc.node.spec().genesis_header().number {
        return Err(RpcError::server("genesis is not traceable"));
    }
    let hash = found.header.hash();
    let mut bytes = rpc.max_response;
    replay_all(rpc, &view, &found, |replay, index, tx, sender| {
        let trace = replay.trace(tx, sender, (hash, index), options.clone(), &mut bytes);
        Ok(Traced { tx_hash: *tx.tx_hash(), result: trace.map_err(traced)? })
    })
}

fn debug_trace_call(rpc: &Rpc, args: &mut Args) -> RpcResult<Box<RawValue>> {
    let request: TransactionRequest = args.next()?;
    let id = args.optional_block()?;
    check_environment(args.peek().and_then(|options| options.get("blockOverrides")))?;
    let options: GethDebugTracingCallOptions = args.optional()?.unwrap_or_default();
    let view = rpc.node.view();
    let (mut sandbox, header, merged) = match options.tx_index {
        None => {
            let at = rpc.at(&view, id)?;
            (at.sandbox(rpc), at.header, at.merged)
        }
        Some(index) => {
            let found = to_execute(rpc, &view, id.unwrap_or_default())?;
            let merged = rpc.is_merged(&found.header, found.total_difficulty);
            (before_transaction(rpc, &view, &found, index)?, found.header, merged)
        }
    };
    let call = rpc.call_in(&header, merged, request, options.block_overrides.as_ref());
    if let Some(overrides) = &options.state_overrides {
        sandbox.override_state(call.rules.spec_id(), overrides)?;
    }
    trace_call(&mut sandbox, call, options.tracing_options, rpc.max_response).map_err(traced)
}
