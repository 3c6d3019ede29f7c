//! `evm_`: time, mining, snapshots and reverts, under the names that ganache introduced.

use super::{
    Methods, Rpc,
    args::{Args, Number},
    convert,
    error::{RpcError, RpcResult},
};
use crate::{BlockTime, MineOptions, MiningMode, NodeError};
use alloy_primitives::{U64, U256};
use jsonrpsee::core::RegisterMethodError;
use polytrie_state::BlockRef;
use serde_json::Value;
use std::time::Duration;

/// Maximum number of blocks that one call may mine.
pub(super) const MOST_BLOCKS: u64 = 100_000;

/// Maximum number of blocks that one call may mine if its answer holds all of them.
const MOST_DETAILED: u64 = 1_000;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("evm_snapshot", |rpc, _| Ok(U64::from(rpc.node.snapshot()?)))?;
    methods.add("evm_revert", |rpc, args| {
        let id: Number = args.next()?;
        Ok(rpc.node.revert(id.as_u64()?)?)
    })?;
    methods.add("evm_mine", mine_one)?;
    methods.add("evm_mine_detailed", mine_detailed)?;
    methods.alias("evm_mine_detailed", &["anvil_mine_detailed"])?;
    methods.add("evm_increaseTime", increase_time)?;
    methods.add("evm_setNextBlockTimestamp", set_next_timestamp)?;
    methods.add("evm_setTime", set_time)?;
    // The result depends on the name: hardhat's is `true`, and anvil's is `null`, which alloy demands.
    methods.add("evm_setAutomine", |rpc, args| set_automine(rpc, args).map(|()| true))?;
    methods.add("anvil_setAutomine", |rpc, args| set_automine(rpc, args).map(|()| Value::Null))?;
    // The unit depends on the name too: hardhat counts milliseconds, anvil seconds.
    methods.add("evm_setIntervalMining", |rpc, args| {
        let period = Duration::from_millis(args.next::<Number>()?.as_u64()?);
        set_interval_mining(rpc, period).map(|()| true)
    })?;
    methods.add("anvil_setIntervalMining", |rpc, args| {
        let period = Duration::from_secs(args.next::<Number>()?.as_u64()?);
        set_interval_mining(rpc, period).map(|()| Value::Null)
    })?;
    methods.add("evm_setBlockGasLimit", set_block_gas_limit)?;
    methods.alias("evm_snapshot", &["anvil_snapshot", "hardhat_snapshot"])?;
    methods.alias("evm_revert", &["anvil_revert", "hardhat_revert"])?;
    methods.alias("evm_increaseTime", &["anvil_increaseTime"])?;
    methods.alias("evm_setNextBlockTimestamp", &["anvil_setNextBlockTimestamp"])?;
    methods.alias("evm_setTime", &["anvil_setTime"])?;
    methods.alias("evm_setBlockGasLimit", &["anvil_setBlockGasLimit"])?;
    // The interval depends on the name too: anvil waits before each block, hardhat between blocks.
    methods.add("anvil_mine", mine_many_late)?;
    methods.add("hardhat_mine", mine_many)?;
    methods
        .add("anvil_getAutomine", |rpc, _| Ok(rpc.node.miner().mode() == MiningMode::OnArrival))?;
    methods.alias("anvil_getAutomine", &["hardhat_getAutomine"])?;
    methods.add("anvil_getIntervalMining", |rpc, _| {
        Ok(match rpc.node.miner().mode() {
            MiningMode::Every(period) => Some(period.as_secs()),
            MiningMode::OnArrival | MiningMode::Manual => None,
        })
    })?;
    methods.add("anvil_setBlockTimestampInterval", |rpc, args| {
        let seconds: Number = args.next()?;
        rpc.node.clock().set_interval(Some(seconds.as_u64()?));
        Ok(Value::Null)
    })?;
    methods.add("anvil_removeBlockTimestampInterval", |rpc, _| {
        Ok(rpc.node.clock().set_interval(None).is_some())
    })
}

fn mine_one(rpc: &Rpc, args: &mut Args) -> RpcResult<&'static str> {
    mine_wanted(rpc, args, MOST_BLOCKS)?;
    Ok("0x0")
}

/// Does the same as [`mine_one`], but answers with the blocks and their transactions.
fn mine_detailed(rpc: &Rpc, args: &mut Args) -> RpcResult<Vec<Value>> {
    let mined = mine_wanted(rpc, args, MOST_DETAILED)?;
    let view = rpc.node.view();
    let block = |BlockRef { number, hash }| {
        let found = rpc.block(&view, number)?.filter(|found| found.header.hash() == hash);
        convert::block(found.ok_or(NodeError::TakenBack { number, hash })?, true)
    };
    mined.into_iter().map(block).collect()
}

/// Mines the blocks that the parameters describe, at most `most`.
fn mine_wanted(rpc: &Rpc, args: &mut Args, most: u64) -> RpcResult<Vec<BlockRef>> {
    // The parameter is a time, or an object with a time and a number of blocks.
    let wanted: Option<Value> = args.optional()?;
    let (timestamp, blocks) = match wanted {
        Some(Value::Object(object)) => {
            let number = |name: &str| -> RpcResult<Option<u64>> {
                let Some(value) = object.get(name).filter(|value| !value.is_null()) else {
                    return Ok(None);
                };
                let number: Number = serde_json::from_value(value.clone())
                    .map_err(|error| RpcError::params(format!("invalid {name}: {error}")))?;
                number.as_u64().map(Some)
            };
            (number("timestamp")?, number("blocks")?.unwrap_or(1))
        }
        Some(value) => {
            let number: Number = serde_json::from_value(value)
                .map_err(|error| RpcError::params(format!("invalid argument 0: {error}")))?;
            (Some(number.as_u64()?), 1)
        }
        None => (None, 1),
    };
    expect_at_most(blocks, most)?;
    mine(rpc, blocks, timestamp.map_or(BlockTime::Clock, BlockTime::Set), BlockTime::Clock)
}

