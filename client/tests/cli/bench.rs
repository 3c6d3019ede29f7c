//! `bench store` and `bench chain`: what they report, and that nothing is left of one that fails.

use crate::{
    disks::Mount,
    run::{Run, binary, run},
    support::{Data, assert_fails},
};
use polytrie::layers::LAYERS;
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// Every layer of this build.
fn states() -> String {
    LAYERS.iter().map(|layer| layer.name).collect::<Vec<_>>().join(",")
}

/// Runs `polytrie bench` with these arguments, separated by spaces, and this cache.
fn bench(cache: &Path, args: &str) -> Run {
    let mut all = vec![OsStr::new("bench")];
    all.extend(args.split_whitespace().map(OsStr::new));
    all.extend([OsStr::new("--cache"), cache.as_os_str()]);
    run(&all, &[])
}

/// The layers' entries, and the runs' entries.
fn parts(report: &Value) -> (&Vec<Value>, &Vec<Value>) {
    (report["layers"].as_array().unwrap(), report["results"].as_array().unwrap())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// What holds for the report of any comparison of all layers in two turns.
fn check(report: &Value, kv: &str) {
    let (layers, results) = parts(report);
    assert_eq!((layers.len(), results.len()), (LAYERS.len(), 2 * LAYERS.len()));
    for (layer, kind) in layers.iter().zip(LAYERS) {
        assert_eq!((&layer["state"], &layer["kv"]), (&kind.name.into(), &kv.into()));
        assert_eq!(layer["throughput"]["runs"].as_array().unwrap().len(), 2);
        let spread = &layer["throughput"];
        assert!(number(&spread["min"]) <= number(&spread["median"]));
        assert!(number(&spread["median"]) <= number(&spread["max"]));
        let ratio = number(&layer["ratio_to_mpt"]);
        assert!(if kind.name == "mpt" { ratio == 1.0 } else { ratio > 0.0 }, "{ratio}");
        // Of two turns the median is the mean; each is the ratio within a turn.
        let ratios = &layer["ratios_to_mpt"];
        let in_turns = results.iter().filter(|result| result["state"] == kind.name);
        let in_turns: Vec<_> = in_turns.map(|result| number(&result["ratio_to_mpt"])).collect();
        assert_eq!(serde_json::json!(in_turns), ratios["runs"]);
        assert!((ratio - (in_turns[0] + in_turns[1]) / 2.0).abs() < 1e-9);
        assert!(number(&ratios["min"]) <= ratio && ratio <= number(&ratios["max"]));
    }
    // In turns: A B B A.
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
        // Reads are timed by sampling, so the parts may come to a little more or less.
        assert!(sum > 0.0 && total > 0.0);
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
        // The first of ten blocks is the warm-up.
        let result = &report["results"][0];
        assert_eq!((&result["blocks"], &result["operations"]), (&9.into(), &90.into()));
        assert_eq!(number(&result["time"]["recover"]) > 0.0, more.contains("recover"));
        assert_eq!(report["parameters"]["workload"], workload);
    }
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
    for word in ["seed 7", "accounts 20", "mpt/mdbx", "raw/mdbx", "tx/s", "x mpt", "peak MiB"] {
        assert!(first.text().contains(word), "`{word}` is missing in {}", first.text());
    }
    let entries = names();
    // Keys, chain, and a store for each layer; nothing temporary.
    assert_eq!(entries.len(), 4, "{entries:?}");
    bench(&cache, args).ok();
    assert_eq!(names(), entries);
}

#[test]
fn without_counters() {
    let data = Data::new();
    let args = "store --states mpt --keys 100 --blocks 2 --ops 10 --runs 1 --no-counters --json -";
    let report = bench(&data.file("cache"), args).ok().json();
    assert_eq!(report["counted"], false);
    assert_eq!(report["results"][0]["amplification"]["layer_reads"], 0);
    assert_eq!(report["results"][0]["counters"]["gets"], 0);
}

