//! Tests that a chain of the node can be exported, imported and converted like any other chain.

use crate::{
    amsterdam,
    run::polytrie,
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::{deploy, word},
};
use alloy_eips::eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS;
use alloy_primitives::U256;
use polytrie::devnet::dev_genesis;
use serde_json::{Value, json};

/// Makes some blocks of different kinds.
fn make_blocks(node: &Devnet) {
    let contract = deploy(node);
    for number in 0..5 {
        node.send(ALICE, BOB, number);
        node.call(
            "eth_sendTransaction",
            json!([{ "from": BOB, "to": contract, "data": word(number) }]),
        );
    }
    node.call("hardhat_mine", json!(["0x3"]));
}

#[test]
fn what_was_made_is_imported_again_on_every_layer() {
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("chain.rlp"));
        let node = Devnet::open(&data, args!["--state", layer]);
        make_blocks(&node);
        let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
        assert_eq!(node.stop(), Some(0));
        polytrie!["export", file, "--datadir", data].ok();
        let genesis = data.join("genesis.json");
        let again = dir.path().join("again");
        let run = polytrie![
            "import",
            file,
            "--chain",
            genesis,
            "--datadir",
            again,
            "--state",
            layer,
            "--json",
            "-"
        ]
        .ok();
        assert_eq!(run.json()["head"]["hash"], head["hash"], "{layer}");
        polytrie!["db", "check", "--datadir", data].ok();
    }
}

#[test]
fn a_directory_that_was_imported_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("chain.rlp"));
    let node = Devnet::open(&data, args![]);
    make_blocks(&node);
    let head = node.head();
    let hash = node.call("eth_getBlockByNumber", json!(["0x3", false]))["transactions"][0].clone();
    node.stop();
    polytrie!["export", file, "--datadir", data].ok();
    let other = dir.path().join("other");
    polytrie!["import", file, "--chain", data.join("genesis.json"), "--datadir", other].ok();
    // A read-only node finds everything and changes nothing.
    let node = Devnet::open(&other, args!["--read-only"]);
    assert_eq!(node.head(), head);
    assert_eq!(node.call("eth_getTransactionByHash", json!([hash]))["blockNumber"], "0x3");
    assert!(node.error("evm_mine", json!([])).1.contains("--read-only"));
    node.stop();
    // A node that may write continues the chain.
    let node = Devnet::open(&other, args![]);
    assert_eq!(node.call("eth_getTransactionByHash", json!([hash]))["blockNumber"], "0x3");
    node.send(ALICE, BOB, 1);
    assert_eq!(node.head(), head + 1);
}

/// A converted directory also has the data of a development node beside the chain, and does not need the old
/// directory.
#[test]
fn a_directory_that_was_converted_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (data, other) = (dir.path().join("data"), dir.path().join("other"));
    let node = Devnet::open(&data, args!["--state", "mpt"]);
    make_blocks(&node);
    node.call("anvil_setBalance", json!([BOB, "0x7"]));
    node.send(ALICE, BOB, 1);
    let (head, state) = (node.head(), node.call("anvil_dumpState", json!([])));
    node.stop();
    polytrie!["db", "convert", "--to", "raw", "--datadir", data, "--out", other].ok();
    std::fs::remove_dir_all(&data).unwrap();
    let node = Devnet::open(&other, args![]);
    assert_eq!(node.head(), head);
    assert_eq!(node.call("anvil_dumpState", json!([])), state);
    node.send(ALICE, BOB, 1);
    assert_eq!(node.head(), head + 1);
}

