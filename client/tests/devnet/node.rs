//! Tests of the node as a whole: its information about itself, and its options.

use crate::{
    run::polytrie,
    server::post_with,
    support::{ALICE, Devnet, args, layers, quantity, wait_until},
};
use alloy_primitives::U256;
use serde_json::{Value, json};

#[test]
fn says_what_it_is_on_every_layer() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        assert_eq!(node.call("eth_chainId", json!([])), "0x539");
        assert_eq!(node.call("net_version", json!([])), "1337");
        assert_eq!(node.call("eth_syncing", json!([])), false);
        assert_eq!(node.call("eth_accounts", json!([])).as_array().unwrap().len(), 10);
        assert!(node.call("web3_clientVersion", json!([])).as_str().unwrap().contains(layer));
        let found = node.call("polytrie_getStateLayer", json!([]));
        assert_eq!(found["layer"], layer);
        let ether = U256::from(10).pow(U256::from(18));
        assert_eq!(node.balance(ALICE), U256::from(10_000) * ether);
        assert_eq!(node.stop(), Some(0));
    }
}

#[test]
fn what_does_not_exist_is_said_to_be_missing() {
    let node = Devnet::start("mpt", args!["--http.addr", "localhost"]);
    for method in ["eth_nothing", "engine_newPayloadV4", "admin_peers", ""] {
        let (code, message) = node.error(method, json!([]));
        assert_eq!(code, -32601, "{method}");
        let words = format!("the method {method} does not exist/is not available");
        assert_eq!(message, words);
    }
    let nobody = format!("0x{}", "11".repeat(32));
    assert_eq!(node.call("eth_getTransactionByHash", json!([nobody])), Value::Null);
}

#[test]
fn batches_are_answered_whole() {
    let node = Devnet::start("mpt", args!["--rpc.max-batch", "3"]);
    let one = |id| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_chainId", "params": [] });
    let missing = json!({ "jsonrpc": "2.0", "id": 3, "method": "eth_nothing" });
    let (_, body) = node.post(&json!([one(1), one(2), missing]).to_string());
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(answers.len(), 3);
    for answer in &answers {
        let is_missing = answer["id"] == 3;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(message.contains("eth_nothing"), is_missing, "{answer}");
        assert_eq!(answer["error"]["code"] == -32601, is_missing, "{answer}");
        assert_eq!(answer["result"] == "0x539", !is_missing, "{answer}");
    }
    let (_, body) = node.post(&json!([one(1), one(2), one(3), one(4)]).to_string());
    assert!(body.contains("error"), "{body}");
}

#[test]
fn a_page_health_and_metrics() {
    let node = Devnet::start("mpt", args![]);
    let (status, page) = node.get("/");
    assert!(status == 200 && page.contains("<title>polytrie devnet</title>"));
    let (status, health) = node.get("/health");
    assert!(status == 200 && health.contains("\"status\":\"ok\""), "{health}");
    node.call("eth_chainId", json!([]));
    let (status, metrics) = node.get("/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("polytrie_rpc_requests_total{method=\"eth_chainId\"} 1"), "{metrics}");
    assert!(metrics.contains("polytrie_head_block 0"), "{metrics}");
    assert_eq!(node.get("/nothing").0, 404);
}

#[test]
fn other_hosts_are_refused() {
    let node = Devnet::start("mpt", args![]);
    let request =
        |host: &str| format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    assert_eq!(node.http(&request("evil.example")).0, 403);
    assert_eq!(node.http(&request("127.0.0.1:8545")).0, 200);
}

/// Whether a browser lets a page of this origin send JSON, read the answer, and open a WebSocket. Checks that a request
/// sent without a preflight is refused for other origins.
fn may_call(node: &Devnet, origin: &str) -> bool {
    let preflight = format!(
        "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\nConnection: close\r\n\r\n"
    );
    let allowed = node.header(&preflight, "access-control-allow-origin");
    let may_ask = allowed.as_deref().is_some_and(|found| found == "*" || found == origin);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"evm_snapshot","params":[]}"#;
    let (status, answer) = node.http(&post_with(&format!("Origin: {origin}\r\n"), body));
    let is_answered = status == 200 && answer.contains("result");
    let socket = node.status(&format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ));
    assert_eq!((is_answered, socket == 101), (may_ask, may_ask), "{origin} {status} {socket}");
    if !is_answered {
        assert!(answer.contains("--http.corsdomain"), "{answer}");
    }
    may_ask
}

