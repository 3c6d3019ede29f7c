//! Tests of benchmarks that cannot be run, and of those that end early: they leave no result and no
//! temporary files.

use super::bench;
use crate::{
    run::{Run, program, run},
    support::{Data, assert_fails},
};
use polytrie_kv_testing::Mount;
use polytrie_testing::skipped;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Duration,
};

/// Checks that there is no result and no temporary file.
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
fn a_warm_run_is_not_called_cold() {
    let data = Data::new();
    let (cache, json) = (data.file("cache"), data.file("result.json"));
    // The run has far more operations than the store has pages, so the pages do not stay cold.
    let args = format!(
        "store --states raw --keys 200 --blocks 2 --ops 5000 --runs 1 --cold --json {:?}",
        json.display()
    );
    let run = bench(&cache, &args);
    assert_fails(&run, 1, &["run 1 of raw on mdbx", "cold", "device"]);
    nothing_is_left(&cache, &json);
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
        ("store --states mpt --kv.tls-ca ca.pem", 2, "--kv.tls-ca goes with --kv cassandra"),
        (
            "chain --states mpt --workload transfer --accounts 9 --txs 9 --warmup 9 --runs 1",
            2,
            "warm-up",
        ),
        ("chain --states mpt --csv -", 2, "--csv - is standard output"),
        ("chain --states mpt --kv memory --in-place", 2, "--in-place does not go with"),
        ("chain --states mpt --kv mdbx,memory --in-place", 2, "mpt on memory"),
        ("chain --states mpt --txs 1025 --block-txs 1 --in-place", 2, "go back 1024"),
        ("store --states mpt --json /no/such/place.json", 3, "/no/such/place.json"),
        // Blocks are read more than once, and these can be read once.
        ("chain - --chain dev", 2, "standard input does not allow"),
        ("chain /dev/stdin --chain dev", 2, "/dev/stdin does not allow"),
        ("paper lmpt-10 --blocks - --chain dev", 2, "standard input does not allow"),
    ];
    for (args, code, words) in cases {
        assert_fails(&bench(&cache, args), code, &[words]);
    }
    // A directory in which no file can be made.
    #[cfg(target_os = "linux")]
    assert_fails(&bench(&cache, "store --states mpt --csv /proc"), 3, &["cannot write to /proc"]);
    // A warm-up that leaves nothing to measure is noticed before a chain or a store is made.
    let made = fs::read_dir(&cache).unwrap().count();
    assert_eq!(made, 0, "{made} entries in the cache");
    // A report does not take the place of a file on which a data directory rests.
    let ours = data.write("polytrie.json", "{}");
    for command in ["store", "worst --filter ^same", "paper lmpt-10"] {
        let run = bench(&cache, &format!("{command} --states raw --json {:?}", ours.display()));
        assert_fails(&run, 2, &["would replace a part of the data directory"]);
    }
    #[cfg(not(feature = "rocksdb"))]
    assert_fails(
        &bench(&cache, "store --states mpt --kv rocksdb --cold"),
        2,
        &["rocksdb", "--features"],
    );
    // The error comes before any store is prepared.
    #[cfg(feature = "cassandra")]
    for command in ["store", "chain", "worst", "paper lmpt-10"] {
        let args = format!("{command} --states mpt --kv cassandra");
        assert_fails(&bench(&cache, &args), 2, &["a cluster is not copied for each run"]);
    }
    let job = run(&["bench".as_ref(), "run-job".as_ref()], b"nonsense\n");
    assert_fails(&job, 2, &["is not a job"]);
}

/// Of two outputs that are one file, the one that is written last would win.
#[test]
fn two_outputs_are_two_files() {
    let data = Data::new();
    let (cache, html) = (data.file("cache"), data.file("html"));
    for (command, file) in [
        ("store --states raw", "index.html"),
        ("chain --states raw", "report.json"),
        ("paper lmpt-10 --states raw", "lmpt-10.html"),
    ] {
        let (dir, file) = (html.display(), html.join(file));
        let args = format!("{command} --html {dir:?} --json {:?}", file.display());
        assert_fails(&bench(&cache, &args), 2, &["--html", "the same file as that of --json"]);
    }
    let both = bench(&cache, "worst --states raw --json - --svg -");
    assert_fails(&both, 2, &["--json and --svg both want standard output"]);
    // Wrong usage makes no directory either.
    assert!(!html.exists() && !cache.exists());
}