/// A chain that starts in the middle has no earlier blocks, and the node works without them.
#[test]
fn a_chain_that_begins_in_the_middle_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (data, dump, header, begun) = (file("data"), file("dump"), file("header"), file("begun"));
    // From Prague on the state would hold the hashes of earlier blocks.
    let genesis = dev_genesis(1337, &[ALICE, BOB], U256::from(u128::MAX));
    let mut genesis: Value = serde_json::from_slice(&genesis).unwrap();
    for fork in ["pragueTime", "osakaTime"] {
        genesis["config"].as_object_mut().unwrap().remove(fork);
    }
    let cancun = file("cancun.json");
    std::fs::write(&cancun, genesis.to_string()).unwrap();
    let options = args!["--no-mining", "--state", "mpt", "--chain", &cancun];
    let node = Devnet::open(&data, options);
    node.send(ALICE, BOB, 1);
    node.call("anvil_mine", json!(["0x3"]));
    let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
    node.stop();
    std::fs::write(&header, block.to_string()).unwrap();
    polytrie!["db", "dump", dump, "--datadir", data].ok();
    polytrie![
        "init",
        "--state-dump",
        dump,
        "--header",
        header,
        "--chain",
        cancun,
        "--datadir",
        begun
    ]
    .ok();
    let node = Devnet::open(&begun, args!["--no-mining"]);
    let oldest = |blocks: &str| {
        node.call("eth_feeHistory", json!([blocks, "latest", [50]]))["oldestBlock"].clone()
    };
    assert_eq!(oldest("0x400"), "0x3");
    // These blocks exist, so the answer is an error and not null.
    for (method, params) in [
        ("eth_getBlockByNumber", json!(["0x1", false])),
        ("eth_getBlockByNumber", json!(["latest", false])),
        ("eth_getTransactionBySenderAndNonce", json!([ALICE, "0x0"])),
    ] {
        let (code, message) = node.error(method, params);
        assert!(
            code == -32000 && message.contains("begins with the state at block 3"),
            "{message}"
        );
    }
    node.call("evm_mine", json!([]));
    assert_eq!(oldest("0x400"), "0x4");
    let since = node.call("eth_capabilities", json!([]));
    assert_eq!(since["blocks"]["oldestBlock"], "0x4");
    assert_eq!(since["stateproofs"]["oldestBlock"], "0x3");
    node.call("eth_getProof", json!([ALICE, [], "0x3"]));
    // A transaction that reads the unknown hash of block 1 is dropped, and does not stop other transactions.
    let asks = json!([{ "from": ALICE, "data": "0x60014000", "gas": "0x186a0" }]);
    let asks = node.call("eth_sendTransaction", asks);
    let other = json!([{ "from": BOB, "to": ALICE, "value": "0x1", "gas": "0x5208" }]);
    let other = node.call("eth_sendTransaction", other);
    assert!(node.error("evm_mine", json!([])).1.contains("BLOCKHASH"));
    assert_eq!(node.call("eth_getTransactionByHash", json!([asks])), Value::Null);
    node.call("evm_mine", json!([]));
    assert_eq!(node.call("eth_getTransactionReceipt", json!([other]))["status"], "0x1");
}

/// A state may be imported with earlier blocks but without their receipts. Answers that need the receipts are
/// errors.
#[test]
fn what_is_not_known_of_earlier_blocks_is_not_made_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (data, dump, blocks, begun) = (file("data"), file("dump"), file("blocks"), file("begun"));
    let node = Devnet::open(&data, args!["--state", "mpt"]);
    // The code writes a log without topics: PUSH0 PUSH0 LOG0.
    node.call(
        "eth_sendTransaction",
        json!([{ "from": ALICE, "data": "0x5f5fa0", "gas": "0x186a0" }]),
    );
    let transfer = node.send(ALICE, BOB, 1);
    node.stop();
    polytrie!["db", "dump", dump, "--datadir", data].ok();
    polytrie!["export", blocks, "--datadir", data].ok();
    let genesis = data.join("genesis.json");
    polytrie![
        "init",
        "--state-dump",
        dump,
        "--header",
        blocks,
        "--chain",
        genesis,
        "--datadir",
        begun
    ]
    .ok();
    let node = Devnet::open(&begun, args![]);
    let block = node.call("eth_getBlockByNumber", json!(["0x2", false]));
    assert_eq!(block["transactions"], json!([transfer]));
    for (method, params) in [
        ("eth_getLogs", json!([{ "fromBlock": "0x1", "toBlock": "latest" }])),
        ("eth_getBlockReceipts", json!(["0x2"])),
        ("eth_getTransactionReceipt", json!([transfer])),
        ("ots_getBlockDetails", json!([2])),
    ] {
        let (code, message) = node.error(method, params);
        let words = "the chain in this directory begins with the state at block 2";
        assert!(code == -32000 && message.contains(words), "{method}: {message}");
    }
    node.send(ALICE, BOB, 1);
    let found = node.call("ots_searchTransactionsBefore", json!([ALICE, 0, 25]));
    assert_eq!(found["txs"].as_array().unwrap().len(), 1);
    assert_eq!(node.call("eth_getLogs", json!([{ "fromBlock": "0x2" }])), json!([]));
}

