//! Running the program as a user does: arguments in, exit code and output out.

use crate::testsetup;
use assert_cmd::Command;
use std::{env, ffi::OsStr, path::PathBuf, time::Duration};

/// Longer than any command here takes, on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// The program under test: the one built with the tests, unless `POLYTRIE_BIN` names another.
pub(crate) fn binary() -> PathBuf {
    env::var_os("POLYTRIE_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_polytrie")), PathBuf::from)
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Runs the program with these arguments and this on its standard input.
pub(crate) fn run(args: &[&OsStr], stdin: &[u8]) -> Run {
    let mut command = Command::new(binary());
    command.env("POLYTRIE_LVMT_SETUP", testsetup::dir());
    command.args(args).env_remove("RUST_LOG").timeout(PATIENCE).write_stdin(stdin);
    let output = command.output().expect("the program can be started");
    let stderr = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert!(!stderr.contains("panicked"), "{args:?} panicked: {stderr}");
    Run { code: output.status.code(), stdout: output.stdout, stderr }
}

/// Runs the program with the arguments listed, which may be strings and paths, and nothing to read.
macro_rules! polytrie {
    ($($arg:expr),* $(,)?) => {
        $crate::run::run(&[$(std::ffi::OsStr::new(&$arg)),*], &[])
    };
}
pub(crate) use polytrie;

impl Run {
    /// The command must have done what it was asked for.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// What was printed.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("results are UTF-8")
    }

    /// What was printed, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The message of a command that failed.
    pub(crate) fn message(&self) -> &str {
        self.stderr.lines().last().unwrap_or_default()
    }
}
