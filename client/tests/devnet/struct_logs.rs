//! Tests of traces of every step, in geth's default format without a tracer, and of the tracers that
//! count instructions.

use crate::{
    amsterdam,
    support::{ALICE, Devnet, args},
};
use serde_json::{Value, json};

/// Returns the gas used before the first step of a creation with this number of bytes of code, none
/// of which is zero.
const fn intrinsic(code: u64) -> u64 {
    53_000 + 16 * code + 2
}

fn trace(node: &Devnet, data: &str, gas: u64, options: &Value) -> Value {
    let call = json!({ "from": ALICE, "data": data, "gas": format!("{gas:#x}") });
    node.call("debug_traceCall", json!([call, "latest", options]))
}

fn last(trace: &Value) -> &Value {
    trace["structLogs"].as_array().unwrap().last().unwrap()
}

#[test]
fn a_step_that_cannot_be_paid_says_its_whole_price() {
    let node = Devnet::start("mpt", args![]);
    // The code is PUSH1 1, PUSH0, SSTORE.
    let store = |gas: u64| trace(&node, "0x60015f55", intrinsic(4) + 5 + gas, &json!({}));
    // With 2,300 gas or less the cost is not computed (EIP-2200).
    let few = store(2_300);
    assert_eq!(last(&few)["error"], "out of gas: not enough gas for reentrancy sentry");
    assert_eq!((&last(&few)["gas"], &last(&few)["gasCost"]), (&json!(2_300), &json!(0)));
    let more = store(22_099);
    assert_eq!(
        (&last(&more)["error"], &last(&more)["gasCost"]),
        (&json!("out of gas"), &json!(22_100))
    );
    assert_eq!((&more["failed"], &more["returnValue"]), (&json!(true), &json!("0x")));
    let enough = store(22_100);
    let steps = enough["structLogs"].as_array().unwrap();
    assert_eq!((&steps[2]["error"], &steps[2]["gasCost"]), (&Value::Null, &json!(22_100)));

    // The code is PUSH2 0x1000, PUSH0, RETURN, which has to grow the memory.
    let memory = trace(&node, "0x6110015ff3", intrinsic(5) + 5 + 10, &json!({}));
    assert_eq!((&last(&memory)["gas"], &last(&memory)["gasCost"]), (&json!(10), &json!(419)));
    // The code is PUSH32 -1, PUSH0, RETURN, which needs more memory than can be addressed.
    let word = "ff".repeat(32);
    let memory = trace(&node, &format!("0x7f{word}5ff3"), 100_000, &json!({}));
    assert_eq!(last(&memory)["error"], "gas uint64 overflow");
    // The code is PUSH0 x 5, PUSH1 1, PUSH0, CALL: a call of the precompile at 1, which is warm.
    let call = trace(&node, "0x5f5f5f5f5f60015ff1", intrinsic(9) + 15 + 2_599, &json!({}));
    let step = &call["structLogs"][7];
    assert_eq!((&step["op"], &step["gasCost"]), (&json!("CALL"), &json!(100)));
    assert_eq!(step["error"], Value::Null);
    // The account at 0xffff is cold.
    let error = json!("out of gas: out of gas");
    let call = trace(&node, "0x5f5f5f5f5f61ffff5ff1", intrinsic(10) + 15 + 2_599, &json!({}));
    assert_eq!((&last(&call)["error"], &last(&call)["gasCost"]), (&error, &json!(100)));
}

/// The limit on the length of initcode is that of the fork, which is higher from Amsterdam on
/// (EIP-7954).
#[test]
fn a_creation_that_cannot_be_paid_is_held_against_the_limit_of_its_fork() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis(dir.path(), &ALICE.to_string());
    let contract = "0x00000000000000000000000000000000000000cc";
    let too_long = "out of gas: max initcode size exceeded: code size 60000 limit 49152";
    for (node, gas, error) in [
        (Devnet::start("mpt", args![]), "9c40", too_long),
        (Devnet::start("mpt", args!["--chain", &genesis]), "4e20", "out of gas"),
    ] {
        // The code is PUSH2 60000, PUSH0, PUSH0, CREATE.
        node.call("anvil_setCode", json!([contract, "0x61ea605f5ff0"]));
        // The code is PUSH0 x 5, PUSH20 the contract, PUSH2 the gas, CALL.
        let data = format!("0x5f5f5f5f5f73{}61{gas}f1", &contract[2..]);
        let found = trace(&node, &data, 10_000_000, &json!({}));
        let steps = found["structLogs"].as_array().unwrap();
        let create = steps.iter().find(|step| step["op"] == "CREATE").unwrap();
        assert_eq!(create["error"], error, "{found}");
    }
}

