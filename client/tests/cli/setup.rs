//! Tests of `polytrie setup lvmt`, and of the choice of the setup that a command uses.

use crate::{fixtures::fixture, run::program, support::CONDENSE};
use polytrie_kv_testing::Mount;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Output,
};
use tempfile::TempDir;

/// A user with a separate cache directory.
struct User(TempDir);

impl User {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, args: &[&dyn AsRef<OsStr>]) -> (i32, String, String) {
        let mut command = program();
        command.env_remove("POLYTRIE_LVMT_SETUP");
        command.env("XDG_CACHE_HOME", self.0.path()).args(args.iter().map(|arg| arg.as_ref()));
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(stdout), text(stderr));
        assert!(!stderr.contains("panicked"), "{stderr}");
        (status.code().unwrap(), stdout, stderr)
    }

    #[track_caller]
    fn fails(&self, code: i32, reason: &str, args: &[&dyn AsRef<OsStr>]) {
        let (found, _, stderr) = self.run(args);
        assert_eq!(found, code, "{stderr}");
        let message = stderr.lines().last().unwrap_or_default();
        assert!(message.contains(reason), "{message}; expected {reason}");
    }

    #[track_caller]
    fn works(&self, args: &[&dyn AsRef<OsStr>]) -> String {
        let (found, stdout, stderr) = self.run(args);
        assert_eq!(found, 0, "{stderr}");
        stdout
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[test]
fn an_insecure_setup_is_used_only_where_it_is_wanted() {
    let user = User::new();
    let chain = user.dir("genesis.json");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample/genesis.json");
    fs::copy(sample, &chain).unwrap();
    let init = |name: &str| {
        let dir = user.dir(name);
        move |more: &[&'static str]| {
            let mut args: Vec<String> =
                ["init", "--state", "lvmt", "--datadir"].map(Into::into).into();
            args.push(dir.display().to_string());
            args.extend(more.iter().map(ToString::to_string));
            args
        }
    };
    let chain_text = chain.display().to_string();
    let run = |mut args: Vec<String>| {
        args.extend(["--chain".to_owned(), chain_text.clone()]);
        let args: Vec<&dyn AsRef<OsStr>> = args.iter().map(|arg| arg as _).collect();
        user.run(&args)
    };

    let (code, _, stderr) = run(init("a")(&[]));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("needs a setup") && stderr.contains("polytrie setup lvmt"), "{stderr}");

    // The setup is missing for many tests, and the error appears once.
    user.fails(2, "needs a setup", &[&"conformance", &user.dir("suite"), &"--state", &"lvmt"]);

    let text = user.works(&[&"setup", &"lvmt", &"--insecure-dev", &"--height", &"5"]);
    assert!(text.contains("INSECURE"), "{text}");
    let insecure = user.dir("polytrie/lvmt-insecure-dev");
    assert!(insecure.join("quotients").exists());

    // The insecure setup exists, but no option asks for it.
    let (code, _, stderr) = run(init("a")(&[]));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("is used if you name it"), "{stderr}");

    let mut named = init("a")(&["--lvmt.setup"]);
    named.push(insecure.display().to_string());
    let (code, _, stderr) = run(named);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("anything"), "a warning is due: {stderr}");
    let stamp = fs::read_to_string(user.dir("a/polytrie.json")).unwrap();
    assert!(stamp.contains("insecure-dev"), "{stamp}");

    // The data directory remembers its setup, so that it need not be named again, and another one is refused.
    user.works(&[&"db", &"check", &"--datadir", &user.dir("a")]);
    let other = user.dir("other");
    user.works(&[
        &"setup",
        &"lvmt",
        &"--insecure-dev",
        &"--height",
        &"5",
        &"--seed",
        &"x",
        &"--out",
        &other,
    ]);
    let check: [&dyn AsRef<OsStr>; 4] = [&"db", &"check", &"--datadir", &user.dir("a")];
    user.fails(2, "lvmt.", &[&check[..], &[&"--lvmt.setup", &other]].concat());

    // The check of a proof with an insecure setup says that the proof shows nothing.
    let address = "0x0000000000000000000000000000000000000001";
    let proof =
        user.works(&[&"proof", &"get", &"--datadir", &user.dir("a"), &"--address", &address]);
    let file = user.dir("proof.json");
    fs::write(&file, &proof).unwrap();
    let proof: serde_json::Value = serde_json::from_str(&proof).unwrap();
    let digest = proof["commitment"]["digest"].as_str().unwrap();
    let (code, proven, stderr) = user.run(&[&"proof", &"verify", &file, &"--root", &digest]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("anything can be proven"), "a warning is due: {stderr}");
    let proven: serde_json::Value = serde_json::from_str(&proven).unwrap();
    assert_eq!(proven["insecure"], serde_json::Value::Bool(true));
    user.fails(
        1,
        "setup",
        &[&"proof", &"verify", &file, &"--root", &digest, &"--lvmt.setup", &other],
    );

    // Damaged tables are found.
    let slots = insecure.join("slots");
    let mut bytes = fs::read(&slots).unwrap();
    bytes[200] ^= 1;
    fs::write(&slots, bytes).unwrap();
    user.fails(3, "damaged", &check);
    // A damaged verifying key is found, and a missing one has to be made.
    let key = insecure.join("verifying-key");
    fs::write(&key, "no key").unwrap();
    user.fails(3, "damaged", &check);
    fs::remove_file(&key).unwrap();
    user.fails(2, "setup", &check);
}

