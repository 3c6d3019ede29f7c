//! Blobs in requests for transactions that the node makes itself.
//!
//! A transaction with blobs travels with its sidecar (EIP-4844, EIP-7594), and the node makes none. What a request says
//! of blobs is refused where it would be lost.

use super::fees::blob_base_fee;
use crate::rpc::{
    Rpc,
    args::Args,
    error::{RpcError, RpcResult},
};
use alloy_eips::eip2718::EIP4844_TX_TYPE_ID;
use alloy_primitives::TxKind;
use alloy_rpc_types_eth::TransactionRequest;
use serde_json::Value;

/// What only a sidecar has room for.
const SIDECAR: &[&str] = &["blobs", "commitments", "proofs"];
/// What the transaction itself says of its blobs.
const FIELDS: &[&str] = &["blobVersionedHashes", "maxFeePerBlobGas"];

/// The next argument, a request for a transaction that the node is to send: it must have no blobs.
pub(super) fn to_send(args: &mut Args) -> RpcResult<TransactionRequest> {
    if let Some(field) = named(args, SIDECAR).or_else(|| named(args, FIELDS)) {
        return Err(not_sent(&format!("`{field}`")));
    }
    let request: TransactionRequest = args.next()?;
    match request.transaction_type {
        Some(EIP4844_TX_TYPE_ID) => Err(not_sent("type 0x3")),
        _ => Ok(request),
    }
}

fn not_sent(what: &str) -> RpcError {
    RpcError::server(format!(
        "signing blob transactions is not supported, and the request has {what}; sign the transaction yourself and send it with its blobs, in network form, to eth_sendRawTransaction"
    ))
}

/// The next argument, a request for a transaction that is handed back: it may say which blobs it has, but not bring them.
pub(super) fn to_hand_back(args: &mut Args) -> RpcResult<TransactionRequest> {
    match named(args, SIDECAR) {
        None => args.next(),
        Some(field) => Err(RpcError::server(format!(
            "the request has `{field}`, which the answer would not hold; name blobVersionedHashes in its place, and add the blobs to the signed transaction before it goes to eth_sendRawTransaction"
        ))),
    }
}

/// The next argument, a call: the hashes of blobs are all that it sees of them.
pub(super) fn to_call(args: &mut Args) -> RpcResult<TransactionRequest> {
    match named(args, SIDECAR).filter(|_| named(args, &FIELDS[..1]).is_none()) {
        None => args.next(),
        Some(field) => Err(RpcError::server(format!(
            "the request has `{field}` but no blobVersionedHashes, which are all that a call sees of blobs; name them"
        ))),
    }
}

/// The first of these fields that the next argument has.
fn named(args: &Args, fields: &[&'static str]) -> Option<&'static str> {
    let request = args.peek()?;
    let is_there = |field: &&&str| request.get(field).is_some_and(|value| *value != Value::Null);
    fields.iter().find(is_there).copied()
}

/// Fills in what a request for a transaction with blobs leaves open, and refuses one that can have none.
pub(super) fn complete(rpc: &Rpc, request: &mut TransactionRequest) -> RpcResult<()> {
    let hashes = request.blob_versioned_hashes.as_ref();
    if hashes.is_none() && request.transaction_type != Some(EIP4844_TX_TYPE_ID) {
        return Ok(());
    }
    if hashes.is_none_or(Vec::is_empty) {
        return Err(RpcError::params(
            "a blob transaction has at least one blob, and blobVersionedHashes names none",
        ));
    }
    if !matches!(request.to, Some(TxKind::Call(_))) {
        return Err(RpcError::params("a blob transaction cannot create a contract; name its `to`"));
    }
    let fee = || blob_base_fee(rpc, &rpc.node.view()).saturating_mul(2);
    request.max_fee_per_blob_gas.get_or_insert_with(fee);
    Ok(())
}
