//! Tests of the output and the exit codes of `polytrie conformance`.

use polytrie_testing::for_each_in_suite;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_polytrie"));
    command.env("POLYTRIE_LVMT_SETUP", crate::testsetup::dir()).env_remove("CLICOLOR_FORCE");
    command.arg("conformance").args(arguments);
    command
}

fn polytrie(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is text")
}

/// Writes a file of the legacy tests to `dir` and returns its path. `None` if the fixtures are
/// absent.
fn real_file(dir: &Path) -> Option<PathBuf> {
    let file = dir.join("wrongReceiptTrie.json");
    let folder = "Constantinople/BlockchainTests/InvalidBlocks/bcInvalidHeaderTest";
    for_each_in_suite("legacytests-constantinople", folder, |path, bytes| {
        if path.ends_with("wrongReceiptTrie.json") {
            fs::write(&file, bytes).expect("a file can be written");
        }
    })?;
    Some(file)
}

#[test]
fn results_go_to_standard_output_and_json() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(file) = real_file(dir.path()) else { return };
    let file = file.display().to_string();
    let json = dir.path().join("report");
    let output = polytrie(&[&file, "--jobs", "1", "--json", &json.display().to_string()]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "7 passed, 0 failed, 0 skipped\n");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(json).expect("there is a report")).expect("it is JSON");
    assert_eq!((&report["state"], &report["passed"]), (&"mpt".into(), &7.into()));
    let first = &report["tests"][0];
    assert_eq!(first["name"], "wrongReceiptTrie_Byzantium");
    assert_eq!((&first["network"], &first["result"]), (&"Byzantium".into(), &"passed".into()));
    assert!(first["seconds"].is_f64() && first["reason"].is_null() && first["file"] == file);

    let output = polytrie(&[&file, "--filter", "::.*_(Frontier|Byzantium)$"]);
    assert_eq!(text(&output.stdout), "2 passed, 0 failed, 0 skipped\n");
    // The receipts of Frontier hold state roots, which the layer cannot compute.
    let output = polytrie(&[&file, "--filter", "_(Frontier|Byzantium)$", "--state", "raw"]);
    assert_eq!(text(&output.stdout), "1 passed, 0 failed, 1 skipped\n");
}

#[test]
fn a_failure_is_one_line_and_exit_code_1() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(file) = real_file(dir.path()) else { return };
    let changed = fs::read_to_string(&file)
        .expect("it can be read")
        .replace("\"network\" : \"Byzantium\"", "\"network\" : \"Nowhere\"");
    fs::write(&file, changed).expect("a file can be written");
    let output = polytrie(&[&file.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout),
        format!(
            "failed {}::wrongReceiptTrie_Byzantium (Nowhere): the network `Nowhere` is not known\n6 passed, 1 failed, 0 skipped\n",
            file.display()
        )
    );
    assert!(text(&output.stderr).ends_with("error: 1 of 7 tests failed under mpt\n"));
    // The exit code does not depend on a reader of the report.
    for extra in [&[][..], &["--json", "-"]] {
        let mut child = command(&[&file.display().to_string()])
            .args(extra)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).ends_with("error: 1 of 7 tests failed under mpt\n"));
    }
}

#[test]
fn wrong_usage_is_told_from_a_failing_machine() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let empty = dir.path().display().to_string();
    for (arguments, code, sentence) in [
        (&[empty.as_str()][..], 1, "there is no test in "),
        (&[&empty, "--filter", "x"], 2, "whose name matches `x`"),
        (&[&empty, "--state", "none"], 2, "there is no state layer `none`"),
        (&[&empty, "--jobs", "0"], 2, "invalid value '0'"),
        (&[&empty, "--filter", "("], 2, "invalid value '('"),
        (&[&format!("{empty}/absent")], 3, "cannot read "),
    ] {
        let output = polytrie(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(sentence), "{arguments:?}: {error}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

/// The report does not replace a test of a directory that is read.
#[test]
fn a_report_is_no_test() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let folder = dir.path().join("folder");
    fs::create_dir(&folder).expect("a directory can be made");
    let test = folder.join("a.json");
    fs::write(&test, "{}").expect("a file can be written");
    let place = dir.path().display().to_string();
    let output = polytrie(&[&place, "--json", &test.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("is the same file as what is read"), "{error}");
    assert_eq!(fs::read(&test).expect("it is there"), b"{}");
}

/// An interrupted run leaves no incomplete report, under any name.
#[test]
fn an_interrupted_run_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (tests, reports) = (dir.path().join("tests"), dir.path().join("reports"));
    for folder in [&tests, &reports] {
        fs::create_dir(folder).expect("a directory can be made");
    }
    let pipe = tests.join("pipe.json");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("the program starts");
    assert!(made.success());
    let (places, json) = (tests.display().to_string(), reports.join("report"));
    let child = command(&[&places, "--json", &json.display().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // This call returns when the command has opened the pipe to read its tests.
    let end = fs::File::options().write(true).open(&pipe).expect("it is read");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it still runs");
    drop(end);
    let output = child.wait_with_output().expect("the program ends");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.ends_with("interrupted: there is no result\n"), "{error}");
    assert_eq!(fs::read_dir(reports).expect("it can be read").count(), 0);
}
