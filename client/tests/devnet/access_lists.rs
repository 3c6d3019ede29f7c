//! Tests of the access lists of blocks, from Amsterdam on.

use crate::{
    amsterdam,
    support::{ALICE, BOB, Devnet, args, layers, quantity},
    transactions::{deploy, word},
};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{B256, Bytes, U256, keccak256};
use polytrie::consensus::access_list::access_list_hash;
use serde_json::{Value, json};

/// Returns the access list of a block, and the hash in its header.
fn list_of(node: &Devnet, block: &Value) -> (Vec<AccountChanges>, B256) {
    let list = node.call("eth_getBlockAccessList", json!([block]));
    let header = node.call("eth_getHeaderByHash", json!([block]));
    let hash = header["blockAccessListHash"].clone();
    (serde_json::from_value(list).unwrap(), serde_json::from_value(hash).unwrap())
}

#[test]
fn blocks_of_amsterdam_have_their_lists() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis(dir.path(), &ALICE.to_string());
    for layer in layers() {
        let node = Devnet::start(layer, args!["--chain", &genesis]);
        let contract = deploy(&node);
        for number in [5, 6, 0] {
            let call = json!([{ "from": ALICE, "to": contract, "data": word(number) }]);
            node.call("eth_sendTransaction", call);
        }
        node.send(ALICE, BOB, 7);
        // A change by hand does not appear in the list of the next block.
        node.call("anvil_setBalance", json!([BOB, "0x64"]));
        node.send(ALICE, BOB, 1);
        for number in 1..=node.head() {
            let block = node.call("eth_getBlockByNumber", json!([format!("{number:#x}"), false]));
            let (list, expected) = list_of(&node, &block["hash"]);
            assert_eq!(access_list_hash(&list), expected, "{layer}: block {number}");
            let raw = node.call("debug_getRawBlockAccessList", json!([block["number"]]));
            let raw: Bytes = serde_json::from_value(raw).unwrap();
            assert_eq!(keccak256(&raw), expected, "{layer}: block {number}");
            let sender = list.iter().find(|account| account.address == ALICE).unwrap();
            assert_eq!(sender.nonce_post_state(), Some(number), "{layer}");
        }
        let list = node.call("eth_getBlockAccessList", json!(["latest"]));
        let is_bob = |account: &&Value| account["address"] == json!(BOB);
        let paid = list.as_array().unwrap().iter().find(is_bob).unwrap();
        let expected = json!({
            "address": BOB,
            "storageChanges": [],
            "storageReads": [],
            "balanceChanges": [{ "index": "0x1", "value": "0x65" }],
            "nonceChanges": [],
            "codeChanges": [],
        });
        assert_eq!(*paid, expected, "{layer}");
        // Slots and values are written with all of their leading zeros.
        let set = node.call("eth_getBlockAccessList", json!(["0x2"]));
        let changed = set.as_array().unwrap().iter().find(|a| a["address"] == contract).unwrap();
        let change = &changed["storageChanges"][0];
        assert_eq!(change["key"].as_str().unwrap().len(), 66);
        assert_eq!(
            change["changes"][0],
            json!({ "index": "0x1", "value": B256::from(U256::from(5)) })
        );
        assert_eq!(node.call("eth_getBlockAccessList", json!(["pending"])), Value::Null);
        assert_eq!(node.call("eth_getBlockAccessList", json!(["0xffff"])), Value::Null);
    }
}

#[test]
fn a_block_that_is_only_built_has_its_list() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis(dir.path(), &ALICE.to_string());
    for layer in layers() {
        let node = Devnet::start(layer, args!["--chain", &genesis]);
        let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
        let build = |more: Value| {
            let mut attributes = json!({
                "timestamp": "0x90000000",
                "prevRandao": head["hash"],
                "suggestedFeeRecipient": BOB,
                "withdrawals": [],
                "parentBeaconBlockRoot": head["hash"],
            });
            attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let built = node.call("testing_buildBlockV1", json!([head["hash"], attributes, []]));
            built["executionPayload"].clone()
        };
        let payload = build(json!({ "slotNumber": "0x7", "targetGasLimit": "0x5000000" }));
        assert_eq!(payload["slotNumber"], "0x7", "{layer}: {payload}");
        let limits = [&head, &payload].map(|block| quantity(&block["gasLimit"]));
        assert!(limits[0] < limits[1], "{layer}: {limits:?}");
        // The system call before the transactions is in the list: its contract is that of EIP-4788.
        let list = payload["blockAccessList"].as_str().unwrap();
        let beacon_roots = "000f3df6d732807ef1319fb7b8bb8522d0beac02";
        assert!(list.contains(beacon_roots), "{layer}: {list}");
        // Without a slot in the attributes it is the parent's plus one.
        assert_eq!(build(json!({}))["slotNumber"], "0x1", "{layer}");
    }
}

/// A simulated block has the gas and the roots of the block that was made of the same transaction.
#[test]
fn a_simulated_block_has_its_list() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis(dir.path(), &ALICE.to_string());
    for layer in layers() {
        let node = Devnet::start(layer, args!["--chain", &genesis]);
        deploy(&node);
        let block = node.call("eth_getBlockByNumber", json!(["0x1", true]));
        let tx = &block["transactions"][0];
        let call = json!({
            "from": tx["from"],
            "input": tx["input"],
            "nonce": tx["nonce"],
            "gas": tx["gas"],
            "maxFeePerGas": tx["maxFeePerGas"],
            "maxPriorityFeePerGas": tx["maxPriorityFeePerGas"],
        });
        let overrides = json!({
            "time": block["timestamp"],
            "gasLimit": block["gasLimit"],
            "feeRecipient": block["miner"],
            "prevRandao": block["mixHash"],
            "beaconRoot": block["parentBeaconBlockRoot"],
        });
        let wanted = json!([{ "blockOverrides": overrides, "calls": [call] }]);
        let payload = json!({ "blockStateCalls": wanted, "validation": true });
        let simulated = node.call("eth_simulateV1", json!([payload, "0x0"]));
        for field in
            ["baseFeePerGas", "gasUsed", "receiptsRoot", "requestsHash", "blockAccessListHash"]
        {
            assert!(block[field].is_string(), "{layer} {field}: {block}");
            assert_eq!(simulated[0][field], block[field], "{layer} {field}: {simulated}");
        }
    }
}

#[test]
fn blocks_before_have_none() {
    let node = Devnet::start("mpt", args![]);
    node.send(ALICE, BOB, 1);
    for method in ["eth_getBlockAccessList", "debug_getRawBlockAccessList"] {
        let (code, message) = node.error(method, json!(["latest"]));
        assert!(code == -32001 && message.contains("before Amsterdam"), "{code} {message}");
    }
}
