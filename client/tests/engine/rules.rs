//! Tests of the parameters of calls, and of the limit on kept payloads.

use crate::support::{Node, args, attributes};
use alloy_primitives::B256;
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn a_call_of_another_shape_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&dir.path().join("data"), "mpt", Path::new("dev"), args![]);
    let payload = node.build(node.head(), &attributes(10, 1));
    let params = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut params = payload.params.clone();
        change(&mut params);
        json!(params)
    };
    let old = params(&|params| params.truncate(3));
    for (method, params, expected) in [
        ("engine_newPayloadV4", json!([]), -32602),
        ("engine_newPayloadV4", params(&|params| params.truncate(3)), -32602),
        ("engine_newPayloadV4", params(&|params| params[0]["withdrawals"] = Value::Null), -32602),
        ("engine_newPayloadV4", params(&|params| params[0]["blobGasUsed"] = Value::Null), -32602),
        ("engine_newPayloadV4", params(&|params| params[1] = Value::Null), -32602),
        // A request without content, and requests in the wrong order.
        ("engine_newPayloadV4", params(&|params| params[3] = json!(["0x00"])), -32602),
        ("engine_newPayloadV4", params(&|params| params[3] = json!(["0x0101", "0x0001"])), -32602),
        ("engine_newPayloadV3", old, -38005),
        ("engine_forkchoiceUpdatedV3", json!([]), -32602),
    ] {
        let (code, message) = node.error(method, params.clone());
        assert_eq!(code, expected, "{method} {params}: {message}");
    }
    // The blob hashes differ from those of the transactions.
    let mut blobs = payload.clone();
    blobs.params[1] = json!([B256::repeat_byte(1)]);
    let status = node.payload(&blobs);
    assert_eq!((&status["status"], &status["latestValidHash"]), (&json!("INVALID"), &Value::Null));
    let zero = json!({
        "headBlockHash": B256::ZERO, "safeBlockHash": B256::ZERO, "finalizedBlockHash": B256::ZERO
    });
    assert_eq!(node.error("engine_forkchoiceUpdatedV3", json!([zero, null])).0, -38002);
    node.valid(&payload);
    node.choose(payload.hash);
}

#[test]
fn what_is_kept_is_bounded_and_the_head_needs_none_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // The limit leaves room for one empty block.
    let node = Node::new(&data, "mpt", Path::new("dev"), args!["--engine.payloads", "1000"]);
    let genesis = node.head();
    let [one, two] = [1, 2].map(|salt| node.build(genesis, &attributes(10, salt)));
    node.valid(&one);
    node.choose(one.hash);
    let three = node.build(one.hash, &attributes(20, 1));
    node.valid(&two);
    node.valid(&three);
    // The oldest payload was dropped.
    let answer = node.choose_as(two.hash, B256::ZERO, &Value::Null);
    assert_eq!(answer["payloadStatus"]["status"], "SYNCING");
    node.choose(three.hash);
    node.valid(&two);
    node.choose(two.hash);
}

#[test]
fn no_block_is_safe_or_finalized_before_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&dir.path().join("data"), "mpt", Path::new("dev"), args![]);
    let address = alloy_primitives::Address::ZERO;
    for tag in ["safe", "finalized"] {
        for (method, params) in [
            ("eth_getBlockByNumber", json!([tag, false])),
            ("eth_getHeaderByNumber", json!([tag])),
            ("eth_getBlockTransactionCountByNumber", json!([tag])),
            ("eth_getUncleCountByBlockNumber", json!([tag])),
            ("eth_getUncleByBlockNumberAndIndex", json!([tag, "0x0"])),
            ("eth_getTransactionByBlockNumberAndIndex", json!([tag, "0x0"])),
            ("eth_getRawTransactionByBlockNumberAndIndex", json!([tag, "0x0"])),
            ("eth_getBlockReceipts", json!([tag])),
            ("eth_getBlockAccessList", json!([tag])),
            ("eth_getBalance", json!([address, tag])),
            ("eth_getProof", json!([address, [], tag])),
            ("eth_call", json!([{}, tag])),
            ("eth_feeHistory", json!(["0x1", tag, []])),
            ("eth_getLogs", json!([{ "fromBlock": tag }])),
            ("debug_getRawHeader", json!([tag])),
            ("debug_traceBlockByNumber", json!([tag])),
            ("trace_block", json!([tag])),
            ("ots_getBlockDetails", json!([tag])),
            ("erigon_getHeaderByNumber", json!([tag])),
        ] {
            let expected = (-32000, format!("{tag} block not found"));
            assert_eq!(node.error(method, params), expected, "{method}");
        }
    }
    // They may be left out of a choice.
    node.choose_as(node.head(), B256::ZERO, &Value::Null);
    assert_eq!(node.error("eth_getBlockByNumber", json!(["safe", false])).0, -32000);
    node.choose_as(node.head(), node.head(), &Value::Null);
    assert_eq!(node.call("eth_getBlockByNumber", json!(["safe", false]))["number"], "0x0");
}

#[test]
fn bodies_that_no_answer_can_hold_are_too_many() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // Half of the limit is the room for bytes, of which an empty block takes about 600.
    let node = Node::new(&data, "mpt", Path::new("dev"), args!["--rpc.max-response", "4000"]);
    let mut hashes = Vec::new();
    for number in 1..=4 {
        let payload = node.build(node.head(), &attributes(number * 10, 1));
        node.valid(&payload);
        node.choose(payload.hash);
        hashes.push(payload.hash);
    }
    for (method, params) in [
        ("engine_getPayloadBodiesByRangeV1", json!(["0x1", "0x4"])),
        ("engine_getPayloadBodiesByHashV2", json!([hashes])),
    ] {
        let (code, message) = node.error(method, params);
        assert!(code == -38004 && message.contains("at most 3"), "{method}: {code} {message}");
    }
    let three = node.call("engine_getPayloadBodiesByRangeV1", json!(["0x1", "0x3"]));
    assert_eq!(three, json!(vec![json!({ "transactions": [], "withdrawals": [] }); 3]));
}
