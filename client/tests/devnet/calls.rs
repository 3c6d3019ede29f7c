//! Tests of calls that are refused before they run, and of the end of other calls.

use crate::{
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::{deploy, word},
};
use alloy_primitives::{Address, U256};
use polytrie::devnet::dev_genesis;
use serde_json::{Value, json};

/// The id of the chain and the base fee are checked, as in geth.
#[test]
fn a_call_is_for_this_chain_and_pays_the_base_fee() {
    let node = Devnet::start("mpt", args![]);
    let call = |field: &str, value: &str| json!([{ "from": ALICE, "to": BOB, field: value }]);
    for method in ["eth_call", "eth_estimateGas", "eth_createAccessList"] {
        let (code, message) = node.error(method, call("chainId", "0x1"));
        assert_eq!(code, -32000);
        assert_eq!(message, "chainId does not match node's (have=1, want=1337)");
        node.call(method, call("chainId", "0x539"));
        for field in ["gasPrice", "maxFeePerGas"] {
            let (_, message) = node.error(method, call(field, "0x7"));
            assert!(message.contains("max fee per gas less than block base fee"), "{message}");
            node.call(method, call(field, "0x0"));
            node.call(method, call(field, "0xba43b7400"));
        }
    }
}

#[test]
fn an_access_list_leaves_the_reason_of_a_revert_to_eth_call() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    let bad = json!([{ "from": ALICE, "to": contract, "data": format!("0x{}", "ff".repeat(32)) }]);
    assert_eq!(node.error("eth_call", bad.clone()).1, "execution reverted: no");
    assert_eq!(node.call("eth_createAccessList", bad)["error"], "execution reverted");
    let good = json!([{ "from": ALICE, "to": contract, "data": word(1) }]);
    assert_eq!(node.call("eth_createAccessList", good)["error"], Value::Null);
}

/// A call that halts says why in words, which are those of geth where the EVM knows enough for them.
#[test]
fn a_call_that_halts_says_why_in_words() {
    let node = Devnet::start("mpt", args![]);
    let halts = |call: Value, state: Value, words: &str| {
        let (code, message) = node.error("eth_call", json!([call, "latest", state]));
        assert_eq!(code, -32000, "{message}");
        assert!(message.starts_with(words), "{message}");
    };
    for (code, words) in [
        ("0xfe", "invalid opcode: INVALID"),
        // RETURNDATACOPY of 32 bytes, where nothing was returned.
        ("0x60205f5f3e", "return data out of bounds"),
    ] {
        halts(json!({ "to": BOB }), json!({ BOB.to_string(): { "code": code } }), words);
    }
    // The code of the new contract is the byte 0xef.
    let creation = json!({ "data": "0x60ef5f5360015ff3" });
    halts(creation, json!({}), "invalid code: must not begin with 0xef");
    let pairing = json!({ "to": "0x0000000000000000000000000000000000000008", "data": "0x00" });
    halts(pairing, json!({}), "precompile failed");
}

#[test]
fn a_trace_ends_when_its_caller_wants_it_to() {
    let node = Devnet::start("mpt", args![]);
    // The code is an endless loop.
    let endless = json!({ "from": ALICE, "to": BOB, "gas": "0x2faf080" });
    let state = json!({ BOB.to_string(): { "code": "0x5b5f56" } });
    for tracer in ["callTracer", "prestateTracer", "noopTracer"] {
        let config = |timeout: &str| json!({ "tracer": tracer, "timeout": timeout, "stateOverrides": state });
        let trace = |timeout: &str| json!([endless, "latest", config(timeout)]);
        let (code, message) = node.error("debug_traceCall", trace("1us"));
        assert_eq!(code, -32000, "{message}");
        assert!(message.contains("\"1us\"; name a longer one"), "{message}");
        node.call("debug_traceCall", trace("5m"));
        let (code, message) = node.error("debug_traceCall", trace("soon"));
        assert_eq!(code, -32602, "{message}");
    }
    // The timeout also ends the trace of a mined transaction. Other transactions of its block have their own time.
    let hash = node.send(ALICE, BOB, 1);
    let at_once = json!({ "tracer": "callTracer", "timeout": "0" });
    let (code, message) = node.error("debug_traceTransaction", json!([hash, at_once]));
    assert_eq!(code, -32000, "{message}");
    for (method, params) in [
        ("debug_traceTransaction", json!([hash, { "timeout": "1m30s" }])),
        ("debug_traceBlockByNumber", json!(["latest", { "timeout": "10m" }])),
    ] {
        node.call(method, params);
    }
}

/// A block number is written without leading zeros, and a tag in lower case, as in the specification.
#[test]
fn a_block_is_named_as_the_specification_writes_it() {
    let node = Devnet::start("mpt", args![]);
    for bad in ["0x00", "0x0001", "0x", "", "Latest", "latest ", "1"] {
        for (method, params) in [
            ("eth_getBlockByNumber", json!([bad, false])),
            ("eth_getBalance", json!([ALICE, bad])),
            ("eth_getBalance", json!([ALICE, { "blockNumber": bad }])),
            ("eth_call", json!([{ "to": BOB }, bad])),
            ("eth_getLogs", json!([{ "fromBlock": bad }])),
            ("eth_newFilter", json!([{ "toBlock": bad }])),
            ("eth_feeHistory", json!(["0x1", bad, []])),
            ("eth_getBlockReceipts", json!([bad])),
            ("eth_getTransactionByBlockNumberAndIndex", json!([bad, "0x0"])),
            ("debug_traceBlockByNumber", json!([bad])),
            ("debug_getRawHeader", json!([bad])),
            ("debug_traceCall", json!([{ "to": BOB }, bad])),
            ("trace_block", json!([bad])),
            ("trace_filter", json!([{ "fromBlock": bad }])),
            ("eth_simulateV1", json!([{ "blockStateCalls": [{}] }, bad])),
        ] {
            let (code, message) = node.error(method, params);
            assert_eq!(code, -32602, "{method} {bad:?}: {message}");
        }
    }
    assert_eq!(node.call("eth_getBlockByNumber", json!(["0x0", false]))["number"], "0x0");
}

