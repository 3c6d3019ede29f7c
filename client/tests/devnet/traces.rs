//! Tests of traces in the formats of Parity.

use crate::support::{ALICE, BOB, Devnet, args, layers};
use serde_json::{Value, json};

/// Creates an empty contract, whose constructor sends a wei to Bob.
fn create(node: &Devnet) -> Value {
    let code = format!("0x5f5f5f5f600173{BOB:x}5af100");
    node.call("eth_sendTransaction", json!([{ "from": ALICE, "data": code, "value": "0x5" }]))
}

#[test]
fn calls_within_calls_have_their_places() {
    let node = Devnet::start("mpt", args![]);
    let before = node.send(ALICE, BOB, 1);
    let hash = create(&node);
    let traces = node.call("trace_transaction", json!([hash]));
    assert_eq!(traces.as_array().unwrap().len(), 2, "{traces}");
    assert_eq!((&traces[0]["type"], &traces[1]["type"]), (&json!("create"), &json!("call")));
    assert_eq!(traces[0]["action"]["from"], json!(ALICE));
    assert_eq!((&traces[0]["subtraces"], &traces[0]["traceAddress"]), (&json!(1), &json!([])));
    assert_eq!(traces[1]["traceAddress"], json!([0]));
    assert_eq!(traces[1]["action"]["value"], "0x1");
    assert_eq!(traces[1]["action"]["callType"], "call");
    assert_eq!(traces[1]["blockNumber"], 2);
    assert_eq!(traces[1]["transactionHash"], hash);
    assert_eq!(traces[1]["transactionPosition"], 0);
    assert_eq!(node.call("trace_get", json!([hash, ["0x0"]])), traces[1]);
    assert_eq!(node.call("trace_get", json!([hash, ["0x7"]])), Value::Null);
    assert_eq!(node.call("trace_block", json!(["latest"])), traces);
    assert_eq!(node.call("trace_block", json!(["0x0"])), json!([]));
    assert_eq!(node.call("trace_block", json!(["0x99"])), Value::Null);
    let unknown = format!("0x{}", "77".repeat(32));
    assert_eq!(node.call("trace_transaction", json!([unknown])), Value::Null);

    let filter = |wanted: Value| node.call("trace_filter", json!([wanted]));
    let to_bob = filter(json!({ "toAddress": [BOB] }));
    assert_eq!(to_bob[0]["transactionHash"], before);
    assert_eq!(to_bob[1], traces[1]);
    assert_eq!(to_bob.as_array().unwrap().len(), 2);
    assert_eq!(
        filter(json!({ "toAddress": [BOB], "after": 1, "count": "0x1" })),
        json!([traces[1]])
    );
    assert_eq!(filter(json!({ "toAddress": [BOB], "fromBlock": "0x2" })), json!([traces[1]]));
    let all = json!({ "fromAddress": [ALICE], "toAddress": [BOB], "mode": "union" });
    assert_eq!(filter(all).as_array().unwrap().len(), 3);
    let (code, message) =
        node.error("trace_filter", json!([{ "fromBlock": "0x2", "toBlock": "0x1" }]));
    assert_eq!(code, -32602, "{message}");
}

#[test]
fn transactions_are_replayed_with_what_they_changed() {
    let node = Devnet::start("mpt", args![]);
    let hash = create(&node);
    let types = json!(["trace", "vmTrace", "stateDiff"]);
    let results = node.call("trace_replayTransaction", json!([hash, types]));
    assert_eq!(results["trace"].as_array().unwrap().len(), 2);
    let bob = format!("{BOB:#x}");
    let ether = "0x21e19e0c9bab2400000";
    assert_eq!(
        results["stateDiff"][&bob]["balance"]["*"],
        json!({ "from": ether, "to": "0x21e19e0c9bab2400001" })
    );
    let ops = results["vmTrace"]["ops"].as_array().unwrap();
    assert_eq!((ops.len(), &ops[4]["ex"]["push"]), (9, &json!(["0x1"])));
    assert_eq!(ops[7]["sub"]["ops"], json!([]), "{}", ops[7]);
    let block = node.call("trace_replayBlockTransactions", json!(["latest", types]));
    assert_eq!(block[0]["transactionHash"], hash);
    assert_eq!(block[0]["stateDiff"], results["stateDiff"]);

    let call = json!({ "from": ALICE, "to": BOB, "value": "0x3" });
    let results = node.call("trace_call", json!([call, ["trace", "stateDiff"], "latest"]));
    assert_eq!(results["trace"][0]["action"]["value"], "0x3");
    assert_eq!(results["stateDiff"][&bob]["balance"]["*"]["to"], "0x21e19e0c9bab2400004");
    assert_eq!(results["vmTrace"], Value::Null);
    let (code, message) = node.error("trace_call", json!([call, ["steps"]]));
    assert_eq!(code, -32602, "{message}");
}

