//! Tests of simulated blocks, and of the overrides of calls.

use crate::{
    amsterdam,
    run::polytrie,
    support::{ALICE, BOB, Devnet, args, layers},
    transactions::word,
};
use serde_json::{Value, json};

/// A price that no account of these tests can pay. It is the highest 64-bit price.
const DEAR: &str = "0xffffffffffffffff";

fn simulate(node: &Devnet, blocks: Value, validation: bool) -> Value {
    let payload = json!({ "blockStateCalls": blocks, "validation": validation });
    node.answer("eth_simulateV1", json!([payload, "latest"]))
}

/// The sender needs funds for the fee that it offers, not only for the fee that it will pay (EIP-1559).
#[test]
fn funds_are_held_against_the_fee_that_is_offered() {
    let node = Devnet::start("mpt", args![]);
    let poor = "0x00000000000000000000000000000000000000bb";
    let call = json!({ "from": poor, "to": BOB, "gas": "0x5208", "maxFeePerGas": "0x77359400" });
    // The balance suffices for the base fee of at most 0.875 Gwei, but not for 2 Gwei.
    let state = json!({ poor: { "balance": "0x12309ce54000" } });
    for method in ["eth_call", "eth_createAccessList"] {
        let (code, message) = node.error(method, json!([call, "latest", state]));
        assert_eq!(code, -32000, "{method}: {message}");
        assert!(message.contains("insufficient funds for gas * price + value"), "{message}");
    }
    let block = json!({ "calls": [call], "stateOverrides": state });
    for validation in [false, true] {
        let answer = simulate(&node, json!([block]), validation);
        assert_eq!(answer["error"]["code"], -38014, "{answer}");
    }
    let rich = json!({ poor: { "balance": "0x2632e314a000" } });
    node.call("eth_call", json!([call, "latest", rich]));
}

/// If a transaction has several errors, the first in the order of geth is named: nonce, fees, funds, gas. The tests
/// of execution-apis expect this order.
#[test]
fn of_several_faults_the_first_is_named() {
    let node = Devnet::start("mpt", args![]);
    let code = |call: Value, state: Value, validation: bool| {
        let answer =
            simulate(&node, json!([{ "calls": [call], "stateOverrides": state }]), validation);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
    };
    let last = json!({ ALICE.to_string(): { "nonce": "0xffffffffffffffff" } });
    let none = json!({});
    // The price is absent, so it is below the base fee, and the nonce is the last one.
    assert_eq!(code(json!({ "from": ALICE, "to": BOB }), last, true), -32603);
    let low = json!({ "from": ALICE, "to": BOB, "nonce": "0x9", "gas": "0x1" });
    assert_eq!(code(low, none.clone(), true), -38011);
    let fees = json!({ "from": ALICE, "to": BOB, "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2", "gas": "0x1" });
    assert_eq!(code(fees, none.clone(), false), -32602);
    let cheap = json!({ "from": ALICE, "to": BOB, "maxFeePerGas": "0x1", "gas": "0x1" });
    assert_eq!(code(cheap, none.clone(), true), -38012);
    let dear = json!({ "from": ALICE, "to": BOB, "maxFeePerGas": DEAR, "gas": "0x1", "value": word(u64::MAX) });
    assert_eq!(code(dear, json!({ ALICE.to_string(): { "balance": "0x1" } }), true), -38014);
    let tight = json!({ "from": ALICE, "to": BOB, "gas": "0x1" });
    assert_eq!(code(tight, none, false), -38013);
}

/// The block has room for more gas than the node gives to calls.
#[test]
fn a_call_without_gas_is_told_that_it_was_capped() {
    let node = Devnet::start("mpt", args!["--rpc.gascap", "100000"]);
    // The code is JUMPDEST PUSH1 0 JUMP.
    for (gas, words) in [
        (Value::Null, "out of gas (gas limit was capped by the RPC server's global gas cap)"),
        (json!("0x186a0"), "out of gas"),
    ] {
        let call = json!({ "from": ALICE, "data": "0x5b600056", "gas": gas });
        let answer = simulate(&node, json!([{ "calls": [call] }]), false);
        let error = &answer["result"][0]["calls"][0]["error"];
        assert_eq!(error, &json!({ "code": -32015, "message": words }), "{answer}");
    }
}