#[test]
fn pages_call_where_nothing_can_be_lost_or_they_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let wallet = "https://wallet.example";
    let extension = "chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn";
    let own = ["http://localhost:3000", "https://127.0.0.1:5173", "http://localhost"];
    let foreign = ["https://evil.example", "http://localhost.evil.example", extension, "null"];
    {
        let in_memory = Devnet::start("raw", args![]);
        assert!(own.iter().chain(&foreign).all(|origin| may_call(&in_memory, origin)));
    }
    let everywhere = Devnet::start("raw", args!["--http.addr", "0.0.0.0"]);
    let none = Devnet::start("raw", args!["--http.corsdomain", ""]);
    let kept = Devnet::open(dir.path(), args!["--state", "raw"]);
    for node in [&everywhere, &none, &kept] {
        assert!(own.iter().all(|origin| may_call(node, origin)));
        for origin in foreign {
            assert!(!may_call(node, origin), "{origin}");
        }
    }
    assert_eq!(kept.stop(), Some(0));
    let named = format!("{wallet},{extension}");
    let named = Devnet::open(dir.path(), args!["--http.corsdomain", named]);
    assert!(may_call(&named, wallet) && may_call(&named, extension) && may_call(&named, own[0]));
    assert!(!may_call(&named, "https://evil.example"));
    assert_eq!(named.stop(), Some(0));
    let any = Devnet::open(dir.path(), args!["--http.corsdomain", "*"]);
    assert!(may_call(&any, "https://evil.example"));
    let wrong = polytrie!["devnet", "--http.corsdomain", "wallet.example"];
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.message().contains("is not an origin"), "{}", wrong.stderr);
}

#[test]
fn settings_of_a_new_chain() {
    let node = Devnet::start(
        "mpt",
        args![
            "--chain-id",
            "31337",
            "--accounts",
            "2",
            "--balance",
            "1.5",
            "--gas-limit",
            "30000000"
        ],
    );
    assert_eq!(node.call("eth_chainId", json!([])), "0x7a69");
    assert_eq!(node.call("eth_accounts", json!([])).as_array().unwrap().len(), 2);
    assert_eq!(node.balance(ALICE), U256::from(1_500_000_000_000_000_000u64));
    node.send(ALICE, ALICE, 1);
    let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(quantity(&block["gasLimit"]), U256::from(60_000_000 - (60_000_000 / 1024 - 1)));
}

#[test]
fn mistakes_are_explained() {
    let wrong = polytrie!["devnet", "--mnemonic", "not a mnemonic"];
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.message().contains("BIP-39"), "{}", wrong.stderr);
    let wrong = polytrie!["devnet", "--read-only"];
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.message().contains("--datadir"), "{}", wrong.stderr);
    let wrong = polytrie!["devnet", "--state", "nothing"];
    assert_eq!(wrong.code, Some(2));
    let wrong = polytrie!["devnet", "--balance", "much"];
    assert_eq!(wrong.code, Some(2));
    // Without --authrpc there is no such server.
    for [option, value] in [
        ["--authrpc.addr", "127.0.0.1"],
        ["--authrpc.port", "0"],
        ["--authrpc.jwtsecret", "secret"],
        ["--engine.payloads", "1M"],
    ] {
        let wrong = polytrie!["devnet", option, value];
        assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
        assert!(wrong.stderr.contains("not provided:\n  --authrpc\n"), "{}", wrong.stderr);
    }
    let wrong = polytrie!["devnet", "--read-only", "--block-time", "1", "--datadir", "data"];
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("cannot be used with"), "{}", wrong.stderr);
}

#[test]
fn a_clock_makes_blocks_too() {
    let node = Devnet::start("mpt", args!["--block-time", "0.1"]);
    wait_until("no blocks come", || node.head() >= 2);
    // `evm_setAutomine` ends only the mining of each transaction, as in anvil. The clock goes on.
    node.call("evm_setAutomine", json!([false]));
    let head = node.head();
    wait_until("the clock stands still", || node.head() >= head + 2);
}

/// The interval is in milliseconds for the method of Hardhat, and in seconds for that of anvil.
#[test]
fn the_name_of_a_method_tells_the_unit_of_an_interval() {
    let node = Devnet::start("raw", args!["--no-mining"]);
    for (method, interval, expected) in [
        ("evm_setIntervalMining", 500_000, "every 500s"),
        ("evm_setIntervalMining", 900, "every 900ms"),
        ("anvil_setIntervalMining", 500, "every 500s"),
        ("anvil_setIntervalMining", 5_000, "every 5000s"),
        ("anvil_setIntervalMining", 0, "manual"),
        ("evm_setIntervalMining", 0, "manual"),
    ] {
        node.call(method, json!([interval]));
        assert_eq!(node.call("anvil_nodeInfo", json!([]))["mining"], expected, "{method}");
    }
}
