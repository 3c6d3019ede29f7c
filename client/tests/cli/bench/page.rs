//! Tests of the page that `bench --html` and `bench page` write.

use super::{bench, report};
use crate::{
    run::{polytrie, run},
    support::{Data, assert_fails},
};
use serde_json::{Value, json};
use std::{ffi::OsStr, fs};

/// A statement that several reports share appears once on the page.
#[test]
fn a_page_says_nothing_twice() {
    let data = Data::new();
    let file = report(&data, &data.file("cache"), "a.json", "raw", "");
    let mut value: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    value["notes"] = serde_json::json!(["the first note", "the second note"]);
    fs::write(&file, value.to_string()).unwrap();
    let html = data.file("html");
    let page = ["bench", "page"].map(OsStr::new);
    let of = [file.as_os_str(), file.as_os_str(), OsStr::new("--html"), html.as_os_str()];
    run(&[&page[..], &of].concat(), &[]).ok();
    let page = fs::read_to_string(html.join("index.html")).unwrap();
    for note in ["the first note", "the second note"] {
        assert_eq!(page.matches(note).count(), 1, "{note}");
    }
}

/// The page says of the first report how it was measured, and of each other one what differs from that.
#[test]
fn what_differs_between_reports_is_named() {
    let data = Data::new();
    let file = report(&data, &data.file("cache"), "a.json", "raw", "");
    let mut value: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    value["runs"] = 5.into();
    let (other, html) = (data.write("b.json", value.to_string()), data.file("html"));
    let run = polytrie!["bench", "page", file, other, "--html", html, "--json", "-"].ok();
    assert_eq!(run.json(), json!({ "page": html.join("index.html"), "svg": null }));
    let page = fs::read_to_string(html.join("index.html")).unwrap();
    assert!(page.contains("runs is 5, not 3"), "{page}");
}

/// Reports of the same blocks under a limit of memory and without one have titles of their own, and are not joined by a
/// line as if only the size of the state differed.
#[test]
fn limits_of_memory_are_kept_separate() {
    let data = Data::new();
    let file = report(&data, &data.file("cache"), "a.json", "raw", "");
    let mut value: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let mut of = |name: &str, keys: u64, limit: Value| {
        value["parameters"]["keys"] = keys.into();
        value["memory_limit"] = limit;
        data.write(name, value.to_string())
    };
    let limit = json!({ "bytes": 2_u64 << 30, "by": "cgroup" });
    let (small, large) = (of("small.json", 300, Value::Null), of("large.json", 900, Value::Null));
    let bounded = [of("small-2g.json", 300, limit.clone()), of("large-2g.json", 900, limit)];
    let html = data.file("html");
    polytrie!["bench", "page", small, large, bounded[0], bounded[1], "--html", html].ok();
    let page = fs::read_to_string(html.join("index.html")).unwrap();
    for title in [
        "<h2>Over the size of the state: bench store</h2>",
        "<h2>Over the size of the state: bench store, 2,048 MiB of memory</h2>",
        "<h2>bench store, 300 keys</h2>",
        "<h2>bench store, 900 keys, 2,048 MiB of memory</h2>",
    ] {
        assert_eq!(page.matches(title).count(), 1, "`{title}` in {page}");
    }
    polytrie!["bench", "page", small, bounded[1], "--html", html].ok();
    let page = fs::read_to_string(html.join("index.html")).unwrap();
    assert!(!page.contains("Over the size of the state"), "{page}");
}

/// Ten layers have eight colours, so the lines of the last two are dashed.
#[test]
fn no_two_lines_look_alike() {
    let data = Data::new();
    let file = report(&data, &data.file("cache"), "a.json", "raw", "");
    let mut value: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for part in ["layers", "results"] {
        let (of_raw, all) = (value[part].clone(), value[part].as_array_mut().unwrap());
        all.clear();
        for number in 0..10 {
            let renamed = of_raw.as_array().unwrap().iter().map(|entry| {
                let mut entry = entry.clone();
                entry["state"] = format!("layer {number}").into();
                entry
            });
            all.extend(renamed);
        }
    }
    let (ten, html) = (data.write("ten.json", value.to_string()), data.file("html"));
    polytrie!["bench", "page", ten, "--html", html].ok();
    let page = fs::read_to_string(html.join("index.html")).unwrap();
    for class in ["line c0", "line c1", "line c7", "line c0 dashed", "line c1 dashed"] {
        // The plot is there for wide and for narrow screens.
        assert_eq!(page.matches(&format!("class=\"{class}\"")).count(), 2, "{class}");
    }
}

/// If one output cannot be written, the others still are.
#[test]
fn a_result_is_written_wherever_it_can_be() {
    let data = Data::new();
    let (csv, json) = (data.file("csv"), data.file("result.json"));
    // Create a directory in the place of an output file.
    fs::create_dir_all(csv.join("raw-memory-1.csv")).unwrap();
    let args = format!(
        "store --states raw --kv memory --keys 20 --blocks 1 --ops 5 --runs 1 --csv {:?} --json {:?}",
        csv.display(),
        json.display()
    );
    let run = bench(&data.file("cache"), &args);
    assert_fails(&run, 3, &["raw-memory-1.csv"]);
    assert!(run.text().contains("raw/memory") && json.exists(), "{}", run.text());
}

