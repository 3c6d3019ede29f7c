//! Filters: what is new since they were last asked, whatever happened meanwhile.

use crate::{
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::{deploy, word},
};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

fn mine(node: &Devnet, blocks: u64) {
    node.call("anvil_mine", json!([blocks]));
}

fn changes(node: &Devnet, filter: &Value) -> Vec<Value> {
    node.call("eth_getFilterChanges", json!([filter])).as_array().unwrap().clone()
}

fn hash(node: &Devnet, number: u64) -> Value {
    node.call("eth_getBlockByNumber", json!([format!("{number:#x}"), false]))["hash"].clone()
}

/// A contract in block 1, whose blocks after it have one log each.
fn with_logs(node: &Devnet, count: u64) -> Value {
    let contract = deploy(node);
    (1..=count).for_each(|number| log(node, &contract, number));
    contract
}

fn log(node: &Devnet, contract: &Value, number: u64) {
    let call = json!([{ "from": ALICE, "to": contract, "data": word(number) }]);
    node.call("eth_sendTransaction", call);
}

fn words(logs: &[Value]) -> Vec<Value> {
    logs.iter().map(|log| log["data"].clone()).collect()
}

#[test]
fn blocks_in_the_place_of_others_are_new_on_every_layer() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = with_logs(&node, 2);
        let point = node.call("evm_snapshot", json!([]));
        mine(&node, 5);
        let blocks = node.call("eth_newBlockFilter", json!([]));
        let logs = node.call("eth_newFilter", json!([{ "address": contract }]));
        assert_eq!(node.call("evm_revert", json!([point])), true);
        log(&node, &contract, 7);
        mine(&node, 6);
        let expected: Vec<_> = (4..=10).map(|number| hash(&node, number)).collect();
        assert_eq!(changes(&node, &blocks), expected, "{layer}");
        assert_eq!(words(&changes(&node, &logs)), [json!(word(7))], "{layer}");
        // And where the chain is as long as before, or was asked for in between.
        let point = node.call("evm_snapshot", json!([]));
        mine(&node, 2);
        assert_eq!(changes(&node, &blocks).len(), 2);
        assert_eq!(node.call("evm_revert", json!([point])), true);
        assert_eq!(changes(&node, &blocks), Vec::<Value>::new());
        mine(&node, 2);
        assert_eq!(changes(&node, &blocks), [hash(&node, 11), hash(&node, 12)], "{layer}");
    }
}

#[test]
fn logs_that_are_too_many_come_piece_by_piece() {
    let node = Devnet::start("mpt", args!["--rpc.max-logs", "3"]);
    let contract = deploy(&node);
    let filter = node.call("eth_newFilter", json!([{ "address": contract }]));
    (1..=5).for_each(|number| log(&node, &contract, number));
    let all = json!([{ "address": contract, "fromBlock": "0x0" }]);
    assert_eq!(node.error("eth_getLogs", all).0, -32005);
    let first = words(&changes(&node, &filter));
    assert_eq!(first, [1, 2, 3].map(|number| json!(word(number))));
    log(&node, &contract, 6);
    let rest = words(&changes(&node, &filter));
    assert_eq!(rest, [4, 5, 6].map(|number| json!(word(number))));
    assert_eq!(changes(&node, &filter), Vec::<Value>::new());
    // A block that has too many by itself is never passed over.
    node.call("evm_setAutomine", json!([false]));
    (1..=4).for_each(|number| log(&node, &contract, number));
    mine(&node, 1);
    for _ in 0..2 {
        assert_eq!(node.error("eth_getFilterChanges", json!([filter])).0, -32005);
    }
}

