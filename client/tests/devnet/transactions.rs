//! Tests of transactions, from the request to the receipt.

use crate::support::{ALICE, BOB, Devnet, args, layers, quantity};
use alloy_primitives::{Address, U256, address};
use serde_json::{Value, json};

/// Assembly of the contract that the tests deploy. Eleven bytes of creation code stand before it:
///
/// ```text
///       CALLDATASIZE ISZERO read JUMPI               without data: return slot 0
///       0 CALLDATALOAD DUP1 NOT ISZERO bad JUMPI     2^256 - 1: revert with Error("no")
///       DUP1 0 SSTORE 0 MSTORE 1 32 0 LOG1 STOP      else: store and log the word under topic 1
/// read: 0 SLOAD 0 MSTORE 32 0 RETURN
/// bad:  selector 0 MSTORE 32 4 MSTORE 2 36 MSTORE "no" 68 MSTORE 100 0 REVERT
/// ```
pub(crate) const CONTRACT: &str = "0x608180600b6000396000f33615601d5760003580191560295780600055600052600160206000a1005b60005460005260206000f35b7f08c379a000000000000000000000000000000000000000000000000000000000600052602060045260026024527f6e6f00000000000000000000000000000000000000000000000000000000000060445260646000fd";

const SOMEBODY: Address = address!("00000000000000000000000000000000000000aa");

pub(crate) fn word(number: u64) -> String {
    format!("{number:#066x}")
}

/// Deploys the contract and returns its address.
pub(crate) fn deploy(node: &Devnet) -> Value {
    let hash = node.call("eth_sendTransaction", json!([{ "from": ALICE, "data": CONTRACT }]));
    let receipt = node.call("eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    receipt["contractAddress"].clone()
}

#[test]
fn a_transfer_on_every_layer() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let hash = node.send(ALICE, SOMEBODY, 12_345);
        assert_eq!(node.balance(SOMEBODY), U256::from(12_345), "{layer}");
        let receipt = node.call("eth_getTransactionReceipt", json!([hash]));
        assert_eq!((&receipt["status"], &receipt["gasUsed"]), (&json!("0x1"), &json!("0x5208")));
        let tx = node.call("eth_getTransactionByHash", json!([hash]));
        assert_eq!((&tx["blockNumber"], &tx["nonce"]), (&json!("0x1"), &json!("0x0")));
        let block = node.call("eth_getBlockByNumber", json!(["latest", true]));
        assert_eq!(block["transactions"][0], tx);
        assert_eq!(node.balance(SOMEBODY), U256::from(12_345));
        let before = node.call("eth_getBalance", json!([SOMEBODY, "0x0"]));
        assert_eq!(before, "0x0", "{layer}");
    }
}

#[test]
fn a_contract_on_every_layer() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        assert!(
            node.call("eth_getCode", json!([contract, "latest"])).as_str().unwrap().len() > 100
        );
        for number in 1..=3 {
            let call = json!([{ "from": BOB, "to": contract, "data": word(number) }]);
            node.call("eth_sendTransaction", call);
        }
        assert_eq!(node.call("eth_call", json!([{ "to": contract }, "latest"])), word(3));
        // The answers for earlier blocks do not change.
        for number in 1..=3u64 {
            let at = format!("{:#x}", number + 1);
            assert_eq!(
                node.call("eth_call", json!([{ "to": contract }, at])),
                word(number),
                "{layer}"
            );
            let slot = node.call("eth_getStorageAt", json!([contract, "0x0", at]));
            assert_eq!(slot, word(number), "{layer}");
        }
        let filter = json!({ "fromBlock": "0x0", "toBlock": "latest", "address": contract, "topics": [word(1)] });
        let logs = node.call("eth_getLogs", json!([filter]));
        let found: Vec<_> =
            logs.as_array().unwrap().iter().map(|log| log["data"].clone()).collect();
        assert_eq!(found, [json!(word(1)), json!(word(2)), json!(word(3))], "{layer}");
        let nothing = json!({ "fromBlock": "0x0", "address": contract, "topics": [word(2)] });
        assert_eq!(node.call("eth_getLogs", json!([nothing])), json!([]));
    }
}

