//! Tests of the methods with which users of development nodes change state, time and mining.

use crate::transactions::{deploy, word};
use crate::{
    run::polytrie,
    support::{ALICE, BOB, Devnet, args, layers, quantity, wait_until},
};
use alloy_primitives::{Address, U256, address};
use serde_json::{Value, json};

const SOMEBODY: Address = address!("00000000000000000000000000000000000000aa");

#[test]
fn back_to_a_snapshot_on_every_layer() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        let id = node.call("evm_snapshot", json!([]));
        node.call(
            "eth_sendTransaction",
            json!([{ "from": ALICE, "to": contract, "data": word(5) }]),
        );
        node.call("anvil_setBalance", json!([SOMEBODY, "0x7"]));
        assert_eq!(node.balance(SOMEBODY), U256::from(7));
        assert_eq!(node.call("evm_revert", json!([id])), true, "{layer}");
        assert_eq!(node.balance(SOMEBODY), U256::ZERO);
        assert_eq!(node.call("eth_call", json!([{ "to": contract }, "latest"])), word(0));
        assert_eq!(node.head(), 1);
        assert_eq!(node.call("evm_revert", json!([id])), false);
        // The chain continues from the snapshot.
        node.call(
            "eth_sendTransaction",
            json!([{ "from": ALICE, "to": contract, "data": word(6) }]),
        );
        assert_eq!(
            node.call("eth_call", json!([{ "to": contract }, "latest"])),
            word(6),
            "{layer}"
        );
    }
}

#[test]
fn the_state_by_hand_on_every_layer() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        let code = node.call("eth_getCode", json!([contract, "latest"]));
        node.call("hardhat_setBalance", json!([SOMEBODY, "0xde0b6b3a7640000"]));
        node.call("hardhat_setNonce", json!([SOMEBODY, "0x5"]));
        node.call("hardhat_setCode", json!([SOMEBODY, code]));
        node.call("hardhat_setStorageAt", json!([SOMEBODY, "0x0", word(77)]));
        for _ in 0..2 {
            assert_eq!(
                node.call("eth_call", json!([{ "to": SOMEBODY }, "latest"])),
                word(77),
                "{layer}"
            );
            assert_eq!(
                node.number("eth_getTransactionCount", json!([SOMEBODY, "latest"])),
                U256::from(5)
            );
            assert_eq!(node.call("eth_getCode", json!([SOMEBODY, "latest"])), code);
            node.call("hardhat_mine", json!(["0x2"]));
        }
        assert_eq!(node.head(), 5);
    }
}

#[test]
fn acting_as_somebody_else() {
    let node = Devnet::start("mpt", args![]);
    node.call("anvil_setBalance", json!([SOMEBODY, "0xde0b6b3a7640000"]));
    let transfer = json!([{ "from": SOMEBODY, "to": BOB, "value": "0x1" }]);
    assert!(node.error("eth_sendTransaction", transfer.clone()).1.contains("unknown account"));
    node.call("anvil_impersonateAccount", json!([SOMEBODY]));
    let hash = node.call("eth_sendTransaction", transfer.clone());
    let tx = node.call("eth_getTransactionByHash", json!([hash]));
    assert_eq!(tx["from"], json!(SOMEBODY));
    // Libraries refuse a signature with a high `s`.
    assert_eq!(tx["s"], "0x0");
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["from"], json!(SOMEBODY));
    // The trace runs with the ether that was given by hand.
    let trace = node.call("debug_traceTransaction", json!([hash, { "tracer": "callTracer" }]));
    assert_eq!(trace["from"], json!(SOMEBODY));
    assert_eq!(trace.get("error"), None);
    node.call("ots_traceTransaction", json!([hash]));
    node.call("debug_executionWitness", json!(["latest"]));
    // A revert restores the state, but does not end the impersonation of accounts.
    let id = node.call("evm_snapshot", json!([]));
    node.call("anvil_impersonateAccount", json!([BOB.create(0)]));
    node.call("anvil_setBalance", json!([BOB.create(0), "0xde0b6b3a7640000"]));
    let point = node.call("evm_snapshot", json!([]));
    assert_eq!(node.call("evm_revert", json!([point])), true);
    node.call("eth_sendTransaction", json!([{ "from": BOB.create(0), "to": BOB }]));
    assert_eq!(node.call("evm_revert", json!([id])), true);
    node.call("anvil_setBalance", json!([BOB.create(0), "0xde0b6b3a7640000"]));
    node.call("eth_sendTransaction", json!([{ "from": BOB.create(0), "to": BOB }]));
    node.call("anvil_stopImpersonatingAccount", json!([SOMEBODY]));
    assert!(node.error("eth_sendTransaction", transfer).1.contains("unknown account"));
}