/// A page describes the runs as they were made.
#[test]
fn a_page_tells_what_was_run() {
    let data = Data::new();
    let file = report(&data, &data.file("cache"), "a.json", "raw", "");
    let measured: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let html = data.file("html");
    let page = |bench: &str, parameters: Value| {
        let mut value = measured.clone();
        value["bench"] = bench.into();
        value["parameters"] = parameters;
        let file = data.write("changed.json", value.to_string());
        polytrie!["bench", "page", file, "--html", html].ok();
        fs::read_to_string(html.join("index.html")).unwrap()
    };
    let keys = "20 random keys of those that are there";
    for (mode, said) in [
        (None, format!("each of 2 blocks read {keys} and wrote each right after")),
        (Some("read"), format!("each of 2 blocks read {keys}, and was on disk")),
        (Some("write"), format!("each of 2 blocks wrote {keys}, and was on disk")),
    ] {
        let mut parameters = json!({ "keys": 9, "blocks": 2, "ops": 20 });
        if let Some(mode) = mode {
            parameters["mode"] = mode.into();
        }
        let page = page("store", parameters);
        assert!(page.contains(&said), "no `{said}` in {page}");
        // Layers alone use no gas.
        assert!(!page.contains("the gas of every block"), "{page}");
        assert!(page.contains("the values that it read"), "{page}");
    }
    for (recover, said) in [(false, "the senders known"), (true, "recovered on other threads")] {
        let page = page("chain", json!({ "workload": "erc20", "txs": 9, "recover": recover }));
        assert!(page.contains(said), "no `{said}` in {page}");
        assert!(page.contains("the gas of every block"), "{page}");
    }
    let page = page("trace", json!({ "transactions": 3, "operations": 5, "rounds": 4 }));
    assert!(page.contains("5 of them in each of 4 rounds"), "{page}");
}

#[test]
fn a_page_and_lines_for_each_block() {
    let data = Data::new();
    let (cache, html, csv) = (data.file("cache"), data.file("html"), data.file("csv"));
    let args = format!(
        "chain --states mpt,raw --workload mixed --accounts 60 --txs 100 --block-txs 10 --runs 2 --html {:?} --csv {:?}",
        html.display(),
        csv.display()
    );
    bench(&cache, &args).ok();
    let page = fs::read_to_string(html.join("index.html")).unwrap();
    let comparison = "what accounts of the last blocks hold";
    for words in [
        "<svg",
        "How fast",
        "Where the time goes",
        "prefers-color-scheme: dark",
        "--workload mixed",
        "bytes to the device/tx",
        "proof bytes",
        comparison,
    ] {
        assert!(page.contains(words), "`{words}` is missing");
    }
    // The page loads nothing from other files.
    for reference in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(reference), "the page refers to something with {reference}");
    }
    let text = fs::read_to_string(csv.join("raw-mdbx-2.csv")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    // The first of ten blocks is the warm-up.
    assert_eq!((lines[0], lines.len()), ("block_number,blocks,slot,txs,gas,time", 10));
    assert!(lines[1].starts_with("2,1,,10,"), "{}", lines[1]);

    // Make the page again from the written reports, and one page from several reports.
    let second = data.file("second");
    let first = data.file("first.json");
    fs::copy(html.join("report.json"), &first).unwrap();
    let larger = data.file("larger.json");
    let args = args.replace("--accounts 60", "--accounts 80");
    bench(&cache, &format!("{args} --json {:?}", larger.display())).ok();
    // Change the report so that it seems to come from another machine.
    let mut elsewhere: Value = serde_json::from_slice(&fs::read(&larger).unwrap()).unwrap();
    elsewhere["threads"] = 4321.into();
    fs::write(&larger, elsewhere.to_string()).unwrap();
    run(
        &[
            OsStr::new("bench"),
            OsStr::new("page"),
            first.as_os_str(),
            larger.as_os_str(),
            OsStr::new("--html"),
            second.as_os_str(),
        ],
        &[],
    )
    .ok();
    let page = fs::read_to_string(second.join("index.html")).unwrap();
    assert!(page.contains("Over the size of the state"));
    assert!(page.contains("mixed, 80 accounts: threads is 4321, not "), "{page}");

    // The picture is a separate file with the fastest layer first, for light and dark themes.
    let svg = data.file("fast.svg");
    polytrie!["bench", "page", first, "--svg", svg].ok();
    let picture = fs::read_to_string(&svg).unwrap();
    let mut report: Value = serde_json::from_slice(&fs::read(&first).unwrap()).unwrap();
    let speed = |layer: usize| report["layers"][layer]["throughput"]["median"].as_f64().unwrap();
    let place = |name: &str| picture.find(&format!(">{name}</text>")).unwrap();
    assert_eq!(place("raw") < place("mpt"), speed(1) > speed(0));
    for words in ["<svg", "prefers-color-scheme: dark", "tx/s"] {
        assert!(picture.starts_with("<svg") && picture.contains(words), "{words}: {picture}");
    }
    assert!(!picture.contains("<script"));

    // A report of a build that made no proofs and did not read accounts at the end.
    for result in report["results"].as_array_mut().unwrap() {
        for field in ["checksum", "device", "proofs"] {
            result.as_object_mut().unwrap().remove(field);
        }
    }
    let earlier = data.write("earlier.json", report.to_string());
    polytrie!["bench", "page", earlier, "--html", second].ok();
    let page = fs::read_to_string(second.join("index.html")).unwrap();
    assert!(!page.contains("proof bytes") && !page.contains(comparison), "{page}");
    polytrie!["bench", "compare", earlier, first].ok();

    assert_eq!(polytrie!["bench", "page", first].code, Some(2));
    assert_eq!(polytrie!["bench", "page", first, "--svg", first].code, Some(2));
    let run = polytrie!["bench", "page", first, "--html", html, "--svg", html.join("index.html")];
    assert_fails(&run, 2, &["--html", "the same file as that of --svg"]);
    // Wrong usage writes nothing.
    let unmade = data.file("unmade.svg");
    let run = polytrie!["bench", "page", first, "--svg", unmade, "--html", "-"];
    assert_fails(&run, 2, &["--html - is standard output"]);
    assert!(!unmade.exists());
}
