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
    if let (Some(path), Some(report)) = (&args.svg, reports.first()) {
        OutputFile::create(path)?.write_whole(&html::picture(report))?;
    }
    if let (Some(dir), Some(path)) = (&args.html, &page) {
        create_dir("--html", dir)?;
        OutputFile::create(path)?.write_whole(&html::page(&reports))?;
    }
    let made = Made { page, svg: args.svg.clone() };
    let result = args.result.open()?;
    match &made.page {
        Some(page) => result.write(&made, || format!("the page is {}", page.display())),
        None => result.write_json(&made),
    }
}