#[test]
fn contracts_that_were_not_fetched() {
    let data = Data::new();
    let output = program()
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

/// A benchmark that has started to measure.
struct Long {
    child: std::process::Child,
    cache: PathBuf,
    json: PathBuf,
    _data: Data,
}

impl Long {
    /// Prepares what a short benchmark needs, so that the signal interrupts a run of the long one and not the
    /// preparation. Starts the long one and waits until it measures. Where the system does not list the children of a
    /// process, it prints a message and returns `None`.
    fn start(short: &str, long: &str) -> Option<Self> {
        if !Path::new("/proc/thread-self/children").exists() {
            skipped("this system does not list the children of a process");
            return None;
        }
        let data = Data::new();
        let (cache, json) = (data.file("cache"), data.file("result.json"));
        bench(&cache, short).ok();
        let child = program()
            .arg("bench")
            .args(long.split(' '))
            .arg("--json")
            .arg(&json)
            .arg("--cache")
            .arg(&cache)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut long = Self { child, cache, json, _data: data };
        while long.runs().is_empty() {
            assert!(long.child.try_wait().unwrap().is_none(), "it has ended before it measured");
            thread::sleep(Duration::from_millis(5));
        }
        Some(long)
    }

    /// Starts a benchmark of the layer alone.
    fn store() -> Option<Self> {
        Self::start(
            "store --states raw --keys 100 --blocks 1 --ops 1 --runs 1",
            "store --states raw --keys 100 --blocks 1000000 --ops 50",
        )
    }

    /// Returns the ids of the processes that measure.
    fn runs(&self) -> Vec<Pid> {
        let id = self.child.id();
        let file = format!("/proc/{id}/task/{id}/children");
        let text = fs::read_to_string(file).unwrap_or_default();
        text.split_whitespace().map(|id| Pid::from_raw(id.parse().unwrap()).unwrap()).collect()
    }

    /// Sends a signal and waits for the end of the benchmark.
    fn end(&mut self, signal: Signal, to: Pid) -> Run {
        kill_process(to, signal).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        nothing_is_left(&self.cache, &self.json);
        Run { code, stdout: Vec::new(), stderr }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_leaves_no_result() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(mut long) = Long::store() else { return };
        let (id, runs) = (Pid::from_child(&long.child), long.runs());
        let run = long.end(signal, id);
        assert_eq!(run.code, Some(130), "{}", run.stderr);
        let message = run.message();
        assert!(message.starts_with("interrupted: in run 1 of raw on mdbx"), "{message}");
        assert!(message.ends_with("there is no result"), "{message}");
        assert!(!Path::new("/proc").join(runs[0].to_string()).exists(), "the run goes on");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_is_killed_leaves_no_result() {
    let Some(mut long) = Long::store() else { return };
    let runs = long.runs();
    let run = long.end(Signal::KILL, runs[0]);
    assert_fails(&run, 3, &["run 1 of raw on mdbx failed", "killed", "memory"]);
}

/// What a store holds after such an end is not known, so the next run begins with another one.
#[cfg(target_os = "linux")]
#[test]
fn a_run_in_place_that_is_killed_loses_its_store() {
    let args = "chain --states mpt --workload transfer --accounts 60 --txs 1000 --block-txs 1";
    let Some(mut long) = Long::start(&format!("{args} --runs 1"), &format!("{args} --in-place"))
    else {
        return;
    };
    let runs = long.runs();
    let run = long.end(Signal::KILL, runs[0]);
    assert_fails(&run, 3, &["run 1 of mpt on mdbx failed", "killed"]);
    let stores = || {
        let names = fs::read_dir(&long.cache).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("store-mpt-")).count()
    };
    assert_eq!(stores(), 0);
    bench(&long.cache, &format!("{args} --in-place --runs 1")).ok();
    assert_eq!(stores(), 1);
}

#[test]
fn a_full_disk_leaves_no_result() {
    let data = Data::new();
    let Some(disk) = Mount::new(data.file("disk"), "3m") else { return };
    let (cache, json) = (disk.0.join("cache"), data.file("result.json"));
    let args = format!(
        "store --states mpt --keys 20000 --blocks 2 --ops 9 --runs 1 --json {:?}",
        json.display()
    );
    let run = bench(&cache, &args);
    assert_fails(&run, 3, &["cache", "space"]);
    nothing_is_left(&cache, &json);
}
