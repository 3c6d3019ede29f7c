//! Repeated execution of blocks of the chain, transaction by transaction.

use super::{
    Rpc, convert,
    error::{RpcError, RpcResult},
    lookup::Found,
};
use crate::View;
use alloy_consensus::{Header, Sealed, TxEnvelope};
use alloy_primitives::Address;
use polytrie_chain::executor::sandbox::{NoObserver, Replay, Sandbox, TraceError};

/// Error code of an answer that is too large, the same as the server's.
pub(super) const OVERSIZED: i32 = jsonrpsee::types::error::OVERSIZED_RESPONSE_CODE;

/// Executes the transactions of a block before the one with index `wanted`, then that one with `run`.
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
    let mut replay = Replay::begin(&mut sandbox, &found.header, rpc.rules_of(found))?;
    pass(&mut replay, before)?;
    run(&mut replay, tx, convert::sender(tx)?)
}

/// Executes each transaction of a block with `run`.
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
    let mut replay = Replay::begin(&mut sandbox, &found.header, rpc.rules_of(found))?;
    let each = transactions.iter().enumerate();
    each.map(|(index, tx)| run(&mut replay, index, tx, convert::sender(tx)?)).collect()
}

/// Returns the state within a block, before the transaction with this index.
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
    pass(&mut Replay::begin(&mut sandbox, &found.header, rpc.rules_of(found))?, before)?;
    Ok(sandbox)
}

/// Executes a block as a whole, with what comes after its transactions, in a sandbox of the state before it.
pub(super) fn replay_whole(
    rpc: &Rpc,
    view: &View,
    found: &Found,
    sandbox: &mut Sandbox,
) -> RpcResult<()> {
    let mut replay = Replay::begin(sandbox, &found.header, rpc.rules_of(found))?;
    let body = &found.block.body;
    pass(&mut replay, &body.transactions)?;
    let receipts = rpc.receipts(view, found)?;
    let withdrawals = body.withdrawals.as_ref().map(|list| list.as_slice());
    Ok(replay.finish(receipts, &body.ommers, withdrawals)?)
}

/// Executes transactions without an observer.
fn pass(replay: &mut Replay<'_>, transactions: &[TxEnvelope]) -> RpcResult<()> {
    for tx in transactions {
        replay.next(tx, convert::sender(tx)?, NoObserver {})?;
    }
    Ok(())
}

/// Returns the state before a block, with the block's changes by hand applied. Execution on it ends at the deadline
/// of the request.
pub(super) fn parent_sandbox(
    rpc: &Rpc,
    view: &View,
    header: &Sealed<Header>,
) -> RpcResult<Sandbox> {
    let before = header.number.checked_sub(1);
    let before = before.ok_or_else(|| RpcError::server("genesis is not traceable"))?;
    let mut sandbox = rpc.at_number(view, before)?.sandbox(rpc);
    for change in view.db().by_hand(&header.hash())?.accounts {
        sandbox.apply(change);
    }
    Ok(sandbox)
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
