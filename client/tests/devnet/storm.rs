//! Tests of reads while blocks are replaced. Each answer must be of one block, and of the block that was named, or be
//! an error.

use crate::support::{ALICE, Devnet, args, layers, quantity};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::Decodable;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    env,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The number of times that blocks are replaced. The variable `POLYTRIE_STORM_SECONDS` sets a duration for each layer
/// instead.
const ROUNDS: u64 = 250;

/// The number of times that blocks are replaced at most, if the readers have not had all answers before. Each of them
/// needs a block that is there for long enough.
const MOST_ROUNDS: u64 = 20 * ROUNDS;

const READERS: usize = 3;

const SOMEBODY: Address = Address::repeat_byte(0x5b);

/// The code CALLVALUE PUSH0 SSTORE, and then a log of the value.
const CODE: &str = "0x345f55345f5260205fa0";

/// Creation code that returns the balance of the account.
const BALANCE: &str = "0x735b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b315f5260205ff3";

/// A block and its unique values: the value of its transaction, which is also in slot 0 and in a log, and the balance
/// after it.
#[derive(Debug, Clone)]
struct Known {
    number: Value,
    hash: Value,
    parent: Value,
    root: Value,
    tx: Value,
    balance: U256,
    value: U256,
}

/// The statements of an answer about its block.
#[derive(Debug, Default)]
struct Seen {
    hash: Option<Value>,
    root: Option<Value>,
    tx: Option<Value>,
    balance: Option<U256>,
    /// The value of the block, or zero before the first one.
    value: U256,
}

impl Seen {
    fn of(value: &Value) -> Self {
        Self { value: quantity(value), ..Self::default() }
    }

    fn expect(&self, known: &Known) {
        let is = |found: &Option<Value>, known: &Value| {
            found.as_ref().is_none_or(|found| found == known)
        };
        let is_of_one = is(&self.hash, &known.hash)
            && is(&self.root, &known.root)
            && is(&self.tx, &known.tx)
            && self.balance.is_none_or(|balance| balance == known.balance);
        assert!(is_of_one, "mixed: {self:?} {known:?}");
    }
}

/// The kinds of questions.
const KINDS: [&str; 14] = [
    "balance",
    "slot",
    "call",
    "account",
    "proof",
    "own proof",
    "witness",
    "block",
    "receipts",
    "logs",
    "header",
    "trace",
    "simulation",
    "logs of a range",
];

/// The kinds that no layer refuses.
const ALWAYS: [&str; 8] =
    ["balance", "slot", "call", "block", "receipts", "logs", "header", "trace"];