#[test]
fn a_revert_brings_its_data() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    let all_ones = format!("0x{}", "ff".repeat(32));
    let call = json!({ "from": ALICE, "to": contract, "data": all_ones });
    for method in ["eth_call", "eth_estimateGas"] {
        let answer = node.answer(method, json!([call]));
        assert_eq!(answer["error"]["code"], 3, "{answer}");
        assert_eq!(answer["error"]["message"], "execution reverted: no");
        assert!(answer["error"]["data"].as_str().unwrap().starts_with("0x08c379a0"));
    }
    let (code, message) = node.error("eth_sendTransaction", json!([call]));
    assert_eq!((code, message.as_str()), (3, "execution reverted: no"));
    // With an explicit gas limit the transaction goes into a block and fails there.
    let hash = node.call(
        "eth_sendTransaction",
        json!([{ "from": ALICE, "to": contract, "data": all_ones, "gas": "0x30000" }]),
    );
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["status"], "0x0");
}

#[test]
fn an_estimate_suffices() {
    let node = Devnet::start("mpt", args![]);
    assert_eq!(
        node.call("eth_estimateGas", json!([{ "from": ALICE, "to": BOB, "value": "0x1" }])),
        "0x5208"
    );
    let contract = deploy(&node);
    let call = json!({ "from": ALICE, "to": contract, "data": word(5) });
    let estimate = node.number("eth_estimateGas", json!([call]));
    let hash = node.call("eth_sendTransaction", json!([call]));
    let receipt = node.call("eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["status"], "0x1");
    let used = quantity(&receipt["gasUsed"]);
    assert!(
        used <= estimate && estimate < used * U256::from(11) / U256::from(10),
        "{used} {estimate}"
    );
}

#[test]
fn what_the_pool_refuses() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    node.send(ALICE, BOB, 1);
    let again =
        json!([{ "from": ALICE, "to": BOB, "value": "0x2", "nonce": "0x0", "gas": "0x5208" }]);
    let (code, message) = node.error("eth_sendTransaction", again);
    assert!(code == -32000 && message.contains("underpriced"), "{message}");
    let poor = json!([{ "from": ALICE, "to": BOB, "gas": "0x5208", "value": U256::from(10).pow(U256::from(30)) }]);
    let (_, message) = node.error("eth_sendTransaction", poor);
    assert!(message.contains("insufficient funds"), "{message}");
    let cheap = json!([{ "from": ALICE, "to": BOB, "gas": "0x5207" }]);
    let (_, message) = node.error("eth_sendTransaction", cheap);
    assert!(message.contains("intrinsic gas too low"), "{message}");
    let (_, message) = node.error(
        "eth_sendTransaction",
        json!([{ "from": Address::ZERO, "to": BOB, "gas": "0x5208" }]),
    );
    assert!(message.contains("unknown account"), "{message}");
    assert_eq!(node.call("txpool_status", json!([])), json!({ "pending": "0x1", "queued": "0x0" }));
    let pending = node.number("eth_getTransactionCount", json!([ALICE, "pending"]));
    assert_eq!(pending, U256::from(1));
    node.call("evm_mine", json!([]));
    assert_eq!(node.number("eth_getTransactionCount", json!([ALICE, "latest"])), U256::from(1));
    assert_eq!(node.call("txpool_status", json!([])), json!({ "pending": "0x0", "queued": "0x0" }));
    let low = json!([{ "from": ALICE, "to": BOB, "gas": "0x5208", "nonce": "0x0" }]);
    let (_, message) = node.error("eth_sendTransaction", low);
    assert!(message.contains("nonce too low"), "{message}");
}

