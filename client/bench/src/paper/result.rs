//! The result of an experiment, beside the published values.

use super::{ClaimResult, Drawing, Experiment, PAPERS, profile::profile};
use crate::{
    Comparison, MemoryLimit, Report,
    measure::Machine,
    report::{
        columns, html,
        plot::{escape, marked, short},
    },
};
use polytrie_node::words::counted;
use serde::Serialize;
use std::fmt::Write;

/// A figure or table of a paper, on this machine; serialises to the JSON of `--json`.
#[derive(Debug, Clone, Serialize)]
pub struct Replication {
    /// Version of this JSON format.
    pub format: u32,
    /// Identifier, such as `lmpt-10`.
    pub id: &'static str,
    /// Name in the paper, such as `Figure 10`.
    pub place: &'static str,
    /// Short name of the paper.
    pub paper: &'static str,
    /// Content of the figure or table.
    pub about: &'static str,
    /// Workload and machine of the authors.
    pub setting: &'static str,
    /// Differences between the paper's setting and ours.
    pub here: &'static str,
    /// Whether few and small points were measured.
    pub quick: bool,
    /// Runs of each layer at each point.
    pub runs: usize,
    /// Version of this program.
    pub version: &'static str,
    /// The machine on which it ran.
    pub machine: Machine,
    /// Names of the engines.
    pub engines: Vec<String>,
    /// Whether runs had to be cold, so that they read from the disk.
    pub cold: bool,
    /// Limit of memory of each run.
    pub memory_limit: Option<MemoryLimit>,
    /// Results of the experiment's series.
    pub parts: Vec<PartResult>,
}

/// The result of one part of an experiment.
#[derive(Debug, Clone, Serialize)]
pub struct PartResult {
    /// Title of the part.
    pub title: String,
    /// Name of the quantity that varies from point to point.
    pub x: String,
    /// Whether the points are the small ones, because no large point fitted into the time.
    pub small: bool,
    /// One table for each quantity.
    pub tables: Vec<Table>,
    /// Ratios that the paper states, with ours.
    pub claims: Vec<ClaimResult>,
    /// Notes: points that were left out, and conditions of the measurement.
    pub notes: Vec<String>,
    /// The reports behind the tables.
    pub reports: Vec<ReportAt>,
}

/// The report of one point.
#[derive(Debug, Clone, Serialize)]
pub struct ReportAt {
    /// Name of the point.
    pub at: String,
    /// The report of its runs.
    #[serde(flatten)]
    pub report: Report,
}

/// A quantity, published and measured.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// The name of the quantity.
    pub quantity: String,
    /// Unit of the values.
    pub unit: String,
    /// The paper's values.
    pub published: Grid,
    /// Our values.
    pub measured: Grid,
}

/// Values of systems at points.
#[derive(Debug, Clone, Serialize)]
pub struct Grid {
    /// Number and name of each point.
    pub columns: Vec<(f64, String)>,
    /// One row for each system.
    pub rows: Vec<Row>,
}

/// The values of one system.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the system.
    pub name: String,
    /// Name of the variant: the system itself, or the one that stands for it here.
    pub like: String,
    /// A value for each point; `None` if there is none.
    pub values: Vec<Option<f64>>,
}

impl PartResult {
    /// Whether no value was measured.
    pub fn is_empty(&self) -> bool {
        let values = self.tables.iter().flat_map(|table| &table.measured.rows);
        !values.flat_map(|row| &row.values).any(Option::is_some)
    }
}

/// A table in Markdown. The first row holds the heads.
pub(super) fn markdown_table(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
        }
    }
    text
}

impl Grid {
    fn cells(&self, who: &str) -> Vec<Vec<String>> {
        let heads = self.columns.iter().map(|(_, name)| name.clone());
        let mut rows = vec![std::iter::once(who.to_owned()).chain(heads).collect::<Vec<_>>()];
        for row in &self.rows {
            let values = row.values.iter().map(|value| value.map_or_else(|| "-".to_owned(), short));
            rows.push(std::iter::once(row.name.clone()).chain(values).collect());
        }
        rows
    }
}

impl Replication {
    pub(super) fn new(
        experiment: &Experiment,
        base: &Comparison,
        quick: bool,
        parts: Vec<PartResult>,
    ) -> Self {
        let paper = PAPERS.iter().find(|paper| paper.has(experiment.id));
        let mut engines: Vec<_> = base.subjects.iter().map(|subject| subject.kv.clone()).collect();
        engines.sort_unstable();
        engines.dedup();
        Self {
            format: 5,
            id: experiment.id,
            place: experiment.place,
            paper: paper.map_or("", |paper| paper.reference),
            about: experiment.about,
            setting: experiment.setting,
            here: experiment.here,
            quick,
            runs: base.runs,
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::this(),
            engines,
            cold: base.cold,
            memory_limit: base.memory_limit,
            parts,
        }
    }