#[test]
fn nonces_do_not_matter_to_a_call() {
    let node = Devnet::start("mpt", args![]);
    for nonce in ["0x0", "0x7", "0xffffffffffffffff"] {
        node.call("eth_call", json!([{ "from": ALICE, "to": BOB, "nonce": nonce }]));
    }
}

#[test]
fn simulated_time_does_not_wrap() {
    let node = Devnet::start("mpt", args![]);
    let last = json!({ "time": "0xffffffffffffffff" });
    for next in [json!({}), json!({ "number": "0x9" }), json!({ "time": "0x5" })] {
        let blocks = json!([{ "blockOverrides": last }, { "blockOverrides": next }]);
        let answer = simulate(&node, blocks, false);
        assert_eq!(answer["error"]["code"], -38021, "{answer}");
    }
    let (code, _) = node.error("eth_simulateV1", json!([{ "blockStateCalls": [{}] }, "0x99"]));
    assert_eq!(code, -32000);
}

/// Without validation the base fee may be higher than the price that a transaction offers.
#[test]
fn a_simulated_transaction_pays_no_more_than_it_offers() {
    let node = Devnet::start("mpt", args![]);
    let block = json!({
        "blockOverrides": { "baseFeePerGas": "0x64" },
        "calls": [{ "from": ALICE, "to": BOB }, { "from": ALICE, "to": BOB, "maxFeePerGas": "0x70", "maxPriorityFeePerGas": "0x2" }],
    });
    let payload = json!({ "blockStateCalls": [block], "returnFullTransactions": true });
    let blocks = node.call("eth_simulateV1", json!([payload, "latest"]));
    let price = |index: usize| blocks[0]["transactions"][index]["gasPrice"].clone();
    assert_eq!((price(0), price(1)), (json!("0x0"), json!("0x66")), "{blocks}");
    let (code, message) = node.error(
        "eth_simulateV1",
        json!([{ "blockStateCalls": [{ "blockOverrides": { "baseFeePerGas": "0x10000000000000000" } }] }]),
    );
    assert_eq!(code, -32602, "{message}");
}

/// CALLCODE leaves its ether with the caller, so geth neither logs nor counts it as a transfer.
#[test]
fn callcode_is_no_transfer() {
    let node = Devnet::start("mpt", args![]);
    let contract = "0x00000000000000000000000000000000000000aa";
    let transfers = |call: &str| {
        // The code calls an account with 5 wei, and writes an empty log.
        let code = format!("0x5f5f5f5f600560bb5a{call}5f5fa000");
        let state = json!({ contract: { "balance": "0x64", "code": code } });
        let block =
            json!({ "stateOverrides": state, "calls": [{ "from": ALICE, "to": contract }] });
        let payload = json!({ "blockStateCalls": [block], "traceTransfers": true });
        let blocks = node.call("eth_simulateV1", json!([payload, "latest"]));
        let logs = blocks[0]["calls"][0]["logs"].as_array().unwrap();
        let last = logs.last().unwrap();
        assert_eq!(last["address"], contract, "{blocks}");
        (logs.len(), last["logIndex"].clone())
    };
    // CALL, then CALLCODE.
    assert_eq!(transfers("f1"), (2, json!("0x1")));
    assert_eq!(transfers("f2"), (1, json!("0x0")));
}

