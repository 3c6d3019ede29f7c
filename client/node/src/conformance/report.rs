//! The results of the tests.

use serde::{Serialize, Serializer, ser::SerializeStruct};
use std::{fmt, path::PathBuf, time::Duration};

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was as the test says.
    Passed,
    /// Something was not; one line.
    Failed(String),
    /// It is not a test, is superseded, or needs what the layer cannot give; one line.
    Skipped(String),
}

/// One test that was looked at.
#[derive(Debug, Clone)]
pub struct TestReport {
    /// The file it is in.
    pub file: PathBuf,
    /// Its name; empty if the file as a whole is meant.
    pub name: String,
    /// The fork or transition it runs under, if it says so.
    pub network: Option<String>,
    /// Its result.
    pub outcome: Outcome,
    /// How long it took.
    pub time: Duration,
}

impl TestReport {
    /// What `--filter` is matched with: `file::name`.
    pub(super) fn id(file: &std::path::Path, name: &str) -> String {
        if name.is_empty() {
            file.display().to_string()
        } else {
            format!("{}::{name}", file.display())
        }
    }
}

impl fmt::Display for TestReport {
    /// One line: which test, under which network, and why it failed or was skipped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = Self::id(&self.file, &self.name);
        let (word, reason) = match &self.outcome {
            Outcome::Passed => ("passed", None),
            Outcome::Failed(reason) => ("failed", Some(reason)),
            Outcome::Skipped(reason) => ("skipped", Some(reason)),
        };
        write!(f, "{word} {id}")?;
        if let Some(network) = &self.network {
            write!(f, " ({network})")?;
        }
        reason.map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

impl Serialize for TestReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (result, reason) = match &self.outcome {
            Outcome::Passed => ("passed", None),
            Outcome::Failed(reason) => ("failed", Some(reason)),
            Outcome::Skipped(reason) => ("skipped", Some(reason)),
        };
        let mut entry = serializer.serialize_struct("TestReport", 6)?;
        entry.serialize_field("name", &self.name)?;
        entry.serialize_field("file", &self.file.display().to_string())?;
        entry.serialize_field("network", &self.network)?;
        entry.serialize_field("result", result)?;
        entry.serialize_field("reason", &reason)?;
        entry.serialize_field("seconds", &self.time.as_secs_f64())?;
        entry.end()
    }
}

/// All tests of one file.
#[derive(Debug)]
pub struct FileReport {
    /// How many files there are in this run.
    pub files: usize,
    /// The tests, in the order of their names.
    pub tests: Vec<TestReport>,
}

/// How many tests ended in which way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Skipped.
    pub skipped: u64,
}

impl Summary {
    /// Counts one test.
    pub const fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
        }
    }
}

impl fmt::Display for Summary {
    /// `N passed, M failed, K skipped`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// A whole run, for a machine to read.
#[derive(Debug, Serialize)]
pub struct ConformanceReport {
    /// Name of the state layer.
    pub state: &'static str,
    /// The counts.
    #[serde(flatten)]
    pub summary: Summary,
    /// How long the run took.
    pub seconds: f64,
    /// Every test, sorted by file and name.
    pub tests: Vec<TestReport>,
}
