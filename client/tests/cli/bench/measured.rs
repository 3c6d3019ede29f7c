//! Tests of the reports of `bench store`, `bench chain` and `bench paper`.

use super::{bench, number, parts, states};
use crate::{
    run::{polytrie, run},
    support::{Data, assert_fails},
};
use polytrie::layers::LAYERS;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
};

/// Checks what holds for every report that compares all layers in two turns.
fn check(report: &Value, kv: &str) {
    let (layers, results) = parts(report);
    assert_eq!((layers.len(), results.len()), (LAYERS.len(), 2 * LAYERS.len()));
    for (layer, kind) in layers.iter().zip(LAYERS) {
        assert_eq!((&layer["state"], &layer["kv"]), (&kind.name.into(), &kv.into()));
        assert_eq!(layer["throughput"]["runs"].as_array().unwrap().len(), 2);
        let spread = &layer["throughput"];
        assert!(number(&spread["min"]) <= number(&spread["median"]));
        assert!(number(&spread["median"]) <= number(&spread["max"]));
        for (reference, field, turns) in [
            ("mpt", "ratio_to_mpt", "ratios_to_mpt"),
            ("mpt-hash", "ratio_to_mpt_hash", "ratios_to_mpt_hash"),
        ] {
            let ratio = number(&layer[field]);
            assert!(if kind.name == reference { ratio == 1.0 } else { ratio > 0.0 }, "{ratio}");
            // With two turns the median is the mean. Each value is the ratio within one turn.
            let ratios = &layer[turns];
            let in_turns = results.iter().filter(|result| result["state"] == kind.name);
            let in_turns: Vec<_> = in_turns.map(|result| number(&result[field])).collect();
            assert_eq!(serde_json::json!(in_turns), ratios["runs"]);
            assert!((ratio - (in_turns[0] + in_turns[1]) / 2.0).abs() < 1e-9);
            assert!(number(&ratios["min"]) <= ratio && ratio <= number(&ratios["max"]));
        }
    }
    // The order of the runs alternates: A B B A.
    let order = LAYERS.iter().chain(LAYERS.iter().rev());
    for (index, (result, kind)) in results.iter().zip(order).enumerate() {
        assert_eq!(result["state"], kind.name);
        assert_eq!(result["run"], index / LAYERS.len() + 1);
        let time = &result["time"];
        let sum: f64 = ["execution", "structure", "engine", "recover"]
            .iter()
            .map(|part| number(&time[part]))
            .sum();
        let total = number(&result["seconds"]);
        assert!(total > 0.0 && (sum - total).abs() < 1e-6, "{sum} of {total}: {time}");
        assert!(number(&result["throughput"]) > 0.0);
        assert!(number(&result["peak_rss_bytes"]) > 1e6);
        let amplification = &result["amplification"];
        assert!(number(&amplification["layer_reads"]) > 0.0);
        assert!(number(&amplification["engine_write_bytes"]) > 0.0);
        for field in ["seed", "parameters", "median_throughput", "ratio_to_mpt", "disk_bytes"] {
            assert!(!result[field].is_null(), "{field} is missing");
        }
    }
    let roots = results.iter().map(|result| &result["commitment"]);
    let mut roots: Vec<_> =
        roots.filter(|root| root["canonical"] == true).map(|root| &root["digest"]).collect();
    roots.dedup();
    assert_eq!(roots.len(), 1, "canonical layers agree");
}

#[test]
fn layers_alone() {
    let data = Data::new();
    let cache = data.file("cache");
    for (kv, fresh) in [("mdbx", ""), ("memory", " --fresh")] {
        let args = format!(
            "store --states {} --kv {kv} --keys 500 --blocks 3 --ops 40 --runs 2 --json -{fresh}",
            states()
        );
        let report = bench(&cache, &args).ok().json();
        check(&report, kv);
        assert_eq!((&report["bench"], &report["seed"]), (&"store".into(), &1.into()));
        assert_eq!(report["results"][0]["operations"], 120);
        assert_eq!(report["parameters"]["keys"], 500);
    }
}

