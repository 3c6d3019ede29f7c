//! `testing_`: blocks of given transactions.

use super::{
    Methods, Rpc,
    args::Args,
    built::{Bundle, block_value},
    convert::quantity,
    error::{RpcError, RpcResult},
    eth::decode,
};
use crate::{PoolTransaction, View, settings::gas_limit_towards};
use alloy_consensus::{BlobTransactionSidecarVariant, TxEnvelope};
use alloy_eips::{Encodable2718, eip4895::Withdrawal};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, U64, map::B256Map};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::NextBlock;
use polytrie_consensus::recover_sender;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add("testing_buildBlockV1", build_block)?;
    methods.add("testing_commitBlockV1", commit_block)
}

/// The payload attributes, as a consensus layer would send them.
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
    #[serde(default)]
    slot_number: Option<U64>,
    #[serde(default)]
    target_gas_limit: Option<U64>,
}

/// The parameters that both methods have.
#[derive(Debug)]
struct Wanted {
    attributes: Attributes,
    /// The transactions; `None` for those of the pool.
    transactions: Option<Vec<Bytes>>,
    extra_data: Option<Bytes>,
}

impl Wanted {
    /// Takes the remaining parameters.
    fn new(args: &mut Args) -> RpcResult<Self> {
        Ok(Self {
            attributes: args.next()?,
            transactions: args.optional()?,
            extra_data: args.optional()?,
        })
    }

    /// Returns the parameters of the block on the head of `view`, and its transactions.
    fn on(self, rpc: &Rpc, view: &View) -> RpcResult<(NextBlock, Option<Vec<Given>>)> {
        let Self { attributes, transactions, extra_data } = self;
        let plan = rpc.node.plan();
        let gas_limit = attributes.target_gas_limit.map_or(plan.gas_limit, |target| {
            gas_limit_towards(target.to(), view.head.header.gas_limit)
        });
        let next = NextBlock {
            timestamp: attributes.timestamp.to(),
            beneficiary: attributes.suggested_fee_recipient,
            prev_randao: attributes.prev_randao,
            extra_data: extra_data.unwrap_or_default(),
            parent_beacon_block_root: attributes.parent_beacon_block_root.unwrap_or_default(),
            withdrawals: attributes.withdrawals.unwrap_or_default(),
            slot_number: attributes.slot_number.map(|slot| slot.to()),
            gas_limit,
            ..plan
        };
        let given = transactions
            .map(|list| list.iter().map(with_sender).collect::<RpcResult<Vec<_>>>())
            .transpose()?;
        Ok((next, given))
    }
}

/// Makes a block on the head and adds it to the chain, as geth does; returns its hash. Its blobs are not kept.
fn commit_block(rpc: &Rpc, args: &mut Args) -> RpcResult<B256> {
    let (next, given) = Wanted::new(args)?.on(rpc, &rpc.node.view())?;
    let without_blobs = |(tx, sender, _): Given| (tx, sender);
    let transactions = given.map(|given| given.into_iter().map(without_blobs).collect());
    Ok(rpc.node.commit(next, transactions)?.hash())
}

