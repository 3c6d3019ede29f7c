//! Tests that the runner can fail: a real test that is changed in one place must fail for that reason.

use polytrie::{
    conformance::{self, ConformanceError, ConformanceOptions, Outcome, TestReport},
    layers::{self, LayerOptions},
};
use polytrie_testing::for_each_in_suite;
use serde_json::{Value, json};
use std::fs;

/// The place of a real test: its suite, the folder in the suite, and the file in the folder.
pub(crate) type Place = [&'static str; 3];

/// The place of a test with code, storage and one valid block.
const BLOCKS: Place =
    ["eest-prague", "blockchain_tests/cancun/eip1153_tstore/basic_tload", "basic_tload_works.json"];

/// Returns the name and the content of the first test of a file. `None` if the suite is absent.
fn real_test(place: Place) -> Option<(String, Value)> {
    let [suite, folder, file] = place;
    let mut found = None;
    for_each_in_suite(suite, folder, |path, bytes| {
        if path.ends_with(file) {
            let tests: serde_json::Map<String, Value> =
                serde_json::from_slice(bytes).expect("a fixture is JSON");
            found = tests.into_iter().next();
        }
    })?;
    Some(found.expect("the test is in the suite"))
}

pub(crate) fn run(content: &str, layer: &str) -> Vec<TestReport> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("test.json");
    fs::write(&file, content).expect("a file can be written");
    let layer = layers::layer(layer).expect("the layer is compiled in");
    let layer_options = LayerOptions::for_tests();
    let options =
        ConformanceOptions { places: vec![file], layer, layer_options, jobs: 1, filter: None };
    let mut reports = Vec::new();
    let result = conformance::run(&options, |file| {
        reports.extend(file.tests);
        Ok::<_, ConformanceError>(())
    });
    match result {
        Ok(_) | Err(ConformanceError::NoTests { .. }) => reports,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the reports on a real test after `change`, under `layer`. `None` if the suite is absent.
pub(crate) fn reports(
    place: Place,
    layer: &str,
    change: impl FnOnce(&mut Value),
) -> Option<Vec<TestReport>> {
    let (name, mut test) = real_test(place)?;
    change(&mut test);
    Some(run(&json!({ name: test }).to_string(), layer))
}

/// Returns the outcome of a file with one test. `None` if the suite is absent.
pub(crate) fn outcome(
    place: Place,
    layer: &str,
    change: impl FnOnce(&mut Value),
) -> Option<Outcome> {
    let reports = reports(place, layer, change)?;
    assert_eq!(reports.len(), 1);
    Some(reports.into_iter().next().expect("there is one").outcome)
}

#[track_caller]
pub(crate) fn assert_fails(
    place: Place,
    layer: &str,
    reason: &str,
    change: impl FnOnce(&mut Value),
) {
    match outcome(place, layer, change) {
        None => {}
        Some(Outcome::Failed(found)) => {
            assert!(found.contains(reason), "{layer}: {found}; expected {reason}");
            assert!(!found.contains('\n'), "{found}");
        }
        Some(other) => panic!("{layer}: {other:?}, expected a failure: {reason}"),
    }
}

/// Checks that the test passes under every layer as it is.
pub(crate) fn assert_passes(place: Place) {
    for layer in layers::LAYERS {
        if let Some(outcome) = outcome(place, layer.name, |_| {}) {
            assert_eq!(outcome, Outcome::Passed, "{}", layer.name);
        }
    }
}

/// Returns an account with storage among those of a post-state.
pub(crate) fn with_storage(post_state: &mut Value) -> &mut Value {
    let accounts = post_state.as_object_mut().expect("there is a post-state");
    accounts
        .values_mut()
        .find(|account| account["storage"].as_object().is_some_and(|slots| !slots.is_empty()))
        .expect("some account has storage")
}

fn account_with_storage(test: &mut Value) -> &mut Value {
    with_storage(&mut test["postState"])
}

#[test]
fn unchanged_it_passes() {
    assert_passes(BLOCKS);
}

#[test]
fn every_expectation_is_looked_at() {
    for layer in layers::LAYERS {
        let fails = |reason: &str, change: &dyn Fn(&mut Value)| {
            assert_fails(BLOCKS, layer.name, reason, change);
        };
        let other_hash = json!(format!("0x{}", "77".repeat(32)));
        fails("the head is block 1", &|test| test["lastblockhash"] = other_hash.clone());
        fails("block 0 has the hash", &|test| {
            test["blocks"][0]["blockHeader"]["hash"] = other_hash.clone()
        });
        fails("the genesis header has the hash", &|test| {
            test["genesisBlockHeader"]["timestamp"] = json!("0x01");
        });
        fails("block 0 was accepted, expected it to be refused because of X", &|test| {
            test["blocks"][0]["expectException"] = json!("X");
        });
        fails("the network `Atlantis` is not known", &|test| test["network"] = json!("Atlantis"));
        fails("the test does not parse", &|test| test["pre"] = json!(1));
        fails("is missing", &|test| {
            let address = format!("0x{}", "99".repeat(20));
            test["postState"][address] =
                json!({"nonce": "0x01", "balance": "0x01", "code": "0x", "storage": {}});
        });
        fails("there is an account that should not be there", &|test| {
            let accounts = test["postState"].as_object_mut().expect("there is a post-state");
            let address = accounts.keys().next().expect("it has accounts").clone();
            accounts.remove(&address);
        });
        fails("expected nonce 77,", &|test| account_with_storage(test)["nonce"] = json!("0x4d"));
        fails("code hash", &|test| account_with_storage(test)["code"] = json!("0x00"));
        fails("is 0x0, expected 0x77", &|test| {
            account_with_storage(test)["storage"]["0x7777"] = json!("0x77");
        });
        fails("expected 0x0", &|test| account_with_storage(test)["storage"] = json!({}));
        fails("the accounts and slots at the end make the state root", &|test| {
            test.as_object_mut().expect("a test is an object").remove("postState");
            test["postStateHash"] = other_hash.clone();
        });
    }
}

#[test]
fn a_wrong_pre_state_is_noticed() {
    for layer in layers::LAYERS {
        let reason = if layer.canonical { "state root" } else { "block 0 was refused" };
        assert_fails(BLOCKS, layer.name, reason, |test| {
            let accounts = test["pre"].as_object_mut().expect("there is a pre-state");
            let address = format!("0x{}", "99".repeat(20));
            accounts.insert(
                address,
                json!({"nonce": "0x01", "balance": "0x01", "code": "0x", "storage": {}}),
            );
        });
    }
}

#[test]
fn what_is_not_a_test_is_skipped() {
    for content in [
        r#"{"a filler": {"env": {}, "pre": {}, "transaction": {}, "expect": []}}"#,
        r#"{"of a shared state": {"network": "Cancun", "preHash": "0x00", "engineNewPayloads": []}}"#,
        r#"{"text": "of no use"}"#,
        "[1, 2, 3]",
    ] {
        let reports = run(content, "mpt");
        assert_eq!(reports.len(), 1, "{content}");
        assert!(
            matches!(&reports[0].outcome, Outcome::Skipped(reason) if reason.starts_with("not a ")),
            "{content}"
        );
    }
    let reports = run(r#"{"cut": {"blocks": ["#, "mpt");
    assert!(matches!(&reports[0].outcome, Outcome::Failed(reason) if reason.contains("not JSON")));
}
