//! Submission of transactions, and signatures of the node's own accounts.

use super::{
    blobs,
    calls::{CallArgs, estimate},
    typed_data,
};
use crate::{
    Added, MiningMode, PoolTransaction, impersonate,
    rpc::{
        Methods, Rpc, RpcState,
        args::{Args, Number},
        convert,
        error::{RpcError, RpcResult},
        middleware::InBatch,
        on_thread,
    },
};
use alloy_consensus::{SignableTransaction, TxEnvelope, TypedTransaction};
use alloy_eips::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, eip191_hash_message};
use alloy_rpc_types_eth::TransactionRequest;
use jsonrpsee::{
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Name of the method that submits a signed transaction.
pub(in crate::rpc) const SEND_RAW: &str = "eth_sendRawTransaction";

/// Names of the methods that wait for a block, which another request of the same client may have to trigger.
pub(in crate::rpc) const WAITING: &[&str] = &[
    SEND_RAW,
    "eth_sendTransaction",
    "eth_resend",
    "eth_sendUnsignedTransaction",
    "eth_sendRawTransactionSync",
    "eth_sendTransactionSync",
];

/// Tip of a transaction whose request has none, in wei.
const TIP: u128 = 1_000_000_000;

/// Time for which a sender waits until its transaction is mined, if that happens on arrival.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum time for which a caller may wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Error code (EIP-7966): the transaction was not mined in time.
const NOT_MINED: i32 = 4;
/// Error code (EIP-7966): the transaction waits for others with lower nonces.
const NOT_READY: i32 = 5;
/// Error code: the transaction has left the pool without being mined.
const REMOVED: i32 = -32000;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    add(methods, SEND_RAW, send_raw)?;
    add(methods, "eth_sendTransaction", send_signed)?;
    add(methods, "eth_resend", resend)?;
    // The next two methods are those of EIP-7966.
    add_sync(methods, "eth_sendRawTransactionSync", send_raw)?;
    add_sync(methods, "eth_sendTransactionSync", send_signed)?;
    methods.add("eth_fillTransaction", fill)?;
    methods.add("eth_signTransaction", sign_transaction)?;
    methods.add("eth_sign", |rpc, args| {
        let (address, message): (Address, Bytes) = (args.next()?, args.next()?);
        sign(rpc, &address, &eip191_hash_message(message)).map(encoded)
    })?;
    methods.add("personal_sign", |rpc, args| {
        let (message, address): (Bytes, Address) = (args.next()?, args.next()?);
        sign(rpc, &address, &eip191_hash_message(message)).map(encoded)
    })?;
    methods.add("eth_signTypedData_v4", sign_typed)?;
    methods.alias("eth_signTypedData_v4", &["eth_signTypedData", "eth_signTypedData_v3"])
}

/// Registers the method that accepts any account as the sender, without its key.
pub(in crate::rpc) fn register_for_owner(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    add(methods, "eth_sendUnsignedTransaction", |rpc, args| {
        send(rpc, blobs::to_send(args)?, |_, tx, from| Ok(impersonate(tx, from)))
    })
}

/// A function that submits the transaction of a request.
type TakeIn = fn(&Rpc, &mut Args) -> RpcResult<Added>;

/// Adds a method that answers with the hash of a transaction. Outside a batch, and if blocks are made on arrival, the
/// answer waits until the transaction is mined or [`PATIENCE`] is over.
fn add(
    methods: &mut Methods,
    name: &'static str,
    take_in: TakeIn,
) -> Result<(), RegisterMethodError> {
    methods.0.register_async_method(name, move |params, rpc, extensions| async move {
        let in_batch = extensions.get::<InBatch>().is_some();
        let taker = Arc::clone(&rpc);
        let added = on_thread(move || take_in(&Rpc::new(taker), &mut Args::new(&params)?)).await?;
        let hash = added.tx.hash();
        if added.pending && !in_batch && rpc.node.miner().mode() == MiningMode::OnArrival {
            rpc.node.wait_for(&hash, PATIENCE).await;
        }
        Ok::<_, ErrorObjectOwned>(hash)
    })?;
    Ok(())
}

