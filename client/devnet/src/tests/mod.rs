//! Tests of the node, most of them on every layer.

#![expect(clippy::unwrap_used, reason = "tests")]

mod history;
mod impersonation;
mod mining;

use super::*;
use crate::pool::blob_settings;
use alloy_consensus::{
    BlobTransactionSidecarVariant, SidecarBuilder, SignableTransaction, SimpleCoder, TxEip1559,
    TxEip4844, TxEip4844Variant, TxEip4844WithSidecar, TxEip7702, TypedTransaction,
};
use alloy_eips::{eip7702::Authorization, eip7825::MAX_TX_GAS_LIMIT_OSAKA};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address};
use parking_lot::Mutex;
use polytrie_chain::{Chain, ChainOptions, TABLES};
use polytrie_kv::{Engine, MemoryEngine, Store, StoreOptions};
use polytrie_kv_testing::{Fault, FaultEngine};
use polytrie_layers::{LAYERS, LayerOptions};
use polytrie_node::datadir::{DataDir, OpenOptions};
use polytrie_state::Account;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

const SOMEBODY: Address = address!("00000000000000000000000000000000000000aa");
const ETHER: u128 = 1_000_000_000_000_000_000;

pub(crate) fn in_memory(layer: &str) -> OpenOptions {
    OpenOptions {
        chain: Some("dev".into()),
        state: Some(layer.into()),
        kv: Some("memory".into()),
        layer: LayerOptions::for_tests(),
        ..OpenOptions::default()
    }
}

fn accounts() -> DevAccounts {
    DevAccounts::new(DEFAULT_MNEMONIC, 3).unwrap()
}

pub(crate) fn node(layer: &str) -> Arc<Node> {
    node_in(DataDir::open(&in_memory(layer), true).unwrap())
}

fn node_in(dir: DataDir) -> Arc<Node> {
    let (chain, dir) = dir.into_chain().unwrap();
    node_on(chain, dir)
}

fn node_on(chain: Chain, dir: DataDir) -> Arc<Node> {
    Node::new(chain, dir, options()).unwrap()
}

/// Sets the balance of an account by hand.
pub(crate) fn set_balance(node: &Node, address: Address, wei: U256) {
    node.cheat(&[address], |cheats| cheats.account_mut(address).balance = wei).unwrap();
}

pub(crate) fn options() -> NodeOptions {
    NodeOptions {
        accounts: accounts(),
        mining: MiningMode::Manual,
        read_only: false,
        pool: PoolLimits::default(),
        gas_limit: None,
        beneficiary: Address::ZERO,
        is_driven: false,
    }
}

/// Opens a chain whose rows are in this engine.
pub(crate) fn chain_in(engine: Arc<dyn Engine>, layer: &str) -> (Chain, DataDir) {
    let dir = DataDir::open(&in_memory(layer), true).unwrap();
    let tables: Vec<_> = TABLES.iter().chain(dir.kind.tables).copied().collect();
    let store = Store::open(engine, &tables, StoreOptions::default()).unwrap();
    let layer = (dir.kind.open)(store.clone().into(), &LayerOptions::for_tests()).unwrap();
    let spec = dir.spec().unwrap();
    let chain = Chain::open(spec, store, layer, ChainOptions::default()).unwrap();
    (chain, dir)
}

pub(crate) fn transfer(node: &Node, from: usize, nonce: u64, value: u128) -> PoolTransaction {
    let from = node.accounts().addresses()[from];
    let tx: TypedTransaction = TxEip1559 {
        chain_id: 1337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 2_000_000_000,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(SOMEBODY),
        value: U256::from(value),
        ..Default::default()
    }
    .into();
    let signature = node.accounts().sign(&from, &tx.signature_hash()).unwrap();
    PoolTransaction::signed(tx.into_envelope(signature)).unwrap()
}

/// Returns a transaction with a blob that has one proof, as before Osaka.
pub(crate) fn with_blob(node: &Node, from: usize, nonce: u64) -> PoolTransaction {
    let from = node.accounts().addresses()[from];
    let sidecar = SidecarBuilder::<SimpleCoder>::from_slice(b"a blob")
        .build_4844_with_settings(blob_settings())
        .unwrap();
    let sidecar = BlobTransactionSidecarVariant::Eip4844(sidecar);
    let tx = TxEip4844 {
        chain_id: 1337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 2_000_000_000,
        max_priority_fee_per_gas: 1,
        max_fee_per_blob_gas: 1_000_000_000,
        to: SOMEBODY,
        blob_versioned_hashes: sidecar.versioned_hashes().collect(),
        ..Default::default()
    };
    let tx = TxEip4844WithSidecar { tx, sidecar };
    let tx = TypedTransaction::Eip4844(TxEip4844Variant::TxEip4844WithSidecar(tx));
    let signature = node.accounts().sign(&from, &tx.signature_hash()).unwrap();
    PoolTransaction::signed(tx.into_envelope(signature)).unwrap()
}
