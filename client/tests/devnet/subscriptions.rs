//! Tests of subscriptions over a WebSocket.

use crate::{
    support::{ALICE, BOB, Devnet, args, layers, quantity},
    transactions::{deploy, word},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

/// The client side of a WebSocket whose messages have one frame each.
#[derive(Debug)]
pub(crate) struct Socket(BufReader<TcpStream>);

impl Socket {
    pub(crate) fn open(node: &Devnet) -> Self {
        let mut stream = BufReader::new(node.request(
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        ));
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
        }
        Self(stream)
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let length = u64::try_from(text.len()).unwrap();
        // The frame is a whole text with eight bytes of length and a mask of zeros.
        let mut frame = vec![0x81, 0x80 | 127];
        frame.extend(length.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.0.get_mut().write_all(&frame).unwrap();
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Returns the next text message and skips other messages of the protocol.
    pub(crate) fn receive(&mut self) -> Value {
        loop {
            let [kind, length] = self.bytes();
            let length = match length {
                126 => u64::from(u16::from_be_bytes(self.bytes())),
                127 => u64::from_be_bytes(self.bytes()),
                length => length.into(),
            };
            let mut text = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut text).unwrap();
            if kind == 0x81 {
                return serde_json::from_slice(&text).unwrap();
            }
        }
    }

    fn subscribe(node: &Devnet, params: Value) -> Self {
        let mut socket = Self::open(node);
        let method = "eth_subscribe";
        socket.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        assert!(socket.receive()["result"].is_string());
        socket
    }

    /// Returns the result of the next notification.
    fn news(&mut self) -> Value {
        self.receive()["params"]["result"].take()
    }
}

#[test]
fn who_reads_late_misses_no_block() {
    let node = Devnet::start("raw", args!["--no-mining"]);
    let mut heads = Socket::subscribe(&node, json!(["newHeads"]));
    // The blocks are more than the node and the connection buffer.
    let blocks = 15_000;
    node.call("anvil_mine", json!([blocks]));
    for number in 1..=blocks {
        assert_eq!(quantity(&heads.news()["number"]).to::<u64>(), number);
    }
    // A block that replaces another one is sent, too.
    let point = node.call("evm_snapshot", json!([]));
    for _ in 0..2 {
        node.call("anvil_mine", json!([2]));
        for number in [blocks + 1, blocks + 2] {
            assert_eq!(quantity(&heads.news()["number"]).to::<u64>(), number);
        }
        node.call("evm_revert", json!([point]));
    }
}

/// A proxy cuts a connection on which nothing is sent. The first ping comes at once.
#[test]
fn a_socket_is_pinged() {
    let node = Devnet::start("raw", args![]);
    let [kind, _] = Socket::open(&node).bytes();
    assert_eq!(kind, 0x89);
}

#[test]
fn transactions_are_told_as_they_come() {
    let node = Devnet::start("raw", args!["--no-mining"]);
    let mut pending = Socket::subscribe(&node, json!(["newPendingTransactions"]));
    let sent: Vec<_> = (1..=3).map(|value| node.send(ALICE, BOB, value)).collect();
    node.call("evm_mine", json!([]));
    assert_eq!([(); 3].map(|()| pending.news()).as_slice(), sent);
}

/// A subscription sends the logs of removed blocks again as removed, and then the new logs, as in
/// geth.
#[test]
fn logs_that_are_gone_are_told_again_as_removed() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        let log = |number: u64| {
            let call = json!([{ "from": ALICE, "to": contract, "data": word(number) }]);
            node.call("eth_sendTransaction", call);
        };
        log(1);
        let mut logs = Socket::subscribe(&node, json!(["logs", { "address": contract }]));
        let point = node.call("evm_snapshot", json!([]));
        log(2);
        log(3);
        let mut expect = |number: u64, is_removed: bool| {
            let news = logs.news();
            let found = (&news["data"], &news["removed"]);
            assert_eq!(found, (&json!(word(number)), &json!(is_removed)), "{layer}: {news}");
            news
        };
        let there = [expect(2, false), expect(3, false)];
        node.call("evm_revert", json!([point]));
        log(4);
        for (log, number) in there.into_iter().zip([2, 3]) {
            let mut gone = expect(number, true);
            gone["removed"] = json!(false);
            assert_eq!(gone, log, "{layer}");
        }
        expect(4, false);
        node.call("anvil_rollback", json!([2]));
        expect(1, true);
        expect(4, true);
        log(5);
        expect(5, false);
        node.call("anvil_reorg", json!([1]));
        expect(5, true);
        node.call("anvil_reset", json!([]));
        assert_eq!(node.stop(), Some(0));
    }
}

