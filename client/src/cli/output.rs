//! Results: to standard output, or as JSON to a file.

use super::exit::Failure;
use crate::blocks::{ExportError, OutputFile};
use clap::Args;
use serde::Serialize;
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// How often a long command says how far it has come.
const EVERY: Duration = Duration::from_secs(8);

/// Where the result of a command goes.
#[derive(Debug, Args)]
pub(super) struct ResultArgs {
    /// Write the result as JSON to this file; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl ResultArgs {
    /// The file, if one was named.
    pub(super) fn file(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Opens the file before the work begins: one that cannot be written should not be noticed after it.
    pub(super) fn open(&self) -> Result<ResultFile, Failure> {
        let json = self.json.as_deref().map(OutputFile::create).transpose()?;
        Ok(ResultFile { json, takes_stdout: self.takes_stdout() })
    }

    /// Opens the file and writes the result, as [`ResultFile::write`].
    pub(super) fn write(
        &self,
        result: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.open()?.write(result, text)
    }

    /// Whether nothing else may stand on standard output.
    pub(super) fn takes_stdout(&self) -> bool {
        takes_stdout(self.json.as_deref())
    }
}

/// Where the result goes, ready to be written to. A file appears when it is complete.
#[derive(Debug)]
pub(super) struct ResultFile {
    json: Option<OutputFile>,
    takes_stdout: bool,
}

impl ResultFile {
    /// Writes a result: for machines where that was asked for, and for people unless the former takes standard output.
    pub(super) fn write(
        self,
        result: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let takes_stdout = self.takes_stdout;
        self.write_json(result)?;
        if takes_stdout {
            return Ok(());
        }
        line(&text())
    }

    /// Writes a result for machines, where that was asked for, and nothing for people.
    pub(super) fn write_json(self, result: &impl Serialize) -> Result<(), Failure> {
        self.json.map_or(Ok(()), |file| write_json(file, result))
    }
}

/// Whether the file of `--json` (or the like) is standard output, so that nothing else may stand there.
pub(super) fn takes_stdout(file: Option<&Path>) -> bool {
    file == Some(Path::new("-"))
}

/// Refuses files to write that are read as well, or written by two options at once: the last writer would destroy what
/// is there. Both are named as a user knows them; `-` and what is no file do not matter.
pub(super) fn expect_apart(
    outputs: &[(&str, Option<&Path>)],
    inputs: &[&Path],
) -> Result<(), Failure> {
    let mut seen: Vec<(PathBuf, String)> = inputs
        .iter()
        .filter(|path| path.is_file())
        .filter_map(|path| Some((file(path)?, format!("what is read, {}", path.display()))))
        .collect();
    for (option, path) in outputs {
        let Some((path, found)) = path.and_then(|path| Some((path, file(path)?))) else { continue };
        if let Some((_, what)) = seen.iter().find(|(seen, _)| *seen == found) {
            return Err(Failure::Usage(format!(
                "{option} {} is the same file as {what}; name another one",
                path.display()
            )));
        }
        seen.push((found, format!("that of {option}")));
    }
    Ok(())
}

/// A file by its one name, whether or not it is there yet; `None` for what is none, as standard output and devices.
fn file(path: &Path) -> Option<PathBuf> {
    if takes_stdout(Some(path)) || (path.exists() && !path.is_file()) {
        return None;
    }
    let within = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let within = within.unwrap_or(Path::new("."));
    let new = || Some(fs::canonicalize(within).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(new)
}

/// Writes a result for people.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}").map_err(|e| Failure::output(&e))
}

/// Writes a result for machines to `file`, or to standard output if that is `-`.
pub(super) fn json(file: &Path, value: &impl Serialize) -> Result<(), Failure> {
    write_json(OutputFile::create(file)?, value)
}

/// Writes a whole file, which appears when it is complete.
pub(super) fn write_text(mut file: OutputFile, text: &str) -> Result<(), Failure> {
    let name = Arc::clone(file.name());
    file.write_all(text.as_bytes()).map_err(|error| ExportError::Io { file: name, error })?;
    Ok(file.finish()?)
}

/// Writes a value as JSON to an output file.
pub(super) fn write_json(file: OutputFile, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::Machine(format!("the result does not serialise: {e}")))?;
    write_text(file, &format!("{text}\n"))
}

/// A number of bytes as people read it.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Says when it is time for another line about how far a long command has come.
#[derive(Debug)]
pub(super) struct Ticker(Instant);

impl Ticker {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    pub(super) fn is_due(&mut self) -> bool {
        let due = self.0.elapsed() >= EVERY;
        if due {
            self.0 = Instant::now();
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_written_as_people_read_them() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(5 << 20), "5.0 MiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }
}
