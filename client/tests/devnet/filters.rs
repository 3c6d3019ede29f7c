//! Tests of filters. They return the changes since the last request, also after reorganisations.

use crate::{
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::{deploy, word},
};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
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

/// Deploys a contract in block 1 and makes `count` blocks, each with one log of it.
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
        // The new chain may be as long as the old one, also if the filter was read in between.
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
    // A block with too many logs is never skipped.
    node.call("evm_setAutomine", json!([false]));
    (1..=4).for_each(|number| log(&node, &contract, number));
    mine(&node, 1);
    for _ in 0..2 {
        assert_eq!(node.error("eth_getFilterChanges", json!([filter])).0, -32005);
    }
}

#[test]
fn what_is_larger_than_an_answer_comes_piece_by_piece() {
    let node = Devnet::start("mpt", args!["--rpc.max-response", "4k"]);
    let contract = deploy(&node);
    let point = node.call("evm_snapshot", json!([]));
    let blocks = node.call("eth_newBlockFilter", json!([]));
    let logs = node.call("eth_newFilter", json!([{ "address": contract }]));
    let all_of = |filter: &Value| {
        let mut all = Vec::new();
        loop {
            let news = changes(&node, filter);
            if news.is_empty() {
                return all;
            }
            all.extend(news);
        }
    };
    (1..=10).for_each(|number| log(&node, &contract, number));
    let search = json!([{ "address": contract, "fromBlock": "0x0" }]);
    let (code, message) = node.error("eth_getLogs", search);
    assert!(code == -32008 && message.contains("--rpc.max-response"), "{message}");
    let there = all_of(&logs);
    assert_eq!(words(&there), (1..=10).map(|number| json!(word(number))).collect::<Vec<_>>());
    mine(&node, 90);
    let expected: Vec<_> = (2..=101).map(|number| hash(&node, number)).collect();
    assert_eq!(all_of(&blocks), expected);
    node.call("evm_revert", json!([point]));
    let gone = all_of(&logs);
    assert_eq!(gone.len(), there.len());
    assert!(gone.iter().all(|log| log["removed"] == true), "{gone:?}");
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
    // Empty blocks do not count against the limit.
    mine(&node, 5_000);
    assert_eq!(changes(&node, &hashes), sent);
    let told = changes(&node, &full);
    assert_eq!(told.iter().map(|tx| tx["hash"].clone()).collect::<Vec<_>>(), sent);
    assert_eq!(changes(&node, &hashes), Vec::<Value>::new());
}

/// Transactions that fit into no answer are gone, and the error says so.
#[test]
fn transactions_are_not_lost_without_a_word() {
    let node = Devnet::start("mpt", args!["--no-mining", "--rpc.max-response", "4k"]);
    let filter = node.call("eth_newPendingTransactionFilter", json!([true]));
    for value in 1..=10 {
        node.send(ALICE, BOB, value);
    }
    let (code, message) = node.error("eth_getFilterChanges", json!([filter]));
    assert!(code == -32005 && message.contains("are lost"), "{message}");
    let last = node.send(ALICE, BOB, 11);
    assert_eq!(changes(&node, &filter)[0]["hash"], last);
}

/// The number of times that blocks are taken back beside the readers.
const ROUNDS: u32 = 500;

