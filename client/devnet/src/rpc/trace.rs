//! `trace_`: traces in the format of Parity, which Erigon, Nethermind and explorers still use.

use super::{
    Methods, Rpc,
    args::{Args, Exact},
    error::{RpcError, RpcResult},
    eth::reversed,
    lookup::Found,
    replay::{replay_all, replay_one, traced},
};
use crate::View;
use alloy_eips::{BlockNumberOrTag, NumHash};
use alloy_primitives::{Address, B256, U64};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_rpc_types_trace::{
    filter::{TraceFilter, TraceFilterMode},
    parity::{
        LocalizedTransactionTrace, RewardAction, RewardType, TraceResults,
        TraceResultsWithTransactionHash,
    },
};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::executor::{
    block_rewards,
    sandbox::{TraceTypes, parity_trace_call},
};
use serde::Deserialize;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_heavy("trace_transaction", |rpc, args| {
        let hash = args.hash()?;
        transaction_traces(rpc, &hash)
    })?;
    methods.add_heavy("trace_get", trace_get)?;
    methods.add_heavy("trace_block", trace_block)?;
    methods.add_heavy("trace_filter", trace_filter)?;
    methods.add_heavy("trace_replayTransaction", replay_transaction)?;
    methods.add_heavy("trace_replayBlockTransactions", replay_block)?;
    methods.add_heavy("trace_call", trace_call)
}

type Traces = Vec<LocalizedTransactionTrace>;

fn transaction_traces(rpc: &Rpc, hash: &B256) -> RpcResult<Option<Traces>> {
    let mut bytes = rpc.max_response;
    replay_one(rpc, hash, |replay, tx, sender, place| {
        replay.parity_calls(tx, sender, place, &mut bytes).map_err(traced)
    })
}

