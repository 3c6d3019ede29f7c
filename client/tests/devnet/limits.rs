//! Tests of malformed and excessive requests.

use crate::support::{ALICE, BOB, Devnet, args};
use serde_json::{Value, json};

#[test]
fn nonsense_is_answered_and_forgotten() {
    let node = Devnet::start("mpt", args!["--rpc.max-request", "64k"]);
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["{}"]}}"#,
        "0".repeat(100_000)
    );
    let invalid = json!(-32600);
    let unread = json!(-32700);
    let params = json!(-32602);
    let too_large = json!(-32007);
    for (body, code) in [
        ("", &unread),
        ("{", &unread),
        ("[]", &invalid),
        // The library answers valid JSON that is no request as if it could not be parsed.
        ("null", &unread),
        (r#"{"jsonrpc":"2.0"}"#, &unread),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, &invalid),
        (r#"{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}"#, &invalid),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":{"a":1}}"#, &params),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":"x"}"#, &params),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0xffffffffffffffffffffffff",true]}"#,
            &params,
        ),
        (long.as_str(), &too_large),
    ] {
        let (_, answer) = node.post(body);
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        assert_eq!(&answer["error"]["code"], code, "{:.80}: {answer}", body);
    }
    for (batch, count) in [("[1,2,3]", 3), (deep.as_str(), 1)] {
        let (_, answers) = node.post(batch);
        let answers: Vec<Value> = serde_json::from_str(&answers).unwrap();
        let codes: Vec<_> = answers.iter().map(|one| &one["error"]["code"]).collect();
        assert_eq!(codes, vec![&invalid; count]);
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
        ("eth_feeHistory", json!(["0x1", "latest", [50, 50]])),
        ("eth_getLogs", json!([{ "toBlock": "pending" }])),
        ("eth_newFilter", json!([{ "fromBlock": "pending" }])),
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
fn a_block_to_be_built_keeps_the_rules() {
    let node = Devnet::start("mpt", args![]);
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let build = |time: &str, extra: usize| {
        let attributes = json!({
            "timestamp": time,
            "prevRandao": head["hash"],
            "suggestedFeeRecipient": ALICE,
            "withdrawals": [],
            "parentBeaconBlockRoot": head["hash"],
        });
        let extra = format!("0x{}", "11".repeat(extra));
        node.answer("testing_buildBlockV1", json!([head["hash"], attributes, [], extra]))
    };
    let built = build("0xfffffffffffffffe", 32);
    assert_eq!(built["result"]["executionPayload"]["blockNumber"], "0x1", "{built}");
    for (time, extra, reason) in [
        ("0xfffffffffffffffe", 33, "33 bytes, expected at most 32"),
        ("0xffffffffffffffff", 32, "no block could follow"),
    ] {
        let message = build(time, extra)["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn endless_calls_end() {
    let node = Devnet::start("mpt", args!["--rpc.gascap", "1000000"]);
    // The code is JUMPDEST PUSH1 0 JUMP.
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

#[test]
fn a_trace_is_bounded_while_it_grows() {
    let node =
        Devnet::start("mpt", args!["--rpc.max-response", "1M", "--rpc.gascap", "1000000000"]);
    // The code is JUMPDEST PUSH1 0 JUMP, until all gas is used.
    let call = json!({ "from": ALICE, "data": "0x5b600056", "gas": "0x989680" });
    let hash = node.call("eth_sendTransaction", json!([call]));
    let hash = hash.as_str().unwrap();
    let big = json!({ "data": "0x5b600056", "gas": "0x3b9aca00" });
    // The code calls the identity contract with 32 kB in a loop.
    let calls = json!({ "data": "0x5b5f5f6180005f5f60045af1505f56", "gas": "0x989680" });
    // The code reads one slot after the other. Each step of the trace shows all of them.
    let slots = json!({ "data": "0x5f5b60010180545060015600", "gas": "0x989680" });
    // The code hashes 32 kB in a loop, each time with another content.
    let hashes = json!({ "data": "0x5b5f516001015f526180005f20505f56", "gas": "0x989680" });
    let mux = json!({ "tracer": "muxTracer", "tracerConfig": { "keccak256PreimageTracer": {} } });
    for (method, params) in [
        ("debug_traceCall", json!([hashes, "latest", { "tracer": "keccak256PreimageTracer" }])),
        ("debug_traceCall", json!([hashes, "latest", { "tracer": "erc7562Tracer" }])),
        ("debug_traceCall", json!([hashes, "latest", mux])),
        ("debug_traceTransaction", json!([hash])),
        ("debug_traceTransaction", json!([hash, { "tracer": "" }])),
        ("debug_traceBlockByNumber", json!(["latest"])),
        ("debug_traceCall", json!([big, "latest"])),
        ("debug_traceCall", json!([slots, "latest"])),
        ("debug_traceCall", json!([calls, "latest", { "tracer": "callTracer" }])),
    ] {
        let (code, message) = node.error(method, params.clone());
        assert_eq!(code, -32008, "{method} {params}: {message}");
        assert!(message.contains("--rpc.max-response"), "{method} {params}: {message}");
    }
    // The code copies 1 MiB over itself in a loop. The trace of the virtual machine contains the bytes written to
    // memory.
    let copies = json!({ "data": "0x5b621000005f5f5e5f56", "gas": "0x989680" });
    // The code calls an empty contract of 24 kB in a loop. The trace contains the code of each call.
    let large = json!([{ "from": ALICE, "data": "0x6160005ff3", "gas": "0x989680" }]);
    let large = node.call("eth_sendTransaction", large);
    let large = node.call("eth_getTransactionReceipt", json!([large]))["contractAddress"].clone();
    let large = large.as_str().unwrap();
    let data = format!("0x5b5f5f5f5f5f73{}5af1505f56", &large[2..]);
    let loads = json!({ "data": data, "gas": "0x124f8" });
    // A contract of 600 kB that is only read.
    let code = format!("0x{}", "00".repeat(600_000));
    let overrides = json!({ BOB.to_string(): { "code": code } });
    let prestate = json!({ "tracer": "prestateTracer", "stateOverrides": overrides });
    for (method, params) in [
        ("trace_call", json!([copies, ["vmTrace"], "latest"])),
        ("trace_call", json!([loads, ["vmTrace"], "latest"])),
        ("debug_traceCall", json!([{ "to": BOB }, "latest", prestate])),
    ] {
        let (code, message) = node.error(method, params);
        assert_eq!(code, -32008, "{method}: {message}");
        assert!(message.contains("--rpc.max-response"), "{method}: {message}");
    }
    let mut calls = calls;
    calls["from"] = json!(ALICE);
    let hash_of_calls = node.call("eth_sendTransaction", json!([calls]));
    for method in ["ots_traceTransaction", "ots_getInternalOperations", "ots_getTransactionError"] {
        let (code, message) = node.error(method, json!([hash_of_calls]));
        assert_eq!(code, -32008, "{method}: {message}");
    }
    let search = node.error("ots_searchTransactionsBefore", json!([ALICE, 0, 10]));
    assert_eq!(search.0, -32008, "{}", search.1);
    let short = node.call("debug_traceTransaction", json!([hash, { "limit": 500 }]));
    assert_eq!(short["structLogs"].as_array().unwrap().len(), 8);
    node.call("debug_traceTransaction", json!([hash, { "tracer": "callTracer" }]));
}

#[test]
fn running_a_transaction_again_has_its_time_too() {
    let node = Devnet::start("mpt", args!["--rpc.evmtimeout", "0.001"]);
    let call = json!({ "from": ALICE, "data": "0x5b600056", "gas": "0x989680" });
    let hash = node.call("eth_sendTransaction", json!([call]));
    for (method, params) in [
        ("debug_traceTransaction", json!([hash, { "tracer": "callTracer" }])),
        ("debug_traceBlockByNumber", json!(["latest", { "tracer": "callTracer" }])),
        ("debug_executionWitness", json!(["latest"])),
        ("ots_traceTransaction", json!([hash])),
    ] {
        let (code, message) = node.error(method, params);
        assert!(code == -32000 && message.contains("--rpc.evmtimeout"), "{method}: {message}");
    }
}

#[test]
fn names_that_are_made_up_are_counted_as_one() {
    let node = Devnet::start("mpt", args![]);
    node.call("eth_chainId", json!([]));
    for name in ["eth_chainId!", "eth_chain\"Id", "", &"x".repeat(1 << 20)] {
        assert_eq!(node.error(name, json!([])).0, -32601);
    }
    let (_, metrics) = node.get("/metrics");
    let lines: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("polytrie_rpc_requests_total{")).collect();
    assert_eq!(
        lines,
        [
            "polytrie_rpc_requests_total{method=\"eth_chainId\"} 1",
            "polytrie_rpc_requests_total{method=\"other\"} 4"
        ]
    );
}

#[test]
fn a_subscription_over_http_is_refused_as_by_geth() {
    let node = Devnet::start("mpt", args![]);
    let (code, message) = node.error("eth_subscribe", json!(["newHeads"]));
    assert_eq!((code, message.as_str()), (-32601, "notifications not supported"));
    let one =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
    let (_, body) = node.post(&json!([one]).to_string());
    let answers: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answers[0]["error"]["code"], -32601, "{body}");
}

#[test]
fn ids_are_texts_and_whole_numbers() {
    let node = Devnet::start("mpt", args![]);
    let request =
        |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_chainId","params":[]}}"#);
    let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x539"}}"#);
    let ids = ["0", "18446744073709551615", "\"-1\""];
    for id in ids {
        assert_eq!(node.post(&request(id)), (200, answer(id)));
    }
    let others = ["-1", "0.25", "1e3", "18446744073709551616", "true", "[1]", "{}"];
    for id in others {
        let (status, body) = node.post(&request(id));
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (status, &answer["error"]["code"], &answer["id"]),
            (200, &json!(-32600), &Value::Null)
        );
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("whole number from 0"), "{message}");
    }
    let batch =
        format!("[{}]", ids.into_iter().chain(others).map(request).collect::<Vec<_>>().join(","));
    assert_eq!(node.post(&batch), (200, format!("[{}]", ids.map(answer).join(","))));
}

#[test]
fn a_request_in_pieces_is_bounded_too() {
    let node = Devnet::start("mpt", args!["--rpc.max-request", "1k"]);
    let post = |length: usize| {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#.to_owned()
            + &" ".repeat(length);
        let size = request.len();
        node.http(&format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{size:x}\r\n{request}\r\n0\r\n\r\n"
        ))
    };
    let (status, body) = post(1);
    assert!(status == 200 && body.contains("0x539"), "{status} {body}");
    assert_eq!(post(1024).0, 413);
}

