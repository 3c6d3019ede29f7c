//! Tests of payloads of Amsterdam, which contain the access list of their block.

use crate::{
    amsterdam,
    support::{ALICE, Node, args, attributes, layers, payment},
};
use alloy_primitives::{Address, B256, Bytes};
use serde_json::{Value, json};

const ROOT: B256 = B256::repeat_byte(0xbe);

/// Makes a block the head and starts a payload on top of it. Returns the id of the payload.
fn choose(node: &Node, head: B256, attributes: &Value) -> Value {
    let choice = json!({
        "headBlockHash": head, "safeBlockHash": B256::ZERO, "finalizedBlockHash": B256::ZERO
    });
    let answer = node.call("engine_forkchoiceUpdatedV4", json!([choice, attributes, null]));
    assert_eq!(answer["payloadStatus"]["status"], "VALID", "{answer}");
    answer["payloadId"].clone()
}

fn attributes_of_slot(timestamp: u64, slot: u64) -> Value {
    let mut attributes = attributes(timestamp, 1);
    attributes["slotNumber"] = json!(format!("{slot:#x}"));
    attributes["targetGasLimit"] = json!("0x3938700");
    attributes
}

#[test]
fn a_payload_of_amsterdam_goes_round() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis(dir.path(), &ALICE.to_string());
    let bob = Address::repeat_byte(0xb0);
    for layer in layers() {
        let node = Node::new(&dir.path().join(layer.name), layer.name, &genesis, args![]);
        let id = choose(&node, node.head(), &attributes_of_slot(10, 42));
        let (_, raw) = payment(0, bob, 5);
        node.public("eth_sendRawTransaction", json!([raw]));
        assert_eq!(node.error("engine_getPayloadV5", json!([id])).0, -38005);
        let made = node.call("engine_getPayloadV6", json!([id]));
        let payload = &made["executionPayload"];
        assert_eq!(payload["slotNumber"], "0x2a", "{}", layer.name);
        assert_eq!(payload["transactions"], json!([raw]));
        let send = |payload: &Value| {
            let params = json!([payload, [], ROOT, made["executionRequests"]]);
            node.call("engine_newPayloadV5", params)
        };
        // The hash of the block covers the hash of the list, so a payload with another list is another
        // block.
        let list: Bytes = serde_json::from_value(payload["blockAccessList"].clone()).unwrap();
        let mut other = payload.clone();
        other["blockAccessList"] = json!(Bytes::from([&list[..], &[0x80]].concat()));
        let status = send(&other);
        assert_eq!(
            (&status["status"], &status["latestValidHash"]),
            (&json!("INVALID"), &Value::Null)
        );
        let mut without = payload.clone();
        without.as_object_mut().unwrap().remove("blockAccessList");
        let params = json!([without, [], ROOT, made["executionRequests"]]);
        assert_eq!(node.error("engine_newPayloadV5", params).0, -32602);
        let status = send(payload);
        assert_eq!(status["status"], "VALID", "{}: {status}", layer.name);
        let hash: B256 = serde_json::from_value(payload["blockHash"].clone()).unwrap();
        choose(&node, hash, &Value::Null);
        assert_eq!(node.head(), hash);
        // The list can be requested again with the body.
        let bodies = node.call("engine_getPayloadBodiesByHashV2", json!([[hash, ROOT]]));
        assert_eq!(bodies[0]["blockAccessList"], payload["blockAccessList"], "{}", layer.name);
        assert_eq!(bodies[1], Value::Null);
        let range = node.call("engine_getPayloadBodiesByRangeV2", json!(["0x1", "0x5"]));
        assert_eq!(range, json!([bodies[0]]));
    }
}

#[test]
fn attributes_of_amsterdam_name_slot_and_gas_limit() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis(dir.path(), &ALICE.to_string());
    let node = Node::new(&dir.path().join("data"), "mpt", &genesis, args![]);
    let head = node.head();
    let choice = json!({
        "headBlockHash": head, "safeBlockHash": B256::ZERO, "finalizedBlockHash": B256::ZERO
    });
    for missing in ["slotNumber", "targetGasLimit"] {
        let mut attributes = attributes_of_slot(10, 1);
        attributes.as_object_mut().unwrap().remove(missing);
        let (code, message) = node.error("engine_forkchoiceUpdatedV4", json!([choice, attributes]));
        assert!(code == -38003 && message.contains(missing), "{code} {message}");
    }
    let old = attributes(10, 1);
    assert_eq!(node.error("engine_forkchoiceUpdatedV3", json!([choice, old])).0, -38005);
}

/// A body has the list of its block, which counts as what an answer has no room for.
#[test]
fn a_body_whose_list_no_answer_can_hold_is_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let (genesis, data) =
        (amsterdam::genesis(dir.path(), &ALICE.to_string()), dir.path().join("data"));
    let node = Node::new(&data, "mpt", &genesis, args![]);
    let id = choose(&node, node.head(), &attributes_of_slot(10, 42));
    let made = node.call("engine_getPayloadV6", json!([id]));
    let payload = &made["executionPayload"];
    let params = json!([payload, [], ROOT, made["executionRequests"]]);
    assert_eq!(node.call("engine_newPayloadV5", params)["status"], "VALID");
    choose(&node, serde_json::from_value(payload["blockHash"].clone()).unwrap(), &Value::Null);
    let length = |bytes: &Value| serde_json::from_value::<Bytes>(bytes.clone()).unwrap().len();
    let block = length(&node.call("debug_getRawBlock", json!(["latest"])));
    // A byte takes two digits.
    let most = 2 * (block + length(&payload["blockAccessList"])) - 1;
    assert_eq!(node.stop(), Some(0));
    let node = Node::open(&data, args!["--rpc.max-response", most.to_string()]);
    let one = json!(["0x1", "0x1"]);
    let body = node.call("engine_getPayloadBodiesByRangeV1", one.clone());
    assert_eq!(body[0]["transactions"], json!([]));
    assert_eq!(node.error("engine_getPayloadBodiesByRangeV2", one).0, -38004);
}

/// The lists of bodies are computed by running the blocks again. When the time of the request is over, the
/// remaining bodies come without lists.
#[test]
fn bodies_come_without_lists_once_their_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis(dir.path(), &ALICE.to_string());
    let no_time = args!["--rpc.evmtimeout", "0.000000001"];
    let node = Node::new(&dir.path().join("data"), "mpt", &genesis, no_time);
    let id = choose(&node, node.head(), &attributes_of_slot(10, 42));
    let made = node.call("engine_getPayloadV6", json!([id]));
    let payload = &made["executionPayload"];
    let params = json!([payload, [], ROOT, made["executionRequests"]]);
    assert_eq!(node.call("engine_newPayloadV5", params)["status"], "VALID");
    let hash: B256 = serde_json::from_value(payload["blockHash"].clone()).unwrap();
    choose(&node, hash, &Value::Null);
    for (method, params) in [
        ("engine_getPayloadBodiesByHashV2", json!([[hash]])),
        ("engine_getPayloadBodiesByRangeV2", json!(["0x1", "0x1"])),
    ] {
        let bodies = node.call(method, params);
        assert_eq!(bodies[0]["transactions"], json!([]), "{method}: {bodies}");
        assert_eq!(bodies[0]["blockAccessList"], Value::Null, "{method}: {bodies}");
    }
}
