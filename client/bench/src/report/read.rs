//! Reads reports of earlier runs.

use super::{FORMAT, OLDEST, Report};
use serde::Deserialize;
use std::{fs, io, path::Path};
use thiserror::Error;

/// Error of a report that cannot be read.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A file that cannot be read.
    #[error("cannot read {file}: {source}; check the path")]
    Io {
        /// Name of the file.
        file: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file that `--json` has not written.
    #[error(
        "{file} is not a report of `bench store` or `bench chain`: {reason}; name what one of them wrote with --json"
    )]
    NotAReport {
        /// Name of the file.
        file: String,
        /// Reason why it is no report.
        reason: String,
    },
}

#[derive(Deserialize)]
struct Form {
    format: u32,
}

/// Reads a report that `--json` has written.
///
/// # Errors
///
/// Fails if the file does not exist, or holds something else.
pub fn read(path: &Path) -> Result<Report, ReportError> {
    let file = path.display().to_string();
    let bytes = fs::read(path).map_err(|source| ReportError::Io { file: file.clone(), source })?;
    let not = |reason: String| ReportError::NotAReport { file: file.clone(), reason };
    let Form { format } = serde_json::from_slice(&bytes).map_err(|e| not(e.to_string()))?;
    if !(OLDEST..=FORMAT).contains(&format) {
        let reason = format!("it has format {format}, this program reads {OLDEST} to {FORMAT}");
        return Err(not(reason));
    }
    serde_json::from_slice(&bytes).map_err(|e| not(e.to_string()))
}
