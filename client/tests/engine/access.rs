//! Tests of the access rights on the two ports of the engine.

use crate::{
    run::polytrie,
    server::{http, send},
    support::{ALICE, Node, args, attributes, post},
};
use polytrie::rpc::JwtSecret;
use serde_json::{Value, json};
use std::{fs, path::Path, thread};

#[test]
fn the_engine_answers_to_whoever_has_the_secret() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&dir.path().join("data"), "mpt", Path::new("dev"), args![]);
    let other = dir.path().join("other.hex");
    let foreign = JwtSecret::read_or_make(&other).unwrap().token(0);
    let ask = |authorization: Option<&str>| {
        post(&node.engine, authorization, "engine_exchangeCapabilities", json!([[]]))
    };
    let (status, body) = ask(Some(&node.token(0)));
    assert!(status == 200 && body.contains("engine_newPayloadV4"), "{status} {body}");
    // The token is let in if it arrives within ten seconds.
    assert!((0..5).any(|_| ask(Some(&node.token(50))).0 == 200));
    let known = node.call("engine_exchangeCapabilities", json!([["engine_newPayloadV4"]]));
    let known: Vec<_> = known.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(known.len() == 23 && known.contains(&"engine_getClientVersionV1"), "{known:?}");
    assert!(known.iter().all(|name| name.starts_with("engine_") && !name.contains("exchange")));
    for (authorization, words) in [
        (None, "no header Authorization"),
        (Some(node.token(120)), "not within 60 seconds"),
        (Some(node.token(-120)), "not within 60 seconds"),
        (Some(format!("Bearer {foreign}")), "another secret"),
        (Some("Bearer x.y.z".to_owned()), "malformed"),
    ] {
        let (status, body) = ask(authorization.as_deref());
        assert!(status == 401 && body.contains(words), "{authorization:?}: {status} {body}");
    }
    // The token is also needed for a WebSocket, and for the health check, which the other port
    // answers without a token.
    let upgrade = "GET / HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_eq!(http(&node.engine, upgrade).0, 401);
    let health = "GET /health HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n";
    assert_eq!(http(&node.engine, &format!("{health}\r\n")).0, 401);
    let token = node.token(0);
    assert_eq!(http(&node.engine, &format!("{health}Authorization: {token}\r\n\r\n")).0, 200);

    // The other port answers without a token and has no method that changes anything. No payload would
    // include a transaction without a signature, but it would hold up the true ones of its sender.
    let of_owner = ["evm_mine", "anvil_setBalance", "eth_sendUnsignedTransaction"];
    for method in ["engine_newPayloadV1", "debug_setHead"].into_iter().chain(of_owner) {
        let (status, body) = post(&node.open, None, method, json!([]));
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &answer["error"]["code"]), (200, &json!(-32601)), "{method}");
    }
    for method in of_owner {
        assert_eq!(node.error(method, json!([])).0, -32601, "{method}");
    }
    let version = node.call("engine_getClientVersionV1", json!([]));
    assert_eq!(version[0]["name"], "polytrie");
    let modules = node.call("rpc_modules", json!([]));
    assert!(modules["engine"].is_string() && modules["anvil"].is_null(), "{modules}");
}

#[test]
fn a_websocket_with_the_token_is_let_in() {
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&dir.path().join("data"), "mpt", Path::new("dev"), args![]);
    let request = format!(
        "GET / HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: {}\r\n\r\n",
        node.token(0)
    );
    let mut line = String::new();
    BufReader::new(send(&node.engine, &request)).read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 101"), "{line}");
}

/// On a devnet with the Engine API, the usual methods of a devnet still make blocks.
#[test]
fn a_devnet_is_driven_too() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    let options = args!["--authrpc", "--authrpc.jwtsecret", &secret, "--state", "rain"];
    let node = Node::run("devnet", &secret, options);
    let genesis = node.head();
    let time = node.public("eth_getBlockByNumber", json!(["latest", false]))["timestamp"].clone();
    let time = crate::support::quantity(&time);
    let payload = node.build(genesis, &attributes(time + 10, 1));
    node.valid(&payload);
    node.public("evm_mine", json!([]));
    // A block was mined meanwhile, so the payload is on another branch.
    assert_ne!(node.head(), genesis);
    node.choose(payload.hash);
    node.public("evm_mine", json!([]));
    let parent =
        node.public("eth_getBlockByNumber", json!(["latest", false]))["parentHash"].clone();
    assert_eq!(parent, json!(payload.hash));
    let (status, body) = post(&node.open, None, "engine_getClientVersionV1", json!([]));
    assert!(status == 200 && body.contains("-32601"), "{body}");
}

#[test]
fn requests_to_both_ports_at_the_same_time_get_nonces_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    let options = args!["--authrpc", "--authrpc.jwtsecret", &secret, "--state", "mpt"];
    let node = Node::run("devnet", &secret, options);
    let send = |number: u64| {
        let value = format!("{number:#x}");
        let transfer = json!({ "from": ALICE, "to": ALICE, "value": value, "gas": "0x5208" });
        match number % 2 {
            0 => node.call("eth_sendTransaction", json!([transfer])),
            _ => node.public("eth_sendTransaction", json!([transfer])),
        }
    };
    thread::scope(|scope| {
        for number in 0..40 {
            scope.spawn(move || send(number));
        }
    });
    assert_eq!(node.public("txpool_status", json!([]))["pending"], "0x28");
}

#[test]
fn what_is_missing_is_said_before_anything_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let run = polytrie!["engine", "--chain", "dev", "--kv", "memory", "--state", "mpt"];
    assert!(run.code == Some(2) && run.message().contains("--authrpc.jwtsecret"), "{}", run.stderr);
    let secret = dir.path().join("secret");
    fs::write(&secret, "0x12").unwrap();
    let data = dir.path().join("data");
    let run =
        polytrie!["engine", "--chain", "dev", "--datadir", &data, "--authrpc.jwtsecret", &secret];
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.message().contains("64 hexadecimal digits"), "{}", run.stderr);
    // The chain is not past the merge.
    let genesis = dir.path().join("genesis.json");
    fs::write(
        &genesis,
        r#"{ "config": { "chainId": 1337, "homesteadBlock": 0, "ethash": {} }, "alloc": { "0x0000000000000000000000000000000000000007": { "balance": "7" } }, "difficulty": "0x4000000000", "gasLimit": "5000000" }"#,
    )
    .unwrap();
    let data = dir.path().join("before");
    let run = polytrie!["engine", "--chain", &genesis, "--datadir", &data];
    assert!(run.code == Some(2) && run.message().contains("before the merge"), "{}", run.stderr);
}