/// Blocks with transactions of impersonated accounts pass `db check` and can be exported, although
/// other clients refuse them.
#[test]
fn blocks_of_somebody_else_are_kept_and_exported() {
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let node = Devnet::open(&data, args!["--state", layer]);
        node.send(ALICE, BOB, 1);
        node.call("anvil_impersonateAccount", json!([SOMEBODY]));
        node.call("anvil_setBalance", json!([SOMEBODY, "0xde0b6b3a7640000"]));
        node.call("eth_sendTransaction", json!([{ "from": SOMEBODY, "to": BOB, "value": "0x1" }]));
        node.send(ALICE, BOB, 2);
        node.call("eth_sendTransaction", json!([{ "from": SOMEBODY, "to": BOB, "value": "0x1" }]));
        assert_eq!(node.stop(), Some(0));
        let check = polytrie!["db", "check", "--datadir", &data].ok();
        assert!(check.text().starts_with("clean: "), "{layer}: {}", check.text());
        let file = dir.path().join("blocks.rlp");
        let export = polytrie!["export", &file, "--datadir", &data].ok();
        let warning = "accounts were impersonated in the blocks 2, 4";
        assert!(export.stderr.contains(warning), "{layer}: {}", export.stderr);
        assert!(export.stderr.contains("changed by hand ahead of block 2"), "{}", export.stderr);
        let ere = dir.path().join("ere");
        let export = polytrie!["export", &ere, "--format", "ere", "--datadir", &data].ok();
        assert!(export.stderr.contains(warning), "{layer}: {}", export.stderr);
        // An import of the export fails and names the block.
        let (copy, genesis) = (dir.path().join("copy"), data.join("genesis.json"));
        let import =
            polytrie!["import", &file, "--datadir", copy, "--chain", genesis, "--state", layer];
        assert_eq!(import.code, Some(1), "{layer}: {}", import.stderr);
        assert!(import.message().contains("block 2"), "{layer}: {}", import.message());
    }
}

#[test]
fn time_goes_as_it_is_told() {
    let node = Devnet::start("mpt", args![]);
    let time =
        || quantity(&node.call("eth_getBlockByNumber", json!(["latest", false]))["timestamp"]);
    node.call("evm_mine", json!([]));
    let now = time();
    // The answers are numbers and null, as in anvil.
    assert_eq!(node.call("evm_increaseTime", json!([1000])), 1000);
    node.call("evm_mine", json!([]));
    assert!(time() >= now + U256::from(1000));
    let next = time() + U256::from(500);
    assert_eq!(node.call("evm_setNextBlockTimestamp", json!([next])), Value::Null);
    node.call("evm_mine", json!([]));
    assert_eq!(time(), next);
    assert_eq!(node.error("evm_setNextBlockTimestamp", json!([next])).0, -32602);
    node.call("hardhat_mine", json!(["0x3", "0x3c"]));
    assert!(time() >= next + U256::from(120));
    let ahead = node.call("evm_setTime", json!([time() + U256::from(10_000)]));
    assert!(ahead.as_u64().unwrap() >= 10_000 - 180, "{ahead}");
    // As in anvil, numbers above 10^12 are milliseconds.
    let far = 200_000_000_000_u64;
    for set in [far, (far + 1_000_000) * 1000] {
        node.call("evm_setTime", json!([set]));
        node.call("evm_mine", json!([]));
        assert!((far..far + 2_000_000).contains(&time().to::<u64>()), "{set}");
    }
    // A time is refused if no later one is left for the next block.
    for (method, params) in [
        ("evm_mine", json!(["0xffffffffffffffff"])),
        ("evm_setNextBlockTimestamp", json!(["0xffffffffffffffff"])),
        ("hardhat_mine", json!(["0x2", "0xffffffffffffffff"])),
    ] {
        let (code, message) = node.error(method, params);
        assert!(code == -32602 && message.contains("no block could follow"), "{method}: {message}");
    }
    node.call("anvil_setBlockTimestampInterval", json!(["0xffffffffffffffff"]));
    assert!(node.error("evm_mine", json!([])).1.contains("no block could follow"));
    // As in anvil, the answer is whether there was an interval.
    for was_there in [true, false] {
        assert_eq!(node.call("anvil_removeBlockTimestampInterval", json!([])), was_there);
    }
    node.send(ALICE, BOB, 1);
}

