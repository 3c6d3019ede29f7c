//! Tests of the methods for the block explorer Otterscan.

use crate::{
    support::{ALICE, BOB, Devnet, args, layers, quantity},
    transactions::{deploy, word},
};
use alloy_primitives::{Address, U256, address};
use serde_json::{Value, json};

const SOMEBODY: Address = address!("00000000000000000000000000000000000000aa");

/// Creation code of a contract that passes the value of each call on to an account: 0 0 0 0
/// CALLVALUE PUSH20 account GAS CALL STOP.
const FORWARDER: &str =
    "0x601d8060095f395ff35f5f5f5f347300000000000000000000000000000000000000aa5af100";

#[test]
fn an_explorer_finds_its_way_on_every_layer() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        assert_eq!(node.call("ots_getApiLevel", json!([])), 8);
        let deployed =
            node.call("eth_sendTransaction", json!([{ "from": ALICE, "data": FORWARDER }]));
        let receipt = node.call("eth_getTransactionReceipt", json!([deployed]));
        let forwarder = receipt["contractAddress"].clone();
        let sent = node.call(
            "eth_sendTransaction",
            json!([{ "from": ALICE, "to": forwarder, "value": "0x5", "gas": "0x186a0" }]),
        );
        assert_eq!(node.balance(SOMEBODY), U256::from(5), "{layer}");
        for _ in 0..3 {
            node.send(ALICE, BOB, 1);
        }

        assert_eq!(node.call("ots_hasCode", json!([forwarder, "latest"])), true);
        assert_eq!(node.call("ots_hasCode", json!([forwarder, 0])), false);
        assert_eq!(node.call("ots_hasCode", json!([ALICE, "latest"])), false);
        let header = node.call("erigon_getHeaderByNumber", json!([2]));
        assert_eq!(header["number"], "0x2");

        let inner = node.call("ots_getInternalOperations", json!([sent]));
        let wanted = json!([{ "type": 0, "from": forwarder, "to": SOMEBODY, "value": "0x5" }]);
        assert_eq!(inner, wanted, "{layer}");
        let trace = node.call("ots_traceTransaction", json!([sent]));
        let trace = trace.as_array().unwrap();
        assert_eq!(trace.len(), 2);
        assert_eq!((&trace[1]["type"], &trace[1]["depth"]), (&json!("CALL"), &json!(1)));

        let creator = node.call("ots_getContractCreator", json!([forwarder]));
        assert_eq!(creator, json!({ "hash": deployed, "creator": ALICE }), "{layer}");
        assert_eq!(node.call("ots_getContractCreator", json!([ALICE])), Value::Null);
        let found = node.call("ots_getTransactionBySenderAndNonce", json!([ALICE, 1]));
        assert_eq!(found, sent, "{layer}");
        let none = node.call("ots_getTransactionBySenderAndNonce", json!([ALICE, 99]));
        assert_eq!(none, Value::Null);
    }
}

#[test]
fn the_history_of_an_account() {
    let node = Devnet::start("mpt", args![]);
    let forwarder = {
        let hash = node.call("eth_sendTransaction", json!([{ "from": ALICE, "data": FORWARDER }]));
        node.call("eth_getTransactionReceipt", json!([hash]))["contractAddress"].clone()
    };
    let mut hashes = Vec::new();
    for value in 1..=5 {
        let call =
            json!([{ "from": BOB, "to": forwarder, "value": U256::from(value), "gas": "0x186a0" }]);
        hashes.push(node.call("eth_sendTransaction", call));
        node.send(ALICE, BOB, 1);
    }
    hashes.reverse();
    let of = |page: &Value| -> Vec<Value> {
        page["txs"].as_array().unwrap().iter().map(|tx| tx["hash"].clone()).collect()
    };
    // The account appears only in calls of the contract, and in no transaction itself.
    let first = node.call("ots_searchTransactionsBefore", json!([SOMEBODY, 0, 2]));
    assert_eq!(of(&first), hashes[..2]);
    assert_eq!((&first["firstPage"], &first["lastPage"]), (&json!(true), &json!(false)));
    assert_ne!(first["receipts"][0]["timestamp"], Value::Null);
    let at = quantity(&first["txs"][1]["blockNumber"]).to::<u64>();
    let second = node.call("ots_searchTransactionsBefore", json!([SOMEBODY, at, 25]));
    assert_eq!(of(&second), hashes[2..]);
    assert_eq!((&second["firstPage"], &second["lastPage"]), (&json!(false), &json!(true)));
    let oldest = node.call("ots_searchTransactionsAfter", json!([SOMEBODY, 0, 2]));
    assert_eq!(of(&oldest), hashes[3..]);
    assert_eq!((&oldest["firstPage"], &oldest["lastPage"]), (&json!(false), &json!(true)));
    let newer = node.call("ots_searchTransactionsAfter", json!([SOMEBODY, at, 25]));
    assert_eq!(of(&newer), hashes[..1]);
    assert_eq!(newer["firstPage"], true);
}

#[test]
fn blocks_with_their_fees_and_pages() {
    let node = Devnet::start("mpt", args![]);
    node.call("evm_setAutomine", json!([false]));
    let mut hashes = Vec::new();
    for value in 0..5 {
        hashes.push(node.send(ALICE, BOB, value));
    }
    // Otterscan asks for what is in blocks, and the method of the nodes for what waits, too.
    let third = |method: &str| node.call(method, json!([ALICE, "0x2"]));
    assert_eq!(third("ots_getTransactionBySenderAndNonce"), Value::Null);
    let waiting = third("eth_getTransactionBySenderAndNonce");
    assert_eq!((&waiting["hash"], &waiting["blockHash"]), (&hashes[2], &Value::Null));
    node.call("evm_mine", json!([]));
    let mined = third("eth_getTransactionBySenderAndNonce");
    assert_eq!((&mined["hash"], &mined["blockNumber"]), (&hashes[2], &json!("0x1")));
    let details = node.call("ots_getBlockDetails", json!([1]));
    assert_eq!(details["block"]["transactionCount"], 5);
    assert_eq!(details["block"].get("transactions"), None);
    assert_eq!(details["block"]["logsBloom"], Value::Null);
    assert_eq!(details["issuance"]["issuance"], "0x0");
    assert!(quantity(&details["totalFees"]) > U256::ZERO);
    let hash = &details["block"]["hash"];
    assert_eq!(node.call("ots_getBlockDetailsByHash", json!([hash])), details);
    let page = |number: u64| {
        let page = node.call("ots_getBlockTransactions", json!([1, number, 2]));
        let txs = page["fullblock"]["transactions"].as_array().unwrap();
        assert_eq!(txs.len(), page["receipts"].as_array().unwrap().len());
        assert_eq!(page["fullblock"]["transactionCount"], 5);
        txs.iter().map(|tx| tx["hash"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((page(0), page(2), page(3)), (hashes[3..].to_vec(), hashes[..1].to_vec(), vec![]));
}

#[test]
fn why_a_transaction_failed() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    let bad = format!("0x{}", "ff".repeat(32));
    let hash = node.call(
        "eth_sendTransaction",
        json!([{ "from": ALICE, "to": contract, "data": bad, "gas": "0x186a0" }]),
    );
    let error = node.call("ots_getTransactionError", json!([hash]));
    assert!(error.as_str().unwrap().starts_with("0x08c379a0"), "{error}");
    let good = node
        .call("eth_sendTransaction", json!([{ "from": ALICE, "to": contract, "data": word(1) }]));
    assert_eq!(node.call("ots_getTransactionError", json!([good])), "0x");
}
