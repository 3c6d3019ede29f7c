//! `anvil_` and `hardhat_`: changes of the state by hand, and impersonation of accounts.

use super::{
    Methods, Rpc,
    args::{Args, Number, Slot},
    convert::quantity,
    error::{RpcError, RpcResult},
    evm::{MOST_BLOCKS, expect_at_most},
    web3::CLIENT_VERSION,
};
use crate::{Cheats, MiningMode};
use alloy_primitives::{Address, B256, Bytes};
use jsonrpsee::{core::RegisterMethodError, types::ErrorObjectOwned};
use polytrie_state::{Account, BlockRef};
use serde_json::{Map, Value, json};

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("anvil_setBalance", |rpc, args| {
        let (address, balance): (Address, Number) = (args.next()?, args.next()?);
        change(rpc, address, |account| account.balance = balance.0)
    })?;
    methods.alias("anvil_setBalance", &["hardhat_setBalance", "tenderly_setBalance"])?;
    methods.add("anvil_addBalance", |rpc, args| {
        let (address, more): (Address, Number) = (args.next()?, args.next()?);
        change(rpc, address, |account| account.balance = account.balance.saturating_add(more.0))
    })?;
    methods.alias("anvil_addBalance", &["hardhat_addBalance", "tenderly_addBalance"])?;
    methods.add("anvil_setNonce", set_nonce)?;
    methods.alias("anvil_setNonce", &["hardhat_setNonce", "evm_setAccountNonce"])?;
    methods.add("anvil_setCode", set_code)?;
    methods.alias("anvil_setCode", &["hardhat_setCode"])?;
    methods.add("anvil_setStorageAt", set_storage_at)?;
    methods.alias("anvil_setStorageAt", &["hardhat_setStorageAt"])?;
    methods.add("anvil_impersonateAccount", |rpc, args| {
        let address: Address = args.next()?;
        rpc.node.settings().impersonated.insert(address);
        Ok(Value::Null)
    })?;
    methods.alias("anvil_impersonateAccount", &["hardhat_impersonateAccount"])?;
    methods.add("anvil_stopImpersonatingAccount", |rpc, args| {
        let address: Address = args.next()?;
        rpc.node.settings().impersonated.remove(&address);
        Ok(Value::Null)
    })?;
    methods.alias("anvil_stopImpersonatingAccount", &["hardhat_stopImpersonatingAccount"])?;
    methods.add("anvil_autoImpersonateAccount", |rpc, args| {
        rpc.node.settings().impersonate_all = args.next()?;
        Ok(Value::Null)
    })?;
    methods.alias("anvil_autoImpersonateAccount", &["hardhat_autoImpersonateAccount"])?;
    methods.add("anvil_setCoinbase", |rpc, args| {
        rpc.node.settings().beneficiary = args.next()?;
        Ok(Value::Null)
    })?;
    methods.alias("anvil_setCoinbase", &["hardhat_setCoinbase"])?;
    methods.add("anvil_setNextBlockBaseFeePerGas", |rpc, args| {
        let fee: Number = args.next()?;
        rpc.node.settings().next_base_fee = Some(fee.as_u64()?);
        Ok(Value::Null)
    })?;
    methods.alias("anvil_setNextBlockBaseFeePerGas", &["hardhat_setNextBlockBaseFeePerGas"])?;
    methods.add("anvil_setPrevRandao", |rpc, args| {
        let value: Number = args.next()?;
        rpc.node.settings().next_prev_randao = Some(B256::from(value.0));
        Ok(Value::Null)
    })?;
    methods.alias("anvil_setPrevRandao", &["hardhat_setPrevRandao"])?;
    methods.add("anvil_setMinGasPrice", |rpc, args| {
        let fee: Number = args.next()?;
        rpc.node.settings().min_fee = fee.0.saturating_to();
        Ok(Value::Null)
    })?;
    methods.alias("anvil_setMinGasPrice", &["hardhat_setMinGasPrice"])?;
    methods.add("anvil_setLoggingEnabled", |rpc, args| {
        rpc.node.set_telling(args.next()?);
        Ok(Value::Null)
    })?;
    methods.alias("anvil_setLoggingEnabled", &["hardhat_setLoggingEnabled"])?;
    // The answer depends on the name.
    methods.add("anvil_dropTransaction", drop_transaction)?;
    methods.add("hardhat_dropTransaction", |rpc, args| {
        drop_transaction(rpc, args).map(|dropped| dropped.is_some())
    })?;
    methods.add("anvil_dropAllTransactions", |rpc, _| {
        rpc.node.pool().clear();
        rpc.node.notify();
        Ok(Value::Null)
    })?;
    methods.alias(
        "anvil_dropAllTransactions",
        &["hardhat_dropAllTransactions", "debug_clearTxpool"],
    )?;
    methods.add("anvil_removePoolTransactions", |rpc, args| {
        let sender: Address = args.next()?;
        let mut pool = rpc.node.pool();
        let content = pool.content(Some(&sender));
        for tx in content.pending.values().chain(content.queued.values()).flatten() {
            pool.remove(&tx.hash());
        }
        drop(pool);
        rpc.node.notify();
        Ok(Value::Null)
    })?;
    methods.add("anvil_rollback", |rpc, args| {
        let blocks = args.optional::<Number>()?.map_or(Ok(1), Number::as_u64)?;
        rpc.node.rollback(blocks)?;
        Ok(Value::Null)
    })?;
    // alloy sends these parameters by name.
    methods.0.register_blocking_method("anvil_reorg", |params, rpc, _| {
        let rpc = Rpc::new(rpc);
        let args = Args::in_order_or_named(&params, &["depth", "tx_block_pairs"]);
        args.and_then(|mut args| reorg(&rpc, &mut args)).map_err(ErrorObjectOwned::from)
    })?;
    methods.add("anvil_reset", reset)?;
    methods.alias("anvil_reset", &["hardhat_reset"])?;
    methods.add("anvil_getGenesisTime", |rpc, _| Ok(rpc.node.spec().genesis_header().timestamp))?;
    methods.add("anvil_nodeInfo", node_info)?;
    methods.add("anvil_metadata", metadata)?;
    methods.alias("anvil_metadata", &["hardhat_metadata"])
}