#[test]
fn a_warm_run_is_not_called_cold() {
    let data = Data::new();
    let (cache, json) = (data.file("cache"), data.file("result.json"));
    // Far more operations than the store has pages.
    let args = format!(
        "store --states raw --keys 200 --blocks 2 --ops 5000 --runs 1 --cold --json {}",
        json.display()
    );
    let run = bench(&cache, &args);
    assert_fails(&run, 1, &["run 1 of raw on mdbx", "cold", "device"]);
    nothing_is_left(&cache, &json);
}

/// No result, and nothing temporary.
#[track_caller]
fn nothing_is_left(cache: &Path, json: &Path) {
    assert!(!json.exists(), "there is a result");
    for dir in [cache, json.parent().unwrap()] {
        for entry in fs::read_dir(dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.starts_with(".part-") && !name.contains("result"), "{name} is left");
        }
    }
}

#[test]
fn what_cannot_be_measured() {
    let data = Data::new();
    let cache = data.file("cache");
    let cases = [
        ("store --states nothing", 2, "there is no state layer `nothing`"),
        ("store --states mpt,mpt", 2, "named twice"),
        ("store --states mpt --kv floppy", 2, "there is no engine `floppy`"),
        ("store --states mpt --kv memory --cold --keys 9 --ops 9", 2, "--cold"),
        (
            "chain --states mpt --workload transfer --accounts 9 --txs 9 --warmup 9 --runs 1",
            2,
            "warm-up",
        ),
        ("chain --states mpt --csv -", 2, "--csv - is standard output"),
        ("store --states mpt --json /no/such/place.json", 3, "/no/such/place.json"),
    ];
    for (args, code, words) in cases {
        assert_fails(&bench(&cache, args), code, &[words]);
    }
    #[cfg(not(feature = "rocksdb"))]
    assert_fails(
        &bench(&cache, "store --states mpt --kv rocksdb --cold"),
        2,
        &["rocksdb", "--features"],
    );
    let job = run(&["bench".as_ref(), "run-job".as_ref()], b"nonsense\n");
    assert_fails(&job, 2, &["is not a job"]);
}

/// A benchmark that has begun to measure.
struct Long {
    child: std::process::Child,
    cache: PathBuf,
    json: PathBuf,
    data: Data,
}

impl Long {
    fn start() -> Self {
        let data = Data::new();
        let (cache, json) = (data.file("cache"), data.file("result.json"));
        // Prepared first, so that what is interrupted is a run.
        bench(&cache, "store --states raw --keys 100 --blocks 1 --ops 1 --runs 1").ok();
        let child = Command::new(binary())
            .args("bench store --states raw --keys 100 --blocks 1000000 --ops 50".split(' '))
            .arg("--json")
            .arg(&json)
            .arg("--cache")
            .arg(&cache)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let long = Self { child, cache, json, data };
        while long.runs().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        // Until it has its job.
        thread::sleep(Duration::from_millis(300));
        long
    }