    /// The result as text for the terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{} ({}): {}\n", self.id, self.place, self.about);
        // Writing to a String does not fail.
        let _ = writeln!(text, "paper: {}", self.setting);
        let machine = &self.machine;
        let size = if self.quick { "; small sizes, for the shape only" } else { "" };
        let _ =
            writeln!(text, "here:  {}, {} cores{size}. {}", machine.cpu, machine.cores, self.here);
        for part in &self.parts {
            let _ = writeln!(text, "\n{}", part.title);
            for table in &part.tables {
                let _ = writeln!(text, "\n{} in {}, over {}", table.quantity, table.unit, part.x);
                if !table.published.rows.is_empty() {
                    text += &columns(&table.published.cells("paper"));
                }
                text += &columns(&table.measured.cells("here"));
            }
            if !part.claims.is_empty() {
                let _ = write!(text, "\n{}", columns(&ClaimResult::table(&part.claims)));
            }
            for note in &part.notes {
                let _ = writeln!(text, "note: {note}");
            }
        }
        text
    }

    /// The result as a section of Markdown. Its plots are files in the folder `plots`.
    pub fn markdown(&self, plots: &str) -> String {
        let mut text = format!("### {}: {}\n\n", self.place, self.about);
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "`polytrie bench paper {}`. The paper: {} Here: {}",
            self.id, self.setting, self.here
        );
        for (part, number) in self.parts.iter().zip(1..) {
            let _ = writeln!(text, "\n**{}**\n", part.title);
            if part.is_empty() {
                text += "Not measured.\n\n";
            } else if !part.claims.is_empty() {
                let _ = writeln!(text, "{}", markdown_table(&ClaimResult::table(&part.claims)));
                if let Some(profile) = profile(part) {
                    let _ = writeln!(text, "{profile}");
                }
            }
            for table in part.tables.iter().filter(|_| !part.is_empty()) {
                let (name, drawing) = self.plot(number, part, table);
                let _ = writeln!(text, "![{}, {}]({plots}/{name}.svg)", part.title, table.quantity);
                let _ = writeln!(text, "\n{}\n", drawing.caption());
                let published = match table.published.rows.is_empty() {
                    true => String::new(),
                    false => markdown_table(&table.published.cells("paper")) + "\n",
                };
                let _ = writeln!(
                    text,
                    "<details><summary>{} in {}</summary>\n\n{published}{}\n</details>\n",
                    table.quantity,
                    table.unit,
                    markdown_table(&table.measured.cells("here"))
                );
            }
            for note in &part.notes {
                let _ = writeln!(text, "- {note}");
            }
        }
        text
    }

    /// The plots of all tables: a name for each, and the drawing.
    pub fn plots(&self) -> Vec<(String, Drawing)> {
        let mut plots = Vec::new();
        for (part, number) in self.parts.iter().zip(1..).filter(|(part, _)| !part.is_empty()) {
            plots.extend(part.tables.iter().map(|table| self.plot(number, part, table)));
        }
        plots
    }

    fn plot(&self, number: usize, part: &PartResult, table: &Table) -> (String, Drawing) {
        let quantity = table.quantity.replace(' ', "-");
        let name = match self.parts.len() {
            1 => format!("{}-{quantity}", self.id),
            _ => format!("{}-{number}-{quantity}", self.id),
        };
        (name.to_lowercase(), Drawing::of(part, table))
    }

    /// The result as an HTML page.
    pub fn html(&self) -> String {
        let mut text = html::head(&format!("{}, {}", self.id, self.place));
        let _ = write!(
            text,
            "<h1>{}</h1>\n<p class=\"lead\">{}: {}</p>\n<p class=\"note\">{}</p>\n<dl><dt>Paper</dt><dd>{}</dd><dt>Here</dt><dd>{}, {} cores, {} of each. {}</dd></dl>\n",
            escape(self.id),
            escape(self.place),
            escape(self.about),
            escape(self.paper),
            marked(self.setting),
            escape(&self.machine.cpu),
            self.machine.cores,
            counted(self.runs, "run"),
            marked(self.here)
        );
        if self.quick {
            text += "<p>Measured with small sizes, for the shape only.</p>\n";
        }
        for part in &self.parts {
            let _ = writeln!(text, "<h2>{}</h2>", escape(&part.title));
            for table in &part.tables {
                let drawing = Drawing::of(part, table);
                let _ = writeln!(
                    text,
                    "<h3>{} in {}</h3>",
                    escape(&table.quantity),
                    escape(&table.unit)
                );
                text += &html::figure(|width| drawing.svg(width), drawing.caption());
                if !table.published.rows.is_empty() {
                    text += &html::table(&table.published.cells("paper"));
                }
                text += &html::table(&table.measured.cells("here"));
            }
            if !part.claims.is_empty() {
                text += "<h3>Ratios</h3>\n";
                text += &html::table(&ClaimResult::table(&part.claims));
            }
            for note in &part.notes {
                let _ = writeln!(text, "<p class=\"note\">{}</p>", marked(note));
            }
        }
        text + html::FOOT
    }
}
