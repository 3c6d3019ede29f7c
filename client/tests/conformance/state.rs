//! Tests of the runner for state tests: real tests pass, and a changed one fails with the right reason.

use crate::mistakes::{Place, assert_fails, assert_passes, outcome, reports, with_storage};
use polytrie::{conformance::Outcome, layers};
use serde_json::{Value, json};

/// The place of a test with one transaction, which writes storage.
const STATE: Place =
    ["eest-5.4.0-state-tests", "st/osaka/eip7939_count_leading_zeros", "test_clz_gas_cost.json"];

fn expectation(test: &mut Value) -> &mut Value {
    &mut test["post"]["Osaka"][0]
}

fn account_with_storage(test: &mut Value) -> &mut Value {
    with_storage(&mut expectation(test)["state"])
}

#[test]
fn unchanged_it_passes() {
    assert_passes(STATE);
}

#[test]
fn every_expectation_is_looked_at() {
    let other_hash = json!(format!("0x{}", "77".repeat(32)));
    for layer in layers::LAYERS {
        let fails = |reason: &str, change: &dyn Fn(&mut Value)| {
            assert_fails(STATE, layer.name, reason, change);
        };
        let says = match layer.canonical {
            true => "the layer says the state root is",
            false => "the accounts and slots at the end make the state root",
        };
        fails(says, &|test| expectation(test)["hash"] = other_hash.clone());
        fails("the logs have the hash", &|test| expectation(test)["logs"] = other_hash.clone());
        fails("was executed, expected it to be refused because of X", &|test| {
            expectation(test)["expectException"] = json!("X");
        });
        fails("the transaction was refused, expected it to be executed", &|test| {
            expectation(test)["txbytes"] = json!("0x00");
        });
        fails("the transaction was refused, expected it to be executed", &|test| {
            test["pre"] = json!({});
        });
        fails("is 0x", &|test| account_with_storage(test)["storage"]["0x7777"] = json!("0x77"));
        fails("expected nonce 77,", &|test| account_with_storage(test)["nonce"] = json!("0x4d"));
        fails("the header has no base fee", &|test| {
            test["env"].as_object_mut().expect("an object").remove("currentBaseFee");
        });
        fails("the network `Atlantis` is not known", &|test| {
            test["post"] = json!({"Atlantis": test["post"]["Osaka"]});
        });
        fails("the test does not parse", &|test| test["env"] = json!(1));
    }
}

/// The expected accounts are those before the transaction, so the state root is the only expectation that
/// can fail.
#[test]
fn a_transaction_that_is_refused_leaves_the_state_as_it_was() {
    for layer in layers::LAYERS {
        assert_fails(STATE, layer.name, "state root", |test| {
            let pre = test["pre"].clone();
            let expectation = expectation(test);
            expectation["txbytes"] = json!("0x00");
            expectation["expectException"] = json!("X");
            expectation["state"] = pre;
        });
    }
}

#[test]
fn each_transaction_counts() {
    let reports = reports(STATE, "mpt", |test| {
        let mut second = expectation(test).clone();
        second["indexes"]["data"] = json!(1);
        second["hash"] = json!(format!("0x{}", "77".repeat(32)));
        let third = expectation(test).clone();
        test["post"]["Osaka"].as_array_mut().expect("a list").push(second);
        test["post"]["Prague"] = json!([third]);
    });
    let Some(reports) = reports else { return };
    let found: Vec<_> = reports
        .iter()
        .map(|report| {
            let name = report.name.rsplit_once(']').expect("it has the name of the test").1;
            (name, report.network.as_deref(), matches!(report.outcome, Outcome::Passed))
        })
        .collect();
    assert_eq!(
        found[..2],
        [("/Osaka/d0g0v0", Some("Osaka"), true), ("/Osaka/d1g0v0", Some("Osaka"), false),]
    );
    // CLZ is an opcode of Osaka.
    assert_eq!(found[2], ("/Prague/d0g0v0", Some("Prague"), false));
}

#[test]
fn a_test_without_a_signed_transaction_is_skipped() {
    let skipped = outcome(STATE, "mpt", |test| {
        expectation(test).as_object_mut().expect("an object").remove("txbytes");
    });
    let Some(skipped) = skipped else { return };
    assert!(matches!(skipped, Outcome::Skipped(reason) if reason.contains("txbytes")));
}