    /// The processes that measure.
    fn runs(&self) -> Vec<String> {
        let id = self.child.id();
        let file = format!("/proc/{id}/task/{id}/children");
        let text = fs::read_to_string(file).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Sends a signal, and waits for the end.
    fn end(mut self, signal: &str, to: &str) -> Run {
        assert!(Command::new("kill").args([signal, to]).status().unwrap().success());
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        nothing_is_left(&self.cache, &self.json);
        drop(self.data);
        Run { code, stdout: Vec::new(), stderr }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_leaves_no_result() {
    for signal in ["-INT", "-TERM"] {
        let long = Long::start();
        let (id, runs) = (long.child.id().to_string(), long.runs());
        let run = long.end(signal, &id);
        assert_eq!(run.code, Some(130), "{}", run.stderr);
        let message = run.message();
        assert!(message.starts_with("interrupted: in run 1 of raw on mdbx"), "{message}");
        assert!(message.ends_with("there is no result"), "{message}");
        assert!(!Path::new("/proc").join(&runs[0]).exists(), "the run goes on");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_is_killed_leaves_no_result() {
    let long = Long::start();
    let runs = long.runs();
    let run = long.end("-KILL", &runs[0]);
    assert_fails(&run, 3, &["run 1 of raw on mdbx failed", "killed", "memory"]);
}

#[test]
fn a_full_disk_leaves_no_result() {
    let data = Data::new();
    let Some(disk) = Mount::new(data.file("disk"), "3m") else { return };
    let (cache, json) = (disk.0.join("cache"), data.file("result.json"));
    let args = format!(
        "store --states mpt --keys 20000 --blocks 2 --ops 9 --runs 1 --json {}",
        json.display()
    );
    let run = bench(&cache, &args);
    assert_fails(&run, 3, &["cache"]);
    nothing_is_left(&cache, &json);
}

/// Writes a report, and returns its path.
fn report(data: &Data, cache: &Path, name: &str, states: &str, more: &str) -> PathBuf {
    let file = data.file(name);
    let args = format!(
        "store --states {states} --keys 300 --blocks 2 --ops 20 --runs 3 {more} --json {}",
        file.display()
    );
    bench(cache, &args).ok();
    file
}

/// `bench compare` of two files.
fn compare(a: &Path, b: &Path, more: &[&str]) -> Run {
    let mut args = vec![OsStr::new("bench"), OsStr::new("compare"), a.as_os_str(), b.as_os_str()];
    args.extend(more.iter().map(OsStr::new));
    run(&args, &[])
}

/// Gives every run a throughput as on a quiet machine, multiplied with the factor of its layer; other layers have the
/// factor that is named "".
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
        // As before ratios were taken within turns.
        layer.as_object_mut().unwrap().remove("ratios_to_mpt");
    }
    let path = report.with_file_name(name);
    fs::write(&path, value.to_string()).unwrap();
    path
}

/// The verdict of each layer.
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
    // Three runs of each, which is the default, lie apart by chance in one of ten cases.
    let few = compare(&measured, &slower, &["--fail-on-slower"]).ok();
    for words in ["too few runs: cannot tell", "measure with --runs 5"] {
        assert!(few.text().contains(words), "`{words}` is missing in {}", few.text());
    }
    assert!(few.stderr.contains("--fail-on-slower cannot tell"), "{}", few.stderr);
    // A tenth is below this.
    compare(&before, &slower, &["--fail-on-slower", "--threshold", "15"]).ok();

    // Four fifths of the time of a layer that takes five times as long are what was added, however busy the machine.
    let slowed = report(&data, &cache, "b.json", "mpt,raw", "--slow-down raw=400");
    let value: Value = serde_json::from_slice(&fs::read(&slowed).unwrap()).unwrap();
    let raw = &value["layers"][1];
    let seconds = number(&raw["operations"]) / number(&raw["throughput"]["median"]);
    let added = number(&raw["time"]["commit"]) + number(&raw["time"]["flush"]);
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

    // One layer alone has nothing but its own throughput.
    let mut alone: Value = serde_json::from_slice(&fs::read(&machine).unwrap()).unwrap();
    alone["layers"].as_array_mut().unwrap().truncate(1);
    let alone = data.write("alone.json", alone.to_string());
    let json = compare(&before, &alone, &["--json", "-"]).ok().json();
    assert_eq!(verdicts(&json), ["slower"]);
    assert!(json["machine"].is_null() && json["layers"][0]["relative"].is_null());
    let notes = json["notes"].to_string();
    assert!(notes.contains("one layer alone") && notes.contains("only in the first"), "{notes}");

    // Pages are made of older reports, too.
    let html = data.file("html");
    let page = [OsStr::new("bench"), OsStr::new("page"), before.as_os_str(), OsStr::new("--html")];
    run(&[&page[..], &[html.as_os_str()]].concat(), &[]).ok();
}

/// What two reports say alike stands on their page once, wherever in each of them it is.
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

#[test]
fn a_page_and_lines_for_each_block() {
    let data = Data::new();
    let (cache, html, csv) = (data.file("cache"), data.file("html"), data.file("csv"));
    let args = format!(
        "chain --states mpt,raw --workload mixed --accounts 60 --txs 100 --block-txs 10 --runs 2 --html {} --csv {}",
        html.display(),
        csv.display()
    );
    bench(&cache, &args).ok();
    let page = fs::read_to_string(html.join("index.html")).unwrap();
    for words in [
        "<svg",
        "How fast",
        "Where the time goes",
        "prefers-color-scheme: dark",
        "--workload mixed",
    ] {
        assert!(page.contains(words), "`{words}` is missing");
    }
    // Nothing comes from anywhere else.
    for reference in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(reference), "the page refers to something with {reference}");
    }
    let text = fs::read_to_string(csv.join("raw-mdbx-2.csv")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    // The first of ten blocks is the warm-up.
    assert_eq!((lines[0], lines.len()), ("block_number,blocks,slot,txs,gas,time", 10));
    assert!(lines[1].starts_with("2,1,,10,"), "{}", lines[1]);

    // The same page from the reports that were written, and one of several.
    let second = data.file("second");
    let first = data.file("first.json");
    fs::copy(html.join("report.json"), &first).unwrap();
    let larger = data.file("larger.json");
    let args = args.replace("--accounts 60", "--accounts 80");
    bench(&cache, &format!("{args} --json {}", larger.display())).ok();
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
        "store --states {} --trace {} --rounds 4 --warmup 2 --runs 1 --json -",
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
    let wrong = data.write("wrong.csv", "B,7\n");
    let args = format!("store --states raw --trace {}", wrong.display());
    assert_fails(&bench(&data.file("cache"), &args), 1, &["wrong.csv", "line 1", "columns"]);
}

#[test]
fn contracts_that_were_not_fetched() {
    let data = Data::new();
    let output = Command::new(binary())
        .args("bench chain --states raw --workload swap --accounts 9 --txs 9 --runs 1".split(' '))
        .arg("--cache")
        .arg(data.file("cache"))
        .env("POLYTRIE_UNISWAP", data.file("nothing"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("`scripts/setup-uniswap`"), "{stderr}");
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

#[test]
fn papers_are_listed() {
    let data = Data::new();
    let list = run(&["bench", "paper", "--list"].map(OsStr::new), &[]).ok();
    for name in
        ["lmpt-10", "lmpt-table-1", "lvmt-2", "lvmt-table-1", "replica-table-6", "rainblock-9a"]
    {
        assert!(list.text().contains(name), "{name} is missing in {}", list.text());
    }
    assert_fails(&bench(&data.file("cache"), "paper nothing"), 2, &["`nothing`", "--list"]);
}

/// A run of `lmpt` among others, as JSON.
fn merged(args: &str) -> Value {
    let data = Data::new();
    let report = bench(&data.file("cache"), &format!("{args} --runs 1 --kv memory --json -"));
    report.ok().json()
}

/// The interval of a report, as it is in the settings.
fn interval(report: &Value) -> &Value {
    &report["settings"]["layer"]["lmpt_interval"]
}

/// Whatever a run is, `lmpt` merges while it is measured, and the report says with which interval.
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
    let replay = format!("store --trace {} --rounds 2 --warmup 3", file.display());
    let cases = [
        // Of 40 blocks the first four are the warm-up.
        ("chain --workload transfer --accounts 30 --txs 80 --block-txs 2", 4, 10),
        ("store --keys 200 --ops 50 --blocks 6", 2, 4),
        ("store --keys 200 --ops 50 --blocks 12 --warmup 3", 3, 5),
        // Half of what is measured.
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

/// A store that is filled holds no block yet, so it serves every interval.
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

/// An interval that is given is taken. What `lmpt` then puts off until after the last block is said, with what to choose
/// for it to be measured.
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