#[test]
fn a_step_that_is_none_has_its_byte_and_words_of_geth() {
    let node = Devnet::start("mpt", args![]);
    let unknown = trace(&node, "0x0c", 100_000, &json!({}));
    assert_eq!(last(&unknown)["op"], "opcode 0xc not defined");
    assert_eq!((&last(&unknown)["gasCost"], &last(&unknown)["error"]), (&json!(0), &Value::Null));
    assert_eq!(unknown["failed"], true);
    let pop = trace(&node, "0x50", 100_000, &json!({}));
    assert_eq!(last(&pop)["error"], "stack underflow (0 <=> 1)");
    // The code is JUMPDEST, PUSH0, PUSH0, JUMP, which leaves one more word on the stack in each
    // round.
    let push = trace(&node, "0x5b5f5f56", 100_000, &json!({}));
    assert_eq!(last(&push)["error"], "stack limit reached 1024 (1023)");
    let jump = trace(&node, "0x600756", 100_000, &json!({}));
    assert_eq!((&last(&jump)["gasCost"], &last(&jump)["error"]), (&json!(8), &Value::Null));
}

#[test]
fn steps_show_what_is_asked_for() {
    let node = Devnet::start("mpt", args![]);
    // The code is PUSH1 5, PUSH1 7, SSTORE, PUSH1 7, SLOAD, PUSH0, MSTORE, STOP.
    let data = "0x6005600755600754 5f5200".replace(' ', "");
    let all = trace(&node, &data, 200_000, &json!({ "enableMemory": true }));
    let steps = all["structLogs"].as_array().unwrap();
    let word = |n: u8| format!("{:#066x}", n);
    assert_eq!(steps[2]["storage"], json!({ word(7): word(5) }));
    assert_eq!(steps[4]["storage"], json!({ word(7): word(5) }));
    assert_eq!(steps[2]["stack"], json!(["0x5", "0x7"]));
    assert_eq!((&steps[6]["memory"], &steps[7]["memory"]), (&Value::Null, &json!([word(5)])));
    let none = json!({ "disableStack": true, "disableStorage": true });
    let bare = trace(&node, &data, 200_000, &none);
    let has = |step: &Value, field: &str| step.get(field).is_some();
    let fields = ["stack", "storage", "memory", "returnData", "refund"];
    let steps = bare["structLogs"].as_array().unwrap();
    assert!(steps.iter().all(|step| !fields.iter().any(|field| has(step, field))), "{bare}");
    // The limit counts bytes, and the step that exceeds it is the last one.
    let few = trace(&node, &data, 200_000, &json!({ "disableStack": true, "limit": 100 }));
    assert_eq!(few["structLogs"].as_array().unwrap().len(), 2, "{few}");
    assert_eq!(few["gas"], all["gas"]);
}

/// A slot of an access list is warm, and appears in the trace like any other.
#[test]
fn slots_of_an_access_list_are_shown() {
    let node = Devnet::start("mpt", args![]);
    let contract = "0x00000000000000000000000000000000000000cc";
    // The code is PUSH1 7, SLOAD, STOP.
    node.call("anvil_setCode", json!([contract, "0x60075400"]));
    let slot = format!("{:#066x}", 7);
    node.call("anvil_setStorageAt", json!([contract, slot, format!("{:#066x}", 9)]));
    let list = json!([{ "address": contract, "storageKeys": [slot] }]);
    let call = json!({ "from": ALICE, "to": contract, "accessList": list });
    let trace = node.call("debug_traceCall", json!([call, "latest"]));
    let step = &trace["structLogs"][1];
    assert_eq!(step["gasCost"], 100);
    assert_eq!(step["storage"], json!({ slot: format!("{:#066x}", 9) }));
}

#[test]
fn instructions_are_counted_alone_and_in_order() {
    let node = Devnet::start("mpt", args![]);
    // The code is PUSH0, PUSH0, POP, POP, STOP.
    let count = |tracer: &str| trace(&node, "0x5f5f505000", 200_000, &json!({ "tracer": tracer }));
    assert_eq!(count("opcountTracer"), 5);
    assert_eq!(count("unigramTracer"), json!({ "PUSH0": 2, "POP": 2, "STOP": 1 }));
    // The first step of a call has no predecessor.
    let pairs = json!({ "PUSH0-PUSH0": 1, "PUSH0-POP": 1, "POP-POP": 1, "POP-STOP": 1 });
    assert_eq!(count("bigramTracer"), pairs);
    let triples = json!({ "--PUSH0": 1, "-PUSH0-POP": 1, "PUSH0-POP-POP": 1, "POP-POP-STOP": 1 });
    assert_eq!(count("trigramTracer"), triples);
}