/// Adds a method that answers with the receipt of a transaction. The second argument is the number of milliseconds to
/// wait for it, at most [`LONGEST`].
fn add_sync(
    methods: &mut Methods,
    name: &'static str,
    take_in: TakeIn,
) -> Result<(), RegisterMethodError> {
    methods.0.register_async_method(name, move |params, rpc, _| async move {
        let taker = Arc::clone(&rpc);
        let (hash, patience) = on_thread(move || {
            let patience = patience(&params)?;
            let added = take_in(&Rpc::new(taker), &mut Args::new(&params)?)?;
            let hash = added.tx.hash();
            if added.pending { Ok((hash, patience)) } else { Err(gap(&hash)) }
        })
        .await?;
        rpc.node.wait_for(&hash, patience).await;
        let receipt = on_thread(move || receipt_of(&Rpc::new(rpc), &hash, patience)).await;
        receipt.map_err(ErrorObjectOwned::from)
    })?;
    Ok(())
}

fn patience(params: &Params<'_>) -> RpcResult<Duration> {
    let mut args = Args::new(params)?;
    args.optional::<Value>()?;
    let millis = args.optional::<Number>()?.map(|millis| millis.0.saturating_to::<u64>());
    // A time of zero is none (EIP-7966), as in geth.
    let millis = millis.filter(|millis| *millis > 0);
    Ok(millis.map_or(PATIENCE, Duration::from_millis).min(LONGEST))
}

/// Returns the receipt of a transaction after the wait for it.
fn receipt_of(rpc: &Rpc, hash: &B256, patience: Duration) -> RpcResult<Value> {
    // The pool is read first: a transaction moves from there into a block, never back.
    let (waits, is_next) = {
        let pool = rpc.node.pool();
        (pool.get(hash).is_some(), pool.is_pending(hash))
    };
    if let Some(receipt) = super::transactions::receipt(rpc, hash)? {
        return Ok(receipt);
    }
    Err(match (waits, is_next) {
        (true, true) => RpcError::about(
            NOT_MINED,
            format!(
                "the transaction {hash} was added to the pool but not mined within {patience:?}"
            ),
            hash,
        ),
        (true, false) => gap(hash),
        (false, _) => RpcError::about(
            REMOVED,
            format!("the transaction {hash} was taken out of the pool without being mined"),
            hash,
        ),
    })
}

fn gap(hash: &B256) -> RpcError {
    RpcError::about(
        NOT_READY,
        format!(
            "the transaction {hash} was added to the pool but cannot be mined: its sender has nonces before it that no transaction uses; send those first"
        ),
        hash,
    )
}

fn send_raw(rpc: &Rpc, args: &mut Args) -> RpcResult<Added> {
    Ok(rpc.node.submit(recovered(args)?)?)
}

/// Takes the transaction in the parameters of `eth_sendRawTransaction`, and recovers its sender.
pub(in crate::rpc) fn recovered(args: &mut Args) -> RpcResult<PoolTransaction> {
    let bytes: Bytes = args.next()?;
    Ok(PoolTransaction::signed(decode(&bytes)?)?)
}

/// Submits the transactions of a batch that were decoded. Returns the hash or the error of each, without waiting until
/// it is mined.
pub(in crate::rpc) fn submit_all(
    rpc: &RpcState,
    found: Vec<RpcResult<PoolTransaction>>,
) -> Vec<RpcResult<B256>> {
    let mut txs = Vec::with_capacity(found.len());
    let mut take = |tx: PoolTransaction| {
        let hash = tx.hash();
        txs.push(tx);
        hash
    };
    let mut answers: Vec<_> = found.into_iter().map(|tx| tx.map(&mut take)).collect();
    let added = rpc.node.submit_all(txs);
    for (answer, added) in answers.iter_mut().filter(|answer| answer.is_ok()).zip(added) {
        if let Err(error) = added {
            *answer = Err(error.into());
        }
    }
    answers
}

/// Decodes a transaction in its network form, after which no bytes may follow.
pub(in crate::rpc) fn decode(mut bytes: &[u8]) -> RpcResult<TxEnvelope> {
    if bytes.is_empty() {
        return Err(RpcError::params("the transaction is empty"));
    }
    let tx = TxEnvelope::decode_2718(&mut bytes)
        .map_err(|error| RpcError::params(format!("the transaction does not decode: {error}")))?;
    if !bytes.is_empty() {
        let left = bytes.len();
        return Err(RpcError::params(format!("{left} bytes follow the transaction")));
    }
    Ok(tx)
}

/// Builds, signs and submits the transaction of a request, for an account of the node or an impersonated one.
fn send_signed(rpc: &Rpc, args: &mut Args) -> RpcResult<Added> {
    let request = blobs::to_send(args)?;
    let from = sender(rpc, &request)?;
    // This check comes before the estimate of the gas, which would complain about the balance of the account.
    if !rpc.node.accounts().addresses().contains(&from) && !rpc.node.may_impersonate(&from) {
        return Err(unknown_account(&from));
    }
    send(rpc, request, signed)
}