/// Asks a question about a block that is named by its hash, or by a number or tag. Returns the statements of the
/// answer, or `None` if it is an error or names no block.
fn ask(node: &Devnet, kind: usize, at: &Value, named: Option<&Known>) -> Option<Vec<Seen>> {
    let result = |method: &str, params: Value| {
        let answer = node.answer(method, params);
        answer
            .get("error")
            .is_none()
            .then(|| answer["result"].clone())
            .filter(|result| !result.is_null())
    };
    let block = |method: &str| match named {
        Some(known) => result(&format!("eth_get{method}ByHash"), json!([known.hash, true])),
        None => result(&format!("eth_get{method}ByNumber"), json!([at, true])),
    };
    // An answer that is only a balance can be checked only against a named block.
    let balance = |found: &Value| {
        if let Some(known) = named {
            assert_eq!(quantity(found), known.balance, "mixed: {} {known:?}", KINDS[kind]);
        }
    };
    let logs = |logs: &Value| -> Vec<Seen> {
        let seen = |log: &Value| Seen {
            hash: Some(log["blockHash"].clone()),
            tx: Some(log["transactionHash"].clone()),
            ..Seen::of(&log["data"])
        };
        logs.as_array().unwrap().iter().map(seen).collect()
    };
    Some(match KINDS[kind] {
        "balance" => {
            balance(&result("eth_getBalance", json!([SOMEBODY, at]))?);
            Vec::new()
        }
        "call" => {
            balance(&result("eth_call", json!([{ "data": BALANCE }, at]))?);
            Vec::new()
        }
        "account" => {
            balance(&result("eth_getAccount", json!([SOMEBODY, at]))?["balance"]);
            Vec::new()
        }
        "simulation" => {
            let calls = json!({ "blockStateCalls": [{ "calls": [{ "input": BALANCE }] }] });
            let blocks = result("eth_simulateV1", json!([calls, at]))?;
            balance(&blocks[0]["calls"][0]["returnData"]);
            if let Some(known) = named {
                assert_eq!(blocks[0]["parentHash"], known.hash, "mixed: {known:?}");
            }
            Vec::new()
        }
        "slot" => vec![Seen::of(&result("eth_getStorageAt", json!([SOMEBODY, "0x0", at]))?)],
        "proof" => {
            let proof = result("eth_getProof", json!([SOMEBODY, [B256::ZERO], at]))?;
            let nodes =
                |proof: &Value| serde_json::from_value::<Vec<Bytes>>(proof.clone()).unwrap();
            vec![Seen {
                balance: Some(quantity(&proof["balance"])),
                root: Some(json!(keccak256(&nodes(&proof["accountProof"])[0]))),
                ..Seen::of(&proof["storageProof"][0]["value"])
            }]
        }
        "own proof" => {
            let proof = result("polytrie_getProof", json!([SOMEBODY, [B256::ZERO], at]))?;
            let digest = proof["commitment"]["digest"].clone();
            let verified = result("polytrie_verifyProof", json!([proof, digest]))?;
            assert_eq!(verified["valid"], true, "{verified}");
            let proven = &verified["proven"];
            vec![Seen {
                root: Some(digest),
                balance: Some(quantity(&proven["balance"])),
                ..Seen::of(&proven["slots"][0][1])
            }]
        }
        "witness" => {
            let witness = result("debug_executionWitness", json!([at]))?;
            let list = |name: &str| -> Vec<Bytes> {
                serde_json::from_value(witness[name].clone()).unwrap()
            };
            let parent = list("headers").pop().unwrap();
            let header = Header::decode(&mut &parent[..]).unwrap();
            let has_root = list("state").iter().any(|node| keccak256(node) == header.state_root);
            assert!(has_root, "mixed: the nodes are not of block {}", header.number);
            if let Some(known) = named {
                assert_eq!(json!(keccak256(&parent)), known.parent, "mixed: {known:?}");
            }
            Vec::new()
        }
        "block" => {
            let block = block("Block")?;
            let Some(tx) = block["transactions"].get(0) else { return Some(Vec::new()) };
            vec![Seen {
                hash: Some(block["hash"].clone()),
                root: Some(block["stateRoot"].clone()),
                tx: Some(tx["hash"].clone()),
                ..Seen::of(&tx["value"])
            }]
        }
        "header" => {
            let header = block("Header")?;
            if let Some(known) = named {
                assert_eq!(
                    (&header["hash"], &header["stateRoot"]),
                    (&known.hash, &known.root),
                    "mixed"
                );
            }
            Vec::new()
        }
        "receipts" => {
            let receipts = result("eth_getBlockReceipts", json!([at]))?;
            let mut seen: Vec<_> = receipts
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|receipt| logs(&receipt["logs"]))
                .collect();
            for (seen, receipt) in seen.iter_mut().zip(receipts.as_array().unwrap()) {
                assert_eq!(seen.hash.as_ref(), Some(&receipt["blockHash"]), "mixed: {receipt}");
                seen.tx = Some(receipt["transactionHash"].clone());
            }
            seen
        }
        "logs" => {
            let filter = match named {
                Some(known) => json!([{ "blockHash": known.hash }]),
                None => json!([{ "fromBlock": at, "toBlock": at }]),
            };
            logs(&result("eth_getLogs", filter)?)
        }
        "logs of a range" => {
            let found =
                result("eth_getLogs", json!([{ "fromBlock": "0x1", "toBlock": "latest" }]))?;
            // The logs are in the order of their blocks, each with the value of its block.
            let numbers: Vec<_> =
                found.as_array().unwrap().iter().map(|log| quantity(&log["blockNumber"])).collect();
            let one = U256::from(1);
            assert!(numbers.windows(2).all(|pair| pair[0] + one == pair[1]), "mixed: {numbers:?}");
            return Some(logs(&found));
        }
        "trace" => {
            let method =
                if named.is_some() { "debug_traceBlockByHash" } else { "debug_traceBlockByNumber" };
            let at = named.map_or(at, |known| &known.hash);
            let traces = result(method, json!([at, { "tracer": "callTracer" }]))?;
            let seen = |trace: &Value| Seen {
                tx: Some(trace["txHash"].clone()),
                ..Seen::of(&trace["result"]["value"])
            };
            traces.as_array().unwrap().iter().map(seen).collect()
        }
        kind => unreachable!("{kind}"),
    })
    .inspect(|seen| {
        // All statements about the value must be those of the named block.
        if let Some(known) = named {
            seen.iter()
                .for_each(|seen| assert_eq!(seen.value, known.value, "mixed: {seen:?} {known:?}"));
        }
    })
}

/// All blocks that existed, by their unique values.
#[derive(Debug, Default)]
struct Blocks {
    all: Mutex<HashMap<U256, Known>>,
    last: Mutex<Option<Known>>,
    /// Statements about blocks that this test has not recorded yet.
    early: Mutex<Vec<Seen>>,
}

impl Blocks {
    fn check(&self, seen: Seen) {
        if seen.value.is_zero() {
            assert!(seen.balance.is_none_or(|balance| balance.is_zero()), "mixed: {seen:?}");
            return;
        }
        match self.all.lock().get(&seen.value) {
            Some(known) => seen.expect(known),
            None => self.early.lock().push(seen),
        }
    }

    /// Records the head, which has one transaction of this value.
    fn add(&self, node: &Devnet, value: U256) {
        let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
        let known = Known {
            number: block["number"].clone(),
            hash: block["hash"].clone(),
            parent: block["parentHash"].clone(),
            root: block["stateRoot"].clone(),
            tx: block["transactions"][0].clone(),
            balance: node.balance(SOMEBODY),
            value,
        };
        self.all.lock().insert(value, known.clone());
        *self.last.lock() = Some(known);
    }
}

