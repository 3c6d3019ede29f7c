//! Preparation of a call for the EVM: its environment, its fees, and the reasons to refuse it.

use super::{CallError, CallRequest, Refusal, Sandbox};
use crate::executor::{InternalError, environment::environment};
use alloy_eips::eip2718::{
    EIP1559_TX_TYPE_ID, EIP2930_TX_TYPE_ID, EIP4844_TX_TYPE_ID, EIP7702_TX_TYPE_ID,
};
use alloy_evm::{EvmEnv, overrides::OverrideBlockHashes, rpc::TryIntoTxEnv};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{TxKind, U256};
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use polytrie_chainspec::Rules;
use polytrie_consensus::clique::coinbase;
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::{
        Block, Transaction, block::BlobExcessGasAndPrice, result::InvalidTransaction,
    },
    handler::{
        pre_execution::validate_account_nonce_and_code, validation::validate_priority_fee_tx,
    },
    state::AccountInfo,
};

/// Rules that a call must keep before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// The nonce does not matter, and a call without a gas price pays nothing.
    Call,
    /// The rules of a transaction in a block, except for its signature and the code of its sender.
    Transaction,
}

/// A call in the form for the EVM.
pub(super) struct Prepared {
    pub(super) env: EvmEnv,
    pub(super) tx: TxEnv,
}

pub(super) fn prepare_call(
    sandbox: &mut Sandbox,
    call: CallRequest<'_>,
) -> Result<Prepared, CallError> {
    let CallRequest { header, rules, mut request, block, gas_cap } = call;
    let coinbase = coinbase(&rules, header).map_err(|error| Refusal::new(error.to_string()))?;
    let mut env = environment(header, coinbase, &rules);
    // The header has no blob gas if only the overrides move the call past Cancun.
    if rules.is(EthereumHardfork::Cancun) {
        let none = BlobExcessGasAndPrice { excess_blob_gas: 0, blob_gasprice: 1 };
        env.block_env.blob_excess_gas_and_price.get_or_insert(none);
    }
    override_block(sandbox, &mut env, block);
    sandbox.set_delegations(rules.is(EthereumHardfork::Prague));
    request.gas = Some(request.gas.map_or(gas_cap, |gas| gas.min(gas_cap)));
    let has_blobs = request.blob_versioned_hashes.is_some();
    if has_blobs
        && request.max_fee_per_blob_gas.unwrap_or(0) == 0
        && let Some(blob) = &mut env.block_env.blob_excess_gas_and_price
    {
        blob.blob_gasprice = 0;
    }
    let tx = message(sandbox, &mut env, &rules, request, Strictness::Call)?;
    if tx.gas_price == 0 {
        env.block_env.basefee = 0;
    }
    Ok(Prepared { env, tx })
}

/// Converts a request into the form for the EVM, and checks it in geth's order: nonce, fees, kind, funds. The EVM does
/// the checks that depend on the transaction alone.
///
/// # Errors
///
/// Fails if the request is refused, or the state cannot be read.
pub(super) fn message(
    sandbox: &Sandbox,
    env: &mut EvmEnv,
    rules: &Rules<'_>,
    request: TransactionRequest,
    strictness: Strictness,
) -> Result<TxEnv, CallError> {
    let fees = Fees::new(&request, rules)?;
    if !matches!(request.to, Some(TxKind::Call(_)))
        && (request.blob_versioned_hashes.is_some() || request.authorization_list.is_some())
    {
        let reason =
            "a transaction with blobs or authorizations cannot create a contract; name its `to`";
        return Err(Refusal::new(reason).into());
    }
    let (found, expected) = (request.chain_id, env.cfg_env.chain_id);
    if let Some(found) = found.filter(|found| *found != expected) {
        let reason = format!("chainId does not match node's (have={found}, want={expected})");
        return Err(Refusal::new(reason).into());
    }
    let is_call = strictness == Strictness::Call;
    // Before London there is no base fee, even if the caller sets one.
    if !rules.is(EthereumHardfork::London) {
        env.block_env.basefee = 0;
    }
    let caller = request.from.unwrap_or_default();
    let sender = sandbox.account(&caller).map_err(InternalError::from)?.unwrap_or_default();
    let info = AccountInfo { nonce: sender.nonce, ..AccountInfo::default() };
    let nonce = if is_call { 0 } else { request.nonce.unwrap_or_default() };
    validate_account_nonce_and_code(&info, nonce, true, is_call).map_err(Refusal::from)?;
    let pays = fees.cap > 0 || fees.tip > 0;
    if rules.is(EthereumHardfork::London) && (pays || !is_call) {
        let base_fee = Some(u128::from(env.block_env.basefee));
        validate_priority_fee_tx(fees.cap, fees.tip, base_fee, false).map_err(Refusal::from)?;
    }
    let blob_fee = request.max_fee_per_blob_gas.unwrap_or(0);
    // The library would compare the funds with the price that is paid, but EIP-1559 compares them with the price that
    // is offered.
    let without_fees = TransactionRequest {
        gas_price: None,
        max_fee_per_gas: None,
        max_priority_fee_per_gas: None,
        max_fee_per_blob_gas: None,
        ..request
    };
    let mut tx: TxEnv =
        without_fees.try_into_tx_env(env).map_err(|error| Refusal::new(error.to_string()))?;
    tx.nonce = nonce;
    if fees.dynamic {
        tx.tx_type = tx.tx_type.max(EIP1559_TX_TYPE_ID);
    }
    tx.gas_price = fees.cap;
    tx.gas_priority_fee = (tx.tx_type >= EIP1559_TX_TYPE_ID).then_some(fees.tip);
    check_type(&tx, rules).map_err(Refusal::from)?;
    let cfg = &mut env.cfg_env;
    cfg.disable_nonce_check = is_call;
    cfg.disable_base_fee = is_call;
    cfg.disable_eip3607 = true;
    cfg.disable_block_gas_limit = true;
    cfg.tx_gas_limit_cap = Some(u64::MAX);
    if !tx.blob_hashes.is_empty() {
        tx.max_fee_per_blob_gas = blob_fee;
        if is_call && blob_fee == 0 {
            offer_blob_fee(&mut tx, &mut env.block_env, sender.balance);
        }
    }
    tx.ensure_enough_balance(sender.balance).map_err(Refusal::from)?;
    Ok(tx)
}

