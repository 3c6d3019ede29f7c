//! Traces of every step, as geth gives them where no tracer is named, and what is counted of them.

use crate::support::{ALICE, Devnet, args};
use serde_json::{Value, json};

fn trace(node: &Devnet, data: &str, gas: u64, options: &Value) -> Value {
    let call = json!({ "from": ALICE, "data": data, "gas": format!("{gas:#x}") });
    node.call("debug_traceCall", json!([call, "latest", options]))
}

fn last(trace: &Value) -> &Value {
    trace["structLogs"].as_array().unwrap().last().unwrap()
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
    // JUMPDEST, PUSH0, PUSH0, JUMP: a word more with each round.
    let push = trace(&node, "0x5b5f5f56", 100_000, &json!({}));
    assert_eq!(last(&push)["error"], "stack limit reached 1024 (1023)");
    let jump = trace(&node, "0x600756", 100_000, &json!({}));
    assert_eq!((&last(&jump)["gasCost"], &last(&jump)["error"]), (&json!(8), &Value::Null));
}

#[test]
fn steps_show_what_is_asked_for() {
    let node = Devnet::start("mpt", args![]);
    // PUSH1 5, PUSH1 7, SSTORE, PUSH1 7, SLOAD, PUSH0, MSTORE, STOP.
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
    // The limit is one of bytes, and the step that passes it is the last one.
    let few = trace(&node, &data, 200_000, &json!({ "disableStack": true, "limit": 100 }));
    assert_eq!(few["structLogs"].as_array().unwrap().len(), 2, "{few}");
    assert_eq!(few["gas"], all["gas"]);
}

/// A slot that an access list names is warm, and is shown all the same.
#[test]
fn slots_of_an_access_list_are_shown() {
    let node = Devnet::start("mpt", args![]);
    let contract = "0x00000000000000000000000000000000000000cc";
    // PUSH1 7, SLOAD, STOP.
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
    // PUSH0, PUSH0, POP, POP, STOP.
    let count = |tracer: &str| trace(&node, "0x5f5f505000", 200_000, &json!({ "tracer": tracer }));
    assert_eq!(count("opcountTracer"), 5);
    assert_eq!(count("unigramTracer"), json!({ "PUSH0": 2, "POP": 2, "STOP": 1 }));
    // The first step of a call follows none.
    let pairs = json!({ "PUSH0-PUSH0": 1, "PUSH0-POP": 1, "POP-POP": 1, "POP-STOP": 1 });
    assert_eq!(count("bigramTracer"), pairs);
    let triples = json!({ "--PUSH0": 1, "-PUSH0-POP": 1, "PUSH0-POP-POP": 1, "POP-POP-STOP": 1 });
    assert_eq!(count("trigramTracer"), triples);
}
