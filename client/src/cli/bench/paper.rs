//! `polytrie bench paper`.

use super::{Failure, measure::MeasureArgs, output::create_dir};
use crate::{
    bench::{
        BenchError, GivenChain,
        paper::{Budget, Experiment, PAPERS, Replication, find, page, replicate},
        report::{columns, plot},
    },
    blocks::OutputFile,
    cli::{
        input::{block_inputs, expect_no_stream},
        output::{self, write_json},
    },
};
use clap::Args;
use std::{
    mem,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Width in pixels of plots that are written as files.
const WIDTH: f64 = 760.0;

/// Figures and tables of the papers, on this machine, with the papers' numbers beside ours.
///
/// Each NAME is one of them, as lvmt-4, a paper (lmpt, lvmt, replica, rainblock), or all. --list lists them with their needs.
/// Each ratio that a paper states is printed beside the measured ones over `mpt-hash`, the trie of the papers' baselines, and
/// over `mpt`.
#[derive(Debug, Args)]
pub(super) struct PaperArgs {
    /// Which figures or tables, which papers, or `all`.
    #[arg(value_name = "NAME", required_unless_present = "list")]
    names: Vec<String>,
    /// List all of them, with the time, memory and disk that each takes.
    #[arg(long)]
    list: bool,
    /// Few and small points, once each: a shape in minutes.
    #[arg(long)]
    quick: bool,
    /// Measure for about so many hours, including those of kept points in the --resume directory: 0 shows the kept ones. What the
    /// papers are known for comes first, short points before long ones, and those of --quick before these if the time is short.
    /// Points that do not fit, or lack something on this machine, are left out, and the result says so.
    #[arg(long, value_name = "N", value_parser = hours)]
    hours: Option<Duration>,
    /// Keep each point in this directory as soon as it is measured, and use kept ones: the same command goes on after an
    /// interrupt.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Block files of a chain of yours, as `import` takes them, from block 1 of --chain on (or block 0): for figures that
    /// are counted on any chain (rainblock-4.3).
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "chain")]
    blocks: Vec<PathBuf>,
    /// The chain of --blocks: mainnet, sepolia, holesky, hoodi, dev, or the path of a genesis.json as geth writes it.
    #[arg(long, value_name = "CHAIN", requires = "blocks")]
    chain: Option<String>,
    /// Write everything as JSON to this file; `-` for standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write a page for each, NAME.html, to this directory.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Write the plots as SVG files to this directory.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Write a page in Markdown to this file, with links to the plots of --svg: what each paper is known for, its claim and
    /// setting, its figures with both ratios, and the reasons.
    #[arg(long, value_name = "FILE", requires = "svg", help_heading = "Output")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    measure: MeasureArgs,
}

pub(super) fn run(args: &PaperArgs) -> Result<(), Failure> {
    if args.list {
        return output::line(list().trim_end());
    }
    let experiments = experiments(&args.names)?;
    expect_no_stream(&args.blocks)?;
    let genesis = args.chain.as_deref().map(Path::new);
    let blocks = block_inputs(&args.blocks, None);
    let inputs: Vec<&Path> = blocks.iter().map(PathBuf::as_path).chain(genesis).collect();
    let pages: Vec<PathBuf> = match &args.html {
        Some(dir) => experiments.iter().map(|one| page_of(dir, one.id)).collect(),
        None => Vec::new(),
    };
    let mut outputs =
        vec![("--json", args.json.as_deref()), ("--markdown", args.markdown.as_deref())];
    outputs.extend(pages.iter().map(|page| ("--html", Some(page.as_path()))));
    output::expect_apart(&outputs, &inputs)?;
    for (option, dir) in [("--html", &args.html), ("--svg", &args.svg)] {
        dir.as_deref().map_or(Ok(()), |dir| create_dir(option, dir))?;
    }
    let json = args.json.as_deref().map(OutputFile::create).transpose()?;
    let markdown = args.markdown.as_deref().map(OutputFile::create).transpose()?;
    let comparison = args.measure.comparison_for_paper(args.quick)?;
    let given = args
        .chain
        .as_deref()
        .map(|chain| GivenChain::open(&args.blocks, chain, None, &comparison.cache).map(Arc::new));
    let given = given.transpose().map_err(BenchError::from)?;
    let budget = Budget { time: args.hours, kept: args.resume.clone(), given };
    // A figure whose output fails does not stop the measurement of the others.
    let mut shown = Ok(());
    let (all, ended) = replicate(&experiments, &comparison, args.quick, &budget, &mut |one| {
        shown = Failure::decide(mem::replace(&mut shown, Ok(())), show(args, one));
    })?;
    let ended: Result<(), Failure> = ended.map_or(Ok(()), |error| Err(error.into()));
    let page = match (markdown, &args.svg) {
        (Some(file), Some(plots)) => {
            link(plots, args).and_then(|link| Ok(file.write_whole(&page(&all, &link))?))
        }
        _ => Ok(()),
    };
    let json = json.map_or(Ok(()), |file| write_json(file, &all));
    [ended, shown, page, json].into_iter().fold(Ok(()), Failure::decide)
}

