//! Runs the program with arguments as a user does, and returns its exit code and output.

use crate::testsetup;
use assert_cmd::Command;
use std::{env, ffi::OsStr, path::PathBuf, process, time::Duration};

/// The longest time to wait for a command. No command of the tests takes that long, even on a slow
/// and busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// Returns the path of the program under test: `POLYTRIE_BIN`, or else the program built with the
/// tests.
pub(crate) fn binary() -> PathBuf {
    env::var_os("POLYTRIE_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_polytrie")), PathBuf::from)
}

/// Returns the command of the program under test, without the variables that would change what it says.
pub(crate) fn program() -> process::Command {
    let mut command = process::Command::new(binary());
    command.env_remove("RUST_LOG").env_remove("CLICOLOR_FORCE");
    command.env("POLYTRIE_LVMT_SETUP", testsetup::dir());
    command
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Runs the program with these arguments and with `stdin` on its standard input.
pub(crate) fn run(args: &[&OsStr], stdin: &[u8]) -> Run {
    let mut command = Command::from_std(program());
    command.args(args).timeout(PATIENCE).write_stdin(stdin);
    let output = command.output().expect("the program can be started");
    let stderr = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert!(!stderr.contains("panicked"), "{args:?} panicked: {stderr}");
    Run { code: output.status.code(), stdout: output.stdout, stderr }
}

/// Runs the program with the listed arguments, which may be strings and paths, and with an empty
/// standard input.
macro_rules! polytrie {
    ($($arg:expr),* $(,)?) => {
        $crate::run::run(&[$(std::ffi::OsStr::new(&$arg)),*], &[])
    };
}
pub(crate) use polytrie;

impl Run {
    /// Checks that the command succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// Returns the standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("results are UTF-8")
    }

    /// Returns the standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// Returns the error message of a failed command, which is the last line of standard error.
    pub(crate) fn message(&self) -> &str {
        self.stderr.lines().last().unwrap_or_default()
    }
}