/// A data directory remembers the path of its setup. If the setup is missing, all commands work that compute no
/// commitment.
#[test]
fn a_setup_that_is_elsewhere_is_remembered() {
    let user = User::new();
    let file = |name: &str| {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample");
        data.join(name)
    };
    let (genesis, blocks) = (file("genesis.json"), file("chain.rlp.gz"));
    let (own, moved) = (user.dir("own"), user.dir("moved"));
    let made = |more: &[&dyn AsRef<OsStr>]| {
        let make: [&dyn AsRef<OsStr>; 7] =
            [&"setup", &"lvmt", &"--insecure-dev", &"--height", &"4", &"--json", &"-"];
        let text = user.works(&[&make[..], more].concat());
        let made: serde_json::Value = serde_json::from_str(&text).unwrap();
        made["setup"].as_str().unwrap().to_owned()
    };
    let id = made(&[&"--seed", &"own", &"--out", &own]);
    let data = user.dir("data");
    let import = |to: &str, more: &[&dyn AsRef<OsStr>]| {
        let args: [&dyn AsRef<OsStr>; 6] = [&"import", &blocks, &"--datadir", &data, &"--to", &to];
        user.run(&[&args[..], more].concat())
    };
    let new: [&dyn AsRef<OsStr>; 6] =
        [&"--state", &"lvmt", &"--chain", &genesis, &"--lvmt.setup", &own];
    let (code, _, stderr) = import("5", &new);
    assert_eq!(code, 0, "{stderr}");
    let db = |command: &'static str, more: &[&dyn AsRef<OsStr>]| {
        let args: [&dyn AsRef<OsStr>; 4] = [&"db", &command, &"--datadir", &data];
        user.run(&[&args[..], more].concat())
    };
    // The setup need not be named again.
    let (code, _, stderr) = import("10", &[]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(db("check", &[]).0, 0);
    let (_, stats, _) = db("stats", &[&"--json", &"-"]);
    let (_, dump, _) = db("dump", &[]);

    fs::rename(&own, &moved).unwrap();
    // In the first round the cache has no setup, in the second a different one.
    for round in 0..2 {
        if round == 1 {
            assert_ne!(made(&[]), id);
        }
        // Reading computes no commitment.
        assert_eq!(db("stats", &[&"--json", &"-"]), (0, stats.clone(), String::new()));
        assert_eq!(db("dump", &[]).1, dump);
        let exported = user.dir("blocks.rlp");
        user.works(&[&"export", &exported, &"--datadir", &data]);
        assert!(fs::metadata(&exported).unwrap().len() > 0);
        let out = user.dir(if round == 0 { "converted" } else { "again" });
        user.works(&[&"db", &"convert", &"--datadir", &data, &"--to", &"raw", &"--out", &out]);
        // The other commands name the path at which they looked.
        for (code, _, stderr) in [import("20", &[]), db("check", &[])] {
            assert_eq!(code, 2, "{stderr}");
            let message = stderr.lines().last().unwrap();
            let cache = user.dir("polytrie");
            let words = [&*id, &own.display().to_string(), &cache.display().to_string()];
            for word in words.iter().chain(&["--lvmt.setup"]) {
                assert!(message.contains(word), "{word} is missing in {message}");
            }
        }
    }
    // An unwind restores stored commitments, and deleting old records needs none.
    let (code, _, stderr) = db("unwind", &[&"--to", &"8"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(db("prune", &[]).0, 0);
    let named: [&dyn AsRef<OsStr>; 2] = [&"--lvmt.setup", &moved];
    assert_eq!(db("check", &named).0, 0);
    let (code, _, stderr) = import("10", &named);
    assert_eq!(code, 0, "{stderr}");
    // The directory remembers the new path.
    let (code, _, stderr) = import("20", &[]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(db("check", &[]).0, 0);
}

/// Deriving a setup takes long, so errors of the target directory are found before it.
#[test]
fn where_a_setup_goes_is_looked_at_first() {
    let user = User::new();
    let file = user.dir("file");
    fs::write(&file, "text").unwrap();
    let (code, _, stderr) =
        user.run(&[&"setup", &"lvmt", &"--insecure-dev", &"--height", &"4", &"--out", &file]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("cannot make") && !stderr.contains("derived"), "{stderr}");
    let (out, json) = (user.dir("out"), user.dir("nowhere").join("made.json"));
    let make: [&dyn AsRef<OsStr>; 5] = [&"setup", &"lvmt", &"--insecure-dev", &"--height", &"4"];
    user.fails(3, "cannot be written", &[&make[..], &[&"--out", &out, &"--json", &json]].concat());
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    let (code, _, stderr) = user.run(&[&"setup", &"lvmt", &"--ptau", &file, &"--seed", &"x"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("--seed"), "{stderr}");
}

/// An incomplete table is not kept.
#[test]
fn a_full_disk_keeps_no_part_of_a_setup() {
    let user = User::new();
    let Some(disk) = Mount::new(user.dir("disk"), "16k") else { return };
    let out = disk.0.join("setup");
    let make: [&dyn AsRef<OsStr>; 7] =
        [&"setup", &"lvmt", &"--insecure-dev", &"--height", &"8", &"--out", &out];
    user.fails(3, "the disk is full", &make);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}

#[test]
fn powers_that_are_none_are_refused() {
    let user = User::new();
    user.fails(2, "powers of tau are needed", &[&"setup", &"lvmt"]);
    user.fails(2, "", &[&"setup", &"lvmt", &"--g1", &"x"]);
    let none = user.dir("none");
    user.fails(3, "cannot read", &[&"setup", &"lvmt", &"--ptau", &none]);
    fs::write(&none, vec![7; 4096]).unwrap();
    user.fails(1, "`ptau`", &[&"setup", &"lvmt", &"--ptau", &none]);
    user.fails(
        1,
        "setup of height 16 needs 65536",
        &[&"setup", &"lvmt", &"--g1", &none, &"--g2", &none],
    );
    user.fails(
        1,
        "is not in the group",
        &[&"setup", &"lvmt", &"--height", &"3", &"--g1", &none, &"--g2", &none],
    );
}

/// A real chain is imported to its end with the published powers, and a second import has the same commitment.
#[test]
fn a_chain_is_imported_with_the_published_powers() {
    let files = ["kzg/g1.point", "kzg/g2.point.powerOf2"].map(fixture);
    let ([Some(g1), Some(g2)], Some(chain)) = (files, CONDENSE.open()) else { return };
    let user = User::new();
    user.works(&[&"setup", &"lvmt", &"--height", &"8", &"--g1", &g1, &"--g2", &g2]);
    let mut commitments = Vec::new();
    for name in ["a", "b"] {
        let report = user.works(&[
            &"import",
            &chain.file,
            &"--chain",
            &chain.chain,
            &"--state",
            &"lvmt",
            &"--to",
            &"300",
            &"--datadir",
            &user.dir(name),
            &"--json",
            &"-",
        ]);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["head"]["number"], 300);
        commitments.push(report["head"]["commitment"].clone());
    }
    assert_eq!(commitments[0], commitments[1]);
    user.works(&[&"db", &"check", &"--datadir", &user.dir("a")]);
    let stamp = fs::read_to_string(user.dir("a/polytrie.json")).unwrap();
    assert!(stamp.contains("ceremony"), "{stamp}");
}

/// The usage line of an error does not list settings that come from the environment.
#[test]
fn a_usage_line_holds_what_was_given() {
    let run =
        program().args(["db", "stats"]).env("POLYTRIE_LVMT_SETUP", "somewhere").output().unwrap();
    let text = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(text.contains("Usage: polytrie db stats --datadir <DIR>\n"), "{text}");
}

/// A setup is not replaced by another one, because its data directories could not be opened and its proofs not be
/// checked any more.
#[test]
fn a_setup_does_not_replace_another() {
    let user = User::new();
    let setup: [&dyn AsRef<OsStr>; 5] = [&"setup", &"lvmt", &"--insecure-dev", &"--height", &"4"];
    user.works(&setup);
    let dir = user.dir("polytrie/lvmt-insecure-dev");
    let files = || {
        let mut files: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let seed: [&dyn AsRef<OsStr>; 2] = [&"--seed", &"x"];
    user.fails(2, "there is another setup in", &[&setup[..], &seed].concat());
    user.fails(2, "of height 4", &[&setup[..4], &[&"5"]].concat());
    let without: [&dyn AsRef<OsStr>; 1] = [&"--no-proofs"];
    user.fails(2, "which --no-proofs would take away", &[&setup[..], &without].concat());
    assert_eq!(files(), before);
    // The same setup may be made again, and tables may be added to it.
    user.works(&setup);
    assert_eq!(files(), before);
    fs::remove_file(dir.join("quotients")).unwrap();
    user.works(&[&setup[..], &without].concat());
    user.works(&setup);
    assert_eq!(files(), before);
}
