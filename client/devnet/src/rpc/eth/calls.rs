//! Calls, estimates and access lists, which change nothing on the chain.

use super::blobs;
use crate::{
    View,
    rpc::{
        Methods, Rpc,
        args::Args,
        convert::quantity,
        error::{REVERT_MESSAGE, RpcError, RpcResult},
        lookup::At,
    },
};
use alloy_eips::{BlockId, eip2930::AccessList, eip4844::DATA_GAS_PER_BLOB};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Bytes, TxKind, U256};
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest, state::StateOverride};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::executor::{
    Console,
    sandbox::{self, AccessListInspector, CallError, CallOutcome, Observer, Sandbox},
};
use polytrie_chainspec::Rules;
use serde_json::{Value, json};

/// Gas that a plain transfer uses.
const TRANSFER_GAS: u64 = 21_000;

/// Relative error up to which an estimate may exceed the necessary gas (the same as geth's).
const ESTIMATE_ERROR: f64 = 0.015;

/// Number of runs of a call after which its access list may only grow.
const RUNS: usize = 16;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("eth_call", call)?;
    methods.add("eth_estimateGas", estimate_gas)?;
    methods.add("eth_createAccessList", create_access_list)
}

/// The parameters that all calls have in common.
#[derive(Debug)]
pub(in crate::rpc) struct CallArgs {
    pub(in crate::rpc) request: TransactionRequest,
    pub(in crate::rpc) block: Option<BlockId>,
    pub(in crate::rpc) state: Option<StateOverride>,
    pub(in crate::rpc) environment: Option<BlockOverrides>,
}

impl CallArgs {
    fn new(args: &mut Args) -> RpcResult<Self> {
        Ok(Self {
            request: blobs::to_call(args)?,
            block: args.optional_block()?,
            state: args.optional()?,
            environment: environment(args)?,
        })
    }
}

/// Takes the next argument, the block overrides of a call.
fn environment(args: &mut Args) -> RpcResult<Option<BlockOverrides>> {
    check_environment(args.peek())?;
    args.optional()
}

/// Refuses block overrides that a call would ignore.
pub(in crate::rpc) fn check_environment(overrides: Option<&Value>) -> RpcResult<()> {
    let Some(overrides) = overrides else { return Ok(()) };
    let is_there = |field: &&&str| overrides.get(field).is_some_and(|value| !value.is_null());
    if let Some(field) =
        ["beaconRoot", "parentBeaconBlockRoot", "withdrawals"].iter().find(is_there)
    {
        return Err(RpcError::server(format!(
            "block override {field:?} is not supported for this method: it has no block to come at the beginning or the end of; call eth_simulateV1"
        )));
    }
    check_base_fee(overrides)
}

/// Refuses a base fee beyond 64 bits: the EVM here has 64 bits for it, so a larger one would be cut off.
pub(super) fn check_base_fee(overrides: &Value) -> RpcResult<()> {
    let fee = overrides.get("baseFeePerGas").or_else(|| overrides.get("baseFee"));
    let fee = fee.and_then(|fee| serde_json::from_value::<U256>(fee.clone()).ok());
    match fee.filter(|fee| *fee > U256::from(u64::MAX)) {
        Some(fee) => Err(RpcError::params(format!("baseFeePerGas {fee} is beyond 64 bits"))),
        None => Ok(()),
    }
}

/// Returns a sandbox at a block, with the state overrides applied under the rules of a call.
fn sandbox_at(
    rpc: &Rpc,
    at: &At,
    rules: &Rules<'_>,
    state: Option<&StateOverride>,
) -> RpcResult<Sandbox> {
    let mut sandbox = at.sandbox(rpc);
    if let Some(overrides) = state {
        sandbox.override_state(rules.spec_id(), overrides)?;
    }
    Ok(sandbox)
}

/// Runs a call in a new sandbox.
pub(in crate::rpc) fn run_call<I: Observer>(
    rpc: &Rpc,
    view: &View,
    args: CallArgs,
    observer: I,
) -> RpcResult<(CallOutcome, I)> {
    let at = rpc.at(view, args.block)?;
    let call = rpc.call_in(&at.header, at.merged, args.request, args.environment.as_ref());
    let mut sandbox = sandbox_at(rpc, &at, &call.rules, args.state.as_ref())?;
    Ok(sandbox::call(&mut sandbox, call, observer)?)
}

fn call(rpc: &Rpc, args: &mut Args) -> RpcResult<Bytes> {
    let args = CallArgs::new(args)?;
    let console = Console::new(rpc.node.tells());
    let (outcome, mut console) = run_call(rpc, &rpc.node.view(), args, console)?;
    rpc.node.tell_printed("eth_call", &console.take());
    if outcome.success { Ok(outcome.output) } else { Err(RpcError::failed(&outcome)) }
}

fn estimate_gas(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let args = CallArgs::new(args)?;
    estimate(rpc, &rpc.node.view(), args).map(quantity)
}