/// The gas of a call in the format of Parity is the gas that the call has and uses. The format of
/// geth includes the intrinsic gas in both.
#[test]
fn gas_is_counted_from_the_same_point_in_one_form() {
    let node = Devnet::start("mpt", args![]);
    let transfer = json!({ "from": ALICE, "to": BOB, "value": "0x1", "gas": "0x186a0" });
    let hash = node.call("eth_sendTransaction", json!([transfer]));
    let gas = |trace: &Value| (trace["action"]["gas"].clone(), trace["result"]["gasUsed"].clone());
    // The gas is 100,000 minus the intrinsic 21,000.
    let parity = (json!("0x13498"), json!("0x0"));
    let types = json!(["trace"]);
    for (method, params, place) in [
        ("trace_transaction", json!([hash]), "/0"),
        ("trace_get", json!([hash, []]), ""),
        ("trace_block", json!(["latest"]), "/0"),
        ("trace_filter", json!([{}]), "/0"),
        ("trace_replayTransaction", json!([hash, types]), "/trace/0"),
        ("trace_replayBlockTransactions", json!(["latest", types]), "/0/trace/0"),
        ("trace_call", json!([transfer, types]), "/trace/0"),
    ] {
        let answer = node.call(method, params);
        assert_eq!(gas(answer.pointer(place).unwrap()), parity, "{method}: {answer}");
    }
    let geth = (json!("0x186a0"), json!("0x5208"));
    let flat = json!({ "tracer": "flatCallTracer" });
    let mux = json!({ "tracer": "muxTracer", "tracerConfig": { "flatCallTracer": null } });
    for (method, params, place) in [
        ("debug_traceTransaction", json!([hash, flat]), "/0"),
        ("debug_traceTransaction", json!([hash, mux]), "/flatCallTracer/0"),
        ("debug_traceBlockByNumber", json!(["latest", flat]), "/0/result/0"),
        ("debug_traceCall", json!([transfer, "latest", flat]), "/0"),
    ] {
        let answer = node.call(method, params);
        assert_eq!(gas(answer.pointer(place).unwrap()), geth, "{method}: {answer}");
    }
}

/// From Cancun on such a contract keeps its ether, and the EVM says nothing of it.
#[test]
fn a_contract_that_is_its_own_heir_is_shown() {
    let node = Devnet::start("mpt", args![]);
    let contract = BOB.create(0);
    // The code is ADDRESS SELFDESTRUCT.
    node.call("anvil_setCode", json!([contract, "0x30ff"]));
    let call = json!([{ "from": ALICE, "to": contract, "value": "0x5", "gas": "0x186a0" }]);
    let types = json!(["trace"]);
    let called = node.call("trace_call", json!([call[0], types, "latest"]));
    let hash = node.call("eth_sendTransaction", call);
    let replayed = node.call("trace_replayTransaction", json!([hash, types]));
    let traces = node.call("trace_transaction", json!([hash]));
    let action = json!({ "address": contract, "refundAddress": contract, "balance": "0x5" });
    for trace in [&called["trace"][1], &replayed["trace"][1], &traces[1]] {
        assert_eq!((&trace["type"], &trace["action"]), (&json!("suicide"), &action), "{trace}");
    }
    let frame = &node.call("ots_traceTransaction", json!([hash]))[1];
    assert_eq!((&frame["type"], &frame["depth"]), (&json!("SELFDESTRUCT"), &json!(1)));
    let operation = json!({ "type": 1, "from": contract, "to": contract, "value": "0x5" });
    let operations = node.call("ots_getInternalOperations", json!([hash]));
    assert_eq!(operations, json!([operation]));
}

/// The creation of a contract whose address has slots fails (EIP-7610), but slots from a later
/// block do not count.
#[test]
fn the_creation_of_a_contract_that_has_slots_today_is_run_again() {
    // The constructor stores 1 in slot 0 and returns code of one byte: STOP.
    let create = json!({ "from": ALICE, "data": "0x60015f5560015ff3" });
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        let first = node.call("eth_sendTransaction", json!([create]));
        // A second creation, at an address that has ether already.
        node.send(ALICE, ALICE.create(2), 1);
        let second = node.call("eth_sendTransaction", json!([create]));
        for (hash, nonce, block) in [(first, 0, "0x1"), (second, 2, "0x3")] {
            let contract = json!(ALICE.create(nonce));
            assert_eq!(node.call("eth_getCode", json!([contract, "latest"])), "0x00", "{layer}");
            let calls = json!({ "tracer": "callTracer" });
            let trace = node.call("debug_traceTransaction", json!([hash, calls]));
            assert_eq!((&trace["error"], &trace["to"]), (&Value::Null, &contract), "{layer}");
            let traces = node.call("debug_traceBlockByNumber", json!([block, calls]));
            assert_eq!(traces[0]["result"], trace, "{layer}");
            for (method, params) in
                [("trace_transaction", json!([hash])), ("trace_block", json!([block]))]
            {
                let traces = node.call(method, params);
                assert_eq!(traces[0]["result"]["address"], contract, "{layer} {method}: {traces}");
            }
            let creator = node.call("ots_getContractCreator", json!([contract]));
            assert_eq!(creator["hash"], hash, "{layer}: {creator}");
            // A call of the same creation at the block before succeeds, although it was never
            // mined.
            let parent = if nonce == 0 { "0x0" } else { "0x2" };
            assert_eq!(node.call("eth_call", json!([create, parent])), "0x00", "{layer}");
            let simulated = json!({ "blockStateCalls": [{ "calls": [create] }] });
            let blocks = node.call("eth_simulateV1", json!([simulated, parent]));
            assert_eq!(blocks[0]["calls"][0]["status"], "0x1", "{layer}: {blocks}");
        }
    }
}