#[test]
fn layers_under_workloads() {
    let data = Data::new();
    let cache = data.file("cache");
    for (workload, more) in [("transfer", ""), ("erc20", " --recover --popularity 90/10")] {
        let args = format!(
            "chain --states {} --workload {workload} --accounts 60 --txs 100 --block-txs 10 --runs 2 --json -{more}",
            states()
        );
        let report = bench(&cache, &args).ok().json();
        check(&report, "mdbx");
        // Every layer has the same state at the end, also those whose commitments cannot be compared.
        let (_, results) = parts(&report);
        let expected = &results[0]["checksum"];
        assert!(expected.is_string() && results.iter().all(|r| r["checksum"] == *expected));
        for result in results {
            let proves = !["raw", "lvmt"].contains(&result["state"].as_str().unwrap());
            assert_eq!(result["proofs"].is_object(), proves, "{result}");
        }
        // The first of ten blocks is the warm-up.
        let result = &report["results"][0];
        assert_eq!((&result["blocks"], &result["operations"]), (&9.into(), &90.into()));
        assert_eq!(number(&result["time"]["recover"]) > 0.0, more.contains("recover"));
        assert_eq!(report["parameters"]["workload"], workload);
    }
}

/// Runs on the stores themselves come to what runs on copies come to, and leave the stores as they were.
#[test]
fn stores_are_restored_in_place() {
    let data = Data::new();
    let cache = data.file("cache");
    let args = format!(
        "chain --states {} --workload mixed --accounts 60 --txs 100 --block-txs 10 --runs 2 --json -",
        states()
    );
    let entries = || {
        let names = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<BTreeSet<_>>()
    };
    let of_copies = bench(&cache, &args).ok().json();
    let before = entries();
    let html = data.file("html");
    let in_place = format!("{args} --in-place --html {:?}", html.display());
    let in_place = bench(&cache, &in_place).ok().json();
    check(&in_place, "mdbx");
    assert!(in_place["notes"].to_string().contains("--in-place"), "{}", in_place["notes"]);
    let page = fs::read_to_string(html.join("index.html")).unwrap();
    assert!(page.contains("in a fresh process on the prepared store itself"), "{page}");
    let reports = [("copies.json", &of_copies), ("in-place.json", &in_place)];
    let [a, b] = reports.map(|(name, report)| data.write(name, report.to_string()));
    let compared = polytrie!["bench", "compare", a, b].ok();
    assert!(compared.text().contains("in place was false, is true"), "{}", compared.text());
    // A note is for people, so its words decide nothing, and a report of an earlier build has no such field.
    let (mut earlier, mut silent) = (of_copies.clone(), in_place.clone());
    earlier.as_object_mut().unwrap().remove("in_place");
    silent["notes"] = serde_json::json!([]);
    let reports = [("earlier.json", &earlier), ("silent.json", &silent)];
    let [a, b] = reports.map(|(name, report)| data.write(name, report.to_string()));
    let compared = polytrie!["bench", "compare", a, b].ok();
    assert!(compared.text().contains("in place was false, is true"), "{}", compared.text());
    assert_eq!(entries(), before);
    let ends = |report: &Value| {
        let of = |run: &Value| ["state", "checksum", "commitment"].map(|key| run[key].to_string());
        parts(report).1.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(ends(&in_place), ends(&of_copies));
    // What the accounts hold then is compared, and not a part of the report.
    assert!(parts(&in_place).1.iter().all(|run| run["restored"].is_null()));
}

/// In a chain of few blocks several accounts of a block are proven, as the first proof does not count.
#[test]
fn accounts_of_one_block_are_proven() {
    let data = Data::new();
    let args = "chain --states mpt --kv memory --workload transfer --accounts 30 --txs 12 --block-txs 12 --runs 1 --json -";
    let report = bench(&data.file("cache"), args).ok().json();
    assert!(number(&report["results"][0]["proofs"]["count"]) > 0.0, "{report}");
}

/// The parts of the time that add up to the total are all in the table.
#[test]
fn the_wait_for_senders_is_in_the_table() {
    let data = Data::new();
    let cache = data.file("cache");
    let chain = "chain --states raw --kv memory --workload transfer --accounts 30 --txs 40";
    for (more, total) in [
        ("", "exec + structure + engine = total"),
        (" --recover", "exec + structure + engine + recover = total"),
    ] {
        let run = bench(&cache, &format!("{chain} --block-txs 4 --runs 1{more}")).ok();
        assert!(run.text().contains(total), "{}", run.text());
    }
}

#[test]
fn layers_with_access_lists() {
    let data = Data::new();
    let cache = data.file("cache");
    let chain = "--workload mixed --accounts 60 --txs 100 --block-txs 10 --runs 1";
    let args = |more: &str| format!("chain --states {} {chain} {more}", states());
    let modes = "--bal off,hints,trie,parallel --bal-threads 2";
    let report = bench(&cache, &args(&format!("--json - {modes}"))).ok().json();
    for turns in parts(&report).1.chunks(4) {
        let off = &turns[0];
        assert!(off.get("bal").is_none());
        for (result, how) in turns[1..].iter().zip(["hints", "trie", "parallel"]) {
            let name = format!("{} {how}", result["state"]);
            assert_eq!((&result["state"], &result["bal"]), (&off["state"], &how.into()));
            assert_eq!(result["commitment"], off["commitment"], "{name}");
            let by_list = result["by_list"].as_u64().unwrap_or_default();
            assert_eq!(by_list, if how == "hints" { 0 } else { 9 }, "{name}");
            let threads = result["schedule"]["threads"].as_array().map(Vec::len);
            assert_eq!(threads, (how == "parallel").then_some(6), "{name}");
        }
    }
    let table = bench(&cache, &args("--bal parallel")).ok();
    for word in ["mpt+parallel/mdbx", "simulated: tx/s on so many threads", " 64"] {
        assert!(table.text().contains(word), "`{word}` is missing in {}", table.text());
    }
    // The lists in the cache are not those of a build with another format of their file.
    let mut kept = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap());
    let is_of_lists = |name: OsString| name.to_string_lossy().starts_with("access-lists-");
    let lists = kept.find(|entry| is_of_lists(entry.file_name())).unwrap().path();
    let file = fs::read(lists.join("access-lists")).unwrap();
    let heading = String::from_utf8_lossy(file.split(|byte| *byte == b'\n').next().unwrap());
    let parameters = fs::read_to_string(lists.join("parameters.json")).unwrap();
    assert!(parameters.contains(&*heading), "`{heading}` is missing in {parameters}");
}

