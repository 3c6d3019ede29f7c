//! Tests that the chain of a node survives a restart, however the node ended.

use crate::{
    run::polytrie,
    support::{ALICE, BOB, Devnet, args, layers, quantity, wait_until},
};
use polytrie_kv_testing::Mount;
use serde_json::json;
use std::{
    fs,
    time::{Duration, Instant},
};

#[test]
fn a_restart_goes_on_where_it_stopped() {
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let node = Devnet::open(&data, args!["--state", layer]);
        let hash = node.send(ALICE, BOB, 5);
        let balance = node.balance(BOB);
        assert_eq!(node.stop(), Some(0));
        let node = Devnet::open(&data, args![]);
        assert_eq!((node.head(), node.balance(BOB)), (1, balance), "{layer}");
        assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["status"], "0x1");
        let before = node.number("eth_getBalance", json!([BOB, "0x0"]));
        assert_eq!(balance - before, alloy_primitives::U256::from(5), "{layer}");
        node.send(ALICE, BOB, 6);
        assert_eq!(node.head(), 2);
    }
}

#[test]
fn a_data_directory_goes_with_the_genesis_that_was_made_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    Devnet::open(&data, args![]).stop();
    assert!(data.join("genesis.json").is_file());
    let copy = dir.path().join("copy");
    let kept = fs::read(data.join("genesis.json")).unwrap();
    let run = polytrie!["db", "drop", "--yes", "--datadir", &data];
    assert_eq!((run.code, data.exists()), (Some(0), false), "{}", run.stderr);

    // An existing file is not removed, so nothing is created beside it.
    fs::create_dir(&copy).unwrap();
    let file = copy.join("genesis.json");
    fs::write(&file, kept).unwrap();
    let run = polytrie!["init", "--chain", &file, "--datadir", &copy];
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert_eq!(fs::read_dir(&copy).unwrap().count(), 1);
}

/// A reset goes back to genesis, even if no undo records reach that far.
#[test]
fn a_reset_needs_no_way_back() {
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let options = || args!["--state", layer, "--history", "3"];
        let node = Devnet::open(&data, options());
        let before = node.balance(BOB);
        let hash = node.send(ALICE, BOB, 5);
        for value in 1..=20 {
            node.send(ALICE, BOB, value);
        }
        node.call("anvil_reset", json!([]));
        assert_eq!((node.head(), node.balance(BOB)), (0, before), "{layer}");
        assert!(node.call("eth_getTransactionByHash", json!([hash])).is_null(), "{layer}");
        // After a second reset, a restart opens the new chain.
        assert_eq!(node.send(ALICE, BOB, 5), hash, "{layer}");
        for value in 1..=5 {
            node.send(ALICE, BOB, value);
        }
        assert_eq!(node.stop(), Some(0));
        polytrie!["db", "check", "--datadir", &data].ok();
        let node = Devnet::open(&data, options());
        assert_eq!(node.head(), 6, "{layer}");
        // The genesis is read from the file again.
        assert_eq!(node.call("anvil_reset", json!([])), serde_json::Value::Null, "{layer}");
        assert_eq!((node.head(), node.balance(BOB)), (0, before), "{layer}");
        assert_eq!(node.stop(), Some(0));
        let check = polytrie!["db", "check", "--datadir", &data].ok();
        assert!(check.text().starts_with("clean: "), "{layer}: {}", check.text());
    }
}