/// `eth_resend`: replaces a transaction that waits for the next block with the same one at another gas price, or with
/// another gas limit. As in geth, the request must make the transaction that waits, and zero changes nothing.
fn resend(rpc: &Rpc, args: &mut Args) -> RpcResult<Added> {
    let request = blobs::to_send(args)?;
    let price = args.optional::<Number>()?.map(|price| price.0.saturating_to::<u128>());
    let gas = args.optional::<Number>()?.map(Number::as_u64).transpose()?;
    if request.nonce.is_none() {
        return Err(RpcError::server("missing transaction nonce in transaction spec"));
    }
    let from = sender(rpc, &request)?;
    let mut request = complete(rpc, request)?;
    let wanted = with_nonce(rpc, request.clone(), &from)?.signature_hash();
    let content = rpc.node.pool().content(Some(&from));
    if !content.pending.values().flatten().any(|tx| tx.tx.signature_hash() == wanted) {
        return Err(RpcError::server(format!(
            "transaction not found: none of {from} that waits for the next block has all fields of the request; name its nonce, gas and fees too"
        )));
    }
    if let Some(price) = price.filter(|price| *price > 0) {
        request.gas_price = Some(price);
        (request.max_fee_per_gas, request.max_priority_fee_per_gas) = (None, None);
        request.transaction_type = None;
    }
    request.gas = gas.filter(|gas| *gas > 0).or(request.gas);
    let tx = signed(rpc, with_nonce(rpc, request, &from)?, from)?;
    Ok(rpc.node.submit(PoolTransaction::local(tx)?)?)
}

/// Completes the transaction of a request, signs it with `sign`, and submits it.
fn send(
    rpc: &Rpc,
    request: TransactionRequest,
    sign: fn(&Rpc, TypedTransaction, Address) -> RpcResult<TxEnvelope>,
) -> RpcResult<Added> {
    let from = sender(rpc, &request)?;
    let request = complete(rpc, request)?;
    // Concurrent requests must not get the same nonce.
    let _chosen = request.nonce.is_none().then(|| rpc.node.nonces.lock());
    let tx = sign(rpc, with_nonce(rpc, request, &from)?, from)?;
    Ok(rpc.node.submit(PoolTransaction::local(tx)?)?)
}

/// Signs a transaction with an account of the node, or marks it as sent by an impersonated one.
fn signed(rpc: &Rpc, tx: TypedTransaction, from: Address) -> RpcResult<TxEnvelope> {
    match rpc.node.accounts().sign(&from, &tx.signature_hash()) {
        Some(signature) => Ok(tx.into_envelope(signature)),
        None if rpc.node.may_impersonate(&from) => Ok(impersonate(tx, from)),
        None => Err(unknown_account(&from)),
    }
}

fn fill(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let request = blobs::to_hand_back(args)?;
    let from = sender(rpc, &request)?;
    let tx = with_nonce(rpc, complete(rpc, request)?, &from)?;
    let unsigned = Signature::new(Default::default(), Default::default(), false);
    answer(tx.into_envelope(unsigned))
}

fn sign_transaction(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let request = blobs::to_hand_back(args)?;
    let from = sender(rpc, &request)?;
    if !rpc.node.accounts().addresses().contains(&from) {
        return Err(unknown_account(&from));
    }
    let tx = with_nonce(rpc, complete(rpc, request)?, &from)?;
    let signature = sign(rpc, &from, &tx.signature_hash())?;
    answer(tx.into_envelope(signature))
}

fn answer(tx: TxEnvelope) -> RpcResult<Value> {
    Ok(json!({ "raw": Bytes::from(tx.encoded_2718()), "tx": convert::json_of(&tx)? }))
}

/// Signs typed data (EIP-712) with one of the node's accounts.
fn sign_typed(rpc: &Rpc, args: &mut Args) -> RpcResult<Bytes> {
    let address: Address = args.next()?;
    let data: Value = args.next()?;
    // This check comes first, so that no data is hashed for an unknown account.
    if !rpc.node.accounts().addresses().contains(&address) {
        return Err(unknown_account(&address));
    }
    sign(rpc, &address, &typed_data::signing_hash(data)?).map(encoded)
}

fn sign(rpc: &Rpc, address: &Address, hash: &B256) -> RpcResult<Signature> {
    rpc.node.accounts().sign(address, hash).ok_or_else(|| unknown_account(address))
}

fn encoded(signature: Signature) -> Bytes {
    signature.as_bytes().into()
}