#[test]
fn traces_in_the_forms_of_geth() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    let call = json!({ "from": ALICE, "to": contract, "data": word(9) });
    let hash = node.call("eth_sendTransaction", json!([call]));
    let trace = node.call("debug_traceTransaction", json!([hash]));
    assert_eq!(trace["failed"], false);
    let ops: Vec<_> =
        trace["structLogs"].as_array().unwrap().iter().map(|s| s["op"].clone()).collect();
    assert!(ops.contains(&json!("SSTORE")) && ops.contains(&json!("LOG1")), "{ops:?}");
    let trace = node.call("debug_traceTransaction", json!([hash, { "tracer": "callTracer" }]));
    assert_eq!((&trace["type"], &trace["to"]), (&json!("CALL"), &contract));
    let trace = node.call("debug_traceTransaction", json!([hash, { "tracer": "prestateTracer" }]));
    assert!(trace.get(contract.as_str().unwrap()).is_some(), "{trace}");
    let block =
        node.call("debug_traceBlockByNumber", json!(["latest", { "tracer": "callTracer" }]));
    assert_eq!(block[0]["txHash"], hash);
    let trace = node.call("debug_traceCall", json!([call, "latest", { "tracer": "callTracer" }]));
    assert_eq!(trace["type"], "CALL");
    let (code, _) =
        node.error("debug_traceTransaction", json!([hash, { "tracer": "{ not: javascript" }]));
    assert_eq!(code, -32602);
}

#[test]
fn filters_tell_only_what_is_new() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    let logs = node.call("eth_newFilter", json!([{ "address": contract }]));
    let blocks = node.call("eth_newBlockFilter", json!([]));
    let pending = node.call("eth_newPendingTransactionFilter", json!([]));
    let hash = node
        .call("eth_sendTransaction", json!([{ "from": ALICE, "to": contract, "data": word(4) }]));
    let changes = |id: &Value| node.call("eth_getFilterChanges", json!([id]));
    assert_eq!(changes(&logs)[0]["transactionHash"], hash);
    assert_eq!(changes(&logs), json!([]));
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(changes(&blocks), json!([head["hash"]]));
    assert_eq!(changes(&pending), json!([hash]));
    assert_eq!(node.call("eth_getFilterLogs", json!([logs])).as_array().unwrap().len(), 1);
    assert_eq!(node.call("eth_uninstallFilter", json!([logs])), true);
    assert_eq!(node.call("eth_uninstallFilter", json!([logs])), false);
    assert_eq!(node.error("eth_getFilterChanges", json!([logs])).1, "filter not found");
}

#[test]
fn proofs_hold_and_layers_without_a_trie_say_so() {
    for layer in polytrie::layers::LAYERS {
        let node = Devnet::start(layer.name, args![]);
        let contract = deploy(&node);
        node.call(
            "eth_sendTransaction",
            json!([{ "from": ALICE, "to": contract, "data": word(9) }]),
        );
        if !layer.canonical {
            let (_, message) = node.error("eth_getProof", json!([contract, ["0x0"], "latest"]));
            assert!(message.contains("polytrie_getProof"), "{message}");
            continue;
        }
        let proof = node.call("eth_getProof", json!([contract, ["0x0"], "latest"]));
        assert_eq!(quantity(&proof["storageProof"][0]["value"]), U256::from(9));
        assert_eq!(proof["storageProof"][0]["key"], "0x0");
        let long = node.call("eth_getProof", json!([contract, [word(0), "0x01"], "latest"]));
        let keys = [0, 1].map(|index| long["storageProof"][index]["key"].clone());
        assert_eq!(keys, [json!(word(0)), json!("0x1")]);
        let earlier = node.call("eth_getProof", json!([contract, ["0x0"], "0x1"]));
        assert_eq!(quantity(&earlier["storageProof"][0]["value"]), U256::ZERO, "{layer:?}");
        let block = node.call("eth_getBlockByNumber", json!(["0x1", false]));
        let own = node.call("polytrie_getProof", json!([contract, ["0x0"], "0x1"]));
        assert_eq!(own["commitment"]["digest"], block["stateRoot"]);
        assert_eq!(own["proof"], earlier);
        assert_eq!(node.call("eth_getProof", json!([contract, ["0x0"], "latest"])), proof);
        let root = node.call("eth_getBlockByNumber", json!(["latest", false]))["stateRoot"].clone();
        let own = node.call("polytrie_getProof", json!([contract, ["0x0"]]));
        assert_eq!(own["commitment"]["digest"], root);
        let verified = node.call("polytrie_verifyProof", json!([own, root]));
        assert_eq!(verified["valid"], true, "{verified}");
        let other = format!("0x{}", "11".repeat(32));
        assert_eq!(node.call("polytrie_verifyProof", json!([own, other]))["valid"], false);
    }
}

