//! `polytrie bench page`.

use super::{
    Failure,
    output::{PAGE, create_dir},
};
use crate::{
    bench::report::{html, read},
    blocks::OutputFile,
    cli::output::{self, ResultArgs},
};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Make one page of several reports: first what they have in common, then each.
///
/// If the reports differ in the number of accounts or keys, the page also shows throughput over the size of the state.
/// --svg draws how fast each layer was, with or without the page.
#[derive(Debug, Args)]
pub(super) struct PageArgs {
    /// Reports, as --json wrote them.
    #[arg(value_name = "REPORT.json", required = true)]
    reports: Vec<PathBuf>,
    /// Write the page, index.html, to this directory.
    #[arg(long, value_name = "DIR", required_unless_present = "svg")]
    html: Option<PathBuf>,
    /// Draw how fast each layer of the first report was, as bars, into this file.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    result: ResultArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Made {
    page: Option<PathBuf>,
    svg: Option<PathBuf>,
}

pub(super) fn run(args: &PageArgs) -> Result<(), Failure> {
    let reports = args.reports.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let page = args.html.as_ref().map(|dir| dir.join(PAGE));
    output::expect_apart(
        &[
            ("--svg", args.svg.as_deref()),
            ("--html", page.as_deref()),
            ("--json", args.result.file()),
        ],
        &args.reports.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
    )?;
    // What cannot be written fails before anything is replaced.
    args.html.as_deref().map_or(Ok(()), |dir| create_dir("--html", dir))?;
    let picture = args.svg.as_deref().map(OutputFile::create).transpose()?;
    let file = page.as_deref().map(OutputFile::create).transpose()?;
    let result = args.result.open()?;
    if let (Some(picture), Some(report)) = (picture, reports.first()) {
        picture.write_whole(&html::picture(report))?;
    }
    if let Some(file) = file {
        file.write_whole(&html::page(&reports))?;
    }
    let made = Made { page, svg: args.svg.clone() };
    match &made.page {
        Some(page) => result.write(&made, || format!("the page is {}", page.display())),
        None => result.write_json(&made),
    }
}