fn unknown_account(address: &Address) -> RpcError {
    RpcError::server(format!(
        "unknown account {address}: the node signs for the accounts that eth_accounts lists; impersonate it, or sign the transaction yourself"
    ))
}

/// Returns the sender of a request: the account in `from`, or the first one of the node.
fn sender(rpc: &Rpc, request: &TransactionRequest) -> RpcResult<Address> {
    request.from.or_else(|| rpc.node.accounts().addresses().first().copied()).ok_or_else(|| {
        RpcError::params("`from` is missing, and the node has no account of its own (--accounts 0)")
    })
}

/// Fills in the missing fields of a request except the nonce: fees, gas and chain ID.
fn complete(rpc: &Rpc, mut request: TransactionRequest) -> RpcResult<TransactionRequest> {
    let from = sender(rpc, &request)?;
    request.from = Some(from);
    let chain_id = rpc.node.spec().chain_id();
    if let Some(found) = request.chain_id.filter(|found| *found != chain_id) {
        return Err(RpcError::params(format!("chain id is {found}, expected {chain_id}")));
    }
    request.chain_id = Some(chain_id);
    // The transaction holds one of the two only. With `gas` given, no estimate would compare them.
    request.input.unique_input().map_err(|error| RpcError::server(error.to_string()))?;
    blobs::complete(rpc, &mut request)?;
    let has_code = request.input.input().is_some_and(|code| !code.is_empty());
    if !has_code && !matches!(request.to, Some(TxKind::Call(_))) {
        return Err(RpcError::server(
            "contract creation without any data provided: name `to`, or the contract's code in `data`",
        ));
    }
    let has_1559 = request.max_fee_per_gas.or(request.max_priority_fee_per_gas).is_some();
    if request.gas_price.is_some() && has_1559 {
        return Err(RpcError::params(
            "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
        ));
    }
    let view = rpc.node.view();
    let base_fee = rpc.node.next_fees(&view).base;
    if request.gas_price.is_none() {
        let london = view.head.header.base_fee_per_gas.is_some();
        if london && matches!(request.transaction_type, Some(0 | 1)) && !has_1559 {
            request.gas_price = Some(u128::from(base_fee).saturating_mul(2).saturating_add(TIP));
        } else if london {
            let cap = request.max_fee_per_gas.unwrap_or(u128::MAX);
            let tip = request.max_priority_fee_per_gas.unwrap_or(TIP.min(cap));
            request.max_priority_fee_per_gas = Some(tip);
            let fee = u128::from(base_fee).saturating_mul(2).saturating_add(tip);
            request.max_fee_per_gas = Some(request.max_fee_per_gas.unwrap_or(fee));
        } else {
            request.gas_price = Some(TIP);
        }
    }
    request.to = Some(request.to.unwrap_or(TxKind::Create));
    if request.gas.is_none() {
        let mut asked = request.clone();
        // The gas that a transaction uses does not depend on its fees.
        (asked.gas_price, asked.max_fee_per_gas, asked.max_priority_fee_per_gas) =
            (None, None, None);
        asked.transaction_type = None;
        let call = CallArgs { request: asked, block: None, state: None, environment: None };
        request.gas = Some(estimate(rpc, &view, call)?);
    }
    Ok(request)
}

/// Builds the transaction of a complete request. A missing nonce becomes the next one of `from`.
fn with_nonce(
    rpc: &Rpc,
    mut request: TransactionRequest,
    from: &Address,
) -> RpcResult<TypedTransaction> {
    if request.nonce.is_none() {
        request.nonce = Some(rpc.node.next_nonce(from)?);
    }
    request.normalize_input();
    let wanted = request.transaction_type;
    if wanted == Some(1) {
        request.access_list.get_or_insert_default();
    }
    let built = match request.blob_versioned_hashes {
        // The library counts the transaction as complete only with its blobs, which are not here.
        Some(_) => request
            .build_4844_without_sidecar()
            .map(TypedTransaction::from)
            .map_err(|error| error.to_string()),
        None => request.build_typed_tx().map_err(|request| {
            let missing = request.missing_keys().err().map(|(_, keys)| keys.join(", "));
            missing.unwrap_or_else(|| "its fields do not fit together".to_owned())
        }),
    };
    let tx = built.map_err(|missing| {
        RpcError::params(format!("the transaction is not complete: {missing}"))
    })?;
    let found = tx.tx_type() as u8;
    match wanted.filter(|wanted| *wanted != found) {
        None => Ok(tx),
        Some(wanted) => Err(RpcError::params(format!(
            "type is {wanted:#x}, but the fields make a transaction of type {found:#x}"
        ))),
    }
}
