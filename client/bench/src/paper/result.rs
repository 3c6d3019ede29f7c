//! What came of an experiment, beside what was published.

use super::{Claim, Drawing, Experiment, PAPERS, quantity::OPS};
use crate::{
    Comparison, MemoryLimit, Report,
    measure::Machine,
    report::{
        BASELINE, REFERENCE, Ratios, columns, html,
        plot::{escape, marked, short},
    },
};
use serde::Serialize;
use std::fmt::Write;

/// A ratio is reproduced if it is no further than this factor from what was published.
const NEAR: f64 = 1.5;

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
    /// What it shows.
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
    /// What bounded the memory of each run.
    pub memory_limit: Option<MemoryLimit>,
    /// What was measured.
    pub parts: Vec<PartResult>,
}

/// What one part came to.
#[derive(Debug, Clone, Serialize)]
pub struct PartResult {
    /// What it is.
    pub title: String,
    /// What varies.
    pub x: String,
    /// One table a quantity.
    pub tables: Vec<Table>,
    /// Ratios.
    pub claims: Vec<ClaimResult>,
    /// What was left out, and what else there is to know.
    pub notes: Vec<String>,
    /// The reports behind the tables, one a point (and group of layers).
    pub reports: Vec<Report>,
}

/// A quantity, published and measured.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// What it is.
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

/// A ratio, published and measured.
#[derive(Debug, Clone, Serialize)]
pub struct ClaimResult {
    /// What of.
    pub what: String,
    /// In the paper's words.
    pub published: String,
    /// At each point where both were measured: its name, and the ratio.
    pub measured: Vec<(String, f64)>,
    /// Those with `mpt` in place of the papers' baseline; empty if the claim is not of that.
    pub with_mpt: Vec<(String, f64)>,
    /// Whether the ratio at the last point is within a factor of 1.5 of what was published; `None` if not measured.
    pub is_reproduced: Option<bool>,
}

impl Claim {
    /// `turns` tells of a variant at a point which report it is from, and its throughput in each turn.
    pub(super) fn check<'a>(
        &self,
        tables: &[Table],
        turns: impl Fn(&str, usize) -> Option<&'a (usize, Vec<f64>)>,
    ) -> ClaimResult {
        let (of, over) = self.over;
        let measured = self.ratios((of, over), tables, &turns);
        let is_of_baseline = of == BASELINE || over == BASELINE;
        let other = |name| if name == BASELINE { REFERENCE } else { name };
        let with_mpt =
            is_of_baseline.then(|| self.ratios((other(of), other(over)), tables, &turns));
        let (least, greatest) = self.range;
        let is_near = |ratio: f64| (least / NEAR..=greatest * NEAR).contains(&ratio);
        ClaimResult {
            what: format!("{}, {of} / {over}", self.quantity),
            published: self.published.to_owned(),
            is_reproduced: measured.last().map(|(_, ratio)| is_near(*ratio)),
            measured,
            with_mpt: with_mpt.unwrap_or_default(),
        }
    }

    /// The ratio at each point where both were measured.
    fn ratios<'a>(
        &self,
        (of, over): (&str, &str),
        tables: &[Table],
        turns: impl Fn(&str, usize) -> Option<&'a (usize, Vec<f64>)>,
    ) -> Vec<(String, f64)> {
        let grid = tables.iter().find(|table| table.quantity == self.quantity).map(|t| &t.measured);
        let row = |name: &str| grid?.rows.iter().find(|row| row.like == name);
        // What ran in turns is compared turn by turn, as everywhere; other settings of a layer ran at another time.
        let within_turns = |point: usize| {
            let (a, b) = (turns(of, point)?, turns(over, point)?);
            let comparable = self.quantity == OPS.name && a.0 == b.0;
            comparable.then(|| Ratios::of(&a.1, &b.1).spread.median)
        };
        let mut measured = Vec::new();
        if let (Some(grid), Some(a), Some(b)) = (grid, row(of), row(over)) {
            let values = a.values.iter().zip(&b.values);
            for (point, ((_, name), (a, b))) in grid.columns.iter().zip(values).enumerate() {
                if let (Some(a), Some(b)) = (a, b)
                    && *b > 0.0
                {
                    measured.push((name.clone(), within_turns(point).unwrap_or(a / b)));
                }
            }
        }
        measured
    }
}

