//! Tests of `bench worst`, with every case on every layer at a small scale.

use super::{bench, number, states};
use crate::support::{Data, assert_fails};
use polytrie::layers::LAYERS;
use serde_json::Value;
use std::{collections::BTreeSet, fs};

/// Options for a state and blocks so small that they take no time.
const SMALL: &str = "--size 200k --slots 1000 --codes 3 --blocks 2 --gas 1 --runs 1";

fn list(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().unwrap().iter()
}

#[test]
fn every_case_runs_on_every_layer_cold_and_warm() {
    let data = Data::new();
    let [cache, json, svg] = ["cache", "worst.json", "worst.svg"].map(|name| data.file(name));
    let args = format!(
        "worst {SMALL} --states {} --json {:?} --svg {:?}",
        states(),
        json.display(),
        svg.display()
    );
    let run = bench(&cache, &args).ok();
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let cases: BTreeSet<_> = list(&report["cases"]).map(|case| case["name"].to_string()).collect();
    assert!(cases.len() > 12, "{cases:?}");
    let tests = list(&report["tests"]);
    // Each case has a cold and a warm test.
    assert_eq!(tests.len(), 2 * cases.len());
    for test in tests.clone() {
        let layers: BTreeSet<_> =
            list(&test["layers"]).map(|layer| layer["state"].as_str().unwrap()).collect();
        assert!(LAYERS.iter().all(|kind| layers.contains(kind.name)), "{test}");
    }
    // The blocks use the intended amount of gas, which is the same under every layer.
    for result in list(&report["results"]) {
        for (test, first) in list(&result["tests"]).zip(list(&report["results"][0]["tests"])) {
            // Cold tests report the reads of their first block, by which --cold judges them.
            assert_eq!(test["first_block"].is_object(), test["warm"] == false, "{test}");
            assert_eq!((&test["case"], &test["gas"]), (&first["case"], &first["gas"]));
            let gas = number(&test["gas"]);
            let case = test["case"].as_str().unwrap();
            let least = match case {
                "selfdestruct-large" => 0.0,
                // The last transaction is left out if it would exceed the limit.
                "deep-slots" | "deep-accounts" => 1_000_000.0,
                // A fifth of the gas is refunded for slots that are cleared.
                _ => 1_400_000.0,
            };
            assert!((least..=2_100_000.0).contains(&gas), "{test}");
        }
    }
    // The worst ratio comes first.
    let worst = |test: &Value| {
        let ratios = list(&test["layers"]).map(|layer| number(&layer["ratio_to_mpt"]));
        ratios.fold(f64::INFINITY, f64::min)
    };
    assert!(tests.clone().map(worst).is_sorted());
    assert!(run.text().contains("x mpt"), "{}", run.text());
    let map = fs::read_to_string(&svg).unwrap();
    assert_eq!(map.matches("class=\"h").count(), tests.len() * LAYERS.len());
}

#[test]
fn blocks_are_merged_and_cases_chosen() {
    let data = Data::new();
    let cache = data.file("cache");
    let args = format!(
        "worst {SMALL} --states raw --kv memory --merge 3 --filter ^same --memory-limit 1G --json -"
    );
    let report = bench(&cache, &args).ok().json();
    // A test on the engine in memory is never cold, so only the warm one is left.
    let tests = report["results"][0]["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 1);
    assert_eq!((&tests[0]["case"], &tests[0]["warm"]), (&"same-slot".into(), &true.into()));
    assert!((5_000_000.0..=6_300_000.0).contains(&number(&tests[0]["gas"])), "{}", tests[0]);
    assert_eq!(tests[0]["blocks"].as_array().unwrap().len(), 2);
    // The report states the memory limit of the runs.
    let notes = report["notes"].to_string();
    assert!(notes.contains("memory of each run: "), "{notes}");
    for (args, word) in [
        ("worst --filter nothing --states raw", "--list"),
        ("worst --filter ^same --states raw --gas 30M,60M,30", "--gas has 30M twice"),
        // The option is refused because the report would not say that the layer was slowed down on
        // purpose.
        (
            "worst --filter ^same --states raw --slow-down raw=10",
            "--slow-down is for `bench compare`",
        ),
        (
            "worst --filter ^same --states raw --kv memory --cold",
            "--cold does not go with raw on memory",
        ),
    ] {
        assert_fails(&bench(&cache, args), 2, &[word]);
    }
    // The reads of one slot and some senders are too few to prove that a test was cold.
    let cold = bench(&cache, &format!("worst {SMALL} --filter ^same --states raw --cold"));
    let words = ["run 1 of raw on mdbx cannot be called cold", "no test has read", "--filter"];
    assert_fails(&cold, 1, &words);
}

/// The blocks of each test are taken back, so `lmpt` does not come to a merge unless its interval is short.
#[test]
fn a_merge_that_is_put_off_has_a_note() {
    let data = Data::new();
    let cache = data.file("cache");
    for (more, merges) in [("", false), (" --lmpt.interval 1", true)] {
        let args =
            format!("worst {SMALL} --states raw,lmpt --kv memory --filter ^same --json -{more}");
        let report = bench(&cache, &args).ok().json();
        let notes = report["notes"].to_string();
        assert_ne!(notes.contains("lmpt has merged nothing"), merges, "{notes}");
    }
}

/// The blocks of a test are taken back before a layer has committed them to files of its own.
#[cfg(feature = "qmdb")]
#[test]
fn what_waits_for_files_beside_the_store_has_a_note() {
    let data = Data::new();
    let args = format!("worst {SMALL} --states raw,qmdb --filter ^same --json -");
    let notes = bench(&data.file("cache"), &args).ok().json()["notes"].to_string();
    assert!(notes.contains("qmdb on mdbx commits several blocks together"), "{notes}");
}
