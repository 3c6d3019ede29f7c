//! Options and files for the result of a measurement.

use super::Failure;
use crate::{
    bench::{
        Report,
        report::{html, write_csv},
    },
    blocks::OutputFile,
    cli::output::{self, write_json},
};
use clap::Args;
use std::path::{Path, PathBuf};

/// Name of the page in the directory of --html.
pub(super) const PAGE: &str = "index.html";
/// Name of the JSON file beside the page.
const DATA: &str = "report.json";

/// Where the result goes beside the terminal.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Write everything as JSON to this file; `-` for standard output. The file appears when the benchmark is complete.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots, index.html, to this directory, and report.json beside it.
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Write one line a block to this directory, a file for each run, in the columns of `import --csv`.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
}

impl OutputArgs {
    /// Refuses outputs that would overwrite each other or a file that is read.
    pub(super) fn expect_apart(&self, inputs: &[&Path]) -> Result<(), Failure> {
        let page = self.html.as_deref().map(|dir| [PAGE, DATA].map(|name| dir.join(name)));
        let mut outputs = vec![("--json", self.json.as_deref())];
        outputs.extend(page.iter().flatten().map(|file| ("--html", Some(file.as_path()))));
        output::expect_apart(&outputs, inputs)
    }
}

/// Output files, open for writing. They appear under their names when they are complete.
#[derive(Debug)]
pub(super) struct Outputs<'a> {
    args: &'a OutputArgs,
    json: Option<OutputFile>,
    page: Option<(OutputFile, OutputFile)>,
}

impl<'a> Outputs<'a> {
    pub(super) fn open(args: &'a OutputArgs) -> Result<Self, Failure> {
        for (option, dir) in [("--html", &args.html), ("--csv", &args.csv)] {
            dir.as_deref().map_or(Ok(()), |dir| create_dir(option, dir))?;
        }
        // The names of these files are known when everything is measured.
        args.csv.as_deref().map_or(Ok(()), expect_writable)?;
        let page = |dir: &PathBuf| {
            Ok::<_, Failure>((
                OutputFile::create(dir.join(PAGE))?,
                OutputFile::create(dir.join(DATA))?,
            ))
        };
        let json = args.json.as_deref().map(OutputFile::create).transpose()?;
        Ok(Self { args, json, page: args.html.as_ref().map(page).transpose()? })
    }

    /// Writes everything, and prints the tables unless standard output is taken. A measurement may take hours, so if
    /// one output fails the others are still written.
    pub(super) fn write(self, report: &Report) -> Result<(), Failure> {
        let Self { args, json, page } = self;
        let csv = || -> Result<(), Failure> {
            let Some(dir) = &args.csv else { return Ok(()) };
            Ok(write_csv(dir, report.results.iter().map(|entry| &entry.result))?)
        };
        let page = || -> Result<(), Failure> {
            let Some((page, data)) = page else { return Ok(()) };
            page.write_whole(&html::page(std::slice::from_ref(report)))?;
            write_json(data, report)
        };
        let json = || json.map_or(Ok(()), |file| write_json(file, report));
        let table = || -> Result<(), Failure> {
            if output::takes_stdout(args.json.as_deref()) {
                return Ok(());
            }
            output::line(report.table().trim_end())?;
            match &args.html {
                Some(dir) => output::line(&format!("\nthe page is {}", dir.join(PAGE).display())),
                None => Ok(()),
            }
        };
        [csv(), page(), json(), table()].into_iter().fold(Ok(()), Failure::decide)
    }
}

/// Fails if no file can be made in a directory.
fn expect_writable(dir: &Path) -> Result<(), Failure> {
    tempfile::tempfile_in(dir).map(drop).map_err(|error| {
        Failure::Machine(format!(
            "cannot write to {}: {error}; check its permissions, or name another directory",
            dir.display()
        ))
    })
}

/// Makes the directory that an option names for its files. Refuses standard output, which is none.
pub(super) fn create_dir(option: &str, dir: &Path) -> Result<(), Failure> {
    if output::takes_stdout(Some(dir)) {
        return Err(Failure::Usage(format!(
            "{option} - is standard output, and what is written are files; name a directory"
        )));
    }
    output::create_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_output_is_no_directory() {
        let refused = create_dir("--html", Path::new("-"));
        assert!(matches!(refused, Err(Failure::Usage(_))), "{refused:?}");
        assert!(!Path::new("-").exists());
    }
}
