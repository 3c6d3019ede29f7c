//! Tests of the limits of a process on threads and on file sizes. Each limit causes one error sentence, and no stored
//! block is lost.

use crate::{
    run::{Run, binary, program},
    support::{CONDENSE, Data, assert_fails, for_each_layer, head, sample},
};
use polytrie_testing::skipped;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::Write,
    os::{
        fd::OwnedFd,
        unix::{
            fs::PermissionsExt,
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

for_each_layer!(threads_that_cannot_be_started, a_file_that_may_not_grow);

/// Returns the command of the program, under limits that `ulimit` sets.
fn limited(limits: &str, args: &[&str]) -> Command {
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("ulimit {limits}; exec \"$0\" \"$@\"")).arg(binary());
    command.env("POLYTRIE_LVMT_SETUP", crate::testsetup::dir()).env_remove("RUST_LOG").args(args);
    // Without this variable the number of threads depends on the machine.
    command.env("RAYON_NUM_THREADS", "2");
    command
}

#[track_caller]
fn run(command: &mut Command) -> Run {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(output.status.signal(), None, "{stderr}");
    Run { code: output.status.code(), stdout: output.stdout, stderr }
}

/// A user id without other processes, so that a limit on its processes counts only the threads of the program. `None`
/// if the test may not change the user, or if that user cannot run the program.
struct Nobody {
    id: u32,
}

impl Nobody {
    fn new(layer: &str, dir: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped("only root can run a program as somebody else");
            return None;
        }
        // Each layer has its own user id, because the tests of two layers may run at the same time. So may two runs of
        // all tests, whose ids differ by the number of the process. No sum is above 999, and no id above 65,534.
        let run = std::process::id() % 40;
        let id = 20_000 + 1_000 * run + layer.bytes().map(u32::from).sum::<u32>();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
        // The temporary directory, the repository and the program may each be where other users may not read.
        let look = "test -w \"$1\" && test -r \"$2\" && test -r \"$3\" && \"$0\" --version";
        let mut look_at = Command::new("bash");
        look_at.args(["-c", look]).arg(binary()).arg(dir).arg(sample("genesis.json"));
        let looked = look_at.arg(crate::testsetup::dir()).uid(id).gid(id).output();
        if !looked.is_ok_and(|output| output.status.success()) {
            skipped("the files of the test are where other users may not read");
            return None;
        }
        Some(Self { id })
    }

    #[track_caller]
    fn run(&self, threads: u32, args: &[&str]) -> Run {
        run(limited(&format!("-u {threads}"), args).uid(self.id).gid(self.id))
    }
}

fn threads_that_cannot_be_started(layer: &str) {
    let data = Data::new();
    let Some(nobody) = Nobody::new(layer, data.path().parent().unwrap()) else { return };
    let (blocks, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    let (blocks, genesis) = (blocks.to_str().unwrap(), genesis.to_str().unwrap());
    let dir = data.path().display().to_string();
    let mut refused = 0;
    let mut reached = 0;
    for threads in (1..).take_while(|threads| *threads < 64) {
        let to = (reached + 5).to_string();
        let run = nobody.run(
            threads,
            &[
                "import",
                blocks,
                "--datadir",
                &dir,
                "--chain",
                genesis,
                "--state",
                layer,
                "--to",
                &to,
                "--prefetch",
                "--threads",
                "2",
            ],
        );
        if run.code == Some(0) {
            reached += 5;
            // The import got all threads, or did without some of them.
            if reached == 20 {
                break;
            }
            continue;
        }
        refused += 1;
        assert_fails(&run, 3, &["cannot start a thread", "ulimit -u"]);
    }
    assert!(refused > 2 && reached == 20, "{refused} times refused, {reached} blocks");
    let run = nobody.run(1, &["db", "check", "--datadir", &dir]);
    assert_fails(&run, 3, &["cannot start a thread", "ulimit -u"]);
    let run = nobody.run(8, &["devnet", "--datadir", &dir, "--http.port", "0"]);
    assert_fails(&run, 3, &["cannot start"]);
    assert_eq!(data.head().0, 20);
    data.check();
}

fn a_file_that_may_not_grow(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    let data = Data::new();
    let dir = data.path().display().to_string();
    let import = [
        "import",
        chain.file.to_str().unwrap(),
        "--datadir",
        &dir,
        "--chain",
        chain.chain.to_str().unwrap(),
        "--state",
        layer,
        "--flush-every",
        "50",
    ];
    let words = ["File too large", "ulimit -f", "nothing already stored is lost"];
    let mut reached = 0;
    // The limits in KiB allow no file at all, the first pages, and some blocks.
    for limit in [0, 16, 256, 5 << 10] {
        let failed = run(&mut limited(&format!("-f {limit}"), &import));
        assert_eq!(failed.code, Some(3), "{limit}: {}", failed.stderr);
        assert!(failed.stderr.contains("File too large"), "{limit}: {}", failed.stderr);
        if data.path().join("polytrie.json").exists() {
            assert_fails(&failed, 3, &words);
            data.check();
            let (head, _) = head(&data.path());
            assert!(head >= reached);
            reached = head;
        }
    }
    assert!(reached > 0 && reached < chain.head, "{reached}");
    let mut dump = limited("-f 64", &["db", "dump", "--datadir", &dir]);
    dump.args([data.file("state.json")]);
    assert_fails(&run(&mut dump), 3, &["File too large", "state.json"]);
    run(&mut limited("-f unlimited", &import)).ok();
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
    data.check();
}

/// The program installs its signal handlers before anything else. `--help` does little more, and here it waits because
/// the buffer of its output is full.
#[test]
fn a_signal_at_the_start_is_an_interruption() {
    for signal in [Signal::INT, Signal::TERM] {
        // A socket, not a pipe: with `std` alone a pipe can be filled only if its size is known, and systems differ.
        let (_reader, mut full) = UnixStream::pair().unwrap();
        full.set_nonblocking(true).unwrap();
        while full.write(&[b' '; 4096]).is_ok_and(|written| written > 0) {}
        full.set_nonblocking(false).unwrap();
        let full = OwnedFd::from(full);
        let mut child = program().arg("--help").stdout(full).spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        // Wait until the program has its handlers, for at most two minutes. That of SIGXFSZ, which is signal 25, comes
        // after those that this test needs; a signal before its own handler would kill the program.
        for _ in 0..12_000 {
            thread::sleep(Duration::from_millis(10));
            let status = fs::read_to_string(&status).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            if u64::from_str_radix(caught.trim(), 16).unwrap() >> 24 & 1 == 1 {
                break;
            }
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
    }
}
