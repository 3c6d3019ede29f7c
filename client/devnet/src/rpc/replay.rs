//! Repeated execution of blocks of the chain, transaction by transaction.

use super::{
    Rpc, convert,
    error::{RpcError, RpcResult},
    lookup::Found,
};
use crate::View;
use alloy_consensus::{Header, Sealed, TxEnvelope};
use alloy_primitives::{Address, B256};
use polytrie_chain::executor::sandbox::{NoObserver, Replay, Sandbox, TraceError};

/// Error code of an answer that is too large, the same as the server's.
pub(super) const OVERSIZED: i32 = jsonrpsee::types::error::OVERSIZED_RESPONSE_CODE;

/// Executes the transaction with this hash with `run`, after those before it in its block. `run` also gets the hash of
/// the block and the index of the transaction. `None` if the chain does not have the transaction.
pub(super) fn replay_one<R>(
    rpc: &Rpc,
    hash: &B256,
    run: impl FnOnce(&mut Replay<'_>, &TxEnvelope, Address, (B256, usize)) -> RpcResult<R>,
) -> RpcResult<Option<R>> {
    let view = rpc.node.view();
    let Some((found, index)) = rpc.transaction(&view, hash)? else { return Ok(None) };
    let transactions = &found.block.body.transactions;
    let (before, tx) = (&transactions[..index], &transactions[index]);
    let mut sandbox = parent_sandbox(rpc, &view, &found.header)?;
    let mut replay = Replay::begin(&mut sandbox, &found.header, rpc.rules_of(&found))?;
    pass(&mut replay, before)?;
    run(&mut replay, tx, convert::sender(tx)?, (found.header.hash(), index)).map(Some)
}

/// Returns the error of a transaction that the chain does not have.
pub(super) fn no_transaction(hash: &B256) -> RpcError {
    RpcError::server(format!("transaction {hash} not found"))
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
