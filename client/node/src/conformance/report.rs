//! The results of the tests.

use serde::{Serialize, Serializer, ser::SerializeStruct};
use std::{fmt, path::PathBuf, time::Duration};

/// Result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All values were as the test expects.
    Passed,
    /// Some value differed; the reason in one line.
    Failed(String),
    /// The entry is no test, is superseded, or needs what the layer cannot give; the reason in one
    /// line.
    Skipped(String),
}

/// Report of one test.
#[derive(Debug, Clone)]
pub struct TestReport {
    /// Path of the test's file.
    pub file: PathBuf,
    /// Name of the test; empty if the report is about the whole file.
    pub name: String,
    /// Name of the fork or transition, if the test has one.
    pub network: Option<String>,
    /// Result of the test.
    pub outcome: Outcome,
    /// Duration of the test.
    pub time: Duration,
}

impl TestReport {
    /// Returns the text that `--filter` is matched with: `file::name`.
    pub(super) fn id(file: &std::path::Path, name: &str) -> String {
        if name.is_empty() {
            file.display().to_string()
        } else {
            format!("{}::{name}", file.display())
        }
    }
}

impl fmt::Display for TestReport {
    /// Writes one line: the test, its network, and the reason if it failed or was skipped.
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

/// Reports of all tests of one file.
#[derive(Debug)]
pub struct FileReport {
    /// Number of files in this run.
    pub files: usize,
    /// Reports of the tests, in the order of their names.
    pub tests: Vec<TestReport>,
}

/// Counts of results.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of tests that passed.
    pub passed: u64,
    /// Number of tests that failed.
    pub failed: u64,
    /// Number of tests that were skipped.
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
    /// Writes `N passed, M failed, K skipped`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Report of a whole run, as JSON.
#[derive(Debug, Serialize)]
pub struct ConformanceReport {
    /// Name of the state layer.
    pub state: &'static str,
    /// Counts of results.
    #[serde(flatten)]
    pub summary: Summary,
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// Reports of all tests, sorted by file and name.
    pub tests: Vec<TestReport>,
}