/// All methods answer an unknown block with the same error code, as the tests of execution-apis expect.
#[test]
fn a_block_that_is_not_there() {
    let node = Devnet::start("mpt", args![]);
    let hash = word(1);
    for (method, params) in [
        ("eth_getBalance", json!([ALICE, "0x99"])),
        ("eth_getBalance", json!([ALICE, hash])),
        ("eth_call", json!([{ "to": BOB }, "0x99"])),
        ("eth_getLogs", json!([{ "blockHash": hash }])),
        ("eth_getProof", json!([ALICE, [], "0x99"])),
        ("debug_traceBlockByHash", json!([hash])),
        ("debug_traceBlockByNumber", json!(["0x99"])),
        ("debug_getRawHeader", json!(["0x99"])),
        ("eth_feeHistory", json!(["0x1", "0x99", []])),
    ] {
        let (code, message) = node.error(method, params);
        assert_eq!(code, -32000, "{method}: {message}");
    }
    let none = json!({ "oldestBlock": "0x0", "baseFeePerGas": [], "gasUsedRatio": [] });
    assert_eq!(node.call("eth_feeHistory", json!(["0x0", "latest", []])), none);
}

/// A method that the layer does not support is answered with −32004 (EIP-1474), because libraries take −32000 for
/// invalid parameters.
#[test]
fn what_a_layer_cannot_do_has_a_code_of_its_own() {
    for layer in polytrie::layers::LAYERS {
        let node = Devnet::start(layer.name, args![]);
        for (method, params) in [
            ("eth_getProof", json!([ALICE, [], "latest"])),
            ("eth_getAccount", json!([ALICE, "latest"])),
            ("debug_executionWitness", json!(["latest"])),
        ] {
            let answer = node.answer(method, params);
            let code = &answer["error"]["code"];
            assert_eq!(*code == -32004, !layer.canonical, "{} {method}: {answer}", layer.name);
        }
    }
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let answer = node.answer("polytrie_getProof", json!([ALICE, []]));
        assert!([Value::Null, json!(-32004)].contains(&answer["error"]["code"]), "{answer}");
    }
}

/// An estimate is at most 1.5 % above the needed gas. The search starts at the gas of a run, which includes the floor.
#[test]
fn an_estimate_begins_at_the_floor_of_the_data() {
    let node = Devnet::start("mpt", args![]);
    let state = json!({ BOB.to_string(): { "code": "0x00" } });
    let call = json!([{ "from": ALICE, "to": BOB, "input": word(6) }, "latest", state]);
    // The floor is 21,000 and 10 for each of 35 tokens (EIP-7623). geth answers the same value.
    assert_eq!(node.call("eth_estimateGas", call), "0x540c");
}

/// The called contract is an invalid instruction, which costs all but a 64th part of the gas.
#[test]
fn an_estimate_near_the_largest_number_does_not_overflow() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = dev_genesis(1337, &[ALICE], U256::from(u128::MAX));
    let mut genesis: Value = serde_json::from_slice(&genesis).unwrap();
    // Osaka bounds the gas of a transaction.
    genesis["config"].as_object_mut().unwrap().remove("osakaTime");
    let file = dir.path().join("prague.json");
    std::fs::write(&file, genesis.to_string()).unwrap();
    let most = u64::MAX.to_string();
    let node = Devnet::start("mpt", args!["--chain", &file, "--rpc.gascap", most]);
    // PUSH1 0 five times, PUSH1 0xcc, GAS, CALL.
    let state = json!({
        BOB.to_string(): { "code": "0x6000600060006000600060cc5af1" },
        Address::with_last_byte(0xcc).to_string(): { "code": "0xfe" },
    });
    let call = json!([{ "from": ALICE, "to": BOB, "gas": "0xffffffffffffffff" }, "latest", state]);
    let estimate = node.call("eth_estimateGas", call);
    let estimate = u64::from_str_radix(&estimate.as_str().unwrap()[2..], 16).unwrap();
    assert!(estimate > u64::MAX / 64 * 60, "{estimate:#x}");
}

/// The contract writes one slot after the other as long as it has gas. So the access list changes the number of slots.
#[test]
fn an_access_list_settles() {
    let node = Devnet::start("mpt", args![]);
    for gas in (0x1c9_c380..).step_by(1_777).take(16) {
        let call = json!({ "from": ALICE, "data": "0x435b8080556001015a6161a810600157", "gas": format!("{gas:#x}") });
        let answer = node.call("eth_createAccessList", json!([call, "latest"]));
        assert_ne!(answer["accessList"], json!([]), "gas {gas}: {answer}");
    }
}