#[test]
fn a_notification_is_answered_with_nothing() {
    let node = Devnet::start("mpt", args![]);
    let mine = r#"{"jsonrpc":"2.0","method":"evm_mine","params":[]}"#;
    assert_eq!(node.post(mine), (204, String::new()));
    assert_eq!(node.post(&format!("[{mine}]")), (204, String::new()));
}

#[test]
fn what_waits_is_shown_as_far_as_it_fits() {
    let node = Devnet::start("mpt", args!["--no-mining", "--rpc.max-response", "2k"]);
    node.send(ALICE, BOB, 1);
    let content = node.call("txpool_content", json!([]));
    assert_eq!(content["pending"][ALICE.to_checksum(None)]["0"]["nonce"], "0x0");
    for _ in 0..4 {
        node.send(ALICE, BOB, 1);
    }
    for method in ["txpool_content", "eth_pendingTransactions"] {
        let (code, message) = node.error(method, json!([]));
        assert!(code == -32008 && message.contains("--rpc.max-response"), "{method}: {message}");
    }
    let lines = node.call("txpool_inspect", json!([]));
    assert_eq!(lines["pending"][ALICE.to_checksum(None)].as_object().unwrap().len(), 5);
}

/// A request has one deadline for all blocks that it searches.
#[test]
fn searches_end_too() {
    let node = Devnet::start("raw", args!["--rpc.evmtimeout", "0.001", "--no-mining"]);
    let filter = node.call("eth_newFilter", json!([{}]));
    node.call("anvil_mine", json!([10_000]));
    // The code writes a log without topics: PUSH0 PUSH0 LOG0.
    node.call(
        "eth_sendTransaction",
        json!([{ "from": ALICE, "data": "0x5f5fa0", "gas": "0x186a0" }]),
    );
    node.call("evm_mine", json!([]));
    for (method, params) in [
        ("eth_getLogs", json!([{ "fromBlock": "0x0", "toBlock": "latest" }])),
        ("ots_searchTransactionsBefore", json!([BOB, 0, 25])),
        ("ots_searchTransactionsAfter", json!([BOB, 0, 25])),
        ("eth_feeHistory", json!(["0x400", "latest", (0..100).collect::<Vec<_>>()])),
    ] {
        let (code, message) = node.error(method, params);
        assert!(code == -32005 && message.contains("--rpc.evmtimeout"), "{method}: {message}");
    }
    let short = node.call("eth_feeHistory", json!(["0x1", "latest", [50]]));
    assert_eq!(short["oldestBlock"], "0x2711");
    // A second request goes on from there.
    let mut logs = Vec::new();
    for _ in 0..10_001 {
        let news = node.call("eth_getFilterChanges", json!([filter]));
        logs.extend(news.as_array().unwrap().clone());
        if !logs.is_empty() {
            break;
        }
    }
    assert_eq!(logs.len(), 1);
    assert_eq!(logs[0]["blockNumber"], "0x2711");
    let known = json!([{ "fromBlock": "0x2711", "toBlock": "latest" }]);
    assert_eq!(node.call("eth_getLogs", known).as_array().unwrap().len(), 1);
}
