//! Tests of Ctrl-C: the current block is finished, all blocks are kept, and the same command continues later.

use crate::{
    run::{binary, polytrie, program},
    support::{CONDENSE, Data, for_each_layer, sample, sample_blocks, stream},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::Duration,
};

for_each_layer!(an_import_is_interrupted_and_goes_on);

fn an_import_is_interrupted_and_goes_on(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    let data = Data::new();
    let csv = data.file("blocks.csv");
    let blocks = chain.blocks();
    // The import gets a part of the blocks through a pipe that stays open, so that it cannot end before it is
    // interrupted.
    for (signal, verify, part) in [("-INT", "full", 500), ("-TERM", "every=50", 1200)] {
        let mut import = program()
            .args(["import", "-", "--state", layer, "--verify", verify, "--datadir"])
            .arg(data.path())
            .arg("--chain")
            .arg(&chain.chain)
            .arg("--csv")
            .arg(&csv)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = import.stdin.take().unwrap();
        let bytes = stream(&blocks[..part]);
        let writer = thread::spawn(move || {
            // The import may end before it has read all of them.
            let _ = pipe.write_all(&bytes);
            pipe
        });
        // The heading is written at once, and the figures of a few hundred blocks later.
        while !fs::metadata(&csv).is_ok_and(|meta| meta.len() > 100) {
            assert!(import.try_wait().unwrap().is_none(), "it has ended before it was interrupted");
            thread::sleep(Duration::from_millis(1));
        }
        kill(&import, signal);
        let mut stderr = String::new();
        import.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = import.wait().unwrap();
        drop(writer.join().unwrap());
        let (reached, _) = data.head();
        data.check();
        assert_eq!(status.code(), Some(130), "{stderr}");
        let message = stderr.lines().last().unwrap();
        let expected = format!("interrupted: at block {reached}; run the same command again");
        assert!(message.starts_with(&expected), "{stderr}");
        assert!(stderr.contains("Import stopped after"), "{stderr}");
        assert!(reached > 0 && reached < chain.head, "{reached}");
        fs::remove_file(&csv).unwrap();
    }
    let (reached, _) = data.head();
    let report =
        polytrie!["import", chain.file, "--datadir", data.path(), "--json", "-"].ok().json();
    assert_eq!(report["skipped"], reached + 1);
    assert_eq!(report["blocks"], chain.head - reached);
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
    data.check();
}

/// Sends a signal to a child process. The command `kill` would have to start first, and the child might end meanwhile.
fn kill(child: &Child, signal: &str) {
    let signal = match signal {
        "-INT" => Signal::INT,
        "-TERM" => Signal::TERM,
        "-HUP" => Signal::HUP,
        other => panic!("{other} is no signal of these tests"),
    };
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Whether a child process receives the signal. `nohup` and some services start the tests with SIGHUP ignored, and a
/// child process inherits that.
fn is_heard(signal: &str) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is signal 1.
    signal != "-HUP" || ignored.is_none_or(|mask| mask & 1 == 0)
}

const PIPED: u64 = 133;