/// `trace_get`: the trace at a place in the tree of calls. `["0x1", "0x0"]` is the first call within the second call
/// of the transaction.
fn trace_get(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<LocalizedTransactionTrace>> {
    let hash = args.hash()?;
    let place: Vec<U64> = args.next()?;
    let traces = transaction_traces(rpc, &hash)?.unwrap_or_default();
    let is_there = |trace: &LocalizedTransactionTrace| {
        let found = trace.trace.trace_address.iter().map(|n| U64::from(*n));
        found.eq(place.iter().copied())
    };
    Ok(traces.into_iter().find(is_there))
}

fn trace_block(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<Traces>> {
    let view = rpc.node.view();
    let Some(found) = rpc.find_on(&view, args.block()?)? else { return Ok(None) };
    let mut bytes = rpc.max_response;
    block_traces(rpc, &view, &found, &mut bytes).map(Some)
}

/// The parameters of `trace_filter`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Wanted {
    from_block: Option<Exact<BlockNumberOrTag>>,
    to_block: Option<Exact<BlockNumberOrTag>>,
    from_address: Option<Vec<Address>>,
    to_address: Option<Vec<Address>>,
    mode: Option<TraceFilterMode>,
    after: Option<U64>,
    count: Option<U64>,
}

/// `trace_filter`: searches the blocks from the genesis to the head, or a given range. Every block is executed again,
/// so the search is bounded by the deadline of the request.
fn trace_filter(rpc: &Rpc, args: &mut Args) -> RpcResult<Traces> {
    let wanted: Wanted = args.next()?;
    let view = rpc.node.view();
    let number = |tag: Option<Exact<BlockNumberOrTag>>, other: BlockNumberOrTag| {
        rpc.known(&view, tag.map_or(other, |tag| tag.0).into())
    };
    let from = number(wanted.from_block, BlockNumberOrTag::Earliest)?;
    let to = number(wanted.to_block, BlockNumberOrTag::Latest)?;
    if from > to {
        return Err(reversed(from, to));
    }
    let filter = TraceFilter {
        from_address: wanted.from_address.unwrap_or_default(),
        to_address: wanted.to_address.unwrap_or_default(),
        mode: wanted.mode.unwrap_or_default(),
        ..TraceFilter::default()
    };
    let matcher = filter.matcher();
    let skipped = wanted.after.unwrap_or_default().saturating_to::<usize>();
    let most = wanted.count.map_or(usize::MAX, |count| count.saturating_to::<usize>());
    let (mut seen, mut traces) = (0, Vec::new());
    let mut bytes = rpc.max_response;
    for number in from..=to {
        if traces.len() >= most {
            break;
        }
        if rpc.in_time().is_err() {
            return Err(RpcError::server(format!(
                "the search took longer than a call may, and had come to block {number}; ask for fewer blocks than {from} to {to}, or start the node with a larger --rpc.evmtimeout"
            )));
        }
        let Some(found) = rpc.block(&view, number)? else { continue };
        let mut left = bytes;
        let of_block = block_traces(rpc, &view, &found, &mut left)?;
        let (all, kept) = (of_block.len(), traces.len());
        for trace in of_block.into_iter().filter(|trace| matcher.matches(&trace.trace)) {
            seen += 1;
            if seen > skipped && traces.len() < most {
                traces.push(trace);
            }
        }
        // Traces that do not match take no room in the answer.
        bytes -= (bytes - left) / all.max(1) * (traces.len() - kept);
    }
    Ok(traces)
}

fn replay_transaction(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<TraceResults>> {
    let hash = args.hash()?;
    let types: TraceTypes = args.next()?;
    let mut bytes = rpc.max_response;
    replay_one(rpc, &hash, |replay, tx, sender, _| {
        replay.parity_trace(tx, sender, &types, &mut bytes).map_err(traced)
    })
}

fn replay_block(
    rpc: &Rpc,
    args: &mut Args,
) -> RpcResult<Option<Vec<TraceResultsWithTransactionHash>>> {
    let view = rpc.node.view();
    let Some(found) = rpc.find_on(&view, args.block()?)? else { return Ok(None) };
    let types: TraceTypes = args.next()?;
    let mut bytes = rpc.max_response;
    let results = replay_all(rpc, &view, &found, |replay, _, tx, sender| {
        let full_trace = replay.parity_trace(tx, sender, &types, &mut bytes).map_err(traced)?;
        Ok(TraceResultsWithTransactionHash { full_trace, transaction_hash: *tx.tx_hash() })
    });
    results.map(Some)
}

fn trace_call(rpc: &Rpc, args: &mut Args) -> RpcResult<TraceResults> {
    let request: TransactionRequest = args.next()?;
    let types: TraceTypes = args.next()?;
    let at = rpc.at(&rpc.node.view(), args.optional_block()?)?;
    let call = rpc.call_in(&at.header, at.merged, request, None);
    parity_trace_call(&mut at.sandbox(rpc), call, &types, rpc.max_response).map_err(traced)
}

/// Returns the traces of a block's transactions and of its rewards.
fn block_traces(rpc: &Rpc, view: &View, found: &Found, bytes: &mut usize) -> RpcResult<Traces> {
    if found.header.number == rpc.node.spec().genesis_header().number {
        return Ok(Traces::new());
    }
    let place = found.header.hash();
    let traces = replay_all(rpc, view, found, |replay, index, tx, sender| {
        replay.parity_calls(tx, sender, (place, index), bytes).map_err(traced)
    })?;
    let mut traces: Traces = traces.into_iter().flatten().collect();
    let rewards = block_rewards(rpc.rules_of(found), &found.header, &found.block.body.ommers);
    for (index, (author, value)) in rewards.into_iter().enumerate() {
        let reward_type = if index == 0 { RewardType::Block } else { RewardType::Uncle };
        let block = NumHash { number: found.header.number, hash: place };
        traces.push(RewardAction { author, reward_type, value }.into_localized_trace(block));
    }
    Ok(traces)
}