#[test]
fn a_table_for_people_and_a_cache_that_is_used() {
    let data = Data::new();
    let cache = data.file("cache");
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let args = "chain --states mpt,raw --workload transfer --accounts 20 --txs 40 --block-txs 10 --runs 1 --seed 7";
    let first = bench(&cache, args).ok();
    assert!(first.text().starts_with("bench chain: "), "{}", first.text());
    for word in
        ["seed 7", "accounts 20", "mpt/mdbx", "raw/mdbx", "tx/s", "x mpt", "device/tx", "proof B"]
    {
        assert!(first.text().contains(word), "`{word}` is missing in {}", first.text());
    }
    // One table with all of that would be wider than most terminals.
    let together = |line: &str| line.contains("device/tx") && line.contains("proof B");
    assert!(!first.text().lines().any(together), "{}", first.text());
    let entries = names();
    // The cache holds keys, a chain and a store for each layer, and nothing temporary.
    assert_eq!(entries.len(), 4, "{entries:?}");
    bench(&cache, args).ok();
    assert_eq!(names(), entries);
}

#[test]
fn a_trace_is_replayed() {
    let data = Data::new();
    let a = "00000000000000000000000000000000000000aa";
    let trace = data.write(
        "trace.csv",
        format!(
            "B,7,0,1,{a},,ff,fe\nS,7,0,2,{a},01,,05\nN,8,0,3,{a},,9,10\nS,8,1,4,{a},01,05,06\n"
        ),
    );
    let args = format!(
        "store --states {} --trace {:?} --rounds 4 --warmup 2 --runs 1 --json -",
        states(),
        trace.display()
    );
    for kv in ["mdbx", "memory"] {
        let report = bench(&data.file("cache"), &format!("{args} --kv {kv}")).ok().json();
        assert_eq!(
            (&report["bench"], &report["parameters"]["operations"]),
            (&"trace".into(), &4.into())
        );
        let (_, results) = parts(&report);
        assert!(
            results
                .iter()
                .all(|r| r["operations"] == 12 && r["checksum"] == results[0]["checksum"])
        );
    }
    // The report does not take the place of the trace.
    let over = format!("store --states raw --trace {0:?} --json {0:?}", trace.display());
    let words = ["the same file as what is read", "name another one"];
    assert_fails(&bench(&data.file("cache"), &over), 2, &words);
    let wrong = data.write("wrong.csv", "B,7\n");
    let args = format!("store --states raw --trace {:?}", wrong.display());
    assert_fails(&bench(&data.file("cache"), &args), 1, &["wrong.csv", "line 1", "columns"]);
}

