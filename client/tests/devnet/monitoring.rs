//! Tests that the documentation and the dashboard of the metrics fit the answers of a node.

use crate::support::{ALICE, BOB, Devnet, args, layers};
use regex::Regex;
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

/// Reads a file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn all(pattern: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).unwrap();
    pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn catalogue_and_dashboard_name_what_there_is() {
    let catalogue = all(r"(?m)^\| `((?:polytrie|process)_\w+)`", &read("client/METRICS.md"));
    let dashboard: Value =
        serde_json::from_str(&read("scripts/monitoring/grafana/dashboards/devnet.json")).unwrap();
    let mut expressions = String::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            expressions += target["expr"].as_str().unwrap();
            expressions.push('\n');
        }
    }
    let shown = all(r"((?:polytrie|process)_\w+)", &expressions);
    for layer in layers() {
        let node = Devnet::start(layer, args![]);
        node.send(ALICE, BOB, 1);
        let (_, answer) = node.get("/metrics");
        let there = all(r"(?m)^# TYPE (\w+) ", &answer);
        assert_eq!(catalogue, there, "{layer}: METRICS.md and /metrics");
        assert_eq!(shown, there, "{layer}: the dashboard and /metrics");
        let with_values = all(r"(?m)^(\w+)(?:\{[^}]*\})? [-+.e\d]+$", &answer);
        let silent: Vec<_> = there.difference(&with_values).collect();
        assert!(silent.iter().all(|name| *name == "polytrie_layer_figure"), "{layer}: {silent:?}");
        // The figures of the layer are described, too.
        let figures = all(r#"polytrie_layer_figure\{figure="(\w+)"\}"#, &answer);
        let described = read("client/METRICS.md");
        for figure in figures {
            assert!(described.contains(&format!("`{figure}`")), "{layer}: {figure}");
        }
    }
}