#[test]
fn pending_is_what_comes_next() {
    for layer in layers() {
        let node = Devnet::start(layer, args!["--no-mining"]);
        node.send(ALICE, SOMEBODY, 7);
        let code = json!([{ "from": BOB, "data": CONTRACT }]);
        let hash = node.call("eth_sendTransaction", code);
        let balance = |tag: &str| node.number("eth_getBalance", json!([SOMEBODY, tag]));
        assert_eq!((balance("pending"), balance("latest")), (U256::from(7), U256::ZERO), "{layer}");
        // The code is NUMBER PUSH0 MSTORE PUSH1 32 PUSH0 RETURN.
        let number =
            |tag: &str| node.call("eth_call", json!([{ "data": "0x435f5260205ff3" }, tag]));
        assert_eq!((number("pending"), number("latest")), (json!(word(1)), json!(word(0))));
        let contract = BOB.create(0);
        let set = json!([{ "from": BOB, "to": contract, "data": word(9), "gas": "0x30000" }]);
        node.call("eth_sendTransaction", set);
        let at = |method: &str, params: Value| node.call(method, params);
        assert!(at("eth_getCode", json!([contract, "pending"])).as_str().unwrap().len() > 100);
        assert_eq!(at("eth_getCode", json!([contract, "latest"])), "0x");
        assert_eq!(at("eth_getStorageAt", json!([contract, "0x0", "pending"])), word(9));
        assert_eq!(at("eth_call", json!([{ "to": contract }, "pending"])), word(9));
        let estimate = node.number("eth_estimateGas", json!([{ "to": contract }, "pending"]));
        assert!(estimate > U256::from(21_000));
        node.call("anvil_setBalance", json!([SOMEBODY, "0x64"]));
        assert_eq!((balance("pending"), balance("latest")), (U256::from(107), U256::from(100)));
        node.call("anvil_dropTransaction", json!([hash]));
        assert_eq!(at("eth_getCode", json!([contract, "pending"])), "0x");
        node.call("evm_mine", json!([]));
        assert_eq!((balance("pending"), balance("latest")), (U256::from(107), U256::from(107)));
        assert_eq!((number("pending"), number("latest")), (json!(word(2)), json!(word(1))));
    }
}

#[test]
fn a_simulated_block_has_its_root_on_earlier_blocks_too() {
    for layer in polytrie::layers::LAYERS {
        let node = Devnet::start(layer.name, args![]);
        let contract = deploy(&node);
        let calls = json!([
            { "from": BOB, "to": contract, "input": word(3) },
            { "from": BOB, "to": SOMEBODY, "value": "0x5" },
        ]);
        let simulate = || {
            let blocks = json!({ "blockStateCalls": [{ "calls": calls }, { "calls": calls }] });
            let blocks = node.call("eth_simulateV1", json!([blocks, "0x1"]));
            let roots = blocks.as_array().unwrap().iter();
            roots.map(|block| [block["stateRoot"].clone(), block["hash"].clone()]).collect()
        };
        let at_head: Vec<_> = simulate();
        assert_eq!(at_head[0][0] != word(0), layer.canonical, "{}", layer.name);
        node.call("eth_sendTransaction", json!([{ "from": BOB, "to": contract, "data": word(8) }]));
        node.send(BOB, SOMEBODY, 1);
        node.call("anvil_setBalance", json!([SOMEBODY, "0x64"]));
        assert_eq!(simulate(), at_head, "{}", layer.name);
        // The simulation has not changed the chain.
        node.send(BOB, SOMEBODY, 1);
        assert_eq!(node.balance(SOMEBODY), U256::from(101));
    }
}

