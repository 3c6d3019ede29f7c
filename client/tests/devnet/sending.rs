//! Tests of transactions from many threads, and of waiting for their blocks.

use crate::support::{ALICE, BOB, Devnet, args, quantity, wait_until};
use serde_json::{Value, json};
use std::thread;

/// Waits until `count` transactions can go into the next block.
pub(crate) fn wait_for_pending(node: &Devnet, count: u64) {
    wait_until(&format!("there are never {count} transactions"), || {
        node.call("txpool_status", json!([]))["pending"] == format!("{count:#x}")
    });
}

#[test]
fn requests_at_the_same_time_get_nonces_of_their_own() {
    let node = Devnet::start("mpt", args![]);
    let node = &node;
    let hashes: Vec<Value> = thread::scope(|scope| {
        let send = |value| scope.spawn(move || node.send(ALICE, BOB, value));
        let threads: Vec<_> = (1..=20).map(send).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut nonces: Vec<u64> = hashes
        .iter()
        .map(|hash| node.call("eth_getTransactionByHash", json!([hash])))
        .map(|tx| quantity(&tx["nonce"]).to())
        .collect();
    nonces.sort_unstable();
    assert_eq!(nonces, (0..20).collect::<Vec<_>>());
}

/// More requests wait than the node has threads for requests, and the block is still made.
#[test]
fn who_waits_for_a_block_does_not_keep_others_from_making_it() {
    const WAITING: u64 = 140;
    let node = Devnet::start("raw", args!["--no-mining"]);
    let node = &node;
    thread::scope(|scope| {
        let wait = |value| {
            // Without a limit of gas, an estimate would come before each of them.
            let value = format!("{value:#x}");
            let transfer = json!({ "from": ALICE, "to": BOB, "value": value, "gas": "0x5208" });
            scope.spawn(move || node.call("eth_sendTransactionSync", json!([transfer, 60_000])))
        };
        let threads: Vec<_> = (1..=WAITING).map(wait).collect();
        wait_for_pending(node, WAITING);
        node.call("evm_mine", json!([]));
        // If the block came only after the timeout, each answer would be an error.
        for thread in threads {
            assert_eq!(thread.join().unwrap()["blockNumber"], "0x1");
        }
    });
}

/// The transaction is in ANVIL.md. It has no chain id.
#[test]
fn the_contract_through_which_forge_makes_contracts_can_be_deployed() {
    let node = Devnet::start("mpt", args![]);
    let sender = alloy_primitives::address!("3fab184622dc19b6109349b94811493bf2a45362");
    node.send(ALICE, sender, 10_000_000_000_000_000);
    let raw = include_str!("../../devnet/ANVIL.md").split_once("cast publish ").unwrap().1;
    node.call("eth_sendRawTransaction", json!([raw.lines().next().unwrap()]));
    let contract = "0x4e59b44847b379578588920cA78FbF26c0B4956C";
    let code = node.call("eth_getCode", json!([contract, "latest"]));
    assert_eq!(code.as_str().unwrap().len(), 2 + 2 * 69);
}

/// A request that gives no time to wait, or a time of zero, waits for the usual time, which is five seconds.
#[test]
fn a_time_of_zero_is_none() {
    let node = Devnet::start("mpt", args![]);
    let transfer = json!({ "from": ALICE, "to": BOB, "value": "0x1" });
    for (patience, block) in [(Value::Null, "0x1"), (json!(0), "0x2"), (json!("0x0"), "0x3")] {
        let answer = node.answer("eth_sendTransactionSync", json!([transfer, patience]));
        // On a busy machine the block may come later.
        match answer["error"]["message"].as_str() {
            None => assert_eq!(answer["result"]["blockNumber"], block),
            Some(message) => assert!(message.contains("not mined within 5s"), "{message}"),
        }
        wait_until("the block never comes", || node.call("eth_blockNumber", json!([])) == block);
    }
}

/// The error of a request that waited in vain says why (EIP-7966).
#[test]
fn who_waits_in_vain_is_told_why() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    let send = |nonce: &str, patience: Value| {
        let transfer = json!({ "from": ALICE, "to": BOB, "gas": "0x5208", "nonce": nonce });
        node.answer("eth_sendTransactionSync", json!([transfer, patience]))["error"].take()
    };
    let of_sender = || node.call("txpool_contentFrom", json!([ALICE]));
    let gap = send("0x1", json!(20_000));
    assert_eq!((&gap["code"], &gap["data"]), (&json!(5), &of_sender()["queued"]["1"]["hash"]));
    let late = send("0x0", json!("0x64"));
    assert_eq!((&late["code"], &late["data"]), (&json!(4), &of_sender()["pending"]["0"]["hash"]));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| send("0x2", json!(50_000)));
        wait_for_pending(&node, 3);
        node.call("anvil_dropAllTransactions", json!([]));
        // A request that waits until its timeout gets another error, as above.
        assert_eq!(waiting.join().unwrap()["code"], -32000);
    });
}
