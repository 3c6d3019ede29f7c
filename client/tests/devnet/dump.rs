//! Tests of the transfer of the whole state from one node into another.

use crate::{
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::{deploy, word},
};
use alloy_consensus::Header;
use alloy_primitives::{Address, Bytes, U256, address};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

const SOMEBODY: Address = address!("00000000000000000000000000000000000000aa");
const ELSEWHERE: Address = address!("00000000000000000000000000000000000000bb");

/// Returns the answers of a node about some accounts.
fn seen(node: &Devnet, contract: &Value) -> Vec<Value> {
    let mut seen = vec![
        node.call("eth_call", json!([{ "to": contract }, "latest"])),
        node.call("eth_getStorageAt", json!([SOMEBODY, "0x5", "latest"])),
        node.call("eth_blockNumber", json!([])),
    ];
    for address in [json!(ALICE), json!(BOB), json!(SOMEBODY), json!(ELSEWHERE), contract.clone()] {
        seen.push(node.call("eth_getBalance", json!([address, "latest"])));
        seen.push(node.call("eth_getTransactionCount", json!([address, "latest"])));
        seen.push(node.call("eth_getCode", json!([address, "latest"])));
    }
    seen
}

/// Fills a node with a mined contract that has storage, and with changes by hand, of which some are mined.
fn busy(node: &Devnet) -> Value {
    let contract = deploy(node);
    node.call("eth_sendTransaction", json!([{ "from": ALICE, "to": contract, "data": word(5) }]));
    node.call("anvil_setStorageAt", json!([SOMEBODY, "0x5", word(6)]));
    node.call("anvil_setBalance", json!([SOMEBODY, "0x7"]));
    node.send(ALICE, BOB, 1);
    node.call("anvil_setBalance", json!([ELSEWHERE, "0x8"]));
    node.call("anvil_setCode", json!([ELSEWHERE, "0x6001"]));
    contract
}

#[test]
fn a_state_goes_into_another_node_on_every_layer() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = busy(&node);
        let state = node.call("anvil_dumpState", json!([]));
        assert!(state.as_str().unwrap().starts_with("0x1f8b"), "{layer}: it is packed");
        let before = seen(&node, &contract);

        let fresh = Devnet::start(layer, args!["--accounts", "0"]);
        assert_eq!(fresh.call("hardhat_loadState", json!([state])), true, "{layer}");
        assert_eq!(seen(&fresh, &contract), before, "{layer}");
        // The loaded state can be dumped again, without the data of its block.
        assert!(fresh.call("anvil_dumpState", json!([])).as_str().unwrap().len() > 100);
        fresh.call("evm_mine", json!([]));
        assert_eq!(fresh.balance(SOMEBODY), U256::from(7), "{layer}");

        // If the same node loads the state, accounts outside the state stay, and nonces do not decrease.
        node.send(ALICE, ELSEWHERE, 100);
        node.call(
            "eth_sendTransaction",
            json!([{ "from": ALICE, "to": contract, "data": word(9) }]),
        );
        let nonce = node.call("eth_getTransactionCount", json!([ALICE, "latest"]));
        assert_eq!(node.call("anvil_loadState", json!([state])), true);
        assert_eq!(node.balance(ELSEWHERE), U256::from(8), "{layer}");
        assert_eq!(node.call("eth_call", json!([{ "to": contract }, "latest"])), word(5));
        assert_eq!(node.call("eth_getTransactionCount", json!([ALICE, "latest"])), nonce);
        node.send(ALICE, BOB, 1);
        assert_eq!(
            node.call("eth_call", json!([{ "to": contract }, "latest"])),
            word(5),
            "{layer}"
        );
    }
}

#[test]
fn a_dump_holds_the_head_as_anvil_wants_it() {
    let node = Devnet::start("raw", args![]);
    busy(&node);
    node.send(ALICE, BOB, 2);
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let packed: Bytes = serde_json::from_value(node.call("anvil_dumpState", json!([]))).unwrap();
    let state: Value = serde_json::from_reader(GzDecoder::new(&packed[..])).unwrap();
    let block = &state["blocks"][0];
    let header: Header = serde_json::from_value(block["header"].clone()).unwrap();
    assert_eq!(json!(header.hash_slow()), head["hash"]);
    assert_eq!(state["best_block_number"], header.number);
    let txs = block["transactions"].as_array().unwrap().iter();
    let hashes: Vec<_> = txs.map(|tx| tx["transaction"]["hash"].clone()).collect();
    assert_eq!(json!(hashes), head["transactions"]);
    assert_eq!(hashes.len(), 1);
}

#[test]
fn a_directory_knows_its_addresses_after_a_restart() {
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let node = Devnet::open(&data, args!["--state", layer]);
        let contract = busy(&node);
        node.call("evm_mine", json!([]));
        let before = seen(&node, &contract);
        assert_eq!(node.stop(), Some(0));
        let node = Devnet::open(&data, args![]);
        let state = node.call("anvil_dumpState", json!([]));
        let fresh = Devnet::start("mpt", args!["--accounts", "0"]);
        assert_eq!(fresh.call("anvil_loadState", json!([state])), true);
        assert_eq!(seen(&fresh, &contract), before, "{layer}");
    }
}

#[test]
fn what_is_no_state_is_refused() {
    let node = Devnet::start("mpt", args![]);
    for given in ["0x", "0x1f8b00", "0x7b7d"] {
        let (code, message) = node.error("anvil_loadState", json!([given]));
        assert!(code == -32602 && message.contains("anvil_dumpState"), "{given}: {message}");
    }
    assert_eq!(node.head(), 0);
}