#[test]
fn the_pending_block_by_every_method() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        node.call("evm_setAutomine", json!([false]));
        let number = |method: &str| node.number(method, json!(["pending"]));
        assert_eq!(number("eth_getBlockTransactionCountByNumber"), U256::ZERO);
        let call = json!([{ "from": BOB, "to": contract, "data": word(9) }]);
        let hash = node.call("eth_sendTransaction", call);
        assert_eq!(number("eth_getBlockTransactionCountByNumber"), U256::from(1), "{layer}");
        let at = |index: &str| {
            node.call("eth_getTransactionByBlockNumberAndIndex", json!(["pending", index]))
        };
        assert_eq!((&at("0x0")["hash"], &at("0x0")["blockHash"]), (&hash, &Value::Null), "{layer}");
        assert_eq!(at("0x1"), Value::Null);
        let header = node.call("eth_getHeaderByNumber", json!(["pending"]));
        assert_eq!((&header["number"], &header["hash"]), (&json!("0x2"), &Value::Null), "{layer}");
        assert_eq!(header.get("transactions"), None);
        let none = format!("0x{}", "0".repeat(512));
        assert!(header["logsBloom"].as_str().is_some_and(|bloom| bloom != none), "{header}");
        let receipts = node.call("eth_getBlockReceipts", json!(["pending"]));
        let receipt = &receipts[0];
        assert_eq!((&receipt["transactionHash"], &receipt["status"]), (&hash, &json!("0x1")));
        assert_eq!((&receipt["blockHash"], &receipt["blockNumber"]), (&Value::Null, &json!("0x2")));
        assert_eq!(receipt["logs"][0]["blockHash"], Value::Null);
        let traces = json!(["pending", { "tracer": "callTracer" }]);
        let traces = node.call("debug_traceBlockByNumber", traces);
        assert_eq!((&traces[0]["txHash"], &traces[0]["result"]["type"]), (&hash, &json!("CALL")));
        // The state before the transaction, which the head does not have yet.
        let before = json!({ "tracer": "callTracer", "txIndex": "0x0" });
        let call = json!([{ "to": contract }, "pending", before]);
        assert_eq!(node.call("debug_traceCall", call)["output"], word(0), "{layer}");
        let traces = node.call("trace_block", json!(["pending"]));
        assert_eq!(traces[0]["transactionHash"], hash, "{layer}: {traces}");
        // What is stored or proven is of a block in the chain.
        for (method, params) in [
            ("polytrie_getProof", json!([BOB, [], "pending"])),
            ("debug_getRawHeader", json!(["pending"])),
            ("debug_getRawBlock", json!(["pending"])),
            ("debug_getRawReceipts", json!(["pending"])),
            ("debug_executionWitness", json!(["pending"])),
            ("ots_getBlockDetails", json!(["pending"])),
            ("ots_getBlockTransactions", json!(["pending", 0, 10])),
            ("erigon_getHeaderByNumber", json!(["pending"])),
        ] {
            let (code, message) = node.error(method, params);
            assert!(code == -32000 && message.contains("pending"), "{layer} {method}: {message}");
        }
    }
}

