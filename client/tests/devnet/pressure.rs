//! Tests of expensive requests: other clients do not wait for them, and the memory of the node is bounded.

use crate::{
    sending::wait_for_pending,
    subscriptions::Socket,
    support::{ALICE, Devnet, args, layers},
};
use alloy_primitives::{Address, B256, U256};
use serde_json::{Value, json};
use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The code JUMPDEST PUSH1 0 JUMP, an endless loop.
const ENDLESS: &str = "0x5b600056";

fn endless_simulation(at: &str) -> Value {
    let call = json!({ "data": ENDLESS, "gas": "0xffffffffffff" });
    let block = json!({ "blockOverrides": { "gasLimit": "0xffffffffffffff" }, "calls": [call] });
    json!([{ "blockStateCalls": [block] }, at])
}

/// A simulation runs on a separate layer, so blocks are made meanwhile. The simulations last ten minutes unless the
/// node ends first. Only some of them run at a time; the others may give up after a minute.
#[test]
fn a_simulation_holds_up_no_block() {
    for layer in layers() {
        let node = Devnet::start(
            layer,
            args!["--rpc.gascap", "1000000000000000", "--rpc.evmtimeout", "600"],
        );
        node.call("anvil_mine", json!([5]));
        let ended = Arc::new(AtomicUsize::new(0));
        for at in ["latest", "0x2", "latest", "0x1"] {
            let mut answer = node.request_of("eth_simulateV1", &endless_simulation(at));
            answer.set_read_timeout(None).unwrap();
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || {
                let mut text = String::new();
                // The simulation ends when the node ends.
                let _ = answer.read_to_string(&mut text);
                if !text.contains("the node is busy") {
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for nonce in 0..20u64 {
            node.send(ALICE, ALICE, nonce);
            node.call("evm_mine", json!([]));
            node.call("eth_getBlockByNumber", json!(["pending", false]));
        }
        assert_eq!(node.head(), 45, "{layer}");
        assert_eq!(ended.load(Ordering::SeqCst), 0, "{layer}: a simulation is over already");
    }
}

/// Returns a call whose result has 4 MiB, which are 8 MiB of text.
fn large_call(id: usize) -> Value {
    let address = Address::repeat_byte(0x77);
    // The code is PUSH4 4 MiB PUSH0 RETURN.
    let code = json!({ address.to_string(): { "code": "0x63004000005ff3" } });
    let params = json!([{ "to": address }, "latest", code]);
    json!({ "jsonrpc": "2.0", "id": id, "method": "eth_call", "params": params })
}

/// A client that does not read its answers does not fill the memory. Without a limit 300 answers took 2.9 GiB.
#[test]
fn a_socket_that_takes_nothing_fills_no_memory() {
    let node = Devnet::start("raw", args![]);
    let mut socket = Socket::open(&node);
    for id in 0..300 {
        socket.send(&large_call(id));
    }
    // Another client gets its answers meanwhile.
    for id in 0..40 {
        let (status, body) = node.post(&large_call(id).to_string());
        assert!(status == 200 && body.len() > 8 << 20, "{status}");
    }
    assert!(node.peak_memory() < 800 << 20, "{} MiB", node.peak_memory() >> 20);
    // All answers arrive when the client reads them.
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..300 {
        let answer = socket.receive();
        assert!(answer["result"].as_str().unwrap().len() > 8 << 20);
        assert!(seen.insert(answer["id"].as_u64().unwrap()));
    }
    assert!(node.peak_memory() < 800 << 20, "{} MiB", node.peak_memory() >> 20);
}

/// Requests of a socket that wait for a block do not delay the request on the same socket that makes the block.
#[test]
fn who_waits_for_a_block_may_ask_for_it() {
    let node = Devnet::start("raw", args!["--no-mining"]);
    let mut socket = Socket::open(&node);
    for id in 0..50 {
        let tx = json!({ "from": ALICE, "to": ALICE, "gas": "0x5208" });
        let (method, params) = ("eth_sendTransactionSync", json!([tx, 60_000]));
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        socket.send(&request);
    }
    wait_for_pending(&node, 50);
    socket.send(&json!({ "jsonrpc": "2.0", "id": 99, "method": "evm_mine", "params": [] }));
    for _ in 0..51 {
        let answer = socket.receive();
        assert!(answer.get("error").is_none(), "{answer}");
    }
    assert_eq!(node.head(), 1);
}

#[test]
fn filters_and_subscriptions_are_bounded() {
    let node = Devnet::start("raw", args![]);
    let addresses = |count: u64| -> Vec<_> {
        (0..count).map(|i| Address::from_word(B256::from(U256::from(i)))).collect()
    };
    for method in ["eth_newFilter", "eth_getLogs"] {
        node.call(method, json!([{ "address": addresses(1_000) }]));
        let (code, message) = node.error(method, json!([{ "address": addresses(1_001) }]));
        assert!(code == -32602 && message.contains("max addresses"), "{message}");
        let (code, _) = node.error(method, json!([{ "topics": [null, null, null, null, null] }]));
        assert_eq!(code, -32602);
    }
    let mut socket = Socket::open(&node);
    for (count, is_taken) in [(1_000, true), (1_001, false)] {
        let params = json!(["logs", { "address": addresses(count) }]);
        let method = "eth_subscribe";
        socket.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        assert_eq!(socket.receive().get("result").is_some(), is_taken);
    }
}

#[test]
fn proofs_are_of_so_many_slots() {
    let slots = |count: u64| -> Vec<_> { (0..count).map(|i| B256::from(U256::from(i))).collect() };
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let (_, message) = node.error("polytrie_getProof", json!([ALICE, slots(1_025)]));
        assert!(message.contains("max 1024"), "{layer}: {message}");
    }
}