/// From Cancun on a contract that destroys itself in favour of itself keeps its ether, which geth logs as a transfer.
#[test]
fn a_contract_may_be_its_own_heir() {
    let node = Devnet::start("mpt", args![]);
    let contract = "0x00000000000000000000000000000000000000aa";
    // ADDRESS, PUSH1 0xbb, and a SELFDESTRUCT without any heir, which fails.
    for (heir, expected) in [("30", Some(0xaa)), ("60bb", Some(0xbb)), ("", None)] {
        let state = json!({ contract: { "balance": "0x64", "code": format!("0x{heir}ff") } });
        let block =
            json!({ "stateOverrides": state, "calls": [{ "from": ALICE, "to": contract }] });
        let payload = json!({ "blockStateCalls": [block], "traceTransfers": true });
        let blocks = node.call("eth_simulateV1", json!([payload, "latest"]));
        let logs = blocks[0]["calls"][0]["logs"].as_array().unwrap();
        let told: Vec<_> = logs.iter().map(|log| (&log["topics"][2], &log["data"])).collect();
        let expected = expected.map(|heir| (json!(word(heir)), json!(word(100))));
        let expected: Vec<_> = expected.iter().map(|(heir, wei)| (heir, wei)).collect();
        assert_eq!(told, expected, "{blocks}");
    }
}

/// From Amsterdam on the EVM logs each transfer by itself (EIP-7708). With traceTransfers it would be told twice.
#[test]
fn a_transfer_of_amsterdam_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis(dir.path(), &ALICE.to_string());
    let node = Devnet::start("mpt", args!["--chain", &genesis]);
    let blocks = |traced: bool| {
        let block = json!({ "calls": [{ "from": ALICE, "to": BOB, "value": "0x5" }] });
        let payload = json!({ "blockStateCalls": [block], "traceTransfers": traced });
        node.call("eth_simulateV1", json!([payload, "latest"]))
    };
    let traced = blocks(true);
    assert_eq!(traced[0]["calls"][0]["logs"].as_array().unwrap().len(), 1, "{traced}");
    assert_eq!(traced, blocks(false));
}

#[test]
fn withdrawals_of_a_simulated_block_are_paid() {
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let somebody = "0x00000000000000000000000000000000000000cc";
        let withdrawal = json!({ "index": "0x0", "validatorIndex": "0x1", "address": somebody, "amount": "0x2" });
        // The code returns the BALANCE of the account that is paid.
        let code = format!("0x73{}315f5260205ff3", &somebody[2..]);
        let blocks = json!([
            { "blockOverrides": { "withdrawals": [withdrawal] } },
            { "stateOverrides": { BOB.to_string(): { "code": code } }, "calls": [{ "to": BOB }] },
        ]);
        let answer = simulate(&node, blocks, false);
        let blocks = &answer["result"];
        assert_eq!(blocks[0]["withdrawals"], json!([withdrawal]), "{layer}: {answer}");
        assert_eq!(blocks[1]["calls"][0]["returnData"], word(2_000_000_000), "{layer}");
        assert_eq!(blocks[1]["withdrawals"], json!([]), "{layer}");
    }
}

#[test]
fn a_call_is_given_the_hashes_that_it_wants() {
    let node = Devnet::start("mpt", args![]);
    let hash = word(77);
    // The code returns the BLOCKHASH of the block whose number is in the data.
    let code = "0x5f35405f5260205ff3";
    let state = json!({ BOB.to_string(): { "code": code } });
    let block = json!({ "number": "0x100", "blockHash": { "255": hash } });
    let call = json!({ "to": BOB, "input": word(255) });
    let found = node.call("eth_call", json!([call, "latest", state, block]));
    assert_eq!(found, hash);
    let block = json!({ "stateOverrides": state, "blockOverrides": { "number": "0x2", "blockHash": { "1": hash } }, "calls": [{ "to": BOB, "input": word(1) }] });
    let answer = simulate(&node, json!([block]), false);
    assert_eq!(answer["result"][1]["calls"][0]["returnData"], hash, "{answer}");
}