#[test]
fn a_fee_history_may_end_with_the_pending_block() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    node.call("evm_mine", json!([]));
    node.send(ALICE, BOB, 1);
    let pending = node.call("eth_getBlockByNumber", json!(["pending", false]));
    let history = |count: &str| node.call("eth_feeHistory", json!([count, "pending", [50]]));
    let both = history("0x2");
    assert_eq!(both["oldestBlock"], "0x1");
    assert_eq!(both["baseFeePerGas"][1], pending["baseFeePerGas"]);
    assert_eq!(both["baseFeePerGas"].as_array().unwrap().len(), 3);
    // The tip is that of a request without one.
    assert_eq!(both["reward"], json!([["0x0"], ["0x3b9aca00"]]));
    assert!(both["gasUsedRatio"][1].as_f64().unwrap() > 0.0, "{both}");
    let one = history("0x1");
    assert_eq!((&one["oldestBlock"], &one["reward"]), (&json!("0x2"), &json!([["0x3b9aca00"]])));
    assert_eq!(history("0x400")["oldestBlock"], "0x0");
}

#[test]
fn a_receipt_by_itself_is_the_one_in_its_block() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    node.call("evm_setAutomine", json!([false]));
    for number in 1..=4 {
        let call = json!([{ "from": BOB, "to": contract, "data": word(number) }]);
        node.call("eth_sendTransaction", call);
    }
    node.call("evm_mine", json!([]));
    let receipts = node.call("eth_getBlockReceipts", json!(["latest"]));
    for (index, receipt) in receipts.as_array().unwrap().iter().enumerate() {
        let hash = &receipt["transactionHash"];
        assert_eq!(&node.call("eth_getTransactionReceipt", json!([hash])), receipt);
        assert_eq!(quantity(&receipt["logs"][0]["logIndex"]), U256::from(index));
    }
}

#[test]
fn a_call_is_traced_between_the_transactions_of_a_block() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let contract = deploy(&node);
        node.call("evm_setAutomine", json!([false]));
        for number in 1..=2 {
            let call = json!([{ "from": BOB, "to": contract, "data": word(number) }]);
            node.call("eth_sendTransaction", call);
        }
        node.call("evm_mine", json!([]));
        let options = |index: Option<&str>| json!({ "tracer": "callTracer", "txIndex": index });
        let at = |index: Option<&str>| json!([{ "to": contract }, "latest", options(index)]);
        for (index, expected) in [(Some("0x0"), 0), (Some("0x1"), 1), (None, 2)] {
            let trace = node.call("debug_traceCall", at(index));
            assert_eq!(trace["output"], word(expected), "{layer}: {index:?}");
        }
        assert_eq!(node.error("debug_traceCall", at(Some("0x2"))).0, -32602);
    }
}

#[test]
fn a_fee_below_the_base_fee_is_refused_where_it_would_wait_for_ever() {
    let node = Devnet::start("mpt", args![]);
    let cheap =
        json!([{ "from": ALICE, "to": BOB, "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x0" }]);
    let (code, message) = node.error("eth_sendTransaction", cheap.clone());
    assert!(code == -32003 && message.contains("less than block base fee"), "{code} {message}");
    node.send(ALICE, BOB, 1);
    node.call("evm_setAutomine", json!([false]));
    node.call("eth_sendTransaction", cheap);
}

#[test]
fn fees_and_types_must_fit_together() {
    let node = Devnet::start("mpt", args![]);
    let with = |fields: Value| {
        let mut request = json!({ "from": ALICE, "to": BOB });
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!([request])
    };
    for fields in [
        json!({ "gasPrice": "0x77359400", "maxFeePerGas": "0x77359400" }),
        json!({ "gasPrice": "0x77359400", "maxPriorityFeePerGas": "0x1" }),
        json!({ "type": "0x2", "gasPrice": "0x77359400" }),
        json!({ "type": "0x0", "maxFeePerGas": "0x77359400" }),
        json!({ "type": "0x4" }),
        json!({ "type": "0x9" }),
    ] {
        let (code, message) = node.error("eth_sendTransaction", with(fields.clone()));
        assert_eq!(code, -32602, "{fields}: {message}");
    }
    for kind in ["0x0", "0x1", "0x2"] {
        let hash = node.call("eth_sendTransaction", with(json!({ "type": kind })));
        let tx = node.call("eth_getTransactionByHash", json!([hash]));
        assert_eq!(tx["type"], kind);
        assert_ne!(tx["blockNumber"], Value::Null, "{tx}");
    }
}