#[test]
fn an_interval_comes_before_each_block_or_between_them() {
    let node = Devnet::start("mpt", args![]);
    node.call("evm_mine", json!([]));
    node.call("hardhat_mine", json!(["0x2", "0x2710"]));
    node.call("anvil_mine", json!(["0x2", "0x2710"]));
    let time = |number: u64| {
        let block = json!([format!("{number:#x}"), false]);
        quantity(&node.call("eth_getBlockByNumber", block)["timestamp"])
    };
    let is_after = |number| time(number) >= time(number - 1) + U256::from(10_000);
    assert_eq!([2, 3, 4, 5].map(is_after), [false, true, true, true]);
    let (code, _) = node.error("anvil_mine", json!(["0x1", "0xffffffffffffffff"]));
    assert_eq!((code, node.head()), (-32602, 5));
}

#[test]
fn a_nonce_by_hand_lets_others_go_on() {
    let node = Devnet::start("mpt", args![]);
    let late = json!({ "from": ALICE, "to": BOB, "value": "0x1", "nonce": "0x5" });
    let hash = node.call("eth_sendTransaction", json!([late]));
    assert_eq!(node.call("txpool_status", json!([])), json!({ "pending": "0x0", "queued": "0x1" }));
    node.call("anvil_setNonce", json!([ALICE, "0x5"]));
    wait_until("it still waits", || {
        node.call("eth_getTransactionReceipt", json!([hash])) != Value::Null
    });
}

#[test]
fn mining_by_hand() {
    let node = Devnet::start("mpt", args![]);
    node.call("evm_setAutomine", json!([false]));
    let first = node.send(ALICE, BOB, 1);
    let second = node.send(ALICE, BOB, 2);
    assert_eq!(node.call("eth_getTransactionReceipt", json!([first])), Value::Null);
    let pending = node.call("eth_getBlockByNumber", json!(["pending", false]));
    assert_eq!(pending["transactions"], json!([first, second]));
    node.call("evm_mine", json!([]));
    let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(block["transactions"], json!([first, second]));
    node.call("anvil_setNextBlockBaseFeePerGas", json!(["0x2540be400"]));
    let history = node.call("eth_feeHistory", json!(["0x1", "latest", []]));
    assert_eq!(history["baseFeePerGas"], json!([block["baseFeePerGas"], "0x2540be400"]));
    let history = node.call("eth_feeHistory", json!(["0x1", "earliest", []]));
    assert_eq!(history["baseFeePerGas"][1], block["baseFeePerGas"]);
    node.call("evm_mine", json!([]));
    let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(block["baseFeePerGas"], "0x2540be400");
    // The base fee of the next block is also right if that block exists already.
    let history = node.call("eth_feeHistory", json!(["0x1", "0x1", []]));
    assert_eq!(history["baseFeePerGas"][1], block["baseFeePerGas"]);
    let dropped = node.send(ALICE, BOB, 3);
    assert_eq!(node.call("anvil_dropTransaction", json!([dropped])), dropped);
    assert_eq!(node.call("eth_getTransactionByHash", json!([dropped])), Value::Null);
    let id = node.call("evm_snapshot", json!([]));
    let instance = || node.call("hardhat_metadata", json!([]))["instanceId"].clone();
    let before = instance();
    assert_eq!(instance(), before);
    node.call("anvil_autoImpersonateAccount", json!([true]));
    // The parameters as viem sends them.
    node.call("hardhat_reset", json!([{ "forking": { "blockNumber": null } }]));
    assert_ne!(instance(), before);
    assert_eq!(node.head(), 0);
    assert_eq!(node.call("evm_revert", json!([id])), false);
    let transfer = json!([{ "from": SOMEBODY, "to": BOB, "gas": "0x5208" }]);
    assert!(node.error("eth_sendTransaction", transfer).1.contains("unknown account"));
    let forked = json!([{ "forking": { "jsonRpcUrl": "http://localhost:1" } }]);
    assert!(node.error("hardhat_reset", forked).1.contains("not supported"));
}