#[test]
fn a_filter_may_begin_in_the_future_and_a_search_may_not() {
    let node = Devnet::start("mpt", args!["--rpc.max-log-blocks", "10"]);
    let contract = with_logs(&node, 1);
    for range in [json!({ "fromBlock": "0x3" }), json!({ "fromBlock": "0x3", "toBlock": "0x40" })] {
        let mut filter = range.clone();
        filter["address"] = contract.clone();
        let filter = node.call("eth_newFilter", json!([filter]));
        assert_eq!(node.call("eth_getFilterLogs", json!([filter])), json!([]), "{range}");
        let (code, message) = node.error("eth_getLogs", json!([range]));
        assert_eq!(code, -32602, "{message}");
        let point = node.call("evm_snapshot", json!([]));
        log(&node, &contract, 2);
        assert_eq!(words(&changes(&node, &filter)), [json!(word(2))], "{range}");
        let found = node.call("eth_getFilterLogs", json!([filter]));
        assert_eq!(words(found.as_array().unwrap()), [json!(word(2))], "{range}");
        node.call("evm_revert", json!([point]));
    }
    let backwards = json!([{ "fromBlock": "0x5", "toBlock": "0x4" }]);
    assert_eq!(node.error("eth_newFilter", backwards).0, -32602);
    let beyond = json!([{ "fromBlock": "0x0", "toBlock": "0x3" }]);
    let (code, message) = node.error("eth_getLogs", beyond);
    assert!(code == -32602 && message.contains("beyond current head block"), "{message}");
}

#[test]
fn transactions_are_told_once_with_their_fields_or_without() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    let hashes = node.call("eth_newPendingTransactionFilter", json!([]));
    let full = node.call("eth_newPendingTransactionFilter", json!([true]));
    let sent: Vec<_> = (1..=3).map(|value| node.send(ALICE, BOB, value)).collect();
    // Blocks in between take no place.
    mine(&node, 5_000);
    assert_eq!(changes(&node, &hashes), sent);
    let told = changes(&node, &full);
    assert_eq!(told.iter().map(|tx| tx["hash"].clone()).collect::<Vec<_>>(), sent);
    assert_eq!(changes(&node, &hashes), Vec::<Value>::new());
}

/// Whoever reads while blocks come and go sees the chain of one moment.
#[test]
fn a_read_beside_a_chain_that_goes_back_is_of_one_moment() {
    let node = Devnet::start("mpt", args![]);
    let contract = with_logs(&node, 3);
    let (node, done) = (&node, &AtomicBool::new(false));
    thread::scope(|scope| {
        let readers = ["eth_getBlockByNumber", "eth_getLogs"].map(|method| {
            let params = match method {
                "eth_getLogs" => json!([{ "fromBlock": "0x0", "address": contract }]),
                _ => json!(["latest", true]),
            };
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let answer = node.answer(method, params.clone());
                    assert_ne!(answer["result"], Value::Null, "{answer}");
                }
            })
        });
        let until = Instant::now() + Duration::from_secs(4);
        while Instant::now() < until && !readers.iter().any(thread::ScopedJoinHandle::is_finished) {
            let point = node.call("evm_snapshot", json!([]));
            mine(node, 3);
            node.call("evm_revert", json!([point]));
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// A position of a filter is a topic that there must be, whichever it is.
#[test]
fn a_log_with_fewer_topics_than_a_filter_does_not_pass() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    let one = json!({ "address": contract, "topics": [null] });
    let two = json!({ "address": contract, "topics": [null, null] });
    let filters = [&one, &two].map(|filter| node.call("eth_newFilter", json!([filter])));
    log(&node, &contract, 7);
    let expected = [vec![json!(word(7))], Vec::new()];
    assert_eq!(filters.each_ref().map(|filter| words(&changes(&node, filter))), expected);
    for (filter, expected) in filters.iter().zip(&expected) {
        let found = node.call("eth_getFilterLogs", json!([filter]));
        assert_eq!(words(found.as_array().unwrap()), *expected);
    }
    let found = [one, two].map(|filter| node.call("eth_getLogs", json!([filter])));
    assert_eq!(found.map(|logs| words(logs.as_array().unwrap())), expected);
}
