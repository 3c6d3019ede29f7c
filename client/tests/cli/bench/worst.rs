//! Tests of `bench worst`, with every case on every layer at a small scale.

use super::{Data, bench, number, states};
use polytrie::layers::LAYERS;
use std::{collections::BTreeSet, fs};

/// Options for a state and blocks so small that they take no time.
const SMALL: &str = "--size 200k --slots 1000 --codes 3 --blocks 2 --gas 1 --runs 1";

#[test]
fn every_case_runs_on_every_layer_cold_and_warm() {
    let (data, cache) = (Data::new(), Data::new());
    let (json, svg) = (data.file("worst.json"), data.file("worst.svg"));
    let args = format!(
        "worst {SMALL} --states {} --json {} --svg {}",
        states(),
        json.display(),
        svg.display()
    );
    let run = bench(&cache.path(), &args).ok();
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let cases: BTreeSet<_> =
        report["cases"].as_array().unwrap().iter().map(|case| case["name"].to_string()).collect();
    assert!(cases.len() > 12, "{cases:?}");
    let tests = report["tests"].as_array().unwrap();
    // Each case is measured cold and warm.
    assert_eq!(tests.len(), 2 * cases.len());
    for test in tests {
        let layers: BTreeSet<_> = test["layers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|layer| layer["state"].as_str().unwrap().to_owned())
            .collect();
        assert!(LAYERS.iter().all(|kind| layers.contains(kind.name)), "{test}");
    }
    // The blocks use the resource of their case, and the same amount on every layer.
    for result in report["results"].as_array().unwrap() {
        for (test, first) in result["tests"]
            .as_array()
            .unwrap()
            .iter()
            .zip(report["results"][0]["tests"].as_array().unwrap())
        {
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
    // The test with the worst ratio comes first.
    let worst = |test: &serde_json::Value| {
        let layers = test["layers"].as_array().unwrap().iter();
        layers.map(|layer| number(&layer["ratio_to_mpt"])).fold(f64::INFINITY, f64::min)
    };
    assert!(tests.iter().map(worst).is_sorted());
    assert!(run.text().contains("x mpt"), "{}", run.text());
    let map = fs::read_to_string(&svg).unwrap();
    assert_eq!(map.matches("class=\"h").count(), tests.len() * LAYERS.len());
}

#[test]
fn blocks_are_merged_and_cases_chosen() {
    let (data, cache) = (Data::new(), Data::new());
    let json = data.file("worst.json");
    let args = format!(
        "worst {SMALL} --states raw --kv memory --merge 3 --filter ^same --memory-limit 1G --json {}",
        json.display()
    );
    bench(&cache.path(), &args).ok();
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    // A store in memory is only measured warm.
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
        crate::support::assert_fails(&bench(&cache.path(), args), 2, &[word]);
    }
}
