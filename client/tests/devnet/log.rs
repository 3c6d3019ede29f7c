//! Tests of the log of a devnet.

use crate::{
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::{deploy, word},
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// The input of `log(string,uint256)` with "answer" and 42, as the libraries of Solidity send it.
const MESSAGE: &str = "b60e72cc0000000000000000000000000000000000000000000000000000000000000040000000000000000000000000000000000000000000000000000000000000002a0000000000000000000000000000000000000000000000000000000000000006616e737765720000000000000000000000000000000000000000000000000000";

/// Returns code that sends the message after it to the console, and reverts if it is called with data:
///
/// ```text
///       132 35 0 CODECOPY   0 0 132 0 console GAS STATICCALL POP   CALLDATASIZE bad JUMPI STOP
/// bad:  0 0 REVERT
/// ```
fn talker() -> String {
    format!("0x608460235f395f5f60845f6a636f6e736f6c652e6c6f675afa5036601f57005b5f5ffd{MESSAGE}")
}

/// Starts a node that logs into a file. The file can be read when the node has stopped.
fn node(layer: &str, more: &str) -> (Devnet, PathBuf, TempDir) {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let mut args = args!["--state", layer];
    args.extend(more.split_whitespace().map(Into::into));
    (Devnet::logged(&log, args), log, dir)
}

fn said(node: Devnet, log: &PathBuf) -> String {
    assert_eq!(node.stop(), Some(0));
    fs::read_to_string(log).unwrap()
}

/// A data directory has no more than its blocks.
#[test]
fn changes_by_hand_that_no_block_has_are_told_at_the_end() {
    let data = TempDir::new().unwrap();
    let more = format!("--datadir {}", data.path().join("data").display());
    for is_mined in [false, true] {
        let (node, log, _dir) = node("mpt", &more);
        node.call("anvil_setBalance", json!([BOB, "0x7"]));
        if is_mined {
            node.call("evm_mine", json!([]));
        }
        let log = said(node, &log);
        assert_eq!(log.contains("changed by hand after block 0"), !is_mined, "{log}");
    }
}

#[test]
fn a_line_a_block_and_a_transaction_on_every_layer() {
    for layer in layers() {
        let (node, log, _dir) = node(layer, "");
        let contract = deploy(&node);
        let sent = node.send(ALICE, BOB, 1);
        let bad = format!("0x{}", "ff".repeat(32));
        let call = json!([{ "from": ALICE, "to": contract, "data": bad, "gas": "0x30d40" }]);
        node.call("eth_sendTransaction", call);
        let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
        node.error("foo_bar", json!([]));
        let log = said(node, &log);
        assert!(log.contains(&format!("block 3 {}", head["hash"].as_str().unwrap())), "{log}");
        assert!(log.contains("1 transaction,"), "{log}");
        let line =
            format!("transaction {} from {ALICE} to {BOB}: 21000 gas", sent.as_str().unwrap());
        assert!(log.contains(&line), "{line}: {log}");
        assert!(log.contains(" creates 0x"), "{log}");
        assert!(log.contains("failed: reverted: no"), "{log}");
        assert!(log.contains("`foo_bar`, which does not exist"), "{log}");
        assert!(!log.contains("eth_getBlockByNumber"), "{layer}: {log}");
    }
}

#[test]
fn what_solidity_prints_is_printed_on_every_layer() {
    for layer in layers() {
        let (node, log, _dir) = node(layer, "");
        node.call("anvil_setCode", json!([BOB, talker()]));
        node.call("eth_sendTransaction", json!([{ "from": ALICE, "to": BOB, "gas": "0x30d40" }]));
        node.call("eth_call", json!([{ "to": BOB }, "latest"]));
        node.call("eth_estimateGas", json!([{ "to": BOB }]));
        node.error("eth_call", json!([{ "to": BOB, "data": "0x01" }, "latest"]));
        node.call("hardhat_setLoggingEnabled", json!([false]));
        node.call("eth_call", json!([{ "to": BOB }, "latest"]));
        let log = said(node, &log);
        assert_eq!(log.matches("console.log: answer 42").count(), 4, "{layer}: {log}");
    }
}

#[test]
fn a_quiet_node_says_nothing_and_a_verbose_one_names_requests() {
    let (quiet, log, _dir) = node("mpt", "--quiet");
    quiet.send(ALICE, BOB, 1);
    assert_eq!(said(quiet, &log), "");

    let (verbose, log, _dir) = node("mpt", "-v");
    verbose.call("eth_getBalance", json!([BOB, "latest"]));
    verbose.error("eth_call", json!([{ "to": BOB, "gasPrice": "nonsense" }, "latest"]));
    let log = said(verbose, &log);
    assert!(log.contains("eth_getBalance ["), "{log}");
    assert!(log.contains("error -32602"), "{log}");
    assert!(!log.contains("hyper"), "{log}");
}

/// A block with many transactions causes only a few log lines.
#[test]
fn a_large_block_has_few_lines() {
    let (node, log, _dir) = node("mpt", "--no-mining");
    for _ in 0..30 {
        node.send(ALICE, BOB, 1);
    }
    node.call("evm_mine", json!([]));
    let log = said(node, &log);
    assert_eq!(log.matches("  transaction 0x").count(), 20, "{log}");
    assert!(log.contains("and 10 more"), "{log}");
}

#[test]
fn methods_that_anvil_has() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    let block = node.call("eth_getBlockByNumber", json!(["0x0", false]));
    let time = node.call("anvil_getGenesisTime", json!([])).as_u64().unwrap();
    assert_eq!(block["timestamp"], format!("{time:#x}"));
    let tx = node.call("eth_getTransactionBySenderAndNonce", json!([ALICE, "0x0"]));
    assert_eq!(
        (&tx["from"], &tx["nonce"]),
        (&json!(ALICE.to_string().to_lowercase()), &json!("0x0"))
    );
    assert!(node.call("eth_getTransactionBySenderAndNonce", json!([ALICE, "0x1"])).is_null());
    let code = node.call("eth_getCode", json!([contract, "latest"]));
    let hash = node.call("web3_sha3", json!([code]));
    assert_eq!(node.call("debug_codeByHash", json!([hash, null])), code);
    assert!(node.call("debug_codeByHash", json!([word(1), null])).is_null());
}

#[cfg(feature = "lvmt")]
#[test]
fn a_layer_that_needs_a_setup_makes_one_up_in_memory() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    for _ in 0..2 {
        let node = Devnet::unprepared("lvmt", dir.path(), &log);
        node.send(ALICE, BOB, 1);
        assert_eq!(node.head(), 1);
        assert!(said(node, &log).contains("INSECURE"));
    }
}

#[test]
fn every_block_has_a_line_of_json_if_asked_for() {
    let (node, log, _dir) = node("mpt", "--log-slow-block 0");
    node.send(ALICE, BOB, 1);
    node.send(ALICE, BOB, 1);
    let said = said(node, &log);
    let lines = said.lines().filter_map(|line| Some(&line[line.find(r#"{"level""#)?..]));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = lines.iter().map(|line| line["block"]["number"].clone()).collect();
    assert_eq!(numbers, [json!(1), json!(2)], "{said}");
    assert_eq!(lines[1]["block"]["tx_count"], 1);
}
