//! Requests that mean no good.

use crate::support::{ALICE, Devnet, args};
use serde_json::{Value, json};

#[test]
fn nonsense_is_answered_and_forgotten() {
    let node = Devnet::start("mpt", args!["--rpc.max-request", "64k"]);
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["{}"]}}"#,
        "0".repeat(100_000)
    );
    for body in [
        "",
        "{",
        "[]",
        "null",
        "[1,2,3]",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0xffffffffffffffffffffffff",true]}"#,
        &deep,
        &long,
    ] {
        let (status, answer) = node.post(body);
        assert!((200..500).contains(&status), "{status}: {answer}");
    }
    assert_eq!(node.call("eth_chainId", json!([])), "0x539");
}

#[test]
fn wrong_parameters_are_named() {
    let node = Devnet::start("mpt", args![]);
    for (method, params) in [
        ("eth_getBalance", json!([])),
        ("eth_getBalance", json!(["0x12"])),
        ("eth_getBalance", json!([5])),
        ("eth_getStorageAt", json!([ALICE, "zz", "latest"])),
        ("eth_feeHistory", json!(["0x1", "latest", [50, 10]])),
        ("eth_feeHistory", json!(["0x1", "latest", [101]])),
        ("eth_getLogs", json!([{ "fromBlock": "0x5", "toBlock": "0x1" }])),
        ("eth_sendRawTransaction", json!(["0x"])),
        ("eth_sendRawTransaction", json!(["0xffff"])),
        ("evm_increaseTime", json!([-5])),
        ("hardhat_mine", json!(["0xffffffffffffffff"])),
    ] {
        let answer = node.answer(method, params.clone());
        let code = answer["error"]["code"].as_i64();
        assert!(code == Some(-32602) || code == Some(-32601), "{method} {params}: {answer}");
        assert_ne!(answer["error"]["message"], Value::Null);
    }
}

#[test]
fn endless_calls_end() {
    let node = Devnet::start("mpt", args!["--rpc.gascap", "1000000"]);
    // JUMPDEST PUSH1 0 JUMP
    let code = json!([{ "data": "0x5b600056", "gas": "0xffffffffff" }, "latest"]);
    let (_, message) = node.error("eth_call", code);
    assert_eq!(message, "out of gas");
    let patient =
        Devnet::start("mpt", args!["--rpc.gascap", "1000000000000000", "--rpc.evmtimeout", "0.2"]);
    let call = json!({ "data": "0x5b600056", "gas": "0xffffffffffff" });
    let roomy = json!({ "blockOverrides": { "gasLimit": "0xffffffffffffff" }, "calls": [call] });
    for (method, params) in [
        ("eth_call", json!([call, "latest"])),
        ("eth_createAccessList", json!([call, "latest"])),
        ("eth_simulateV1", json!([{ "blockStateCalls": [roomy] }, "latest"])),
        ("debug_traceCall", json!([call, "latest", { "tracer": "callTracer" }])),
    ] {
        let (code, message) = patient.error(method, params);
        assert!(code == -32000 && message.contains("--rpc.evmtimeout"), "{method}: {message}");
    }
    let (_, message) = node.error("eth_getBalance", json!([ALICE, "0x64"]));
    assert!(message.contains("the head is block 0"), "{message}");
}
