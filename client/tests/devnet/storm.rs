//! Blocks that come and go while others read: an answer is of the block that was named, or there is none.

use crate::support::{ALICE, Devnet, args, layers, quantity};
use alloy_primitives::{Address, B256, U256};
use serde_json::{Value, json};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// Blocks that take the place of others.
const BLOCKS: u64 = 250;

const SOMEBODY: Address = Address::repeat_byte(0x5b);

/// CALLVALUE PUSH0 SSTORE
const CODE: &str = "0x345f55";

/// A block, and what it alone has: the balance of an account, and its slot 0.
#[derive(Debug, Clone)]
struct Known {
    hash: Value,
    root: Value,
    balance: U256,
    slot: U256,
}

/// Asks by the hash of a block, and checks that the answer is of this block; `None` if the request was refused.
fn check(node: &Devnet, kind: usize, known: &Known) -> Option<()> {
    let at = json!({ "blockHash": known.hash });
    let result = |method: &str, params: Value| {
        let answer = node.answer(method, params);
        answer.get("error").is_none().then(|| answer["result"].clone())
    };
    let slot = B256::ZERO;
    match kind {
        0 => {
            let balance = result("eth_getBalance", json!([SOMEBODY, at]))?;
            assert_eq!(quantity(&balance), known.balance);
        }
        1 => {
            let proof = result("eth_getProof", json!([SOMEBODY, [slot], at]))?;
            assert_eq!(quantity(&proof["balance"]), known.balance);
            assert_eq!(quantity(&proof["storageProof"][0]["value"]), known.slot);
        }
        2 => {
            let account = result("eth_getAccount", json!([SOMEBODY, at]))?;
            assert_eq!(quantity(&account["balance"]), known.balance);
        }
        3 => {
            let proof = result("polytrie_getProof", json!([SOMEBODY, [slot], at]))?;
            let digest = &proof["commitment"]["digest"];
            assert_eq!(digest, &known.root);
            let verified = result("polytrie_verifyProof", json!([proof, digest]))?;
            assert_eq!(verified["valid"], true);
        }
        4 => {
            let witness = result("debug_executionWitness", json!([at]))?;
            assert!(!witness["headers"].as_array().unwrap().is_empty());
        }
        5 => {
            let block = result("eth_getBlockByHash", json!([known.hash, true]))?;
            assert!(block.is_null() || block["stateRoot"] == known.root, "{block}");
        }
        _ => {
            let receipts = result("eth_getBlockReceipts", json!([at]))?;
            for receipt in receipts.as_array()? {
                assert_eq!(receipt["blockHash"], known.hash);
            }
        }
    }
    Some(())
}

#[test]
fn no_answer_mixes_two_blocks() {
    for layer in layers() {
        let node = Devnet::start(layer, args!["--no-mining"]);
        node.call("anvil_setCode", json!([SOMEBODY, CODE]));
        node.call("anvil_mine", json!([3]));
        let last = Mutex::new(None::<Known>);
        let done = AtomicBool::new(false);
        let answered: [AtomicUsize; 7] = Default::default();
        thread::scope(|scope| {
            for reader in 0..3 {
                let (node, last, done, answered) = (&node, &last, &done, &answered);
                scope.spawn(move || {
                    let mut kind = reader;
                    while !done.load(Ordering::Relaxed) {
                        let known = last.lock().unwrap().clone();
                        if let Some(known) = known
                            && check(node, kind, &known).is_some()
                        {
                            answered[kind].fetch_add(1, Ordering::Relaxed);
                        }
                        kind = (kind + 1) % answered.len();
                    }
                });
            }
            for number in 1..=BLOCKS {
                // One block back and another in its place, then two.
                let depth = 1 + number % 2;
                node.call("anvil_rollback", json!([depth]));
                for _ in 0..depth {
                    node.send(ALICE, SOMEBODY, 0x1234_5600 + number);
                    node.call("evm_mine", json!([]));
                }
                let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
                let (hash, root) = (block["hash"].clone(), block["stateRoot"].clone());
                let balance = node.balance(SOMEBODY);
                let slot = U256::from(0x1234_5600 + number);
                *last.lock().unwrap() = Some(Known { hash, root, balance, slot });
            }
            done.store(true, Ordering::Relaxed);
        });
        let answered = answered.map(AtomicUsize::into_inner);
        assert!(answered[0] > 0 && answered[5] > 0, "{layer}: {answered:?}");
    }
}

/// A clock that makes blocks all the time takes no block's time from whom asked for it.
#[test]
fn a_time_is_that_of_the_block_it_was_asked_for() {
    let node = Devnet::start("raw", args!["--block-time", "0.001"]);
    // The genesis block is of the year 1970, the first one after it of today.
    node.call("evm_mine", json!([]));
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let mut time = quantity(&head["timestamp"]).to::<u64>();
    for _ in 0..200 {
        time += 1_000_000;
        let mined = node.call("evm_mine_detailed", json!([time]));
        assert_eq!(quantity(&mined[0]["timestamp"]).to::<u64>(), time);
    }
}
