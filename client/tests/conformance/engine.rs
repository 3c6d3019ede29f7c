//! Tests of the runner for payloads of the Engine API: real tests pass, and a changed one fails
//! with the right reason.

use crate::mistakes::{Place, assert_fails, assert_passes, outcome};
use polytrie::{conformance::Outcome, layers};
use serde_json::{Value, json};

/// The place of a test with one valid payload.
const PAYLOAD: Place = [
    "eest-benchmark-engine",
    "benchmark/blockchain_tests_engine/benchmark/compute/scenario/transaction_types",
    "empty_block.json",
];

fn call(test: &mut Value) -> &mut Value {
    &mut test["engineNewPayloads"][0]
}

fn payload(test: &mut Value) -> &mut Value {
    &mut call(test)["params"][0]
}

/// Changes the test so that it expects its payload to have no effect.
fn without_effect(test: &mut Value) {
    test["lastblockhash"] = test["genesisBlockHeader"]["hash"].clone();
    test["postState"] = test["pre"].clone();
}

/// Changes the test so that it expects its call to be refused with this error code.
fn refused(test: &mut Value, code: &str) {
    without_effect(test);
    call(test)["errorCode"] = json!(code);
}

/// Changes the test so that it expects its payload to be invalid.
fn invalid(test: &mut Value) {
    without_effect(test);
    call(test)["validationError"] = json!("X");
}

#[test]
fn unchanged_it_passes() {
    assert_passes(PAYLOAD);
}

#[test]
fn every_expectation_is_looked_at() {
    let other_hash = json!(format!("0x{}", "77".repeat(32)));
    for layer in layers::LAYERS {
        let fails = |reason: &str, change: &dyn Fn(&mut Value)| {
            assert_fails(PAYLOAD, layer.name, reason, change);
        };
        fails("block 0 was refused, expected it to be valid: the payload makes", &|test| {
            payload(test)["blockHash"] = other_hash.clone();
        });
        fails("block 0 was accepted, expected it to be refused because of X", &|test| {
            call(test)["validationError"] = json!("X");
        });
        fails("call 0 was answered, expected it to be refused with the code -32602", &|test| {
            refused(test, "-32602")
        });
        fails("the head is block 1", &|test| test["lastblockhash"] = other_hash.clone());
        fails("there is an account that should not be there", &|test| {
            test["postState"] = json!({});
        });
        fails("the genesis header has the hash", &|test| {
            test["genesisBlockHeader"]["timestamp"] = json!("0x01");
        });
        fails("the network `Atlantis` is not known", &|test| test["network"] = json!("Atlantis"));
        fails("the test does not parse", &|test| test["engineNewPayloads"] = json!(1));
        fails("call 0 does not say", &|test| call(test)["errorCode"] = json!("X"));
    }
}

/// Each changed call is refused with the error code of the Engine API.
#[test]
fn a_call_is_refused_for_the_right_reason() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 13] = [
        ("-32602", |test| payload(test)["blobGasUsed"] = Value::Null),
        ("-32602", |test| payload(test)["slotNumber"] = json!("0x1")),
        ("-32602", |test| payload(test)["gasLimit"] = json!("what")),
        ("-32602", |test| payload(test)["timestamp"] = Value::Null),
        ("-32602", |test| call(test)["params"] = json!([])),
        ("-32602", |test| call(test)["params"][2] = Value::Null),
        ("-32602", |test| call(test)["params"].as_array_mut().expect("a list").truncate(3)),
        ("-32602", |test| call(test)["params"][3] = json!(["0x01"])),
        ("-32602", |test| call(test)["params"][3] = json!(["0x02aa", "0x01aa"])),
        ("-32602", |test| call(test)["params"][3] = json!(["0x01aa", "0x01ab"])),
        ("-32602", |test| call(test)["newPayloadVersion"] = json!("9")),
        // Version 2 has no blobs, and version 5 needs a block access list.
        ("-32602", |test| call(test)["newPayloadVersion"] = json!("2")),
        ("-38005", |test| {
            call(test)["newPayloadVersion"] = json!(3);
            call(test)["params"].as_array_mut().expect("a list").truncate(3);
        }),
    ];
    for (index, (code, change)) in changes.into_iter().enumerate() {
        let refused_as = |code| {
            outcome(PAYLOAD, "mpt", |test| {
                refused(test, code);
                change(test);
            })
        };
        let Some(outcome) = refused_as(code) else { return };
        assert_eq!(outcome, Outcome::Passed, "change {index}");
        let words = format!("call 0 was refused with the code {code} (");
        let Some(Outcome::Failed(reason)) = refused_as("-1") else {
            panic!("change {index} passes with another code")
        };
        assert!(reason.starts_with(&words), "change {index}: {reason}");
        // In the call of index 4 the payload is missing, so the test can expect no other answer.
        if index != 4 {
            assert_fails(PAYLOAD, "mpt", &words, change);
        }
    }
}

#[test]
fn a_payload_is_invalid_for_the_right_reason() {
    type Change = fn(&mut Value);
    let other = || json!(format!("0x{}", "77".repeat(32)));
    let changes: [Change; 6] = [
        |test| payload(test)["blockHash"] = json!(format!("0x{}", "77".repeat(32))),
        |test| payload(test)["gasUsed"] = json!("0x1"),
        |test| payload(test)["transactions"] = json!(["0x"]),
        |test| payload(test)["extraData"] = json!(format!("0x{}", "00".repeat(33))),
        |test| call(test)["params"][3] = json!(["0x01aa"]),
        |test| call(test)["params"][1] = json!([format!("0x{}", "77".repeat(32))]),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        for layer in layers::LAYERS {
            let outcome = outcome(PAYLOAD, layer.name, |test| {
                invalid(test);
                change(test);
            });
            let Some(outcome) = outcome else { return };
            assert_eq!(outcome, Outcome::Passed, "change {index} under {}", layer.name);
        }
        assert_fails(PAYLOAD, "mpt", "block 0 was refused, expected it to be valid", |test| {
            payload(test)["parentHash"] = other();
            change(test);
        });
    }
}
