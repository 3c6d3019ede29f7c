//! `polytrie bench page`.

use super::{
    Failure,
    output::{PAGE, create_dir},
};
use crate::{
    bench::report::{html, read},
    blocks::OutputFile,
    cli::output::{self, write_text},
};
use clap::Args;
use std::path::PathBuf;

/// Make one page of reports that were written before: what they have in common, then each.
///
/// Of reports that differ in the number of accounts or keys, the page also shows throughput over the size of the state.
#[derive(Debug, Args)]
pub(super) struct PageArgs {
    /// Reports, as --json wrote them.
    #[arg(value_name = "REPORT.json", required = true)]
    reports: Vec<PathBuf>,
    /// Write the page, index.html, to this directory.
    #[arg(long, value_name = "DIR")]
    html: PathBuf,
}

pub(super) fn run(args: &PageArgs) -> Result<(), Failure> {
    let reports = args.reports.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    create_dir(&args.html)?;
    let path = args.html.join(PAGE);
    write_text(OutputFile::create(&path)?, &html::page(&reports))?;
    output::line(&format!("the page is {}", path.display()))
}