/// An export of a chain with changes by hand prints a warning, and an import of it fails.
#[test]
fn an_export_tells_of_changes_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("blocks.rlp"));
    let node = Devnet::open(&data, args!["--state", "mpt"]);
    for changed in [false, true, false, true] {
        if changed {
            node.call("anvil_setBalance", json!([BOB, "0x7"]));
        }
        node.send(ALICE, BOB, 1);
    }
    node.stop();
    let export = |from: &str, to: &str| {
        polytrie!["export", file, "--datadir", data, "--from", from, "--to", to].ok().stderr
    };
    for (range, blocks) in [(("0", "4"), "the blocks 2, 4:"), (("3", "4"), "block 4:")] {
        let said = export(range.0, range.1);
        assert!(said.contains("changed by hand ahead of") && said.contains(blocks), "{said}");
    }
    assert!(!export("0", "1").contains("by hand"));
}

#[test]
fn a_genesis_of_prague_without_its_contracts_makes_no_block_and_says_why() {
    let genesis = dev_genesis(1337, &[], U256::ZERO);
    let mut genesis: Value = serde_json::from_slice(&genesis).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("genesis.json");
    let start = |genesis: &Value| {
        std::fs::write(&file, genesis.to_string()).unwrap();
        Devnet::start("mpt", args!["--chain", &file])
    };
    start(&genesis).call("evm_mine", json!([]));
    let address = WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS;
    assert!(genesis["alloc"].as_object_mut().unwrap().remove(&format!("{address:x}")).is_some());
    let (_, message) = start(&genesis).error("evm_mine", json!([]));
    let words = format!("there is no contract at {address}, ");
    assert!(message.contains(&words) && message.contains("EIP-7002"), "{message}");
}

/// A read-only node answers by the fork of its head. A later fork might need contracts that did not exist then.
#[test]
fn what_is_served_read_only_is_of_the_fork_of_its_head() {
    let genesis = dev_genesis(1337, &[ALICE], U256::from(u64::MAX));
    let mut genesis: Value = serde_json::from_slice(&genesis).unwrap();
    for fork in ["pragueTime", "osakaTime"] {
        genesis["config"][fork] = json!(1);
    }
    let address = WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS;
    assert!(genesis["alloc"].as_object_mut().unwrap().remove(&format!("{address:x}")).is_some());
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("genesis.json"), dir.path().join("data"));
    std::fs::write(&file, genesis.to_string()).unwrap();
    polytrie!["init", "--chain", file, "--datadir", data].ok();
    let node = Devnet::open(&data, args!["--read-only"]);
    assert_eq!(node.call("eth_estimateGas", json!([{ "from": ALICE, "to": BOB }])), "0x5208");
    assert_eq!(node.call("eth_getBlockByNumber", json!(["pending", false]))["number"], "0x0");
}

#[test]
fn the_config_names_the_contracts_of_builders_from_amsterdam_on() {
    let dir = tempfile::tempdir().unwrap();
    for (fork, are_there) in [("osaka", false), ("amsterdam", true)] {
        let genesis = amsterdam::genesis_up_to(dir.path(), fork, &ALICE.to_string());
        let node = Devnet::start("mpt", args!["--chain", &genesis]);
        let config = node.call("eth_config", json!([]));
        let contracts = &config["current"]["systemContracts"];
        for (name, address) in [
            ("BUILDER_DEPOSIT_CONTRACT_ADDRESS", "0x0000bff46984e3725691fa540a8c7589300d8282"),
            ("BUILDER_EXIT_CONTRACT_ADDRESS", "0x000064d678505ad48f8ccb093bc65613800e8282"),
        ] {
            let expected = if are_there { json!(address) } else { Value::Null };
            assert_eq!(contracts[name], expected, "{fork} {name}: {config}");
        }
        let beacon_roots = "0x000f3df6d732807ef1319fb7b8bb8522d0beac02";
        assert_eq!(contracts["BEACON_ROOTS_ADDRESS"], beacon_roots, "{fork}: {config}");
    }
}

/// EIP-7910 writes the time zero for a fork that is active at the genesis.
#[test]
fn the_config_has_no_time_before_the_genesis() {
    let dir = tempfile::tempdir().unwrap();
    let file = amsterdam::genesis_up_to(dir.path(), "osaka", &ALICE.to_string());
    let text = std::fs::read_to_string(&file).unwrap();
    let mut genesis: Value = serde_json::from_str(&text).unwrap();
    genesis["config"]["osakaTime"] = json!(50);
    genesis["timestamp"] = json!("0x64");
    std::fs::write(&file, genesis.to_string()).unwrap();
    let node = Devnet::start("mpt", args!["--chain", &file]);
    let config = node.call("eth_config", json!([]));
    assert_eq!(config["current"]["activationTime"], 0, "{config}");
    assert_eq!(config["next"], Value::Null, "{config}");
}