#[test]
fn kill_9_loses_nothing_that_was_durable() {
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let node = Devnet::open(&data, args!["--state", layer]);
        for value in 1..=20 {
            node.send(ALICE, BOB, value);
        }
        // The metrics say when all blocks are durable.
        wait_until("something is left for ever", || {
            node.call("polytrie_metrics", json!([]))["unflushed"]["blocks"] == 0
        });
        let durable = node.head();
        for value in 1..=20 {
            node.send(ALICE, BOB, value);
        }
        let finalized = node.call("eth_getBlockByNumber", json!(["finalized", false]));
        let finalized: u64 = quantity(&finalized["number"]).to();
        let unflushed = node.call("polytrie_metrics", json!([]))["unflushed"]["blocks"].clone();
        assert!(unflushed.as_u64().unwrap() <= 20, "{layer}: {unflushed} of 20 blocks");
        node.kill();
        let node = Devnet::open(&data, args![]);
        let head = node.head();
        assert!(head >= finalized, "{layer}: {head}, and {finalized} was final");
        assert!((durable..=durable + 20).contains(&head), "{layer}: {head}");
        let nonce = node.number("eth_getTransactionCount", json!([ALICE, "latest"]));
        assert_eq!(nonce, alloy_primitives::U256::from(head), "{layer}: a half block");
        node.send(ALICE, BOB, 1);
        assert_eq!(node.head(), head + 1);
    }
}

#[test]
fn what_is_served_read_only_takes_nothing_in() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let node = Devnet::open(&data, args!["--state", "mpt"]);
    node.send(ALICE, BOB, 5);
    assert_eq!(node.stop(), Some(0));
    let node = Devnet::open(&data, args!["--read-only"]);
    let transfer = json!({ "from": ALICE, "to": BOB, "gas": "0x5208" });
    let raw = node.call("eth_signTransaction", json!([transfer]))["raw"].clone();
    for (method, params) in [
        ("eth_sendTransaction", json!([transfer])),
        ("eth_sendRawTransaction", json!([raw])),
        ("evm_snapshot", json!([])),
        ("evm_revert", json!(["0x1"])),
        ("anvil_reorg", json!([1])),
    ] {
        let (code, message) = node.error(method, params);
        assert!(code == -32000 && message.contains("--read-only"), "{method}: {message}");
    }
    let one =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw] });
    let (_, body) = node.post(&json!([one]).to_string());
    assert!(body.contains("--read-only"), "{body}");
    let pending = node.number("eth_getBalance", json!([BOB, "pending"]));
    assert_eq!(pending, node.balance(BOB));
    // The pending block is the head, with all its fields.
    let block = |tag: &str| node.call("eth_getBlockByNumber", json!([tag, true]));
    assert_eq!(block("pending"), block("latest"));
    let tx = node.call("eth_getTransactionByBlockNumberAndIndex", json!(["pending", "0x0"]));
    assert_eq!(tx["blockHash"], block("latest")["hash"]);
}

#[test]
fn a_node_whose_disk_is_full_says_so_to_whoever_restarts_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Mount::new(dir.path().join("disk"), "10m") else { return };
    let data = disk.0.join("data");
    let node = Devnet::open(&data, args!["--state", "raw", "--no-mining"]);
    assert_eq!(node.get("/health").0, 200);
    let large = format!("0x{}", "11".repeat(100_000));
    let large = json!([{ "from": ALICE, "to": BOB, "data": large, "gas": "0x7a1200" }]);
    let until = Instant::now() + Duration::from_secs(600);
    node.answer("evm_mine", json!([]));
    // Wait for a durable block before the disk is full.
    wait_until("block 1 is not durable", || {
        node.call("eth_getBlockByNumber", json!(["finalized", false]))["number"] == "0x1"
    });
    let (status, health) = loop {
        node.answer("eth_sendTransaction", large.clone());
        node.answer("evm_mine", json!([]));
        let (status, health) = node.get("/health");
        if status != 200 {
            break (status, health);
        }
        assert!(Instant::now() < until, "at block {}", node.head());
    };
    assert!(status == 503 && health.contains("the disk is full"), "{status}: {health}");
    // The stored blocks can still be read.
    let head = node.head();
    assert_eq!(node.stop(), Some(3));
    disk.remount("size=100m");
    let node = Devnet::open(&data, args![]);
    assert!((1..=head).contains(&node.head()), "{} after {head}", node.head());
    let before = node.head();
    node.send(ALICE, BOB, 1);
    assert_eq!((node.head(), node.get("/health").0), (before + 1, 200));
}