/// The answers can be read into the types of alloy, which accept no missing and no additional
/// fields.
#[test]
fn answers_are_those_that_alloy_reads() {
    let node = Devnet::start("mpt", args![]);
    let genesis = node.call("eth_getBlockByNumber", json!(["latest", false]))["hash"].clone();
    let id = node.call("evm_snapshot", json!([]));
    let metadata = node.call("anvil_metadata", json!([]));
    assert_eq!(metadata["snapshots"], json!({ id.as_str().unwrap(): [0, genesis] }));
    node.call("evm_mine", json!([]));
    for (method, params, expected) in [
        ("anvil_setAutomine", json!([true]), Value::Null),
        ("evm_setAutomine", json!([true]), json!(true)),
        ("anvil_setIntervalMining", json!([1_000_000]), Value::Null),
        ("evm_setIntervalMining", json!([1_000_000_000]), json!(true)),
        ("anvil_reorg", json!({ "depth": 1, "tx_block_pairs": [] }), Value::Null),
        ("anvil_reorg", json!([1, []]), Value::Null),
    ] {
        assert_eq!(node.call(method, params), expected, "{method}");
    }
    assert_eq!(node.head(), 1);
}

#[test]
fn messages_are_signed() {
    let node = Devnet::start("mpt", args![]);
    let signature = node.call("eth_sign", json!([ALICE, "0x68656c6c6f"]));
    assert_eq!(signature, node.call("personal_sign", json!(["0x68656c6c6f", ALICE])));
    assert_eq!(signature.as_str().unwrap().len(), 2 + 130);
    let typed = json!({
        "types": { "EIP712Domain": [{ "name": "name", "type": "string" }], "Mail": [{ "name": "text", "type": "string" }] },
        "primaryType": "Mail", "domain": { "name": "test" }, "message": { "text": "hello" }
    });
    let signature = node.call("eth_signTypedData_v4", json!([ALICE, typed]));
    assert_eq!(signature.as_str().unwrap().len(), 2 + 130);
    let nobody = Address::repeat_byte(1);
    assert!(node.error("eth_sign", json!([nobody, "0x00"])).1.contains("unknown account"));
    // The error names the unknown account, and not its missing ether.
    let transfer = json!([{ "from": nobody, "to": BOB, "value": "0x1" }]);
    for method in ["eth_sendTransaction", "eth_sendTransactionSync", "eth_signTransaction"] {
        assert!(node.error(method, transfer.clone()).1.contains("unknown account"), "{method}");
    }
}

#[test]
fn blocks_of_a_reorganisation_are_others() {
    let node = Devnet::start("mpt", args![]);
    node.call("anvil_mine", json!([5]));
    // Fixed times, so that the hashes do not depend on the duration of the test.
    node.call("anvil_setBlockTimestampInterval", json!([1]));
    node.call("anvil_mine", json!([3]));
    let hashes = || -> Vec<Value> {
        let block =
            |number| node.call("eth_getBlockByNumber", json!([format!("{number:#x}"), false]));
        (1..=8).map(|number| block(number)["hash"].clone()).collect()
    };
    let mut seen = vec![hashes()];
    for _ in 0..3 {
        node.call("anvil_reorg", json!([3, []]));
        let now = hashes();
        for before in &seen {
            assert_eq!(now[..5], before[..5]);
            assert!(now[5..].iter().zip(&before[5..]).all(|(now, before)| now != before));
        }
        seen.push(now);
    }
}