/// The experiments with these names, each once, in the order of the names.
fn experiments(names: &[String]) -> Result<Vec<&'static Experiment>, Failure> {
    let mut experiments: Vec<&Experiment> = Vec::new();
    for name in names {
        let found = find(name);
        if found.is_empty() {
            let known: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
            return Err(Failure::Usage(format!(
                "there is no figure, table or paper `{name}`; the papers are {}, and --list says what there is of each",
                known.join(", ")
            )));
        }
        let new = |one: &&Experiment| experiments.iter().all(|known| known.id != one.id);
        let found: Vec<_> = found.into_iter().filter(new).collect();
        experiments.extend(found);
    }
    Ok(experiments)
}

/// Prints a figure, unless standard output takes the JSON, and writes its files.
fn show(args: &PaperArgs, replication: &Replication) -> Result<(), Failure> {
    let printed = match output::takes_stdout(args.json.as_deref()) {
        true => Ok(()),
        false => output::line(&format!("{}\n", replication.text().trim_end())),
    };
    Failure::decide(printed, write(args, replication))
}

fn write(args: &PaperArgs, replication: &Replication) -> Result<(), Failure> {
    if let Some(dir) = &args.html {
        let file = OutputFile::create(page_of(dir, replication.id))?;
        file.write_whole(&replication.html())?;
    }
    if let Some(dir) = &args.svg {
        for (name, drawing) in replication.plots() {
            let file = OutputFile::create(dir.join(format!("{name}.svg")))?;
            file.write_whole(&plot::standalone(&drawing.svg(WIDTH)))?;
        }
    }
    Ok(())
}

/// Path of the page of a figure or table in the directory of --html.
fn page_of(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.html"))
}

/// Relative path from the Markdown page to the directory of plots.
fn link(plots: &Path, args: &PaperArgs) -> Result<String, Failure> {
    let whole = |dir: &Path| {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        dir.canonicalize().map_err(|error| {
            Failure::Machine(format!("cannot find {}: {error}; check the path", dir.display()))
        })
    };
    let page = args.markdown.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let (plots, page) = (whole(plots)?, whole(page)?);
    let common = plots.components().zip(page.components()).take_while(|(a, b)| a == b).count();
    let up = page.components().skip(common).map(|_| "..".into());
    let down = plots.components().skip(common).map(|part| part.as_os_str().to_owned());
    let path: PathBuf = up.chain(down).collect();
    Ok(if path.as_os_str().is_empty() { ".".to_owned() } else { encoded(&path.to_string_lossy()) })
}

/// A path as a link of Markdown, in which a space or a parenthesis would end it.
fn encoded(path: &str) -> String {
    let character = |c: char| match c {
        ' ' | '(' | ')' | '<' | '>' | '%' | '#' | '?' => format!("%{:02X}", u32::from(c)),
        c => c.to_string(),
    };
    path.chars().map(character).collect()
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
                format!(
                    "{}: {}{}",
                    experiment.place,
                    experiment.about,
                    if experiment.swaps() { " (after `scripts/setup-uniswap`)" } else { "" }
                ),
            ]
        };
        let rows: Vec<_> = std::iter::once(heads.map(str::to_owned).to_vec())
            .chain(paper.experiments.iter().map(row))
            .collect();
        // The last column is text, so it is not aligned as a number.
        let (text_column, numbers): (Vec<String>, Vec<Vec<String>>) =
            rows.into_iter().map(|mut row| (row.pop().unwrap_or_default(), row)).unzip();
        for (line, content) in columns(&numbers).lines().zip(text_column) {
            text += &format!("{line}  {content}\n");
        }
        text.push('\n');
    }
    text + "Minutes are rough, for three layers on two cores; more layers, --cold and --memory-limit take longer, and so do the\ntables of `lvmt`, which are derived the first time it is measured.\n"
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn links_lead_to_any_directory() {
        assert_eq!(encoded("../papers"), "../papers");
        assert_eq!(encoded("my plots (1)"), "my%20plots%20%281%29");
    }
}