/// A call cannot set the beacon root or withdrawals, as in geth. No system call before it could store the root, and
/// no step after it pays the withdrawals.
#[test]
fn a_call_cannot_have_what_belongs_to_a_whole_block() {
    let node = Devnet::start("mpt", args![]);
    for (field, value) in [("beaconRoot", json!(word(7))), ("withdrawals", json!([]))] {
        let block = json!({ field: value });
        for params in [
            ("eth_call", json!([{ "to": BOB }, "latest", {}, block])),
            ("eth_estimateGas", json!([{ "to": BOB }, "latest", {}, block])),
            ("debug_traceCall", json!([{ "to": BOB }, "latest", { "blockOverrides": block }])),
        ] {
            let (code, message) = node.error(params.0, params.1);
            assert_eq!(code, -32000, "{message}");
            assert!(message.contains(field), "{message}");
        }
    }
    // A simulated block has the beacon root, in the contract of EIP-4788 too.
    let time = "0x7fffffffffffff00";
    let beacon = "0x000f3df6d732807ef1319fb7b8bb8522d0beac02";
    let block = json!({
        "blockOverrides": { "beaconRoot": word(7), "time": time },
        "calls": [{ "to": beacon, "input": format!("0x{:0>64}", &time[2..]) }],
    });
    let answer = simulate(&node, json!([block]), false);
    assert_eq!(answer["result"][0]["parentBeaconBlockRoot"], word(7), "{answer}");
    assert_eq!(answer["result"][0]["calls"][0]["returnData"], word(7), "{answer}");
}

/// A moved precompile has the access cost of an ordinary account, because EIP-2929 lists the addresses of
/// precompiles.
#[test]
fn a_precompile_that_was_moved_is_as_cold_as_any_other_account() {
    let node = Devnet::start("mpt", args![]);
    let there = "0x00000000000000000000000000000000000000dd";
    let identity = "0x0000000000000000000000000000000000000004";
    // The code calls the account in the data and returns the gas of the call.
    let code = "0x5a5f5f5f5f5f5f355af1505a90035f5260205ff3";
    let gas = |account: &str, moved: bool| {
        let mut state = json!({ BOB.to_string(): { "code": code } });
        if moved {
            state[identity] = json!({ "movePrecompileToAddress": there });
        }
        let data = format!("0x{:0>64}", &account[2..]);
        let found = node.call("eth_call", json!([{ "to": BOB, "input": data }, "latest", state]));
        u64::from_str_radix(&found.as_str().unwrap()[2..], 16).unwrap()
    };
    // The precompile costs 15 for empty input.
    assert_eq!(gas(there, false) + 15, gas(there, true));
    assert_eq!(gas(identity, false), gas(identity, true) + 15);
    assert_eq!(gas(there, true), gas(identity, false) + 2_500);

    // An overridden precompile runs the given code.
    let state = json!({ identity: { "code": "0x602a5f5260205ff3" } });
    let call = json!([{ "to": identity, "input": "0x0102" }, "latest", state]);
    assert_eq!(node.call("eth_call", call), word(42));
    let both =
        json!({ identity: { "movePrecompileToAddress": there }, there: { "balance": "0x1" } });
    let (code, message) = node.error("eth_call", json!([{ "to": there }, "latest", both]));
    assert_eq!(code, -32000);
    assert!(message.contains("already overridden"), "{message}");
}

