//! Tests of payloads that the node makes.

use crate::support::{Node, Payload, args, attributes, choice, layers, payment, quantity};
use alloy_primitives::{Address, B256, U256};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn a_payload_goes_round() {
    let bob = Address::repeat_byte(0xb0);
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::new(&dir.path().join("data"), layer.name, Path::new("dev"), args![]);
        let genesis = node.head();
        let mut wanted = attributes(10, 1);
        wanted["withdrawals"] =
            json!([{ "index": "0x0", "validatorIndex": "0x1", "address": bob, "amount": "0x3" }]);
        let answer = node.choose_as(genesis, B256::ZERO, &wanted);
        let id = &answer["payloadId"];
        // The same attributes give the same payload id.
        assert_eq!(&node.choose_as(genesis, B256::ZERO, &wanted)["payloadId"], id);

        // The payload is empty until the pool has a transaction.
        let empty = node.call("engine_getPayloadV5", json!([id]));
        assert_eq!(empty["executionPayload"]["transactions"], json!([]));
        assert_eq!(empty["blockValue"], "0x0");
        let (hash, raw) = payment(0, bob, 5);
        assert_eq!(node.public("eth_sendRawTransaction", json!([raw])), json!(hash));
        let full = node.call("engine_getPayloadV5", json!([id]));
        assert_eq!(full["executionPayload"]["transactions"], json!([raw]));
        let tip = 21_000 * 1_000_000_000_u64;
        assert_eq!(full["blockValue"], json!(U256::from(tip)));
        assert_eq!(full["blobsBundle"], json!({ "commitments": [], "proofs": [], "blobs": [] }));
        assert_eq!(full["executionRequests"], json!([]));
        assert_eq!(full["shouldOverrideBuilder"], false);
        let payload = &full["executionPayload"];
        assert_eq!(payload["feeRecipient"], json!(Address::repeat_byte(1)));
        assert_eq!(payload["prevRandao"], json!(B256::repeat_byte(1)));
        assert_eq!(payload["withdrawals"][0]["amount"], "0x3");

        let made = Payload::made(&full, B256::repeat_byte(0xbe));
        node.valid(&made);
        // A request for the pending block does not change the payload.
        node.public("eth_getBlockByNumber", json!(["pending", false]));
        node.choose(made.hash);
        let balance = node.public("eth_getBalance", json!([bob, "latest"]));
        assert_eq!(quantity(&balance), 5 + 3_000_000_000, "{}", layer.name);
        let fees = node.public("eth_getBalance", json!([Address::repeat_byte(1), "latest"]));
        assert_eq!(quantity(&fees), tip);
        assert_eq!(node.public("txpool_status", json!([]))["pending"], "0x0");
        // The parent of the payload is not the head any more, so the payload does not change.
        assert_eq!(node.call("engine_getPayloadV5", json!([id])), full);
    }
}

#[test]
fn attributes_are_held_against_version_and_head() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&dir.path().join("data"), "mpt", Path::new("dev"), args![]);
    let genesis = node.head();
    let first = node.build(genesis, &attributes(10, 1));
    node.valid(&first);
    let chosen = json!({
        "headBlockHash": first.hash, "safeBlockHash": B256::ZERO, "finalizedBlockHash": B256::ZERO
    });
    // The head moves although the attributes are refused.
    let late = attributes(10, 1);
    let (code, message) = node.error("engine_forkchoiceUpdatedV3", json!([chosen, late]));
    assert!(code == -38003 && message.contains("later"), "{code} {message}");
    assert_eq!(node.head(), first.hash);
    // As long as the head is not known, nothing is said about the attributes.
    let unknown = node.choose_as(B256::repeat_byte(9), B256::ZERO, &late);
    let syncing = json!({ "status": "SYNCING", "latestValidHash": null, "validationError": null });
    assert_eq!(unknown, json!({ "payloadStatus": syncing, "payloadId": null }));
    let without = |field: &str| {
        let mut attributes = attributes(20, 1);
        attributes.as_object_mut().unwrap().remove(field);
        attributes
    };
    let root = "parentBeaconBlockRoot";
    for (version, attributes, expected) in [
        (3, without("withdrawals"), -38003),
        (3, without(root), -38003),
        (2, without(root), -38005),
        (2, attributes(20, 1), -38003),
        (3, without("prevRandao"), -38003),
        (3, json!("none"), -38003),
    ] {
        let method = format!("engine_forkchoiceUpdatedV{version}");
        let (code, message) = node.error(&method, json!([chosen, attributes]));
        assert_eq!(code, expected, "{method} {attributes}: {message}");
    }
    // The head also moves if the attributes lack a field.
    let second = node.build(first.hash, &attributes(20, 1));
    node.valid(&second);
    let (method, params) = choice(second.hash, B256::ZERO, &without("prevRandao"));
    let (code, message) = node.error(&method, params);
    assert!(code == -38003 && message.contains("prevRandao"), "{code} {message}");
    assert_eq!(node.head(), second.hash);
    node.choose(first.hash);
    for (method, id, expected) in [
        ("engine_getPayloadV5", json!("0x0000000000000001"), -38001),
        ("engine_getPayloadV5", Value::Null, -32602),
    ] {
        assert_eq!(node.error(method, json!([id])).0, expected, "{method} {id}");
    }
    let id = &node.choose_as(first.hash, B256::ZERO, &attributes(20, 1))["payloadId"];
    for version in 1..=4 {
        let (code, message) = node.error(&format!("engine_getPayloadV{version}"), json!([id]));
        assert!(code == -38005 && message.contains("Osaka"), "V{version}: {message}");
    }
}
