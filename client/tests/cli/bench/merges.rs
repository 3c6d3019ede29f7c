//! Tests that the work which layers put off is part of a benchmark, or named: the merges of `lmpt`, the nodes of `rain`.

use super::{bench, parts};
use crate::support::Data;
use serde_json::Value;
use std::fs;

/// Returns the report of a run on the engine in memory as JSON.
fn merged(args: &str) -> Value {
    let data = Data::new();
    let report = bench(&data.file("cache"), &format!("{args} --runs 1 --kv memory --json -"));
    report.ok().json()
}

/// Returns the interval of a report, which stands in its settings.
fn interval(report: &Value) -> &Value {
    &report["settings"]["layer"]["lmpt"]["interval"]
}

/// In every kind of run `lmpt` merges while it is measured, and the report says with which interval.
#[test]
fn merges_are_measured() {
    let trace = Data::new();
    let rows: Vec<_> = (1..=9)
        .map(|block| {
            format!(
                "B,{block},0,{block},00000000000000000000000000000000000000aa,,{block},{}",
                block + 1
            )
        })
        .collect();
    let file = trace.write("trace.csv", rows.join("\n") + "\n");
    let replay = format!("store --trace {:?} --rounds 2 --warmup 3", file.display());
    let cases = [
        // The first four of 40 blocks are the warm-up.
        ("chain --workload transfer --accounts 30 --txs 80 --block-txs 2", 4, 10),
        ("store --keys 200 --ops 50 --blocks 6", 2, 4),
        ("store --keys 200 --ops 50 --blocks 12 --warmup 3", 3, 5),
        // A warm-up longer than the run leaves half of the blocks to be measured.
        ("store --keys 200 --ops 50 --blocks 8 --warmup 9", 4, 4),
        (&replay, 3, 6),
    ];
    for (args, expected, merges) in cases {
        let report = merged(&format!("{args} --states raw,lmpt"));
        assert_eq!(interval(&report), expected, "{args}");
        let notes = report["notes"].to_string();
        assert!(notes.contains(&format!("--lmpt.interval {expected}")), "{notes}");
        assert!(!notes.contains("merged nothing"), "{notes}");
        let (_, results) = parts(&report);
        assert!(results[1]["layer"]["merges"] == merges, "{args}: {report}");
        assert!(results[0]["layer"].is_null());
    }
    let without = merged("store --keys 200 --ops 50 --blocks 6 --states raw");
    assert!(interval(&without).is_null() && !without["notes"].to_string().contains("lmpt"));
}

/// A prepared store holds no block yet, so one store serves every interval.
#[test]
fn stores_of_lmpt_are_filled_once() {
    let data = Data::new();
    let cache = data.file("cache");
    for interval in [2, 3] {
        let args = "store --states lmpt --keys 100 --ops 5 --blocks 7 --runs 1 --lmpt.interval";
        bench(&cache, &format!("{args} {interval}")).ok();
    }
    let names = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name());
    let stores = names.filter(|name| name.to_string_lossy().starts_with("store-lmpt"));
    assert_eq!(stores.count(), 1);
}

/// An interval that the user gives is kept. If `lmpt` would merge only after the last block, the report says so and
/// names an interval with which the merge is measured.
#[test]
fn a_run_without_a_merge_says_so() {
    let small = "store --keys 200 --ops 50 --blocks 4 --states raw,lmpt --lmpt.interval";
    for (given, is_merged) in [(1, true), (4, true), (5, false), (1000, false)] {
        let report = merged(&format!("{small} {given}"));
        assert_eq!(interval(&report), given);
        let notes = report["notes"].to_string();
        assert_ne!(notes.contains("lmpt has merged nothing"), is_merged, "{given}: {notes}");
    }
}

/// The shards of `rain` take turns to write their nodes, and few of them have one in a short run.
#[test]
fn nodes_that_were_not_written_have_a_note() {
    let chain = "chain --workload transfer --accounts 30 --block-txs 1 --states raw,rain --txs";
    for (args, is_short) in [
        ("store --keys 200 --ops 50 --blocks 4 --states raw,rain".to_owned(), true),
        (format!("{chain} 111"), true),
        (format!("{chain} 112"), false),
    ] {
        let notes = merged(&args)["notes"].to_string();
        assert_eq!(notes.contains("rain has put off writing nodes"), is_short, "{args}: {notes}");
    }
}
