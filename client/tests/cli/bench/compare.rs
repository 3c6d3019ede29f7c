//! Tests of `bench compare`, which finds the layers that became slower.

use super::{bench, number, report};
use crate::{
    run::{Run, run},
    support::{Data, assert_fails},
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// Runs `bench compare` on two reports.
fn compare(a: &Path, b: &Path, more: &[&str]) -> Run {
    let mut args = vec![OsStr::new("bench"), OsStr::new("compare"), a.as_os_str(), b.as_os_str()];
    args.extend(more.iter().map(OsStr::new));
    run(&args, &[])
}

/// Writes a copy of a report in which every run has the throughput of a quiet machine times the factor of its layer.
/// Layers without an entry in `factors` take that of the name "".
fn scaled(report: &Path, name: &str, factors: &[(&str, f64)]) -> PathBuf {
    let mut value: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    for layer in value["layers"].as_array_mut().unwrap() {
        let of = |name: &str| factors.iter().find(|(state, _)| *state == name).map(|(_, f)| *f);
        let factor = of(layer["state"].as_str().unwrap()).or_else(|| of("")).unwrap_or(1.0);
        let runs = [0.99, 1.0, 1.01, 0.995, 1.005].map(|turn| 1000.0 * turn * factor);
        layer["throughput"]["runs"] = serde_json::json!(runs);
        layer["throughput"]["median"] = serde_json::json!(runs[1]);
        layer["throughput"]["min"] = serde_json::json!(runs[0]);
        layer["throughput"]["max"] = serde_json::json!(runs[2]);
        // Remove the ratios, as in reports that older versions wrote.
        layer.as_object_mut().unwrap().remove("ratios_to_mpt");
    }
    let path = report.with_file_name(name);
    fs::write(&path, value.to_string()).unwrap();
    path
}

/// Returns the verdict on each layer.
fn verdicts(difference: &Value) -> Vec<&str> {
    let layers = difference["layers"].as_array().unwrap();
    layers.iter().map(|layer| layer["verdict"].as_str().unwrap()).collect()
}

#[test]
fn a_slower_layer_is_found() {
    let data = Data::new();
    let cache = data.file("cache");
    let measured = report(&data, &cache, "a.json", "mpt,raw", "");
    let before = scaled(&measured, "before.json", &[]);
    let slower = scaled(&measured, "slower.json", &[("raw", 0.9)]);

    let same = compare(&before, &before, &["--fail-on-slower"]).ok();
    assert_eq!(same.text().matches("no significant change").count(), 2, "{}", same.text());
    assert!(same.text().contains("as fast in both reports"), "{}", same.text());
    let found = compare(&before, &slower, &[]).ok();
    for words in ["-10.0 %", "SLOWER", "two layers show that their ratio changed"] {
        assert!(found.text().contains(words), "`{words}` is missing in {}", found.text());
    }
    assert_fails(&compare(&before, &slower, &["--fail-on-slower"]), 1, &["raw/mdbx", "slower"]);
    let json = compare(&slower, &before, &["--json", "-", "--fail-on-slower"]).ok().json();
    assert_eq!(verdicts(&json), ["same", "faster"]);
    // Three runs each, which is the default, differ by chance in one of ten cases.
    let few = compare(&measured, &slower, &["--fail-on-slower"]).ok();
    for words in ["too few runs: cannot tell", "measure with --runs 5"] {
        assert!(few.text().contains(words), "`{words}` is missing in {}", few.text());
    }
    assert!(few.stderr.contains("--fail-on-slower cannot tell"), "{}", few.stderr);
    // In this form the parts of the time were those of all threads.
    let mut earlier: Value = serde_json::from_slice(&fs::read(&before).unwrap()).unwrap();
    earlier["format"] = 2.into();
    let earlier = compare(&data.write("earlier.json", earlier.to_string()), &before, &[]).ok();
    let said = "structure and engine, which cannot be compared, was \"that of all threads\"";
    assert!(earlier.text().contains(said), "{}", earlier.text());
    assert!(!same.text().contains("cannot be compared"), "{}", same.text());
    // A number has its unit.
    let with_memory = |gibibytes: u64| {
        let mut value: Value = serde_json::from_slice(&fs::read(&before).unwrap()).unwrap();
        value["machine"]["memory_bytes"] = (gibibytes << 30).into();
        data.write(&format!("{gibibytes}.json"), value.to_string())
    };
    let larger = compare(&with_memory(8), &with_memory(16), &[]).ok();
    assert!(larger.text().contains("GiB of memory was 8, is 16"), "{}", larger.text());
    // A slowdown of a tenth is below this threshold.
    compare(&before, &slower, &["--fail-on-slower", "--threshold", "15"]).ok();

    // The delay makes the layer five times slower, so four fifths of its time are the delay, however busy the machine
    // is. That of a block counts as a part of its commit, and that of the last flush as waiting for it.
    let slowed = report(&data, &cache, "b.json", "mpt,raw", "--slow-down raw=400");
    let value: Value = serde_json::from_slice(&fs::read(&slowed).unwrap()).unwrap();
    let raw = &value["layers"][1];
    let seconds = number(&raw["operations"]) / number(&raw["throughput"]["median"]);
    let added = number(&raw["time"]["commit"]) + number(&raw["time"]["flush_wait"]);
    assert!(added > 0.79 * seconds, "{added} of {seconds} s: {raw}");
    let said = fs::read_to_string(&slowed).unwrap();
    assert!(said.contains("raw was made 400 % slower on purpose"), "{said}");
    let nobody = bench(&cache, "store --states mpt --slow-down raw=400");
    assert_fails(&nobody, 2, &["--slow-down names `raw`, which is not measured"]);
}

#[test]
fn a_slower_machine_is_no_slower_layer() {
    let data = Data::new();
    let cache = data.file("cache");
    let measured = report(&data, &cache, "a.json", "mpt,raw,replica", "");
    let before = scaled(&measured, "before.json", &[]);
    let machine = scaled(&measured, "machine.json", &[("", 0.7)]);
    let both = scaled(&measured, "both.json", &[("", 0.7), ("raw", 0.63)]);

    let drift = compare(&before, &machine, &["--fail-on-slower"]).ok();
    assert!(drift.text().contains("everything was 30.0 % slower"), "{}", drift.text());
    assert_eq!(drift.text().matches("no significant change").count(), 3, "{}", drift.text());
    let json = compare(&before, &both, &["--json", "-"]).ok().json();
    assert_eq!(verdicts(&json), ["same", "slower", "same"]);
    assert!((number(&json["machine"]) - 0.7).abs() < 1e-9, "{json}");
    let raw = &json["layers"][1];
    assert!((number(&raw["ratio"]) - 0.63).abs() < 1e-9, "{raw}");
    assert!((number(&raw["relative"]["ratio"]) - 0.9).abs() < 1e-9, "{raw}");

    // A report of one layer has no ratios, so its throughputs are compared.
    let mut alone: Value = serde_json::from_slice(&fs::read(&machine).unwrap()).unwrap();
    alone["layers"].as_array_mut().unwrap().truncate(1);
    let alone = data.write("alone.json", alone.to_string());
    let json = compare(&before, &alone, &["--json", "-"]).ok().json();
    assert_eq!(verdicts(&json), ["slower"]);
    assert!(json["machine"].is_null() && json["layers"][0]["relative"].is_null());
    let notes = json["notes"].to_string();
    assert!(notes.contains("one layer alone") && notes.contains("only in the first"), "{notes}");

    // A page can be made from an older report, too.
    let html = data.file("html");
    let page = [OsStr::new("bench"), OsStr::new("page"), before.as_os_str(), OsStr::new("--html")];
    run(&[&page[..], &[html.as_os_str()]].concat(), &[]).ok();
}

#[test]
fn what_cannot_be_compared() {
    let data = Data::new();
    let cache = data.file("cache");
    let a = report(&data, &cache, "a.json", "mpt,raw", "");
    let b = report(&data, &cache, "b.json", "mpt,raw", "--seed 2");
    assert_fails(&compare(&a, &b, &[]), 1, &["seed is 1 in the first and 2 in the second"]);
    let other = data.write("other.json", "{\"format\": 77}");
    assert_fails(&compare(&a, &other, &[]), 1, &["other.json", "format 77"]);
    let other = data.write("text.json", "no json");
    assert_fails(&compare(&other, &a, &[]), 1, &["text.json is not a report"]);
    assert_fails(&compare(&a, Path::new("/no/such.json"), &[]), 3, &["/no/such.json"]);
}