/// The numbers of answers and refusals of each kind, for blocks named by hash and by number.
#[derive(Debug, Default)]
struct Counts {
    answered: [[AtomicUsize; 2]; KINDS.len()],
    refused: AtomicUsize,
}

impl Counts {
    /// Whether there was an answer of each kind that no layer refuses.
    fn are_enough(&self) -> bool {
        let is_answered = |name: &&str| {
            let kind = KINDS.iter().position(|known| known == name).unwrap();
            self.answered[kind].iter().all(|count| count.load(Ordering::Relaxed) > 0)
        };
        ALWAYS.iter().all(is_answered)
    }
}

/// Asks questions of all kinds until `done` is set.
fn read(node: &Devnet, blocks: &Blocks, counts: &Counts, done: &AtomicBool, first: usize) {
    let mut round = first;
    while !done.load(Ordering::Relaxed) {
        round += 1;
        let (kind, how) = (round % KINDS.len(), round / KINDS.len() % 3);
        let Some(known) = blocks.last.lock().clone() else { continue };
        let (at, named) = match how {
            0 => (json!({ "blockHash": known.hash }), Some(&known)),
            1 => (known.number.clone(), None),
            _ => (json!("latest"), None),
        };
        let named = named.filter(|_| KINDS[kind] != "logs of a range");
        match ask(node, kind, &at, named) {
            Some(seen) => {
                seen.into_iter().for_each(|seen| blocks.check(seen));
                counts.answered[kind][usize::from(named.is_none())].fetch_add(1, Ordering::Relaxed);
            }
            None => {
                counts.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A guard that ends the readers, also if this thread panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "the figures of a long run are what it is for")]
fn no_answer_mixes_two_blocks() {
    let time = env::var("POLYTRIE_STORM_SECONDS").ok();
    let time = time.map(|time| Duration::from_secs(time.parse().expect("a number of seconds")));
    for layer in layers() {
        let node = Devnet::start(layer, args!["--no-mining"]);
        node.call("anvil_setCode", json!([SOMEBODY, CODE]));
        node.call("anvil_mine", json!([3]));
        let (blocks, counts, done) = (Blocks::default(), Counts::default(), AtomicBool::new(false));
        let start = Instant::now();
        let mut rounds = 0;
        thread::scope(|scope| {
            let _done = Done(&done);
            let readers: Vec<_> = (0..READERS)
                .map(|reader| {
                    let (node, blocks, counts, done) = (&node, &blocks, &counts, &done);
                    scope.spawn(move || read(node, blocks, counts, done, reader * 5))
                })
                .collect();
            let mut value = 0x1234_5600;
            let goes_on = |rounds: u64| match time {
                Some(time) => start.elapsed() < time,
                None => rounds < ROUNDS || (rounds < MOST_ROUNDS && !counts.are_enough()),
            };
            while goes_on(rounds) && !readers.iter().any(thread::ScopedJoinHandle::is_finished) {
                rounds += 1;
                // Replace one block, and in the next round two.
                let depth = 1 + rounds % 2;
                node.call("anvil_rollback", json!([depth]));
                for _ in 0..depth {
                    value += 1;
                    node.send(ALICE, SOMEBODY, value);
                    node.call("evm_mine", json!([]));
                    blocks.add(&node, U256::from(value));
                }
            }
        });
        let all = blocks.all.into_inner();
        for seen in blocks.early.into_inner() {
            let known = all.get(&seen.value).unwrap_or_else(|| panic!("of no block: {seen:?}"));
            seen.expect(known);
        }
        assert!(counts.are_enough(), "{layer}: {counts:?}");
        let answered = counts.answered.map(|kind| kind.map(AtomicUsize::into_inner));
        let sum: usize = answered.iter().flatten().sum();
        if time.is_some() {
            let (blocks, refused) = (all.len(), counts.refused.into_inner());
            let kinds: Vec<_> = KINDS
                .iter()
                .zip(answered)
                .map(|(kind, [hash, number])| format!("{kind} {hash}+{number}"))
                .collect();
            eprintln!(
                "{layer}: {:?}, {rounds} reorganisations, {blocks} blocks, {sum} answers, {refused} refused, mixed 0 (by hash + by number: {})",
                start.elapsed(),
                kinds.join(", ")
            );
        }
    }
}

/// A requested time is used by the requested block, even if the clock makes blocks all the time.
#[test]
fn a_time_is_that_of_the_block_it_was_asked_for() {
    let node = Devnet::start("raw", args!["--block-time", "0.001"]);
    // The genesis block has a time in 1970, and the first block after it the current time.
    node.call("evm_mine", json!([]));
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let mut time = quantity(&head["timestamp"]).to::<u64>();
    for _ in 0..200 {
        time += 1_000_000;
        let mined = node.call("evm_mine_detailed", json!([time]));
        assert_eq!(quantity(&mined[0]["timestamp"]).to::<u64>(), time);
    }
}