/// Drops a transaction from the pool; returns its hash if it was there.
fn drop_transaction(rpc: &Rpc, args: &mut Args) -> RpcResult<Option<B256>> {
    let hash = args.hash()?;
    let dropped = rpc.node.pool().remove(&hash);
    rpc.node.notify();
    Ok(dropped.map(|tx| tx.hash()))
}

/// Changes one account by hand.
fn change(rpc: &Rpc, address: Address, how: impl FnOnce(&mut Account)) -> RpcResult<Value> {
    cheat(rpc, address, |cheats| how(cheats.account_mut(address)))
}

fn cheat(rpc: &Rpc, address: Address, how: impl FnOnce(&mut Cheats)) -> RpcResult<Value> {
    rpc.node.cheat(&[address], how)?;
    Ok(Value::Null)
}

fn set_nonce(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let (address, nonce): (Address, Number) = (args.next()?, args.next()?);
    let nonce = nonce.as_u64()?;
    change(rpc, address, |account| account.nonce = nonce)
}

fn set_code(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let (address, code): (Address, Bytes) = (args.next()?, args.next()?);
    cheat(rpc, address, |cheats| cheats.set_code(address, code))
}

fn set_storage_at(rpc: &Rpc, args: &mut Args) -> RpcResult<bool> {
    let address: Address = args.next()?;
    let slot = match args.next::<Value>()? {
        Value::String(text) if text.starts_with("0x") => Slot::parse(&text)?.0,
        other => {
            let number: Number = serde_json::from_value(other)
                .map_err(|error| RpcError::params(format!("invalid argument 1: {error}")))?;
            number.0
        }
    };
    let value = Slot::parse(&args.next::<String>()?)?.0;
    cheat(rpc, address, |cheats| cheats.set_slot(address, slot, value))?;
    Ok(true)
}

/// `anvil_reorg`: replaces the last blocks with as many new ones, built from the pool.
fn reorg(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let depth = args.next::<Number>()?.as_u64()?;
    let transactions: Option<Vec<Value>> = args.optional()?;
    if transactions.is_some_and(|transactions| !transactions.is_empty()) {
        return Err(RpcError::params(
            "transactions for the new blocks are not supported; send them after anvil_reorg",
        ));
    }
    expect_at_most(depth, MOST_BLOCKS)?;
    rpc.node.reorg(depth)?;
    Ok(Value::Null)
}

/// `anvil_reset`: reverts to the genesis block. A request to fork another chain is refused.
fn reset(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let wanted: Option<Value> = args.optional()?;
    let from = wanted.as_ref().and_then(|wanted| wanted.get("forking")?.get("jsonRpcUrl"));
    if from.is_some_and(|from| !from.is_null()) {
        return Err(RpcError::server(
            "forking another chain is not supported; import its blocks instead",
        ));
    }
    rpc.node.reset()?;
    Ok(Value::Null)
}

fn node_info(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let view = rpc.node.view();
    let header = &view.head.header;
    let mode = match rpc.node.miner().mode() {
        MiningMode::OnArrival => "auto".to_owned(),
        MiningMode::Every(period) => format!("every {period:?}"),
        MiningMode::Manual => "manual".to_owned(),
    };
    let base_fee = rpc.node.next_fees(&view).base;
    let fork = view.next_rules(rpc.node.spec(), header.timestamp + 1).fork_name();
    Ok(json!({
        "currentBlockNumber": quantity(header.number),
        "currentBlockTimestamp": header.timestamp,
        "currentBlockHash": view.hash(),
        "hardFork": fork,
        "transactionOrder": "fees",
        "mining": mode,
        "environment": {
            "baseFee": quantity(base_fee),
            "chainId": rpc.node.spec().chain_id(),
            "gasLimit": quantity(header.gas_limit),
            "gasPrice": quantity(base_fee),
        },
        "forkConfig": {},
        "stateLayer": rpc.node.kind().name,
    }))
}

fn metadata(rpc: &Rpc, _: &mut Args) -> RpcResult<Value> {
    let view = rpc.node.view();
    let mut snapshots = Map::new();
    for (id, BlockRef { number, hash }) in rpc.node.snapshots() {
        snapshots.insert(format!("{id:#x}"), json!([number, hash]));
    }
    Ok(json!({
        "clientVersion": CLIENT_VERSION,
        "chainId": rpc.node.spec().chain_id(),
        "instanceId": rpc.node.instance(),
        "latestBlockNumber": view.head.number(),
        "latestBlockHash": view.hash(),
        "snapshots": snapshots,
    }))
}
