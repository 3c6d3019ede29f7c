//! `polytrie bench compare`.

use super::{Failure, fails_as};
use crate::{
    bench::{
        Subject,
        report::{Difference, LayerChange, ReportError, Verdict, columns, read},
    },
    cli::output::{self, ResultArgs},
};
use clap::Args;
use std::path::PathBuf;

/// Compare two reports of the same benchmark, layer by layer, and tell change from chance.
///
/// If the reports have two layers or more in common, each is compared with the others in the same turn, so that a slower
/// machine does not matter: `change` is the change of its own throughput, `beyond` is its change beyond all layers
/// together, and the verdict follows from that. A change of all layers alike is reported as the machine's, and not as
/// theirs. With one layer the verdict follows from its own throughput.
///
/// A layer counts as slower or faster if chance alone would separate the runs of two equal reports as far, for any layer, in
/// less than one of twenty cases, and if it changed by at least --threshold. Fewer than four runs of a single layer, or than
/// five of each of two to six, differ by chance too often: then there is no verdict.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// The report that came first, as --json wrote it.
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The report to compare with it.
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// Changes below so many percent are never significant.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    threshold: f64,
    /// Exit with 1 if a layer became slower.
    #[arg(long)]
    fail_on_slower: bool,
    #[command(flatten)]
    result: ResultArgs,
}

pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    if !(0.0..=1000.0).contains(&args.threshold) {
        return Err(Failure::Usage("--threshold is a number of percent, at least 0".into()));
    }
    output::expect_apart(&[("--json", args.result.file())], &[&args.a, &args.b])?;
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let difference = Difference::of(&a, &b, args.threshold / 100.0).map_err(Failure::Invalid)?;
    let written = args.result.write(&difference, || text(&difference).trim_end().to_owned());
    let slower: Vec<_> = difference.slower().map(|layer| name(&layer.subject)).collect();
    if args.fail_on_slower && difference.layers.iter().any(|l| l.verdict == Verdict::TooFewRuns) {
        tracing::warn!("--fail-on-slower cannot tell: the reports hold too few runs");
    }
    if args.fail_on_slower && !slower.is_empty() {
        let slower = Failure::Invalid(format!(
            "slower in {} than in {}: {}",
            args.b.display(),
            args.a.display(),
            slower.join(", ")
        ));
        return Failure::decide(Err(slower), written);
    }
    written
}

fn name(subject: &Subject) -> String {
    format!("{}/{}", subject.label(), subject.kv)
}

/// The result as text: tables of all layers.
fn text(difference: &Difference) -> String {
    let unit = format!("A {}", difference.unit);
    let heads = ["layer", &unit, "min-max", "B", "min-max", "change", "p", "beyond", "p", ""];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for layer in &difference.layers {
        let (a, b) = (&layer.a, &layer.b);
        let (beyond, p) = match &layer.relative {
            Some(change) => (percent(change.ratio), format!("{:.3}", change.p)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        rows.push(vec![
            name(&layer.subject),
            format!("{:.0}", a.median),
            format!("{:.0}-{:.0}", a.min, a.max),
            format!("{:.0}", b.median),
            format!("{:.0}-{:.0}", b.min, b.max),
            percent(layer.ratio),
            format!("{:.3}", layer.p),
            beyond,
            p,
            words(layer.verdict).to_owned(),
        ]);
    }
    let mut text = columns(&rows);
    text.push('\n');
    text += "what an operation took in the median runs, A -> B\n";
    text += &columns(&costs(&difference.layers));
    for note in &difference.notes {
        text += &format!("note: {note}\n");
    }
    text
}

fn costs(layers: &[LayerChange]) -> Vec<Vec<String>> {
    let names = layers.iter().flat_map(|layer| &layer.costs).map(|cost| cost.name.to_owned());
    let mut heads = vec!["layer".to_owned()];
    for name in names {
        if !heads.contains(&name) {
            heads.push(name);
        }
    }
    let row = |layer: &LayerChange| {
        let cost = layer.costs.iter().map(|cost| format!("{:.1} -> {:.1}", cost.a, cost.b));
        std::iter::once(name(&layer.subject)).chain(cost).collect()
    };
    std::iter::once(heads).chain(layers.iter().map(row)).collect()
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "SLOWER",
        Verdict::Faster => "faster",
        Verdict::Same => "no significant change",
        Verdict::TooFewRuns => "too few runs: cannot tell",
    }
}

fails_as!(ReportError [] {
    E::Io { .. } => Machine,
    E::NotAReport { .. } => Invalid,
});