/// Each answer is of one state of the chain, although blocks appear and are taken back.
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
        for _ in 0..ROUNDS {
            if readers.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
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

/// Each position in the topics of a filter needs a topic in the log, even if any value matches.
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

/// Returns the block hash, the data and the removed flag of each log.
fn told(logs: &[Value]) -> Vec<(Value, Value, Value)> {
    let fields = |log: &Value| ["blockHash", "data", "removed"].map(|name| log[name].clone());
    logs.iter().map(|log| fields(log).into()).collect()
}

/// A filter returns the sent logs of removed blocks again as removed, and then the new logs, as in
/// geth.
#[test]
fn logs_that_are_gone_are_told_again_as_removed() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = with_logs(&node, 1);
        let point = node.call("evm_snapshot", json!([]));
        let filter = node.call("eth_newFilter", json!([{ "address": contract }]));
        let log_of = |number: u64| {
            log(&node, &contract, number);
            (hash(&node, node.head()), json!(word(number)))
        };
        let there = |(hash, data): &(Value, Value)| (hash.clone(), data.clone(), json!(false));
        let gone = |(hash, data): &(Value, Value)| (hash.clone(), data.clone(), json!(true));
        let first = [2, 3].map(log_of);
        assert_eq!(told(&changes(&node, &filter)), first.each_ref().map(there), "{layer}");
        // A log that is removed before it is returned does not appear.
        log_of(4);
        assert_eq!(node.call("evm_revert", json!([point])), true);
        let second = log_of(5);
        let expected = [gone(&first[0]), gone(&first[1]), there(&second)];
        assert_eq!(told(&changes(&node, &filter)), expected, "{layer}");
        assert_eq!(changes(&node, &filter), Vec::<Value>::new(), "{layer}");
        // A deeper fork, two reorganisations between two requests, and other methods of taking
        // blocks back.
        node.call("anvil_rollback", json!([1]));
        log_of(6);
        node.call("anvil_reorg", json!([2]));
        let news = told(&changes(&node, &filter));
        assert_eq!(news.len(), 2, "{layer}: {news:?}");
        // The log is of a block from before the filter was made, and is returned as removed.
        assert_eq!((&news[0].1, &news[0].2), (&json!(word(1)), &json!(true)), "{layer}");
        assert_eq!(news[1], gone(&second), "{layer}");
        node.call("anvil_mine", json!([3]));
        assert_eq!(changes(&node, &filter), Vec::<Value>::new());
        let contract = deploy(&node);
        let filter = node.call("eth_newFilter", json!([{ "address": contract }]));
        log(&node, &contract, 7);
        let seventh = (hash(&node, node.head()), json!(word(7)));
        assert_eq!(told(&changes(&node, &filter)), [there(&seventh)], "{layer}");
        node.call("anvil_reset", json!([]));
        assert_eq!(told(&changes(&node, &filter)), [gone(&seventh)], "{layer}");
    }
}

#[test]
fn removed_logs_that_are_too_many_come_piece_by_piece() {
    let node = Devnet::start("mpt", args!["--rpc.max-logs", "3"]);
    let contract = deploy(&node);
    let point = node.call("evm_snapshot", json!([]));
    let filter = node.call("eth_newFilter", json!([{ "address": contract }]));
    for numbers in [1..=3, 4..=5] {
        numbers.for_each(|number| log(&node, &contract, number));
        changes(&node, &filter);
    }
    node.call("evm_revert", json!([point]));
    log(&node, &contract, 6);
    let mut all = Vec::new();
    for expected in [vec![3, 4, 5], vec![1, 2, 6], vec![]] {
        let news = changes(&node, &filter);
        let expected: Vec<_> =
            expected.into_iter().map(|number: u64| json!(word(number))).collect();
        assert_eq!(words(&news), expected);
        all.extend(news);
    }
    let removed: Vec<_> = all.iter().filter(|log| log["removed"] == true).collect();
    assert_eq!(removed.len(), 5);
}

/// A transaction that waits for another one is returned when it can go into a block.
#[test]
fn transactions_are_told_when_they_can_go_into_a_block() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    let filter = node.call("eth_newPendingTransactionFilter", json!([]));
    let send = |nonce: &str| {
        let tx = json!([{ "from": ALICE, "to": BOB, "gas": "0x5208", "nonce": nonce }]);
        node.call("eth_sendTransaction", tx)
    };
    let late = [send("0x2"), send("0x1")];
    assert_eq!(node.call("txpool_status", json!([])), json!({ "pending": "0x0", "queued": "0x2" }));
    assert_eq!(changes(&node, &filter), Vec::<Value>::new());
    let first = send("0x0");
    let [third, second] = late;
    assert_eq!(changes(&node, &filter), [first, second, third]);
    // The same holds if another transaction takes the nonces before it.
    let fifth = send("0x4");
    mine(&node, 1);
    assert_eq!(changes(&node, &filter), Vec::<Value>::new());
    node.call("anvil_setNonce", json!([ALICE, "0x4"]));
    assert_eq!(changes(&node, &filter), [fifth]);
}