/// The receipts of a block come in one message, in the form of `eth_getBlockReceipts`. A block without a wanted
/// transaction has no message, as in geth.
#[test]
fn receipts_are_told_block_by_block() {
    for layer in layers() {
        let node = Devnet::start(layer, args!["--no-mining"]);
        let mut all = Socket::subscribe(&node, json!(["transactionReceipts"]));
        let first = node.send(ALICE, BOB, 1);
        // The constructor emits a log without a topic: PUSH0 PUSH0 LOG0.
        let creation = json!([{ "from": ALICE, "data": "0x5f5fa0", "gas": "0x186a0" }]);
        let second = node.call("eth_sendTransaction", creation);
        let third = node.send(ALICE, BOB, 2);
        let wanted = json!(["transactionReceipts", { "transactionHashes": [second] }]);
        let mut one = Socket::subscribe(&node, wanted);
        let none = json!(["transactionReceipts", { "transactionHashes": [] }]);
        let mut every = Socket::subscribe(&node, none);
        node.call("evm_mine", json!([]));
        let receipts = node.call("eth_getBlockReceipts", json!(["latest"]));
        for (index, hash) in [first, second, third].iter().enumerate() {
            assert_eq!(receipts[index]["transactionHash"], *hash, "{layer}: {receipts}");
        }
        assert_eq!(receipts[1]["logs"].as_array().unwrap().len(), 1, "{layer}: {receipts}");
        assert_eq!(all.news(), receipts, "{layer}");
        assert_eq!(every.news(), receipts, "{layer}");
        assert_eq!(one.news(), json!([receipts[1]]), "{layer}");
        // An empty block lies between this message and the next one.
        node.call("evm_mine", json!([]));
        node.send(BOB, ALICE, 1);
        node.call("evm_mine", json!([]));
        let later = node.call("eth_getBlockReceipts", json!(["latest"]));
        assert_eq!(later.as_array().unwrap().len(), 1, "{layer}: {later}");
        assert_eq!(all.news(), later, "{layer}");
        assert_eq!(node.stop(), Some(0));
    }
}

#[test]
fn a_subscription_to_receipts_names_few_transactions() {
    let node = Devnet::start("raw", args![]);
    let mut socket = Socket::open(&node);
    let mut subscribe = |hashes: u64| {
        let hashes: Vec<_> = (0..hashes).map(word).collect();
        let params = json!(["transactionReceipts", { "transactionHashes": hashes }]);
        let method = "eth_subscribe";
        socket.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        socket.receive()
    };
    assert!(subscribe(200)["result"].is_string());
    let refused = subscribe(201);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

/// A subscription sends the logs of its range only, also when they are removed, as in geth.
#[test]
fn a_subscription_to_logs_may_have_a_range() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        let start = node.head();
        let [from, to] = [2, 3].map(|above| format!("{:#x}", start + above));
        let filter = json!({ "address": contract, "fromBlock": from, "toBlock": to });
        let mut some = Socket::subscribe(&node, json!(["logs", filter]));
        let mut all = Socket::subscribe(&node, json!(["logs", { "address": contract }]));
        for number in 1..=4 {
            let call = json!([{ "from": ALICE, "to": contract, "data": word(number) }]);
            node.call("eth_sendTransaction", call);
        }
        let expect = |socket: &mut Socket, number: u64, is_removed: bool| {
            let news = socket.news();
            let found = (&news["data"], &news["removed"]);
            assert_eq!(found, (&json!(word(number)), &json!(is_removed)), "{layer}: {news}");
        };
        for is_removed in [false, true] {
            (1..=4).for_each(|number| expect(&mut all, number, is_removed));
            (2..=3).for_each(|number| expect(&mut some, number, is_removed));
            // A block that is taken back before it was announced is not announced at all.
            if !is_removed {
                node.call("anvil_rollback", json!([4]));
            }
        }
        assert_eq!(node.stop(), Some(0));
    }
}

#[test]
fn the_range_of_a_subscription_is_in_order() {
    let node = Devnet::start("raw", args![]);
    let mut socket = Socket::open(&node);
    let params = json!(["logs", { "fromBlock": "0x5", "toBlock": "0x4" }]);
    let method = "eth_subscribe";
    socket.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
    let answer = socket.receive();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}
