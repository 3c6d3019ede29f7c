//! Results: to standard output, or as JSON to a file.

use super::exit::Failure;
use crate::{
    blocks::{OutputFile, behind_links},
    datadir::{GENESIS_FILE, OUTLINE_FILE, OpenOptions},
    layers::normal,
};
use clap::Args;
use polytrie_state::STAMP_FILE;
use serde::Serialize;
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time between two progress lines of a long command.
const EVERY: Duration = Duration::from_secs(8);

/// Where the result of a command goes.
#[derive(Debug, Args)]
pub(super) struct ResultArgs {
    /// Write the result as JSON to this file; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl ResultArgs {
    /// The file of --json, if one was named.
    pub(super) fn file(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Refuses a file that is also one of these inputs, or the genesis of --chain: the result would destroy it.
    pub(super) fn expect_apart<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a Path>,
        chain: Option<&'a str>,
    ) -> Result<(), Failure> {
        let inputs: Vec<&Path> = inputs.into_iter().chain(chain.map(Path::new)).collect();
        expect_apart(&[("--json", self.file())], &inputs)
    }

    /// Opens the file before the work begins, so that a path that cannot be written fails early.
    pub(super) fn open(&self) -> Result<ResultFile, Failure> {
        self.json.as_deref().map_or(Ok(()), |file| expect_not_ours("--json", file))?;
        let json = self.json.as_deref().map(OutputFile::create).transpose()?;
        Ok(ResultFile { json, takes_stdout: self.takes_stdout() })
    }

    /// Opens the file and writes the result as [`ResultFile::write`] does.
    pub(super) fn write(
        &self,
        result: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.open()?.write(result, text)
    }

    /// Whether the JSON goes to standard output, so that nothing else may be printed there.
    pub(super) fn takes_stdout(&self) -> bool {
        takes_stdout(self.json.as_deref())
    }
}

/// Output for the result, open for writing. A file appears under its name when it is complete.
#[derive(Debug)]
pub(super) struct ResultFile {
    json: Option<OutputFile>,
    takes_stdout: bool,
}

impl ResultFile {
    /// Writes the result as JSON if that was asked for, and prints its text unless the JSON goes to standard output.
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

    /// Writes the result as JSON if that was asked for, and prints no text.
    pub(super) fn write_json(self, result: &impl Serialize) -> Result<(), Failure> {
        self.json.map_or(Ok(()), |file| write_json(file, result))
    }
}

/// Whether the path (of `--json` or the like) means standard output, so that nothing else may be printed there.
pub(super) fn takes_stdout(file: Option<&Path>) -> bool {
    file == Some(Path::new("-"))
}

/// Refuses an output file that is also an input or the output of two options: the last writer would destroy it. Refuses
/// one on which a data directory rests, and standard output (`-`) for two options, too. Errors name the file and the
/// option as the user gave them. Paths that are no regular files are ignored.
pub(super) fn expect_apart(
    outputs: &[(&str, Option<&Path>)],
    inputs: &[&Path],
) -> Result<(), Failure> {
    let mut takers = outputs.iter().filter(|(_, path)| takes_stdout(*path));
    if let (Some((one, _)), Some((other, _))) = (takers.next(), takers.next()) {
        return Err(Failure::Usage(format!(
            "{one} and {other} both want standard output; name a file for one of them"
        )));
    }
    let mut seen: Vec<(PathBuf, String)> = inputs
        .iter()
        .filter(|path| path.is_file())
        .filter_map(|path| Some((file(path)?, format!("what is read, {}", path.display()))))
        .collect();
    for (option, path) in outputs {
        let Some((path, found)) = path.and_then(|path| Some((path, file(path)?))) else { continue };
        expect_not_ours(option, path)?;
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

/// Refuses an output within a data directory that is still to be made: a directory that holds something is refused.
pub(super) fn expect_outside(
    outputs: &[(&str, Option<&Path>)],
    options: &OpenOptions,
) -> Result<(), Failure> {
    let Some(datadir) = options.datadir.as_deref().filter(|_| !options.is_in_memory()) else {
        return Ok(());
    };
    let is_within =
        |path: &Path| !takes_stdout(Some(path)) && normal(path).starts_with(normal(datadir));
    let within = outputs.iter().find(|(_, path)| path.is_some_and(is_within));
    match within {
        Some((option, Some(path))) if options.is_new() => Err(Failure::Usage(format!(
            "{option} {} is within {}, which is no data directory yet and would not be empty then; name a path outside of it, or make the directory first with `polytrie init`",
            path.display(),
            datadir.display()
        ))),
        _ => Ok(()),
    }
}

/// Refuses an output that would replace a file on which a data directory rests: what is in `db`, or beside it and there.
pub(super) fn expect_not_ours(option: &str, path: &Path) -> Result<(), Failure> {
    const BESIDE: [&str; 5] = [STAMP_FILE, OUTLINE_FILE, GENESIS_FILE, "flat.json", "LOCK"];
    let Some(file) = file(path) else { return Ok(()) };
    let is_ours =
        |dir: &Path| [STAMP_FILE, "flat.json"].iter().any(|name| dir.join(name).is_file());
    let is_beside = file.is_file() && BESIDE.iter().any(|name| file.ends_with(name));
    let beside = file.parent().filter(|_| is_beside);
    let above_db = file.ancestors().skip(1).filter(|dir| dir.ends_with("db"));
    let mut dirs = beside.into_iter().chain(above_db.filter_map(Path::parent));
    let ours = dirs.find(|dir| is_ours(dir));
    match ours {
        None => Ok(()),
        Some(dir) => Err(Failure::Usage(format!(
            "{option} {} would replace a part of the data directory {}; name another file",
            path.display(),
            dir.display()
        ))),
    }
}

/// The canonical path of a file, whether or not it and its directory exist; `None` for standard output, devices and
/// directories.
fn file(path: &Path) -> Option<PathBuf> {
    if takes_stdout(Some(path)) || (path.exists() && !path.is_file()) {
        return None;
    }
    Some(canonical(&normal(&behind_links(path))))
}

/// The canonical path of the part that exists, with the rest of the path after it.
fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => canonical(above).join(name),
        _ => path.to_owned(),
    })
}

/// Makes a directory for files that a command writes, if it is not there.
pub(super) fn create_dir(dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|error| cannot_create(dir, &error))
}

/// The failure to make a directory for files that a command writes.
pub(super) fn cannot_create(dir: &Path, error: &io::Error) -> Failure {
    Failure::Machine(format!(
        "cannot create {}: {error}; check the path and its permissions, or name another directory",
        dir.display()
    ))
}

/// Prints a line of result to standard output.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}").map_err(|e| Failure::output(&e))
}

/// Writes a value as JSON to `file`, or to standard output if that is `-`.
pub(super) fn json(file: &Path, value: &impl Serialize) -> Result<(), Failure> {
    write_json(OutputFile::create(file)?, value)
}

/// Writes a value as JSON to an output file.
pub(super) fn write_json(file: OutputFile, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::Machine(format!("the result does not serialise: {e}")))?;
    Ok(file.write_whole(&format!("{text}\n"))?)
}

/// A number of bytes with a binary unit, as in "1.5 MiB".
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

/// A timer that says when the next progress line of a long command is due.
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