#[test]
fn limits_are_recorded() {
    let data = Data::new();
    let args =
        "store --states raw --keys 100 --blocks 2 --ops 10 --runs 1 --memory-limit 256M --json -";
    let report = bench(&data.file("cache"), args).ok().json();
    assert_eq!(report["memory_limit"]["bytes"], 256 << 20);
    assert!(["cgroup", "budgets"].contains(&report["memory_limit"]["by"].as_str().unwrap()));
    assert!(report["settings"]["layer"]["trie_cache"].as_u64().unwrap() <= 64 << 20);
    let small = "store --states raw --memory-limit 1M";
    assert_fails(&bench(&data.file("cache"), small), 2, &["--memory-limit"]);
}

/// A report can be written to a path that is not UTF-8. The command in the report shows such bytes as replacement
/// characters.
#[cfg(unix)]
#[test]
fn a_report_goes_to_any_path() {
    use std::os::unix::ffi::OsStrExt;
    let data = Data::new();
    let (cache, file) =
        (data.file("cache"), data.file("").join(OsStr::from_bytes(b"report-\xff.json")));
    let args = "bench store --states raw --kv memory --keys 20 --blocks 1 --ops 5 --runs 1";
    let mut args: Vec<&OsStr> = args.split(' ').map(OsStr::new).collect();
    args.extend([OsStr::new("--cache"), cache.as_os_str(), OsStr::new("--json"), file.as_os_str()]);
    run(&args, &[]).ok();
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let command = report["command"].as_str().unwrap();
    assert!(command.contains("--ops 5") && command.contains("report-\u{fffd}.json"), "{command}");
}

#[test]
fn papers_are_listed() {
    let data = Data::new();
    let list = run(&["bench", "paper", "--list"].map(OsStr::new), &[]).ok();
    for name in [
        "lmpt-10",
        "lmpt-table-1",
        "lvmt-2",
        "lvmt-table-1",
        "replica-table-6",
        "rainblock-9a",
        "rainblock-4.3",
    ] {
        assert!(list.text().contains(name), "{name} is missing in {}", list.text());
    }
    // Figures that need these contracts name the script.
    let with_contracts =
        list.text().lines().filter(|line| line.contains("`scripts/setup-uniswap`"));
    let names: Vec<_> = with_contracts.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["lmpt-12", "lvmt-8", "lvmt-10"]);
    assert_fails(&bench(&data.file("cache"), "paper nothing"), 2, &["`nothing`", "--list"]);
}

/// Results for which there is no time are listed as not measured. Kept points are used only under the conditions in
/// which they were measured.
#[test]
fn papers_take_the_time_that_there_is() {
    let data = Data::new();
    let (cache, kept) = (data.file("cache"), data.file("points"));
    let points = kept.display();
    let none = format!("paper rainblock-7 --quick --states mpt,raw --hours 0 --resume {points:?}");
    let result = bench(&cache, &none).ok();
    for text in ["20k: left out, as it takes about", "0 of --hours are left", "not measured"] {
        assert!(result.text().contains(text), "no `{text}` in {}", result.text());
    }
    let (page, plots) = (data.file("page.md"), data.file("plots"));
    bench(&cache, &format!("{none} --svg {:?} --markdown {:?}", plots.display(), page.display()))
        .ok();
    let page = fs::read_to_string(page).unwrap();
    for text in [
        "$ polytrie bench",
        "| RainBlock, Figure 7 | gets: throughput, rain / mpt-hash | 150 at 1.19M accounts | not measured |",
        "Of 2 ratios 0 could be judged; 0 of these",
        "**What it claims.**",
        "**Why.**",
        "### Figure 7",
        "Not measured.",
        "- 20k: left out",
        "| QMDB, its authors' program | up to 8 |",
        "| Carmen | 10 |",
    ] {
        assert!(page.contains(text), "no `{text}` in {page}");
    }
    assert_fails(&bench(&cache, &format!("{none} --runs 2")), 2, &["--resume", "runs"]);
    let file = data.write("file", "");
    let args = format!("paper rainblock-7 --quick --hours 0 --resume {:?}", file.display());
    assert_fails(&bench(&cache, &args), 3, &["cannot keep points in", "--resume"]);
    assert_eq!(bench(&cache, "paper all --hours many").code, Some(2));
}