/// Takes a number of blocks, and the seconds of an interval.
fn blocks_and_interval(args: &mut Args) -> RpcResult<(u64, Option<u64>)> {
    let blocks = args.optional::<Number>()?.map_or(Ok(1), Number::as_u64)?;
    let interval = args.optional::<Number>()?.map(Number::as_u64).transpose()?;
    expect_at_most(blocks, MOST_BLOCKS)?;
    Ok((blocks, interval))
}

fn mine_many(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let (blocks, interval) = blocks_and_interval(args)?;
    mine(rpc, blocks, BlockTime::Clock, interval.map_or(BlockTime::Clock, BlockTime::After))?;
    Ok(Value::Null)
}

/// Mines blocks; the clock moves by the interval before each of them.
fn mine_many_late(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let (blocks, interval) = blocks_and_interval(args)?;
    let interval = interval.map(signed).transpose()?;
    writable(rpc)?;
    for _ in 0..blocks {
        if let Some(seconds) = interval {
            rpc.node.clock().shift(seconds);
        }
        mine(rpc, 1, BlockTime::Clock, BlockTime::Clock)?;
    }
    Ok(Value::Null)
}

pub(super) fn expect_at_most(blocks: u64, most: u64) -> RpcResult<()> {
    match blocks > most {
        true => Err(RpcError::params(format!("at most {most} blocks can be mined at once"))),
        false => Ok(()),
    }
}

/// Mines blocks; returns their numbers and hashes.
fn mine(rpc: &Rpc, blocks: u64, first: BlockTime, others: BlockTime) -> RpcResult<Vec<BlockRef>> {
    let mut mined = Vec::new();
    for index in 0..blocks {
        let time = if index == 0 { first } else { others };
        let header = rpc.node.mine(MineOptions { allow_empty: true, time, quiet: false })?;
        mined.extend(header.map(|header| BlockRef { number: header.number, hash: header.hash() }));
    }
    Ok(mined)
}

/// Moves the clock; as in anvil, the answer is the number of seconds by which the clock is then ahead.
fn increase_time(rpc: &Rpc, args: &mut Args) -> RpcResult<i64> {
    let seconds = signed(args.next::<Number>()?.as_u64()?)?;
    Ok(rpc.node.clock().shift(seconds))
}

/// Returns seconds by which a clock can be moved.
fn signed(seconds: u64) -> RpcResult<i64> {
    i64::try_from(seconds).map_err(|_| RpcError::params(format!("{seconds} seconds are too many")))
}

fn set_next_timestamp(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    rpc.node.set_next_time(args.next::<Number>()?.as_u64()?)?;
    Ok(Value::Null)
}

/// Sets the clock; as in anvil, the answer is the number of seconds by which the clock advanced.
fn set_time(rpc: &Rpc, args: &mut Args) -> RpcResult<u64> {
    let mut time = args.next::<Number>()?.0;
    // Some tools send milliseconds. The bound is that of anvil.
    if time > U256::from(1_000_000_000_000u64) {
        time /= U256::from(1000);
    }
    let time = Number(time).as_u64()?;
    let mut clock = rpc.node.clock();
    let before = clock.now();
    clock.set(time);
    Ok(time.saturating_sub(before))
}

fn set_automine(rpc: &Rpc, args: &mut Args) -> RpcResult<()> {
    let enabled: bool = args.next()?;
    writable(rpc)?;
    match (enabled, rpc.node.miner().mode()) {
        (true, _) => rpc.node.set_mining(MiningMode::OnArrival),
        (false, MiningMode::OnArrival) => rpc.node.set_mining(MiningMode::Manual),
        // Mining at intervals continues.
        (false, MiningMode::Every(_) | MiningMode::Manual) => {}
    }
    Ok(())
}

/// Sets the interval of blocks; with an interval of zero, blocks are made on request only.
fn set_interval_mining(rpc: &Rpc, interval: Duration) -> RpcResult<()> {
    writable(rpc)?;
    rpc.node.set_mining(match interval.is_zero() {
        true => MiningMode::Manual,
        false => MiningMode::Every(interval),
    });
    Ok(())
}

fn writable(rpc: &Rpc) -> RpcResult<()> {
    if rpc.node.is_read_only() {
        return Err(crate::NodeError::ReadOnly.into());
    }
    Ok(())
}

fn set_block_gas_limit(rpc: &Rpc, args: &mut Args) -> RpcResult<bool> {
    let limit = args.next::<Number>()?.as_u64()?;
    let (least, most) = (polytrie_consensus::MIN_GAS_LIMIT, polytrie_consensus::MAX_GAS_LIMIT);
    if !(least..=most).contains(&limit) {
        return Err(RpcError::params(format!("the gas limit must be from {least} to {most}")));
    }
    rpc.node.settings().gas_limit = Some(limit);
    Ok(true)
}
