//! Reports that were written before.

use super::{FORMAT, Report};
use serde::Deserialize;
use std::{fs, io, path::Path};
use thiserror::Error;

/// A report could not be read.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The file could not be read.
    #[error("cannot read {file}: {source}; check the path")]
    Io {
        /// The file.
        file: String,
        /// The operating system's words.
        source: io::Error,
    },
    /// It is not what `--json` writes.
    #[error(
        "{file} is not a report of `bench store` or `bench chain`: {reason}; name what one of them wrote with --json"
    )]
    NotAReport {
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
}

#[derive(Deserialize)]
struct Form {
    format: u32,
}

/// Reads what `--json` wrote.
///
/// # Errors
///
/// If there is no such file, or it holds something else.
pub fn read(path: &Path) -> Result<Report, ReportError> {
    let file = path.display().to_string();
    let bytes = fs::read(path).map_err(|source| ReportError::Io { file: file.clone(), source })?;
    let not = |reason: String| ReportError::NotAReport { file: file.clone(), reason };
    let Form { format } = serde_json::from_slice(&bytes).map_err(|e| not(e.to_string()))?;
    if format != FORMAT {
        return Err(not(format!("it has format {format}, this program reads {FORMAT}")));
    }
    serde_json::from_slice(&bytes).map_err(|e| not(e.to_string()))
}
