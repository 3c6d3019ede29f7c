//! Blocks of the chain again, transaction by transaction.

use super::{
    Rpc, convert,
    error::{RpcError, RpcResult},
    lookup::Found,
};
use crate::View;
use alloy_consensus::{Header, Sealed, TxEnvelope};
use alloy_primitives::Address;
use polytrie_chain::executor::sandbox::{NoObserver, Replay, Sandbox, TraceError};

/// The code of an answer that is too large, as the server has it.
pub(super) const OVERSIZED: i32 = jsonrpsee::types::error::OVERSIZED_RESPONSE_CODE;

/// Runs a block's transactions up to one, and that one as the caller says.
pub(super) fn replay_one<R>(
    rpc: &Rpc,
    view: &View,
    found: &Found,
    wanted: usize,
    run: impl FnOnce(&mut Replay<'_>, &TxEnvelope, Address) -> RpcResult<R>,
) -> RpcResult<R> {
    let transactions = &found.block.body.transactions;
    let (Some(before), Some(tx)) = (transactions.get(..wanted), transactions.get(wanted)) else {
        return Err(RpcError::internal(&"a transaction is not where it was found"));
    };
    let mut sandbox = parent_sandbox(rpc, view, &found.header)?;
    let rules = rpc.rules(&found.header, is_merged(rpc, found));
    let mut replay = Replay::begin(&mut sandbox, &found.header, rules)?;
    pass(&mut replay, before)?;
    run(&mut replay, tx, convert::sender(tx)?)
}

/// Runs each of a block's transactions as the caller says.
pub(super) fn replay_all<R>(
    rpc: &Rpc,
    view: &View,
    found: &Found,
    mut run: impl FnMut(&mut Replay<'_>, usize, &TxEnvelope, Address) -> RpcResult<R>,
) -> RpcResult<Vec<R>> {
    let transactions = &found.block.body.transactions;
    if transactions.is_empty() {
        return Ok(Vec::new());
    }
    let mut sandbox = parent_sandbox(rpc, view, &found.header)?;
    let rules = rpc.rules(&found.header, is_merged(rpc, found));
    let mut replay = Replay::begin(&mut sandbox, &found.header, rules)?;
    let each = transactions.iter().enumerate();
    each.map(|(index, tx)| run(&mut replay, index, tx, convert::sender(tx)?)).collect()
}

/// The state within a block, before the transaction with this index.
pub(super) fn before_transaction(
    rpc: &Rpc,
    view: &View,
    found: &Found,
    index: u64,
) -> RpcResult<Sandbox> {
    let transactions = &found.block.body.transactions;
    let count = transactions.len();
    let before = usize::try_from(index).ok().filter(|index| *index < count.max(1));
    let before = before.and_then(|index| transactions.get(..index)).ok_or_else(|| {
        let number = found.header.number;
        RpcError::params(format!(
            "there is no transaction {index} in block {number}: it has {count}, counted from 0"
        ))
    })?;
    let mut sandbox = parent_sandbox(rpc, view, &found.header)?;
    let rules = rpc.rules(&found.header, is_merged(rpc, found));
    pass(&mut Replay::begin(&mut sandbox, &found.header, rules)?, before)?;
    Ok(sandbox)
}

/// Runs transactions without an inspector.
pub(super) fn pass(replay: &mut Replay<'_>, transactions: &[TxEnvelope]) -> RpcResult<()> {
    for tx in transactions {
        replay.next(tx, convert::sender(tx)?, NoObserver {})?;
    }
    Ok(())
}

/// The state before a block, with what was changed by hand ahead of it. What runs on it has the time of a call.
pub(super) fn parent_sandbox(
    rpc: &Rpc,
    view: &View,
    header: &Sealed<Header>,
) -> RpcResult<Sandbox> {
    let before = header.number.checked_sub(1);
    let before = before.ok_or_else(|| RpcError::server("genesis is not traceable"))?;
    let at = rpc.at_number(view, before)?;
    let hashes = at.hashes();
    let mut sandbox = Sandbox::new(at.state, hashes).until(rpc.deadline());
    for change in view.db().by_hand(&header.hash())?.accounts {
        sandbox.apply(change);
    }
    Ok(sandbox)
}

pub(super) fn is_merged(rpc: &Rpc, found: &Found) -> bool {
    let before = found.total_difficulty.saturating_sub(found.header.difficulty);
    rpc.node.spec().is_merged_after(before)
}

pub(super) fn traced(error: TraceError) -> RpcError {
    match error {
        TraceError::Tracer(_) | TraceError::Timeout(_) => RpcError::params(error.to_string()),
        TraceError::OutOfTime(_) => RpcError::server(error.to_string()),
        TraceError::TooLarge => RpcError::new(OVERSIZED, error.to_string()),
        TraceError::Call(error) => error.into(),
        TraceError::Internal(error) => error.into(),
    }
}