/// Sets the blob fee of a call that offers none: the current price if its sender can pay it, otherwise zero.
fn offer_blob_fee(tx: &mut TxEnv, block: &mut BlockEnv, balance: U256) {
    tx.max_fee_per_blob_gas = block.blob_gasprice().unwrap_or(0);
    if tx.ensure_enough_balance(balance).is_ok() {
        return;
    }
    tx.max_fee_per_blob_gas = 0;
    if let Some(blob) = &mut block.blob_excess_gas_and_price {
        blob.blob_gasprice = 0;
    }
}

/// Refuses a type of transaction that came with a later fork.
fn check_type(tx: &TxEnv, rules: &Rules<'_>) -> Result<(), InvalidTransaction> {
    use EthereumHardfork as Fork;
    use InvalidTransaction as E;
    match tx.tx_type {
        EIP2930_TX_TYPE_ID if !rules.is(Fork::Berlin) => Err(E::Eip2930NotSupported),
        EIP4844_TX_TYPE_ID if !rules.is(Fork::Cancun) => Err(E::Eip4844NotSupported),
        EIP7702_TX_TYPE_ID if !rules.is(Fork::Prague) => Err(E::Eip7702NotSupported),
        _ => Ok(()),
    }
}

/// Fees that a request offers.
#[derive(Debug, Clone, Copy)]
struct Fees {
    /// Greatest price of a unit of gas, in wei.
    cap: u128,
    /// Greatest part of it that goes to the beneficiary.
    tip: u128,
    /// Whether these are the two fees of EIP-1559.
    dynamic: bool,
}

impl Fees {
    /// Reads the fees of a request. Before London the fees of EIP-1559 are ignored, as in geth.
    fn new(request: &TransactionRequest, rules: &Rules<'_>) -> Result<Self, Refusal> {
        let (cap, tip) = (request.max_fee_per_gas, request.max_priority_fee_per_gas);
        if request.gas_price.is_some() && (cap.is_some() || tip.is_some()) {
            let reason = "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified";
            return Err(Refusal::new(reason));
        }
        Ok(match request.gas_price {
            None if rules.is(EthereumHardfork::London) => {
                Self { cap: cap.unwrap_or(0), tip: tip.unwrap_or(0), dynamic: true }
            }
            price => {
                let price = price.unwrap_or(0);
                Self { cap: price, tip: price, dynamic: false }
            }
        })
    }
}

/// Puts the overrides of the caller into the environment, and into the hashes for BLOCKHASH.
pub(super) fn override_block(
    sandbox: &mut Sandbox,
    env: &mut EvmEnv,
    wanted: Option<&BlockOverrides>,
) {
    if let Some(wanted) = wanted {
        sandbox.apply_block_overrides(wanted.clone(), &mut env.block_env);
    }
}
