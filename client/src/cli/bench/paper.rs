//! `polytrie bench paper`.

use super::{Failure, measure::MeasureArgs, output::create_dir};
use crate::{
    bench::{
        paper::{Budget, Experiment, PAPERS, Replication, find, replicate},
        report::{columns, plot},
    },
    blocks::OutputFile,
    cli::output::{self, write_json, write_text},
};
use clap::Args;
use std::{path::PathBuf, time::Duration};

/// Width of plots that are files of their own.
const WIDTH: f64 = 760.0;

/// Figures and tables of the papers, on this machine, with the papers' numbers beside ours.
///
/// NAME is one of them, as lvmt-4, a paper (lmpt, lvmt, replica, rainblock), or all. --list says what there is and what it
/// takes. Each ratio that a paper states stands beside what was measured over `mpt-hash`, the trie that the papers measured
/// against, and over `mpt`.
#[derive(Debug, Args)]
pub(super) struct PaperArgs {
    /// Which figure or table, which paper, or `all`.
    #[arg(value_name = "NAME", required_unless_present = "list")]
    name: Option<String>,
    /// Say what there is, and what each takes in time, memory and disk.
    #[arg(long)]
    list: bool,
    /// Few and small points, once each: a shape in minutes.
    #[arg(long)]
    quick: bool,
    /// Measure for about so many hours. Every figure gets its small points before one gets its large ones; what does not
    /// fit is left out, and the result says so.
    #[arg(long, value_name = "N", value_parser = hours)]
    hours: Option<Duration>,
    /// Keep each point in this directory as soon as it is measured, and take what is there: the same command goes on after
    /// an interrupt.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Write everything as JSON to this file; `-` for standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write a page for each, NAME.html, to this directory.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Write the plots as SVG files to this directory.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Write a section of Markdown for each to this file, with links to the plots of --svg.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    measure: MeasureArgs,
}

pub(super) fn run(args: &PaperArgs) -> Result<(), Failure> {
    if args.list {
        return output::line(list().trim_end());
    }
    let name = args.name.as_deref().unwrap_or_default();
    let experiments = find(name);
    if experiments.is_empty() {
        let known: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
        return Err(Failure::Usage(format!(
            "there is no figure, table or paper `{name}`; the papers are {}, and --list says what there is of each",
            known.join(", ")
        )));
    }
    for dir in [&args.html, &args.svg].into_iter().flatten() {
        create_dir(dir)?;
    }
    let json = args.json.as_deref().map(OutputFile::create).transpose()?;
    let markdown = args.markdown.as_deref().map(OutputFile::create).transpose()?;
    let comparison = args.measure.comparison_for_paper(args.quick)?;
    let budget = Budget { time: args.hours, kept: args.resume.clone() };
    // Within a time the figures take turns; without one each is shown when it is complete.
    let at_once = if args.hours.is_some() { experiments.len() } else { 1 };
    let mut all = Vec::new();
    for experiments in experiments.chunks(at_once) {
        for replication in replicate(experiments, &comparison, args.quick, &budget)? {
            if !output::takes_stdout(args.json.as_deref()) {
                output::line(&format!("{}\n", replication.text().trim_end()))?;
            }
            write(args, &replication)?;
            all.push(replication);
        }
    }
    if let Some(file) = markdown {
        let plots = args.svg.as_deref().map_or_else(|| ".".into(), |dir| dir.display().to_string());
        let sections: Vec<_> = all.iter().map(|replication| replication.markdown(&plots)).collect();
        write_text(file, &sections.join("\n"))?;
    }
    match json {
        Some(file) => write_json(file, &all),
        None => Ok(()),
    }
}

fn write(args: &PaperArgs, replication: &Replication) -> Result<(), Failure> {
    if let Some(dir) = &args.html {
        let file = OutputFile::create(dir.join(format!("{}.html", replication.id)))?;
        write_text(file, &replication.html())?;
    }
    if let Some(dir) = &args.svg {
        for (name, drawing) in replication.plots() {
            let file = OutputFile::create(dir.join(format!("{name}.svg")))?;
            write_text(file, &plot::standalone(&drawing.svg(WIDTH)))?;
        }
    }
    Ok(())
}

fn hours(text: &str) -> Result<Duration, String> {
    let hours = text.parse().ok().filter(|hours| (0.0..=10_000.0).contains(hours));
    let hours: f64 =
        hours.ok_or_else(|| format!("`{text}` is not a number of hours, as in 6 or 0.5"))?;
    Ok(Duration::from_secs_f64(hours * 3600.0))
}

fn list() -> String {
    let mut text = String::new();
    for paper in PAPERS {
        text += &format!("{}: {}\n", paper.name, paper.reference);
        let heads = ["name", "min", "GiB RAM", "GiB disk", "--quick min", "place and content"];
        let row = |experiment: &Experiment| {
            vec![
                format!("  {}", experiment.id),
                experiment.needs.minutes.to_string(),
                experiment.needs.memory.to_string(),
                experiment.needs.disk.to_string(),
                experiment.quick.minutes.to_string(),
                format!("{}: {}", experiment.place, experiment.about),
            ]
        };
        let rows: Vec<_> = std::iter::once(heads.map(str::to_owned).to_vec())
            .chain(paper.experiments.iter().map(row))
            .collect();
        // The last column is text.
        let (text_column, numbers): (Vec<String>, Vec<Vec<String>>) =
            rows.into_iter().map(|mut row| (row.pop().unwrap_or_default(), row)).unzip();
        for (line, content) in columns(&numbers).lines().zip(text_column) {
            text += &format!("{line}  {content}\n");
        }
        text.push('\n');
    }
    text + "Minutes are rough, for three layers on two cores; more layers, --cold and --memory-limit take longer, and so do the\ntables of `lvmt`, which are derived the first time it is measured.\n"
}
