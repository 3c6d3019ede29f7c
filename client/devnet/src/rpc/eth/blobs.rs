//! Checks of the blob fields in requests for transactions that the node builds itself.
//!
//! A transaction with blobs travels with its sidecar (EIP-4844, EIP-7594), which the node does not make. Blob fields
//! that the node would lose are refused.

use crate::rpc::{
    Rpc,
    args::Args,
    error::{RpcError, RpcResult},
};
use alloy_eips::eip2718::EIP4844_TX_TYPE_ID;
use alloy_primitives::TxKind;
use alloy_rpc_types_eth::TransactionRequest;
use serde_json::Value;

/// The fields of a request that only a sidecar can hold.
const SIDECAR: &[&str] = &["blobs", "commitments", "proofs"];
/// The fields of a request about blobs that the transaction itself holds.
const FIELDS: &[&str] = &["blobVersionedHashes", "maxFeePerBlobGas"];

/// Takes the next argument, a transaction for the node to sign and send, which must have no blobs.
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

/// Takes the next argument, a transaction to return to the caller. It may name its blobs by hash, but must
/// not include them.
pub(super) fn to_hand_back(args: &mut Args) -> RpcResult<TransactionRequest> {
    match named(args, SIDECAR) {
        None => args.next(),
        Some(field) => Err(RpcError::server(format!(
            "the request has `{field}`, which the answer would not hold; name blobVersionedHashes in its place, and add the blobs to the signed transaction before it goes to eth_sendRawTransaction"
        ))),
    }
}

/// Takes the next argument, a call, which sees only the hashes of its blobs.
pub(super) fn to_call(args: &mut Args) -> RpcResult<TransactionRequest> {
    match named(args, SIDECAR).filter(|_| named(args, &FIELDS[..1]).is_none()) {
        None => args.next(),
        Some(field) => Err(RpcError::server(format!(
            "the request has `{field}` but no blobVersionedHashes, which are all that a call sees of blobs; name them"
        ))),
    }
}

/// Returns the first of these fields that the next argument has.
fn named(args: &Args, fields: &[&'static str]) -> Option<&'static str> {
    let request = args.peek()?;
    let is_there = |field: &&&str| request.get(field).is_some_and(|value| *value != Value::Null);
    fields.iter().find(is_there).copied()
}

/// Fills in the missing blob fields of a request for a blob transaction, and refuses a request without blobs or
/// without a recipient.
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
    let fee = || rpc.next_fees().blob.saturating_mul(2);
    request.max_fee_per_blob_gas.get_or_insert_with(fee);
    Ok(())
}