#[test]
fn accounts_in_the_forms_of_others() {
    for layer in polytrie::layers::LAYERS {
        let node = Devnet::start(layer.name, args![]);
        let contract = deploy(&node);
        let info = node.call("eth_getAccountInfo", json!([contract, "latest"]));
        let code = node.call("eth_getCode", json!([contract, "latest"]));
        assert_eq!(info, json!({ "balance": "0x0", "nonce": "0x1", "code": code }));
        if !layer.canonical {
            let (_, message) = node.error("eth_getAccount", json!([contract, "latest"]));
            assert!(message.contains("eth_getAccountInfo"), "{message}");
            continue;
        }
        let account = node.call("eth_getAccount", json!([contract, "latest"]));
        let account: alloy_consensus::TrieAccount = serde_json::from_value(account).unwrap();
        assert_eq!(account.nonce, 1);
        assert_eq!(account.storage_root, alloy_consensus::constants::EMPTY_ROOT_HASH);
    }
}

#[test]
fn other_ways_to_send() {
    let node = Devnet::start("mpt", args![]);
    let transfer = json!({ "from": ALICE, "to": SOMEBODY, "value": "0xde0b6b3a7640000" });
    let receipt = node.call("eth_sendTransactionSync", json!([transfer, 60_000]));
    assert_eq!((&receipt["status"], &receipt["blockNumber"]), (&json!("0x1"), &json!("0x1")));
    let back = json!({ "from": SOMEBODY, "to": ALICE, "value": "0x1" });
    let hash = node.call("eth_sendUnsignedTransaction", json!([back]));
    let receipt = node.call("eth_getTransactionReceipt", json!([hash]));
    assert_eq!((&receipt["status"], &receipt["from"]), (&json!("0x1"), &json!(SOMEBODY)));
    let blocks = |number: &str| node.call("eth_getBlockByNumber", json!([number, false]));
    let (first, second) = (blocks("0x1"), blocks("0x2"));
    assert_eq!(node.error("anvil_reorg", json!([3])).0, -32602);
    node.call("anvil_reorg", json!([1, []]));
    assert_eq!(node.head(), 2);
    assert_eq!(blocks("0x1"), first);
    assert_ne!(blocks("0x2")["hash"], second["hash"]);
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash])), Value::Null);
}

/// A request may name its data twice, but not in two ways, as in geth.
#[test]
fn a_transaction_has_one_input() {
    let node = Devnet::start("mpt", args![]);
    let requests = |input: &str| {
        let estimated = json!({ "from": ALICE, "to": BOB, "data": "0x01", "input": input });
        let mut given = estimated.clone();
        given["gas"] = json!("0x186a0");
        [json!([estimated]), json!([given])]
    };
    for request in requests("0x02") {
        for method in ["eth_sendTransaction", "eth_fillTransaction", "eth_signTransaction"] {
            let (code, message) = node.error(method, request.clone());
            let words = "both \"data\" and \"input\" are set and not equal";
            assert!(code == -32000 && message.contains(words), "{method}: {message}");
        }
    }
    for request in requests("0x01") {
        let hash = node.call("eth_sendTransaction", request);
        assert_eq!(node.call("eth_getTransactionByHash", json!([hash]))["input"], "0x01");
    }
}

/// Without both, the recipient was forgotten, and the ether would be lost in a contract without code. geth refuses that too.
#[test]
fn a_transaction_has_a_recipient_or_code() {
    let node = Devnet::start("mpt", args![]);
    for fields in [json!({}), json!({ "to": null, "data": "0x" }), json!({ "gas": "0x186a0" })] {
        let mut request = fields.clone();
        (request["from"], request["value"]) = (json!(ALICE), json!("0x1"));
        for method in ["eth_sendTransaction", "eth_fillTransaction", "eth_signTransaction"] {
            let (code, message) = node.error(method, json!([request]));
            let words = "contract creation without any data provided";
            assert!(code == -32000 && message.contains(words), "{method} {fields}: {message}");
        }
    }
    node.call("eth_sendTransaction", json!([{ "from": ALICE, "value": "0x1", "data": "0x00" }]));
}

