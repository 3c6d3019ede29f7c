//! `eth_config`: the active and the coming forks (EIP-7910).

use crate::rpc::{Methods, Rpc, args::Args, convert::quantity, error::RpcResult};
use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS,
    eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    eip8282::{BUILDER_DEPOSIT_CONTRACT_ADDRESS, BUILDER_EXIT_CONTRACT_ADDRESS},
};
use alloy_hardforks::{EthereumHardfork, ForkCondition, ForkHash};
use alloy_primitives::Address;
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::executor::precompiles;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("eth_config", config)
}

fn config(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let now = rpc.node.view().head.header.timestamp;
    let times = fork_times(rpc);
    let current = times.range(..=now).next_back().copied().unwrap_or(0);
    let next = times.range(now + 1..).next().copied();
    let last = times.last().copied().filter(|last| *last > now);
    let describe = |time: Option<u64>| time.map_or(Value::Null, |time| fork(rpc, time));
    Ok(json!({
        "current": fork(rpc, current),
        "next": describe(next),
        "last": describe(last),
    }))
}

/// Returns the times at which forks activate.
fn fork_times(rpc: &Rpc) -> BTreeSet<u64> {
    let forks = rpc.node.spec().forks();
    let at = |fork: &EthereumHardfork| match forks.activation(*fork) {
        ForkCondition::Timestamp(time) => Some(time),
        _ => None,
    };
    EthereumHardfork::VARIANTS.iter().filter_map(at).collect()
}

/// Describes the rules from a time on.
fn fork(rpc: &Rpc, time: u64) -> Value {
    let spec = rpc.node.spec();
    let rules = spec.rules(u64::MAX, time, true);
    let blobs = rules.blob_params().map(|params| {
        json!({
            "target": params.target_blob_count,
            "max": params.max_blob_count,
            "baseFeeUpdateFraction": params.update_fraction as u64,
        })
    });
    let mut contracts = Map::new();
    let mut contract = |active: bool, name: &str, address: Address| {
        if active {
            contracts.insert(name.to_owned(), json!(address));
        }
    };
    let prague = rules.is(EthereumHardfork::Prague);
    let amsterdam = rules.is(EthereumHardfork::Amsterdam);
    contract(rules.is(EthereumHardfork::Cancun), "BEACON_ROOTS_ADDRESS", BEACON_ROOTS_ADDRESS);
    contract(amsterdam, "BUILDER_DEPOSIT_CONTRACT_ADDRESS", BUILDER_DEPOSIT_CONTRACT_ADDRESS);
    contract(amsterdam, "BUILDER_EXIT_CONTRACT_ADDRESS", BUILDER_EXIT_CONTRACT_ADDRESS);
    contract(
        prague,
        "CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS",
        CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    );
    if let Some(address) = spec.deposit_contract() {
        contract(prague, "DEPOSIT_CONTRACT_ADDRESS", address);
    }
    contract(prague, "HISTORY_STORAGE_ADDRESS", HISTORY_STORAGE_ADDRESS);
    contract(prague, "WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS", WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS);
    let precompiles: Map<String, Value> =
        precompiles(&rules).into_iter().map(|(name, address)| (name, json!(address))).collect();
    // A fork that is active at the genesis has the time zero, whatever its time is.
    let since = if time > spec.genesis_header().timestamp { time } else { 0 };
    json!({
        "activationTime": since,
        "blobSchedule": blobs,
        "chainId": quantity(spec.chain_id()),
        "forkId": fork_id(rpc, time),
        "precompiles": precompiles,
        "systemContracts": contracts,
    })
}

/// Returns the fork hash of EIP-2124: the checksum over the genesis and the forks up to a time.
fn fork_id(rpc: &Rpc, time: u64) -> Value {
    let spec = rpc.node.spec();
    let genesis = spec.genesis_header();
    let mut blocks = BTreeSet::new();
    let mut times = BTreeSet::new();
    for fork in EthereumHardfork::VARIANTS {
        match spec.forks().activation(*fork) {
            ForkCondition::Block(number) | ForkCondition::TTD { fork_block: Some(number), .. }
                if number > 0 =>
            {
                blocks.insert(number);
            }
            ForkCondition::Timestamp(at) if at > genesis.timestamp && at <= time => {
                times.insert(at);
            }
            _ => {}
        }
    }
    let mut hash = ForkHash::from(genesis.hash());
    for fork in blocks.into_iter().chain(times) {
        hash += fork;
    }
    json!(alloy_primitives::Bytes::copy_from_slice(&hash.0))
}
