//! `testing_`: a block of given transactions, without adding it to the chain.

use super::{
    Methods, Rpc,
    args::Args,
    built::{Bundle, block_value},
    convert::quantity,
    error::{RpcError, RpcResult},
    eth::decode,
};
use alloy_consensus::TxEnvelope;
use alloy_eips::{Encodable2718, eip4895::Withdrawal};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, U64};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::NextBlock;
use polytrie_consensus::recover_sender;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("testing_buildBlockV1", build_block)
}

/// What the consensus layer would say about a block.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    timestamp: U64,
    prev_randao: B256,
    suggested_fee_recipient: Address,
    #[serde(default)]
    withdrawals: Option<Vec<Withdrawal>>,
    #[serde(default)]
    parent_beacon_block_root: Option<B256>,
}

fn build_block(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let parent = args.hash()?;
    let attributes: Attributes = args.next()?;
    let transactions: Option<Vec<Bytes>> = args.optional()?;
    let extra_data: Option<Bytes> = args.optional()?;
    let view = rpc.node.view();
    if parent != view.hash() {
        return Err(RpcError::server(format!(
            "the parent {parent} is not the head, {}; blocks are built on the head only",
            view.hash()
        )));
    }
    let next = NextBlock {
        timestamp: attributes.timestamp.to(),
        beneficiary: attributes.suggested_fee_recipient,
        prev_randao: attributes.prev_randao,
        extra_data: extra_data.unwrap_or_default(),
        parent_beacon_block_root: attributes.parent_beacon_block_root.unwrap_or_default(),
        withdrawals: attributes.withdrawals.unwrap_or_default(),
        ..rpc.node.plan()
    };
    let transactions =
        transactions.map(|list| list.iter().map(with_sender).collect()).transpose()?;
    let built = rpc.node.preview(next, transactions)?;
    let header = &built.header;
    let base_fee = header.base_fee_per_gas.unwrap_or(0);
    let value = block_value(&built);
    let sidecars: Vec<_> = {
        let pool = rpc.node.pool();
        let sidecar_of = |tx: &TxEnvelope| pool.get(tx.tx_hash())?.sidecar.clone();
        built.block.body.transactions.iter().filter_map(sidecar_of).collect()
    };
    let of_cells = rpc.rules(header, true).is(EthereumHardfork::Osaka);
    let bundle = Bundle::of(&sidecars, of_cells)?;
    let raw: Vec<Bytes> =
        built.block.body.transactions.iter().map(|tx| tx.encoded_2718().into()).collect();
    let requests = built.executed.requests.map(|requests| requests.take()).unwrap_or_default();
    Ok(json!({
        "executionPayload": {
            "parentHash": header.parent_hash,
            "feeRecipient": header.beneficiary,
            "stateRoot": header.state_root,
            "receiptsRoot": header.receipts_root,
            "logsBloom": header.logs_bloom,
            "prevRandao": header.mix_hash,
            "blockNumber": quantity(header.number),
            "gasLimit": quantity(header.gas_limit),
            "gasUsed": quantity(header.gas_used),
            "timestamp": quantity(header.timestamp),
            "extraData": header.extra_data,
            "baseFeePerGas": quantity(base_fee),
            "blockHash": header.hash(),
            "transactions": raw,
            "withdrawals": built.block.body.withdrawals,
            "blobGasUsed": header.blob_gas_used.map(quantity),
            "excessBlobGas": header.excess_blob_gas.map(quantity),
        },
        "blockValue": value,
        "blobsBundle": bundle,
        "executionRequests": requests,
        "shouldOverrideBuilder": false,
    }))
}

fn with_sender(bytes: &Bytes) -> RpcResult<(TxEnvelope, Address)> {
    let tx = decode(bytes)?;
    let sender = recover_sender(&tx).map_err(|error| RpcError::params(error.to_string()))?;
    Ok((tx, sender))
}