fn build_block(rpc: &Rpc, args: &mut Args) -> RpcResult<Value> {
    let parent = args.hash()?;
    let wanted = Wanted::new(args)?;
    let view = rpc.node.view();
    if parent != view.hash() {
        return Err(RpcError::server(format!(
            "the parent {parent} is not the head, {}; blocks are built on the head only",
            view.hash()
        )));
    }
    let (next, transactions) = wanted.on(rpc, &view)?;
    let mut brought: B256Map<Arc<BlobTransactionSidecarVariant>> = B256Map::default();
    let transactions = transactions.map(|given| {
        let without_blobs = given.into_iter().map(|(tx, sender, blobs)| {
            brought.extend(blobs.map(|blobs| (*tx.tx_hash(), blobs)));
            (tx, sender)
        });
        without_blobs.collect()
    });
    let built = rpc.node.preview(next, transactions)?;
    let header = &built.header;
    let base_fee = header.base_fee_per_gas.unwrap_or(0);
    let value = block_value(&built);
    let sidecars: Vec<_> = {
        let pool = rpc.node.pool();
        let sidecar_of = |tx: &TxEnvelope| {
            let hash = tx.tx_hash();
            brought.get(hash).or_else(|| pool.get(hash)?.sidecar.as_ref()).cloned()
        };
        built.block.body.transactions.iter().filter_map(sidecar_of).collect()
    };
    let of_cells = rpc.rules(header, true).is(EthereumHardfork::Osaka);
    let bundle = Bundle::of(&sidecars, of_cells)?;
    let raw: Vec<Bytes> =
        built.block.body.transactions.iter().map(|tx| tx.encoded_2718().into()).collect();
    let requests = built.executed.requests.map(|requests| requests.take()).unwrap_or_default();
    let mut payload = json!({
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
    });
    if let Some(slot) = header.slot_number {
        let list = built.executed.access_list.unwrap_or_default();
        payload["blockAccessList"] = json!(Bytes::from(alloy_rlp::encode(&list)));
        payload["slotNumber"] = quantity(slot);
    }
    Ok(json!({
        "executionPayload": payload,
        "blockValue": value,
        "blobsBundle": bundle,
        "executionRequests": requests,
        "shouldOverrideBuilder": false,
    }))
}

/// A transaction as a block holds it, its sender, and its sidecar if there was one.
type Given = (TxEnvelope, Address, Option<Arc<BlobTransactionSidecarVariant>>);

fn with_sender(bytes: &Bytes) -> RpcResult<Given> {
    let tx = decode(bytes)?;
    if matches!(&tx, TxEnvelope::Eip4844(signed) if signed.tx().sidecar().is_some()) {
        let PoolTransaction { tx, sender, sidecar, .. } =
            PoolTransaction::signed(tx).map_err(|error| RpcError::params(error.to_string()))?;
        return Ok((tx, sender, sidecar));
    }
    let sender = recover_sender(&tx).map_err(|error| RpcError::params(error.to_string()))?;
    Ok((tx, sender, None))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{DEFAULT_MNEMONIC, DevAccounts, pool::blob_settings};
    use alloy_consensus::{
        SidecarBuilder, SignableTransaction, SimpleCoder, TxEip4844, TxEip4844Variant,
        TxEip4844WithSidecar, TypedTransaction,
    };

    #[test]
    fn blobs_that_a_transaction_brings_are_not_in_the_block() {
        let sidecar = SidecarBuilder::<SimpleCoder>::from_slice(b"a blob")
            .build_4844_with_settings(blob_settings())
            .unwrap();
        let sidecar = BlobTransactionSidecarVariant::Eip4844(sidecar);
        let blob_versioned_hashes = sidecar.versioned_hashes().collect();
        let tx = TxEip4844 { chain_id: 1337, blob_versioned_hashes, ..Default::default() };
        let tx = TxEip4844WithSidecar { tx, sidecar };
        let tx = TypedTransaction::Eip4844(TxEip4844Variant::TxEip4844WithSidecar(tx));
        let accounts = DevAccounts::new(DEFAULT_MNEMONIC, 1).unwrap();
        let from = accounts.addresses()[0];
        let signature = accounts.sign(&from, &tx.signature_hash()).unwrap();
        let sent = Bytes::from(tx.into_envelope(signature).encoded_2718());
        let (tx, sender, blobs) = with_sender(&sent).unwrap();
        let in_block = Bytes::from(tx.encoded_2718());
        assert!(sender == from && blobs.is_some() && in_block.len() < 1_000);
        let (again, sender, blobs) = with_sender(&in_block).unwrap();
        assert!(again.tx_hash() == tx.tx_hash() && sender == from && blobs.is_none());
    }
}