/// Finds the least gas with which a call succeeds, within a relative error of [`ESTIMATE_ERROR`].
pub(super) fn estimate(rpc: &Rpc, view: &View, args: CallArgs) -> RpcResult<u64> {
    let CallArgs { request, block, state, environment } = args;
    // The transaction will be in the next block, whose time decides about its deadlines.
    let at = rpc.at(view, Some(block.unwrap_or_else(BlockId::pending)))?;
    let gas_limit = environment.as_ref().and_then(|block| block.gas_limit);
    let wanted = request.gas.filter(|gas| *gas >= TRANSFER_GAS);
    let wanted = wanted.unwrap_or(gas_limit.unwrap_or(at.header.gas_limit));
    let rules = rpc.rules_under(&at.header, at.merged, environment.as_ref());
    let mut cap = rpc.limits.gas_cap;
    if rules.is(EthereumHardfork::Osaka) {
        cap = cap.min(alloy_eips::eip7825::MAX_TX_GAS_LIMIT_OSAKA);
    }
    let mut high = wanted.min(cap);
    let mut sandbox = sandbox_at(rpc, &at, &rules, state.as_ref())?;

    // Before London the EIP-1559 fees of a request are ignored.
    let offered = request.max_fee_per_gas.filter(|_| rules.is(EthereumHardfork::London));
    let price = offered.or(request.gas_price).unwrap_or_default();
    if price > 0 {
        let from = request.from.unwrap_or_default();
        let balance = sandbox.account(&from)?.unwrap_or_default().balance;
        let wanted = request.value.unwrap_or_default().saturating_add(blob_cost(&request));
        let left = balance.checked_sub(wanted).ok_or_else(|| {
            RpcError::server(format!(
                "insufficient funds for gas * price + value: address {from} have {balance} want {wanted}"
            ))
        })?;
        let affordable = left / U256::from(price);
        high = high.min(affordable.saturating_to());
    }
    let mut attempt = |gas: u64, prints: bool| -> RpcResult<Option<CallOutcome>> {
        let mut wanted = request.clone();
        wanted.gas = Some(gas);
        let call = rpc.call_in(&at.header, at.merged, wanted, environment.as_ref());
        match sandbox::call(&mut sandbox, call, Console::new(prints)) {
            Ok((outcome, mut console)) => {
                rpc.node.tell_printed("eth_estimateGas", &console.take());
                Ok(Some(outcome))
            }
            // The gas is below the intrinsic gas.
            Err(CallError::Refused(refusal)) if refusal.code == -38013 => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    // A plain transfer to an account without code needs no search.
    let is_plain = matches!(request.to, Some(TxKind::Call(_)))
        && request.input.input().is_none_or(|input| input.is_empty());
    if is_plain && attempt(TRANSFER_GAS, false)?.is_some_and(|outcome| outcome.success) {
        return Ok(TRANSFER_GAS);
    }
    // Only this attempt logs the messages of the call, so that they are logged once.
    let most = attempt(high, rpc.node.tells())?;
    let Some(most) = most.filter(|outcome| outcome.success || !outcome.out_of_gas) else {
        return Err(RpcError::server(format!("gas required exceeds allowance ({high})")));
    };
    if !most.success {
        return Err(RpcError::failed(&most));
    }
    let mut low = most.gas_used - 1;
    // An upper bound for most calls: gas before refunds, the stipend, and the 64th part that callers keep.
    let spent = most.gas_spent.saturating_add(2_300);
    let optimistic = spent.saturating_add(spent / 63);
    if optimistic < high {
        if attempt(optimistic, false)?.is_some_and(|outcome| outcome.success) {
            high = optimistic;
        } else {
            low = optimistic;
        }
    }
    while low + 1 < high && (high - low) as f64 / high as f64 > ESTIMATE_ERROR {
        let middle = (low + (high - low) / 2).min(low.saturating_mul(2).max(1));
        if attempt(middle, false)?.is_some_and(|outcome| outcome.success) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// Returns the maximum blob fee of a call in wei.
fn blob_cost(request: &TransactionRequest) -> U256 {
    let blobs = request.blob_versioned_hashes.as_ref().map_or(0, Vec::len);
    let price = U256::from(request.max_fee_per_blob_gas.unwrap_or_default());
    (U256::from(blobs) * U256::from(DATA_GAS_PER_BLOB)).saturating_mul(price)
}

fn create_access_list(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let mut args = CallArgs::new(args)?;
    let view = rpc.node.view();
    // With the list the call may take another path, so it is repeated until the list does not change.
    let mut runs = 0;
    loop {
        rpc.in_time()?;
        let before = args.request.access_list.clone().unwrap_or_default();
        let observer = AccessListInspector::new(before.clone());
        let again = CallArgs {
            request: args.request.clone(),
            block: args.block,
            state: args.state.clone(),
            environment: args.environment.clone(),
        };
        let (outcome, observer) = run_call(rpc, &view, again, observer)?;
        let mut list = observer.into_access_list();
        runs += 1;
        if runs > RUNS {
            list = joined(list, &before);
        }
        if list == before {
            let mut answer = json!({ "accessList": list, "gasUsed": quantity(outcome.gas_used) });
            if !outcome.success {
                // As in geth, the reason of the contract is left out; eth_call returns it.
                answer["error"] = json!(outcome.halt.as_deref().unwrap_or(REVERT_MESSAGE));
            }
            return Ok(answer);
        }
        args.request.access_list = Some(list);
    }
}

/// Adds the slots of an earlier list to a list. The observer drops the slots of the sender, the callee and the
/// precompiles that this run did not touch, so lists could alternate forever. A list that only grows comes to an end,
/// because it costs gas of the call.
fn joined(mut list: AccessList, before: &AccessList) -> AccessList {
    list.0.extend(before.iter().filter(|item| !item.storage_keys.is_empty()).cloned());
    list.dedup();
    list.sort();
    list
}
