//! Ctrl-C: the block under way is finished, everything is kept, and the same command goes on.

use crate::{
    run::{binary, polytrie},
    support::{CONDENSE, Data, for_each_layer},
};
use std::{
    ffi::OsStr,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

for_each_layer!(an_import_is_interrupted_and_goes_on);

fn an_import_is_interrupted_and_goes_on(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    let data = Data::new();
    let csv = data.file("blocks.csv");
    for (signal, verify) in [("-INT", "full"), ("-TERM", "every=50")] {
        let mut import = Command::new(binary())
            .env("POLYTRIE_LVMT_SETUP", crate::testsetup::dir())
            .args(["import", "--state", layer, "--verify", verify, "--datadir"])
            .arg(data.path())
            .arg("--chain")
            .arg(&chain.chain)
            .arg("--csv")
            .arg(&csv)
            .arg(&chain.file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The figures of a few hundred blocks are written at once: then it is in the midst of it.
        while !fs::metadata(&csv).is_ok_and(|meta| meta.len() > 0) {
            assert!(import.try_wait().unwrap().is_none(), "it has ended before it was interrupted");
            thread::sleep(Duration::from_millis(1));
        }
        kill(&import, signal);
        let mut stderr = String::new();
        import.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = import.wait().unwrap();
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

fn kill(child: &Child, signal: &str) {
    let kill = Command::new("kill").arg(signal).arg(child.id().to_string()).status().unwrap();
    assert!(kill.success());
}

fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample").join(file)
}

/// What only reads has nothing to finish; the exit code is the same.
#[test]
fn what_only_reads_ends_at_once() {
    let data = Data::new();
    let (file, chain) = (sample("chain.rlp.gz"), sample("genesis.json"));
    polytrie!["import", file, "--chain", chain, "--datadir", data.path(), "--to", "500"].ok();
    for signal in ["-INT", "-TERM", "-HUP"] {
        // More than a pipe holds, and nobody reads it.
        let mut export = Command::new(binary())
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