/// Before London a call may have no fee fields or the fee fields of EIP-1559, and runs either way.
#[test]
fn calls_and_simulations_before_london() {
    let temp = tempfile::tempdir().unwrap();
    let genesis = temp.path().join("genesis.json");
    let forks =
        ["homestead", "eip150", "eip155", "eip158"].map(|fork| format!("\"{fork}Block\": 0"));
    let config = format!("{{ \"chainId\": 1337, {}, \"ethash\": {{}} }}", forks.join(", "));
    let text = format!(
        r#"{{ "config": {config}, "difficulty": "0x20000", "gasLimit": "0x989680", "alloc": {{ "{ALICE:x}": {{ "balance": "0xde0b6b3a7640000" }} }} }}"#
    );
    std::fs::write(&genesis, text).unwrap();
    for layer in polytrie::layers::LAYERS {
        let data = temp.path().join(layer.name);
        polytrie!["init", "--chain", genesis, "--datadir", data, "--state", layer.name].ok();
        let node = Devnet::open(&data, args!["--read-only"]);
        for fees in [json!({}), json!({ "maxFeePerGas": "0x7" }), json!({ "gasPrice": "0x0" })] {
            let mut call = fees.clone();
            (call["from"], call["to"], call["value"]) = (json!(ALICE), json!(BOB), json!("0x1"));
            node.call("eth_call", json!([call]));
            assert_eq!(node.call("eth_estimateGas", json!([call])), "0x5208");
            node.call("debug_traceCall", json!([call, "latest", { "tracer": "callTracer" }]));
            let payload =
                json!({ "blockStateCalls": [{ "calls": [call] }], "returnFullTransactions": true });
            let blocks = node.call("eth_simulateV1", json!([payload]));
            assert_eq!(blocks[0]["calls"][0]["status"], "0x1", "{blocks}");
            assert_eq!(blocks[0]["transactions"][0]["type"], "0x0", "{blocks}");
            assert_eq!(blocks[0].get("baseFeePerGas"), None);
        }
        let block = json!({ "calls": [{ "from": ALICE, "to": BOB }], "blockOverrides": { "baseFeePerGas": "0x7" } });
        let answer = simulate(&node, json!([block]), true);
        assert_eq!(answer["result"][0]["calls"][0]["status"], "0x1", "{answer}");
        // Access lists exist since Berlin.
        let call = json!({ "from": ALICE, "to": BOB, "accessList": [] });
        let (code, message) = node.error("eth_call", json!([call]));
        assert_eq!(code, -32000, "{message}");
        // The fee is more than the sender has, but it is not charged.
        let dear = json!({ "from": ALICE, "to": BOB, "input": "0x01", "maxFeePerGas": DEAR });
        node.call("eth_estimateGas", json!([dear]));

        // PREVRANDAO exists since the merge, which is after London. SLOAD has its old price.
        let call = json!({ "from": ALICE, "data": "0x600054", "gas": "0x30d40" });
        let trace = |block: Value| {
            let options = json!({ "tracer": "callTracer", "blockOverrides": block });
            node.call("debug_traceCall", json!([call, "latest", options]))
        };
        assert_eq!(trace(json!({ "prevRandao": word(7) })), trace(json!({})), "{}", layer.name);
        // The code is PUSH1 1, PUSH1 1, TSTORE, which exists since Cancun, with too little gas for Cancun.
        let gas = 53_000 + 5 * 68 + 6 + 50;
        let call = json!({ "from": ALICE, "data": "0x600160015d", "gas": format!("{gas:#x}") });
        let steps = node.call("debug_traceCall", json!([call, "latest"]));
        let last = &steps["structLogs"][2];
        assert_eq!((&last["gasCost"], last.get("error")), (&json!(0), None), "{last}");
        let trace = json!([call, "latest", { "tracer": "callTracer" }]);
        assert_eq!(node.call("debug_traceCall", trace)["error"], "invalid opcode: TSTORE");
    }
}

