//! The result of an experiment, beside the published figures.

use super::{ClaimResult, Drawing, Experiment, PAPERS, profile::profile};
use crate::{
    Comparison, MemoryLimit, Report,
    measure::Machine,
    report::{
        columns, html,
        plot::{escape, marked, short},
    },
};
use serde::Serialize;
use std::fmt::Write;

/// A figure or table of a paper, on this machine; serialises to the JSON of `--json`.
#[derive(Debug, Clone, Serialize)]
pub struct Replication {
    /// Version of this form.
    pub format: u32,
    /// `lmpt-10`.
    pub id: &'static str,
    /// `Figure 10`.
    pub place: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// What the figure or table shows.
    pub about: &'static str,
    /// What the authors measured on.
    pub setting: &'static str,
    /// What is different here.
    pub here: &'static str,
    /// Whether few and small points were taken.
    pub quick: bool,
    /// Runs of each layer at each point.
    pub runs: usize,
    /// Version of this program.
    pub version: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// The engines.
    pub engines: Vec<String>,
    /// Whether runs had to read from the disk.
    pub cold: bool,
    /// What bounded the memory of each run.
    pub memory_limit: Option<MemoryLimit>,
    /// What was measured.
    pub parts: Vec<PartResult>,
}

/// The result of one part of an experiment.
#[derive(Debug, Clone, Serialize)]
pub struct PartResult {
    /// Its title.
    pub title: String,
    /// What varies.
    pub x: String,
    /// Whether these are the small points: no large one fitted into the time.
    pub small: bool,
    /// One table a quantity.
    pub tables: Vec<Table>,
    /// Ratios.
    pub claims: Vec<ClaimResult>,
    /// Notes: points that were left out, and conditions of the measurement.
    pub notes: Vec<String>,
    /// The reports behind the tables.
    pub reports: Vec<ReportAt>,
}

/// The report of a point.
#[derive(Debug, Clone, Serialize)]
pub struct ReportAt {
    /// The point.
    pub at: String,
    /// What was measured there.
    #[serde(flatten)]
    pub report: Report,
}

/// A quantity, published and measured.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// The name of the quantity.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// The paper's.
    pub published: Grid,
    /// Ours.
    pub measured: Grid,
}

/// Rows over points.
#[derive(Debug, Clone, Serialize)]
pub struct Grid {
    /// Number and name of each point.
    pub columns: Vec<(f64, String)>,
    /// The systems.
    pub rows: Vec<Row>,
}

/// One system.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The variant that it is, or that stands for it here.
    pub like: String,
    /// Its values; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

impl PartResult {
    /// Whether nothing of it was measured.
    pub fn is_empty(&self) -> bool {
        let values = self.tables.iter().flat_map(|table| &table.measured.rows);
        !values.flat_map(|row| &row.values).any(Option::is_some)
    }
}

/// A table in Markdown, the first row of which are the heads.
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
        let of = |paper: &&super::Paper| paper.experiments.iter().any(|e| e.id == experiment.id);
        let mut engines: Vec<_> = base.subjects.iter().map(|subject| subject.kv.clone()).collect();
        engines.sort_unstable();
        engines.dedup();
        Self {
            format: 5,
            id: experiment.id,
            place: experiment.place,
            paper: PAPERS.iter().find(of).map_or("", |paper| paper.reference),
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

    /// For the terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{} ({}): {}\n", self.id, self.place, self.about);
        // A String takes whatever is written to it.
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

    /// A section of Markdown; its plots are files in the folder `plots`.
    pub fn markdown(&self, plots: &str) -> String {
        let mut text = format!("### {}: {}\n\n", self.place, self.about);
        // A String takes whatever is written to it.
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

    /// The plots: a name for each, and a function that draws it for a width.
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

    /// A page of its own.
    pub fn html(&self) -> String {
        let mut text = html::head(&format!("{}, {}", self.id, self.place));
        let _ = write!(
            text,
            "<h1>{}</h1>\n<p class=\"lead\">{}: {}</p>\n<p class=\"note\">{}</p>\n<dl><dt>Paper</dt><dd>{}</dd><dt>Here</dt><dd>{}, {} cores, {} runs of each. {}</dd></dl>\n",
            escape(self.id),
            escape(self.place),
            escape(self.about),
            escape(self.paper),
            marked(self.setting),
            escape(&self.machine.cpu),
            self.machine.cores,
            self.runs,
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
