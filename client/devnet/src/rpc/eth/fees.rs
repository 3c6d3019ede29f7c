//! Fees of coming transactions, and the history of fees.

use super::logs::LIMIT;
use crate::{
    BlockFees,
    rpc::{
        Methods, Rpc,
        args::{Args, Number},
        convert::{gas_used, quantity},
        error::{RpcError, RpcResult},
    },
};
use alloy_consensus::{Header, ReceiptEnvelope, Transaction, TxEnvelope};
use jsonrpsee::core::RegisterMethodError;
use serde_json::{Value, json};

/// Maximum number of blocks of a fee history.
const MAX_BLOCKS: u64 = 1024;

/// Maximum number of percentiles of a fee history.
const MAX_PERCENTILES: usize = 100;

/// Suggested tip in wei.
const SUGGESTED_TIP: u64 = 1_000_000_000;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("eth_gasPrice", |rpc, _| {
        Ok(quantity(rpc.next_fees().base.saturating_add(SUGGESTED_TIP)))
    })?;
    methods.add("eth_maxPriorityFeePerGas", |_, _| Ok(quantity(SUGGESTED_TIP)))?;
    methods.add("eth_baseFee", |rpc, _| Ok(quantity(rpc.next_fees().base)))?;
    methods.add("eth_blobBaseFee", |rpc, _| Ok(quantity(rpc.next_fees().blob)))?;
    methods.add("eth_feeHistory", fee_history)
}

impl Rpc {
    /// Returns the fees of the next block.
    pub(super) fn next_fees(&self) -> BlockFees {
        self.node.next_fees(&self.node.view())
    }
}

fn fee_history(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let count = args.next::<Number>()?.as_u64()?.min(MAX_BLOCKS);
    let newest = args.tag()?;
    let percentiles: Option<Vec<f64>> = args.optional()?;
    let sorted = |list: &Vec<f64>| {
        list.len() <= MAX_PERCENTILES
            && list.iter().all(|p| (0.0..=100.0).contains(p))
            && list.is_sorted_by(|one, next| one < next)
    };
    if !percentiles.as_ref().is_none_or(sorted) {
        return Err(RpcError::params(format!(
            "invalid reward percentiles: at most {MAX_PERCENTILES}, from 0 to 100, each larger than the one before"
        )));
    }
    let view = rpc.node.view();
    let pending = rpc.pending_on(&view, newest.into())?;
    let newest = rpc.known(&view, newest.into())?;
    let first = rpc.first_block(&view, newest)?;
    let end = newest + 1 + u64::from(pending.is_some());
    let count = count.min(end - first);
    if count == 0 {
        let none = Vec::<Value>::new();
        return Ok(
            json!({ "oldestBlock": quantity(0u64), "baseFeePerGas": none, "gasUsedRatio": none }),
        );
    }
    let oldest = end - count;
    let mut history = History::default();
    for number in oldest..=newest {
        // The first block is always included, even after the deadline.
        if number > oldest && rpc.in_time().is_err() {
            return Err(RpcError::new(
                LIMIT,
                format!(
                    "the history took longer than a request may, and had come to block {number}; ask for fewer blocks than {oldest} to {newest}, or start the node with a larger --rpc.evmtimeout"
                ),
            ));
        }
        let (db, header) = (view.db(), view.db().block_head(number)?.header);
        history.push(rpc, &header);
        if let Some(percentiles) = &percentiles {
            let block = db.block(number)?.unwrap_or_default();
            let receipts = db.receipts(number)?.unwrap_or_default();
            let txs = &block.body.transactions;
            history.rewards.push(rewards(&header, txs, &receipts, percentiles));
        }
    }
    if let Some(pending) = pending {
        let (header, txs) = (&pending.header, &pending.block.body.transactions);
        history.push(rpc, header);
        if let Some(percentiles) = &percentiles {
            history.rewards.push(rewards(header, txs, &pending.receipts, percentiles));
        }
        let merged = rpc.node.spec().is_merged_after(view.head.total_difficulty);
        let rules = rpc.node.spec().rules(header.number + 1, header.timestamp + 1, merged);
        let base = polytrie_consensus::next_base_fee(&rules, header).unwrap_or(0);
        let blob = polytrie_consensus::next_blob_fee(&rules, header).unwrap_or(0);
        history.push_fees(u64::try_from(base).unwrap_or(u64::MAX), blob);
    } else if newest == view.head.number() {
        let fees = rpc.node.next_fees(&view);
        history.push_fees(fees.base, fees.blob);
    } else {
        let next = view.db().block_head(newest + 1)?.header;
        history.push_fees(
            next.base_fee_per_gas.unwrap_or(0),
            rpc.node.spec().blob_fee(&next).unwrap_or(0),
        );
    }
    let mut answer = json!({
        "oldestBlock": quantity(oldest),
        "baseFeePerGas": history.base_fees,
        "gasUsedRatio": history.gas_ratios,
        "baseFeePerBlobGas": history.blob_fees,
        "blobGasUsedRatio": history.blob_ratios,
    });
    if percentiles.is_some_and(|list| !list.is_empty()) {
        answer["reward"] = json!(history.rewards);
    }
    Ok(answer)
}

#[derive(Debug, Default)]
struct History {
    base_fees: Vec<Value>,
    gas_ratios: Vec<f64>,
    blob_fees: Vec<Value>,
    blob_ratios: Vec<f64>,
    rewards: Vec<Vec<Value>>,
}

impl History {
    fn push_fees(&mut self, base: u64, blob: u128) {
        self.base_fees.push(quantity(base));
        self.blob_fees.push(quantity(blob));
    }

    /// Adds the fees of a block, and the part of its gas that was used.
    fn push(&mut self, rpc: &Rpc, header: &Header) {
        let blob_fee = rpc.node.spec().blob_fee(header).unwrap_or(0);
        self.push_fees(header.base_fee_per_gas.unwrap_or(0), blob_fee);
        self.gas_ratios.push(header.gas_used as f64 / header.gas_limit.max(1) as f64);
        let params = rpc.node.spec().blob_params(header.timestamp);
        let max = params.map_or(0, |params| params.max_blob_gas_per_block());
        let used = header.blob_gas_used.unwrap_or(0);
        self.blob_ratios.push(if max == 0 { 0.0 } else { used as f64 / max as f64 });
    }
}

/// Returns the tips of a block's transactions at these percentiles of its gas.
fn rewards(
    header: &Header,
    txs: &[TxEnvelope],
    receipts: &[ReceiptEnvelope],
    percentiles: &[f64],
) -> Vec<Value> {
    let base_fee = header.base_fee_per_gas.unwrap_or(0);
    let tip = |tx: &TxEnvelope| tx.effective_tip_per_gas(base_fee).unwrap_or(0);
    let mut tips: Vec<(u128, u64)> = txs.iter().map(tip).zip(gas_used(receipts)).collect();
    tips.sort_unstable();
    let at = |percentile: &f64| {
        let threshold = (header.gas_used as f64 * percentile / 100.0) as u64;
        let mut gas = 0;
        let reached = tips.iter().find(|(_, used)| {
            gas += used;
            gas >= threshold
        });
        quantity(reached.or(tips.last()).map_or(0, |(tip, _)| *tip))
    };
    percentiles.iter().map(at).collect()
}