#[test]
fn a_transaction_that_waits_is_sent_again_at_another_price() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    let tx = json!({
        "from": ALICE, "to": BOB, "value": "0x5", "gas": "0x5208", "nonce": "0x0",
        "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1",
    });
    let first = node.call("eth_sendTransaction", json!([tx]));
    let (_, message) = node.error("eth_resend", json!([tx, "0x77359401"]));
    assert!(message.contains("replacement transaction underpriced"), "{message}");
    let second = node.call("eth_resend", json!([tx, "0xee6b2800", "0x5209"]));
    let found = node.call("eth_getTransactionByHash", json!([second]));
    let fields = ["gasPrice", "gas", "nonce", "value"].map(|field| &found[field]);
    assert_eq!(fields, ["0xee6b2800", "0x5209", "0x0", "0x5"]);
    assert_eq!(node.call("eth_getTransactionByHash", json!([first])), Value::Null);
    // The first one does not wait any more.
    let mut nameless = tx.clone();
    nameless["nonce"] = Value::Null;
    for (tx, words) in [(tx, "transaction not found"), (nameless, "missing transaction nonce")] {
        let (code, message) = node.error("eth_resend", json!([tx, "0xffffffffff"]));
        assert!(code == -32000 && message.contains(words), "{message}");
    }
}

#[test]
fn a_block_of_given_transactions_is_added_to_the_chain() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    let transfer = json!([{ "from": ALICE, "to": BOB, "value": "0x5", "nonce": "0x0" }]);
    let raw = node.call("eth_signTransaction", transfer)["raw"].clone();
    let commit = |time: &str, transactions: Value| {
        let attributes =
            json!({ "timestamp": time, "prevRandao": word(1), "suggestedFeeRecipient": SOMEBODY });
        node.call("testing_commitBlockV1", json!([attributes, transactions, "0x0102"]))
    };
    let waiting = node.send(ALICE, BOB, 7);
    // The transaction that waits has the same nonce, so it is dropped.
    let hash = commit("0xffffffff", json!([raw]));
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!((&head["hash"], &head["timestamp"]), (&hash, &json!("0xffffffff")));
    assert_eq!((&head["extraData"], &head["miner"]), (&json!("0x0102"), &json!(SOMEBODY)));
    assert_eq!(head["transactions"].as_array().unwrap().len(), 1);
    assert_ne!(head["transactions"][0], waiting);
    assert_eq!(node.call("eth_getTransactionByHash", json!([waiting])), Value::Null);
    // Without a list the transactions are those of the pool.
    let sent = node.send(ALICE, BOB, 7);
    for (time, transactions, expected) in
        [("0x100000000", json!([]), json!([])), ("0x100000001", Value::Null, json!([sent]))]
    {
        commit(time, transactions);
        let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
        assert_eq!(head["transactions"], expected);
    }
}

/// Bytes after a transaction are refused by the block builder and by the methods that send.
#[test]
fn bytes_after_a_transaction_are_no_part_of_it() {
    let node = Devnet::start("mpt", args![]);
    let hash = node.send(ALICE, BOB, 1);
    let raw = node.call("eth_getRawTransactionByHash", json!([hash]));
    let longer = format!("{}00", raw.as_str().unwrap());
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let attributes = json!({
        "timestamp": "0xffffffff",
        "prevRandao": head["hash"],
        "suggestedFeeRecipient": SOMEBODY,
    });
    for (method, params) in [
        ("eth_sendRawTransaction", json!([longer])),
        ("testing_buildBlockV1", json!([head["hash"], attributes, [longer]])),
        ("testing_commitBlockV1", json!([attributes, [longer]])),
    ] {
        let (code, message) = node.error(method, params);
        assert_eq!((code, &*message), (-32602, "1 bytes follow the transaction"), "{method}");
    }
}
