//! The node as a whole: what it says of itself, and how it is used.

use crate::{
    run::polytrie,
    support::{ALICE, Devnet, args, layers, quantity},
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
        let (code, _) = node.error(method, json!([]));
        assert_eq!(code, -32601, "{method}");
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
fn other_hosts_are_refused_and_pages_may_call() {
    let node = Devnet::start("mpt", args![]);
    let request =
        |host: &str| format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    assert_eq!(node.http(&request("evil.example")).0, 403);
    assert_eq!(node.http(&request("127.0.0.1:8545")).0, 200);
    let preflight = "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://wallet.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\nConnection: close\r\n\r\n";
    assert_eq!(node.http(preflight).0, 200);
}

#[test]
fn pages_that_may_not_call_open_no_websocket_either() {
    let node = Devnet::start("raw", args!["--http.corsdomain", "https://wallet.example"]);
    let upgrade = |origin: &str| {
        node.status(&format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\n{origin}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ))
    };
    assert_eq!(upgrade("Origin: https://evil.example\r\n"), 403);
    for origin in ["", "Origin: https://wallet.example\r\n", "Origin: http://localhost\r\n"] {
        assert_eq!(upgrade(origin), 101, "{origin}");
    }
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
}

#[test]
fn a_clock_makes_blocks_too() {
    let node = Devnet::start("mpt", args!["--block-time", "0.1"]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while node.head() < 2 {
        assert!(std::time::Instant::now() < until, "no blocks come");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // What ends is that transactions are mined at once, as in anvil, and they never were.
    node.call("evm_setAutomine", json!([false]));
    let head = node.head();
    while node.head() < head + 2 {
        assert!(std::time::Instant::now() < until, "the clock stands still");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
