//! Tests of changes of branch, and of going back on a chain.

use crate::support::{ALICE, Node, args, attributes, choice, layers, payment, quantity};
use alloy_primitives::{Address, B256};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn a_branch_of_two_blocks_and_back() {
    let bob = Address::repeat_byte(0xb0);
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::new(&dir.path().join("data"), layer.name, Path::new("dev"), args![]);
        let balance =
            |node: &Node| quantity(&node.public("eth_getBalance", json!([bob, "latest"])));
        let (first, raw) = payment(0, bob, 5);
        node.public("eth_sendRawTransaction", json!([raw]));
        let genesis = node.head();
        let ours = [node.build(genesis, &attributes(10, 1))];
        let theirs = [node.build(genesis, &attributes(10, 2))];
        assert_ne!(ours[0].hash, theirs[0].hash);
        node.valid(&ours[0]);
        node.choose(ours[0].hash);
        let (second, raw) = payment(1, bob, 6);
        node.public("eth_sendRawTransaction", json!([raw]));
        let ours = [ours[0].clone(), node.build(ours[0].hash, &attributes(20, 1))];
        node.valid(&ours[1]);
        node.choose(ours[1].hash);
        assert_eq!((balance(&node), quantity(&node.call("eth_blockNumber", json!([])))), (11, 2));

        // A valid payload on the other branch does not change the head or the state that is read.
        node.valid(&theirs[0]);
        assert_eq!((node.head(), balance(&node)), (ours[1].hash, 11), "{}", layer.name);
        node.choose(theirs[0].hash);
        assert_eq!(balance(&node), 5);
        assert!(node.call("eth_getBlockByHash", json!([ours[1].hash, false])).is_null());
        // A consensus layer still gets its body by the hash.
        let hashes = json!([[ours[1].hash, theirs[0].hash]]);
        for version in [1, 2] {
            let method = format!("engine_getPayloadBodiesByHashV{version}");
            let bodies = node.call(&method, hashes.clone());
            for (body, payload) in [(&bodies[0], &ours[1]), (&bodies[1], &theirs[0])] {
                assert_eq!(body["transactions"], payload.params[0]["transactions"], "{method}");
            }
        }
        // The transactions of a removed block wait in the pool again.
        assert!(node.call("eth_getTransactionReceipt", json!([second])).is_null());
        let waiting = node.call("eth_getTransactionByHash", json!([second]));
        assert!(waiting["blockHash"].is_null() && waiting["nonce"] == "0x1", "{waiting}");
        let receipt = node.call("eth_getTransactionReceipt", json!([first]));
        assert_eq!(receipt["blockHash"], json!(theirs[0].hash));

        let theirs = [theirs[0].clone(), node.build(theirs[0].hash, &attributes(20, 2))];
        node.valid(&theirs[1]);
        node.choose(theirs[1].hash);
        assert_eq!(balance(&node), 11);
        for round in 0..2 {
            node.choose(ours[1].hash);
            assert_eq!(balance(&node), 11, "{} {round}", layer.name);
            let block = node.call("eth_getBlockByNumber", json!(["0x1", false]));
            assert_eq!(block["hash"], json!(ours[0].hash));
            node.choose(theirs[1].hash);
        }
        let nonce = node.call("eth_getTransactionCount", json!([ALICE, "latest"]));
        assert_eq!(nonce, "0x2");

        // A choice whose final block is on another branch than its head is an error and does not
        // move the head.
        let choice = json!({
            "headBlockHash": ours[1].hash, "safeBlockHash": B256::ZERO,
            "finalizedBlockHash": theirs[0].hash
        });
        let (code, message) = node.error("engine_forkchoiceUpdatedV1", json!([choice, null]));
        assert!(code == -38002 && message.contains("finalizedBlockHash"), "{message}");
        assert_eq!(node.head(), theirs[1].hash);

        // Go back with `debug_setHead`, and forward with payloads.
        node.call("debug_setHead", json!(["0x0"]));
        assert_eq!((node.head(), balance(&node)), (genesis, 0));
        node.valid(&theirs[0]);
        node.valid(&theirs[1]);
        node.choose(theirs[1].hash);
        assert_eq!(balance(&node), 11, "{}", layer.name);
        let (code, _) = node.error("debug_setHead", json!(["0x3"]));
        assert_eq!(code, -32000);
    }
}

#[test]
fn what_leaves_the_chain_too_far_back_is_not_gone_over_to() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let node = Node::new(&data, "mpt", Path::new("dev"), args!["--history", "3"]);
    let genesis = node.head();
    let other = node.build(genesis, &attributes(10, 2));
    let mut chain = vec![genesis];
    for number in 1..=5 {
        let payload = node.build(chain[number - 1], &attributes(number as u64 * 10, 1));
        node.valid(&payload);
        node.choose(payload.hash);
        chain.push(payload.hash);
    }
    let head = chain[5];
    assert_eq!(node.payload(&other)["status"], "ACCEPTED");
    for too_deep in [other.hash, chain[1]] {
        let (method, params) = choice(too_deep, B256::ZERO, &Value::Null);
        let (code, message) = node.error(&method, params);
        assert!(code == -38006 && message.contains("--history"), "{code} {message}");
        assert_eq!(node.head(), head);
    }
    // A recent block of the chain can become the head again, and a payload can be made on top of
    // it.
    let made = node.build(chain[3], &attributes(35, 3));
    assert_eq!(node.head(), chain[3]);
    assert_eq!(made.params[0]["parentHash"], json!(chain[3]));
    node.valid(&made);
    node.choose(made.hash);
    // The blocks of the abandoned branch are still known.
    node.choose(head);
    let (_, message) = node.error("debug_setHead", json!(["0x1"]));
    assert!(message.contains("undo records reach back to block 2"), "{message}");
    assert_eq!(node.head(), head);
    node.call("debug_setHead", json!(["0x2"]));
    assert_eq!(quantity(&node.public("eth_blockNumber", json!([]))), 2);
}