/// Starts an import from a pipe, writes some blocks to the pipe and leaves it open.
fn begin(data: &Data, command: &mut Command, extra: &[&str]) -> (Child, ChildStdin) {
    let mut import = command
        .args(["import", "-"])
        .args(extra)
        .arg("--chain")
        .arg(sample("genesis.json"))
        .arg("--datadir")
        .arg(data.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = import.stdin.take().unwrap();
    pipe.write_all(&stream(&sample_blocks(PIPED as usize))).unwrap();
    pipe.flush().unwrap();
    (import, pipe)
}

/// Starts an import from a pipe and waits until its first blocks are executed, so that they will soon be durable.
fn piped(data: &Data, command: &mut Command, verify: &str) -> (Child, ChildStdin) {
    let (mut import, pipe) = begin(data, command, &["--verify", verify]);
    let mut head = 0;
    for _ in 0..3_000 {
        assert!(import.try_wait().unwrap().is_none(), "it has ended by itself");
        let stats = polytrie!["db", "stats", "--datadir", data.path(), "--json", "-"];
        head = if stats.code == Some(0) {
            stats.json()["head"]["number"].as_u64().unwrap_or_default()
        } else {
            0
        };
        if head == PIPED {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    if head != PIPED {
        import.kill().unwrap();
    }
    assert_eq!(head, PIPED, "what was executed is not durable while nothing comes");
    (import, pipe)
}

#[test]
fn an_import_from_a_quiet_pipe_is_durable_and_interrupted() {
    let signals = [("-INT", "full"), ("-TERM", "every=50"), ("-HUP", "full")];
    for (signal, verify) in signals.into_iter().filter(|(signal, _)| is_heard(signal)) {
        let data = Data::new();
        let (mut import, pipe) = piped(&data, &mut program(), verify);
        kill(&import, signal);
        let mut stderr = String::new();
        import.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(import.wait().unwrap().code(), Some(130), "{signal}: {stderr}");
        assert!(stderr.contains("interrupted: at block 133; run the same"), "{stderr}");
        data.check();
        drop(pipe);
    }
}

/// The message of an interrupted import in memory does not say that it can be continued, because nothing is kept.
#[test]
fn an_interrupted_import_does_not_promise_what_is_not_kept() {
    let data = Data::new();
    let csv = data.file("blocks.csv");
    let extra = ["--kv", "memory", "--csv", csv.to_str().unwrap()];
    let (mut import, pipe) = begin(&data, &mut program(), &extra);
    while !fs::metadata(&csv).is_ok_and(|meta| meta.len() > 0) {
        assert!(import.try_wait().unwrap().is_none(), "it has ended by itself");
        thread::sleep(Duration::from_millis(1));
    }
    kill(&import, "-INT");
    let mut stderr = String::new();
    import.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(import.wait().unwrap().code(), Some(130), "{stderr}");
    let message = stderr.lines().last().unwrap();
    assert!(message.starts_with("interrupted: at block "), "{stderr}");
    assert!(message.contains("nothing was kept"), "{stderr}");
    drop(pipe);
}

/// An import up to a given block does not wait for the next block of the pipe, also if it has the given block already.
#[test]
fn an_import_from_a_pipe_ends_with_the_last_block_that_was_asked_for() {
    for verify in ["full", "every=50"] {
        let data = Data::new();
        for _ in 0..2 {
            let to = PIPED.to_string();
            let extra = ["--verify", verify, "--to", &to];
            let (mut import, pipe) = begin(&data, &mut program(), &extra);
            let mut ended = None;
            for _ in 0..3_000 {
                ended = import.try_wait().unwrap();
                if ended.is_some() {
                    break;
                }
                thread::sleep(Duration::from_millis(100));
            }
            if ended.is_none() {
                import.kill().unwrap();
            }
            assert_eq!(ended.and_then(|status| status.code()), Some(0), "it waits for more");
            assert_eq!(data.head().0, PIPED);
            data.check();
            drop(pipe);
        }
    }
}

/// A process started with `nohup` continues when its terminal is closed.
#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let data = Data::new();
    let (mut import, pipe) = piped(&data, Command::new("nohup").arg(binary()), "full");
    kill(&import, "-HUP");
    drop(pipe);
    assert_eq!(import.wait().unwrap().code(), Some(0));
    assert_eq!(data.head().0, PIPED);
}

/// A command that only reads has nothing to finish and ends at once, with the same exit code.
#[test]
fn what_only_reads_ends_at_once() {
    let data = Data::new();
    let (file, chain) = (sample("chain.rlp.gz"), sample("genesis.json"));
    polytrie!["import", file, "--chain", chain, "--datadir", data.path(), "--to", "500"].ok();
    for signal in ["-INT", "-TERM", "-HUP"].into_iter().filter(|signal| is_heard(signal)) {
        // The export is larger than the buffer of the pipe, and no process reads it.
        let mut export = program()
            .args(["export", "-", "--datadir"].map(OsStr::new))
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = export.stdout.take().unwrap();
        pipe.read_exact(&mut [0]).unwrap();
        kill(&export, signal);
        assert_eq!(export.wait().unwrap().code(), Some(130), "{signal}");
    }
}

/// An interrupted export leaves no incomplete file, under any name.
#[test]
fn an_interrupted_export_leaves_nothing() {
    let data = Data::new();
    let (file, chain) = (sample("chain.rlp.gz"), sample("genesis.json"));
    polytrie!["import", file, "--chain", chain, "--datadir", data.path()].ok();
    let dir = data.file("exports");
    fs::create_dir(&dir).unwrap();
    let is_empty = || fs::read_dir(&dir).unwrap().next().is_none();
    let is_interrupted = || {
        let out = dir.join("chain.rlp");
        let mut export = program()
            .args(["export", "--datadir"])
            .args([&data.path(), &out])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ended = None;
        while is_empty() && ended.is_none() {
            ended = export.try_wait().unwrap();
        }
        if ended.is_none() {
            kill(&export, "-INT");
        }
        let output = export.wait_with_output().unwrap();
        // The export may end before it receives the signal.
        let is_done = output.status.success();
        if is_done {
            fs::remove_file(out).unwrap();
        } else {
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(130), "{stderr}");
            assert!(stderr.contains("interrupted: at block "), "{stderr}");
        }
        assert!(is_empty());
        !is_done
    };
    assert!((0..100).any(|_| is_interrupted()), "it was never interrupted");
}