/// A block is past the merge if it comes after a block with the terminal total difficulty (EIP-3675).
#[test]
fn a_simulated_block_is_past_the_merge_when_its_chain_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let (genesis, data) = (temp.path().join("genesis.json"), temp.path().join("data"));
    let before = ["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople"];
    let before = before.map(|fork| format!("\"{fork}Block\": 0")).join(", ");
    // Each block has a difficulty of 0x20000, so six blocks including genesis reach the terminal total difficulty.
    let config = format!(
        r#"{{ "chainId": 1337, {before}, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 3, "terminalTotalDifficulty": 786432, "shanghaiTime": 1000, "cancunTime": 1000, "ethash": {{}} }}"#
    );
    let text = format!(
        r#"{{ "config": {config}, "difficulty": "0x20000", "gasLimit": "0x989680", "alloc": {{}} }}"#
    );
    std::fs::write(&genesis, text).unwrap();
    polytrie!["init", "--chain", genesis, "--datadir", data].ok();
    let node = Devnet::open(&data, args!["--read-only"]);
    let blocks = |overrides: Value| {
        let answer = simulate(&node, json!([{ "blockOverrides": overrides }]), false);
        let blocks = answer["result"].as_array().unwrap_or_else(|| panic!("{answer}"));
        blocks.clone()
    };
    let chain = blocks(json!({ "number": "0x8" }));
    let difficulties: Vec<_> = chain.iter().map(|block| block["difficulty"].as_str()).collect();
    let (work, stake) = (Some("0x20000"), Some("0x0"));
    assert_eq!(difficulties, [work, work, work, work, work, stake, stake, stake]);
    // The time of a later fork does not move a block before London past the merge.
    let early = &blocks(json!({ "number": "0x1", "time": "0x7d0" }))[0];
    assert_eq!(early["difficulty"], "0x20000");
    for field in ["baseFeePerGas", "withdrawals", "blobGasUsed"] {
        assert_eq!(early.get(field), None, "{early}");
    }
    let late = &blocks(json!({ "number": "0x3", "time": "0x7d0" }))[2];
    assert_eq!((&late["difficulty"], &late["blobGasUsed"]), (&json!("0x0"), &json!("0x0")));
}

/// Blocks that are simulated on the pending block are those that are simulated on it once it is made.
#[test]
fn a_simulation_goes_on_from_the_pending_block() {
    for layer in layers() {
        let node = Devnet::start(layer, args!["--no-mining"]);
        let somebody = "0x00000000000000000000000000000000000000cc";
        node.call("anvil_setBalance", json!([somebody, "0x64"]));
        node.send(ALICE, BOB, 7);
        node.call("evm_setNextBlockTimestamp", json!([4_000_000_000u64]));
        // The code returns the hash of the block before.
        let state = json!({ BOB.to_string(): { "code": "0x60014303405f5260205ff3" } });
        let calls = json!([{ "to": BOB }, { "from": ALICE, "to": somebody, "value": "0x1" }]);
        let blocks = json!([{ "stateOverrides": state, "calls": calls }, {}]);
        let simulate =
            |at: &str| node.call("eth_simulateV1", json!([{ "blockStateCalls": blocks }, at]));
        let before = simulate("pending");
        assert_eq!(before[0]["number"], "0x2", "{layer}");
        assert_eq!(before[0]["calls"][0]["returnData"], before[0]["parentHash"], "{layer}");
        node.call("evm_mine", json!([]));
        assert_eq!(simulate("latest"), before, "{layer}");
    }
}

/// A call without a price for its blobs is treated like one without a gas price.
#[test]
fn blobs_without_a_price_are_simulated() {
    let node = Devnet::start("mpt", args![]);
    let blob = format!("0x01{}", "00".repeat(31));
    let poor = "0x00000000000000000000000000000000000000bb";
    let call = json!({ "from": poor, "to": BOB, "blobVersionedHashes": [blob] });
    let answer = simulate(&node, json!([{ "calls": [call] }]), false);
    assert_eq!(answer["result"][0]["calls"][0]["status"], "0x1", "{answer}");
    assert_eq!(answer["result"][0]["blobGasUsed"], "0x20000", "{answer}");
    // With validation the blobs need a price, and the nonce is checked before the blobs.
    let answer = simulate(&node, json!([{ "calls": [call] }]), true);
    assert_eq!(answer["error"]["code"], -38012, "{answer}");
    let none = json!({ "from": ALICE, "to": BOB, "nonce": "0x9", "blobVersionedHashes": [] });
    let answer = simulate(&node, json!([{ "calls": [none] }]), true);
    assert_eq!(answer["error"]["code"], -38011, "{answer}");
}
