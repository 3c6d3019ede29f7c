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
    all.extend(args.split(' ').map(OsStr::new));
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
    }
    // In turns: A B A B.
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["state"], LAYERS[index % LAYERS.len()].name);
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