impl ClaimResult {
    /// The line of a table, below [`Self::HEADS`].
    fn cells(&self) -> [String; 5] {
        let list = |ratios: &[(String, f64)], none: &str| {
            let ratios: Vec<_> =
                ratios.iter().map(|(at, ratio)| format!("{ratio:.2} at {at}")).collect();
            if ratios.is_empty() { none.to_owned() } else { ratios.join(", ") }
        };
        let is_reproduced = self.is_reproduced.map_or("-", |is| if is { "yes" } else { "no" });
        [
            self.what.clone(),
            self.published.clone(),
            list(&self.measured, "not measured"),
            list(&self.with_mpt, "-"),
            is_reproduced.into(),
        ]
    }

    const HEADS: [&str; 5] =
        ["ratio", "paper", "here", "with mpt for mpt-hash", "within 1.5 of the paper"];

    fn table(claims: &[Self]) -> Vec<Vec<String>> {
        let heads = Self::HEADS.map(str::to_owned).to_vec();
        std::iter::once(heads).chain(claims.iter().map(|claim| claim.cells().to_vec())).collect()
    }
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
        Self {
            format: 2,
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
        let _ = writeln!(text, "The paper: {} Here: {}", self.setting, self.here);
        for (part, number) in self.parts.iter().zip(1..) {
            let _ = writeln!(text, "\n**{}**\n", part.title);
            if !part.claims.is_empty() {
                let mut rows = ClaimResult::table(&part.claims).into_iter();
                let heads = rows.next().unwrap_or_default();
                let _ =
                    writeln!(text, "| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()));
                for row in rows {
                    let _ = writeln!(text, "| {} |", row.join(" | "));
                }
                text.push('\n');
            }
            for table in &part.tables {
                let (name, drawing) = self.plot(number, part, table);
                let _ = writeln!(text, "![{}, {}]({plots}/{name}.svg)", part.title, table.quantity);
                let _ = writeln!(text, "\n{}\n", drawing.caption());
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
        for (part, number) in self.parts.iter().zip(1..) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_in_turns_is_compared_turn_by_turn() {
        let claim =
            Claim { quantity: OPS.name, over: ("a", BASELINE), published: "2", range: (2.0, 2.0) };
        let row = |name: &str, value| Row {
            name: name.to_owned(),
            like: name.to_owned(),
            values: vec![Some(value)],
        };
        let grid = Grid {
            columns: vec![(1.0, "here".to_owned())],
            rows: vec![row("a", 20.0), row(BASELINE, 30.0), row(REFERENCE, 40.0)],
        };
        let published = Grid { columns: Vec::new(), rows: Vec::new() };
        let (quantity, unit) = (OPS.name.to_owned(), OPS.unit.to_owned());
        let tables = [Table { quantity, unit, published, measured: grid }];
        // The machine was slow in the second turn.
        let a = (0, vec![200.0, 20.0, 10.0]);
        let b = (0, vec![100.0, 10.0, 30.0]);
        let later = (1, vec![100.0, 10.0, 30.0]);
        let result = |b| claim.check(&tables, |name, _| Some(if name == "a" { &a } else { b }));
        assert_eq!(result(&b).measured, [("here".to_owned(), 2.0)]);
        assert_eq!(result(&b).is_reproduced, Some(true));
        // Another report: only what it came to can be compared, and that is far from the paper.
        assert_eq!(result(&later).measured, [("here".to_owned(), 20.0 / 30.0)]);
        assert_eq!(result(&later).is_reproduced, Some(false));
        // Beside it the ratio over our own trie.
        assert_eq!(result(&later).with_mpt, [("here".to_owned(), 0.5)]);
    }
}
