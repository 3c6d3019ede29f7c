//! Ratios that papers state, and whether they are reproduced.

use super::result::Table;
use crate::report::{BASELINE, REFERENCE, Ratios};
use serde::Serialize;

/// Largest factor between a measured and a published ratio for which the ratio counts as reproduced.
pub(super) const NEAR: f64 = 1.5;

/// A ratio that a paper states.
#[derive(Debug)]
pub struct Claim {
    /// Name of the quantity that is compared.
    pub quantity: &'static str,
    /// Names of the two variants: the first is divided by the second. If one is [`BASELINE`], the ratio with `mpt` in
    /// its place is shown as well.
    pub over: (&'static str, &'static str),
    /// The ratio in the words of the paper.
    pub published: &'static str,
    /// Least and greatest ratio that the paper gives for the largest point.
    pub range: (f64, f64),
    /// Ratios of single points, if the paper gives them: the number of each such point, with the least and the
    /// greatest ratio. Other points are not judged then.
    pub at: &'static [(f64, (f64, f64))],
    /// Choice of the point that judges the claim.
    pub by: JudgedBy,
    /// Whether the paper is known for this claim.
    pub is_headline: bool,
}

/// Choice of the point that judges a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JudgedBy {
    /// The largest point that was measured.
    Largest,
    /// The point with the least ratio: the paper says "at least".
    Least,
    /// The point with the greatest ratio: the paper says "up to".
    Greatest,
}

/// A claim about the largest point.
pub(super) const fn claim(
    quantity: &'static str,
    over: (&'static str, &'static str),
    published: &'static str,
    range: (f64, f64),
) -> Claim {
    Claim { quantity, over, published, range, at: &[], by: JudgedBy::Largest, is_headline: false }
}

/// A claim as [`claim`] makes it, for which the paper is known.
pub(super) const fn headline(
    quantity: &'static str,
    over: (&'static str, &'static str),
    published: &'static str,
    range: (f64, f64),
) -> Claim {
    Claim { is_headline: true, ..claim(quantity, over, published, range) }
}

impl Claim {
    /// The claim, with ratios of single points.
    pub(super) const fn at(self, at: &'static [(f64, (f64, f64))]) -> Self {
        Self { at, ..self }
    }

    /// The claim, judged by the point with the least ratio.
    pub(super) const fn at_least(self) -> Self {
        Self { by: JudgedBy::Least, ..self }
    }

    /// The claim, judged by the point with the greatest ratio.
    pub(super) const fn up_to(self) -> Self {
        Self { by: JudgedBy::Greatest, ..self }
    }
}

/// A published ratio beside the measured ones.
#[derive(Debug, Clone, Serialize)]
pub struct ClaimResult {
    /// Quantity and variants, in words.
    pub what: String,
    /// Name of the quantity that is compared.
    pub quantity: &'static str,
    /// The ratio in the words of the paper.
    pub published: String,
    /// Whether the paper is known for this claim.
    pub is_headline: bool,
    /// Ratio at each point where both variants were measured.
    pub measured: Vec<RatioAt>,
    /// Ratios with `mpt` in place of the papers' baseline; empty if the claim does not name the baseline.
    pub with_mpt: Vec<RatioAt>,
    /// Name of the point that judges the claim; `None` if no measured point can.
    pub judged_at: Option<String>,
    /// Verdict on the ratio at that point; `None` if there is no such point.
    pub verdict: Option<Verdict>,
}

/// Comparison of a measured ratio with a published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within a factor of 1.5 of the published ratio.
    Near,
    /// Less than that.
    Less,
    /// More than that.
    More,
}

/// A measured ratio at one point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatioAt {
    /// Name of the point.
    pub at: String,
    /// Number of the point.
    pub x: f64,
    /// The ratio; the median of all turns, if each turn gives one.
    pub ratio: f64,
    /// Least and greatest ratio of a turn, if there were several.
    pub range: Option<(f64, f64)>,
}

/// Name of the row of a variant; with the engine, if several were measured.
pub(super) fn row_name(variant: &str, engine: Option<&str>) -> String {
    match engine {
        None => variant.to_owned(),
        Some(engine) => format!("{variant}/{engine}"),
    }
}

/// Whether claims are judged. Those of small points are not: the papers say nothing of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    Yes,
    No,
}

impl Claim {
    /// Compares the claim with the rows of an engine, if the tables have several. `turns` gives the values of each
    /// turn for a quantity, a row and a point, if there were turns.
    pub(super) fn check<'a>(
        &self,
        tables: &[Table],
        engine: Option<&str>,
        turns: impl Fn(&str, &str, usize) -> Option<&'a [f64]>,
        judges: Judged,
    ) -> ClaimResult {
        let (of, over) = self.over;
        let ratios = |of: &str, over: &str| {
            let (of, over) = (row_name(of, engine), row_name(over, engine));
            self.ratios((&of, &over), tables, &turns)
        };
        let measured = ratios(of, over);
        let is_of_baseline = of == BASELINE || over == BASELINE;
        let other = |name| if name == BASELINE { REFERENCE } else { name };
        let with_mpt = is_of_baseline.then(|| ratios(other(of), other(over)));
        let mut said = measured.iter().filter_map(|ratio| Some((ratio, self.says(ratio.x)?)));
        let by_ratio = |(a, _): &(&RatioAt, _), (b, _): &(&RatioAt, _)| a.ratio.total_cmp(&b.ratio);
        let judged = match self.by {
            JudgedBy::Largest => said.next_back(),
            JudgedBy::Least => said.min_by(by_ratio),
            JudgedBy::Greatest => said.max_by(by_ratio),
        };
        let judged = judged.filter(|_| judges == Judged::Yes);
        let verdict = |(found, (least, greatest)): (&RatioAt, (f64, f64))| match found.ratio {
            ratio if ratio < least / NEAR => Verdict::Less,
            ratio if ratio > greatest * NEAR => Verdict::More,
            _ => Verdict::Near,
        };
        ClaimResult {
            what: match engine {
                None => format!("{}, {of} / {over}", self.quantity),
                Some(engine) => format!("{}, {of} / {over} on {engine}", self.quantity),
            },
            quantity: self.quantity,
            published: self.published.to_owned(),
            is_headline: self.is_headline,
            judged_at: judged.map(|(ratio, _)| ratio.at.clone()),
            verdict: judged.map(verdict),
            with_mpt: with_mpt.unwrap_or_default(),
            measured,
        }
    }

    /// Least and greatest ratio that the paper gives for a point, if it gives any.
    fn says(&self, x: f64) -> Option<(f64, f64)> {
        if self.at.is_empty() {
            return Some(self.range);
        }
        // Numbers of points are exact; the tolerance covers rounding.
        let is_there = |(at, _): &&(f64, (f64, f64))| (at / x - 1.0).abs() < 1e-6;
        self.at.iter().find(is_there).map(|(_, range)| *range)
    }

    /// The ratio of two rows at each point where both were measured.
    fn ratios<'a>(
        &self,
        (of, over): (&str, &str),
        tables: &[Table],
        turns: impl Fn(&str, &str, usize) -> Option<&'a [f64]>,
    ) -> Vec<RatioAt> {
        let grid = tables.iter().find(|table| table.quantity == self.quantity).map(|t| &t.measured);
        let row = |name: &str| grid?.rows.iter().find(|row| row.name == name);
        // Variants that ran in turns are compared turn by turn, as in other reports.
        let within_turns = |point: usize| {
            let each = |row: &str| turns(self.quantity, row, point);
            let ratios = Ratios::of(each(of)?, each(over)?);
            (!ratios.runs.is_empty() && ratios.runs.iter().all(|ratio| ratio.is_finite()))
                .then_some(ratios)
        };
        let (Some(grid), Some(a), Some(b)) = (grid, row(of), row(over)) else { return Vec::new() };
        let mut measured = Vec::new();
        let values = grid.columns.iter().zip(a.values.iter().zip(&b.values)).enumerate();
        for (point, ((x, name), (a, b))) in values {
            let (Some(a), Some(b)) = (a, b) else { continue };
            if *b > 0.0 {
                let turns = within_turns(point);
                measured.push(RatioAt {
                    at: name.clone(),
                    x: *x,
                    ratio: turns.as_ref().map_or(a / b, |turns| turns.spread.median),
                    range: turns
                        .filter(|turns| turns.runs.len() > 1)
                        .map(|turns| (turns.spread.min, turns.spread.max)),
                });
            }
        }
        measured
    }
}

impl RatioAt {
    /// The ratio as text, such as `2.35 (2.10–2.50) at 1M`.
    pub(super) fn text(&self) -> String {
        let range = self.range.map(|(least, greatest)| format!(" ({least:.2}–{greatest:.2})"));
        format!("{:.2}{} at {}", self.ratio, range.unwrap_or_default(), self.at)
    }
}

impl ClaimResult {
    /// Cells of its row in a table, below [`Self::HEADS`].
    fn cells(&self) -> [String; 5] {
        let list = |ratios: &[RatioAt], none: &str| {
            let ratios: Vec<_> = ratios.iter().map(RatioAt::text).collect();
            if ratios.is_empty() { none.to_owned() } else { ratios.join(", ") }
        };
        [
            self.what.clone(),
            self.published.clone(),
            list(&self.measured, "not measured"),
            list(&self.with_mpt, "-"),
            self.verdict(),
        ]
    }

    /// Text that says whether the claim is reproduced, and which point judges that.
    pub(super) fn verdict(&self) -> String {
        let word = |verdict| match verdict {
            Verdict::Near => "yes",
            Verdict::Less => "no, less",
            Verdict::More => "no, more",
        };
        match (self.verdict, &self.judged_at) {
            (Some(verdict), Some(at)) => format!("{} at {at}", word(verdict)),
            _ if self.measured.is_empty() => "-".to_owned(),
            _ => "the paper says nothing of these sizes".to_owned(),
        }
    }

    const HEADS: [&str; 5] = ["ratio", "paper", "here", "over mpt", "within 1.5 of the paper"];

    pub(super) fn table(claims: &[Self]) -> Vec<Vec<String>> {
        let heads = Self::HEADS.map(str::to_owned).to_vec();
        std::iter::once(heads).chain(claims.iter().map(|claim| claim.cells().to_vec())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{quantity::OPS, result::Grid, result::Row},
        *,
    };

    fn table(points: &[(f64, f64)]) -> Table {
        let row = |name: &str, of: fn(&(f64, f64)) -> f64| Row {
            name: name.to_owned(),
            like: name.to_owned(),
            values: points.iter().map(|point| Some(of(point))).collect(),
        };
        let columns = points.iter().map(|(x, _)| (*x, x.to_string())).collect();
        let rows = vec![row("a", |(_, a)| *a), row(BASELINE, |_| 10.0), row(REFERENCE, |_| 40.0)];
        Table {
            quantity: OPS.name.to_owned(),
            unit: OPS.unit.to_owned(),
            published: Grid { columns: Vec::new(), rows: Vec::new() },
            measured: Grid { columns, rows },
        }
    }

    #[test]
    fn what_ran_in_turns_is_compared_turn_by_turn() {
        let claim = claim(OPS.name, ("a", BASELINE), "2", (2.0, 2.0));
        let tables = [table(&[(1.0, 8.0)])];
        // The machine was slow in the second turn.
        let turns = |_: &str, name: &str, _| -> Option<&[f64]> {
            Some(if name == "a" { &[200.0, 20.0, 10.0] } else { &[100.0, 10.0, 30.0] })
        };
        let together = claim.check(&tables, None, turns, Judged::Yes);
        assert_eq!(together.measured[0].ratio, 2.0);
        assert_eq!(together.measured[0].range, Some((1.0 / 3.0, 2.0)));
        assert_eq!(together.verdict(), "yes at 1");
        // Without turns only the medians can be compared, and their ratio is far from the paper's.
        let counted = claim.check(&tables, None, |_, _, _| None, Judged::Yes);
        assert_eq!((counted.measured[0].ratio, counted.measured[0].range), (0.8, None));
        assert_eq!(counted.verdict(), "no, less at 1");
        // The ratio over our own trie stands beside it.
        assert_eq!(counted.with_mpt[0].text(), "0.20 at 1");
        // The paper says nothing of small points.
        assert_eq!(claim.check(&tables, None, turns, Judged::No).verdict, None);
    }

    #[test]
    fn a_claim_is_judged_where_the_paper_says_something() {
        let claim = claim(OPS.name, ("a", BASELINE), "6 at 10", (6.0, 6.0))
            .at(&[(5.0, (2.0, 3.0)), (10.0, (6.0, 6.0))]);
        let judged = |points: &[(f64, f64)]| {
            let result = claim.check(&[table(points)], None, |_, _, _| None, Judged::Yes);
            (result.judged_at.clone(), result.verdict)
        };
        let at = |point: &str, verdict| (Some(point.to_owned()), Some(verdict));
        assert_eq!(judged(&[(1.0, 20.0), (5.0, 20.0)]), at("5", Verdict::Near));
        assert_eq!(judged(&[(5.0, 20.0), (10.0, 20.0)]), at("10", Verdict::Less));
        assert_eq!(judged(&[(5.0, 20.0), (10.0, 91.0)]), at("10", Verdict::More));
        assert_eq!(judged(&[(5.0, 20.0), (7.0, 90.0)]), at("5", Verdict::Near));
        assert_eq!(judged(&[(1.0, 60.0)]), (None, None));
    }

    /// A ratio of one engine does not judge that of another.
    #[test]
    fn each_engine_is_judged_by_itself() {
        let mut tables = [table(&[(1.0, 20.0)]), table(&[(1.0, 90.0)])];
        for (table, engine) in tables.iter_mut().zip(["mdbx", "rocksdb"]) {
            for row in &mut table.measured.rows {
                row.name = row_name(&row.name, Some(engine));
            }
        }
        let [mut both, rocksdb] = tables;
        both.measured.rows.extend(rocksdb.measured.rows);
        let claim = claim(OPS.name, ("a", BASELINE), "2", (2.0, 2.0));
        let check = |engine| {
            claim.check(std::slice::from_ref(&both), Some(engine), |_, _, _| None, Judged::Yes)
        };
        let (near, more) = (check("mdbx"), check("rocksdb"));
        assert_eq!(near.what, "throughput, a / mpt-hash on mdbx");
        assert_eq!((near.verdict(), more.verdict()), ("yes at 1".into(), "no, more at 1".into()));
        assert_eq!([&near, &more].map(|one| one.with_mpt[0].ratio), [0.5, 2.25]);
    }

    /// "At least" holds for every point, "up to" for the best one.
    #[test]
    fn the_point_that_counts_is_the_one_that_the_paper_speaks_of() {
        let tables = [table(&[(1.0, 20.0), (2.0, 90.0), (3.0, 50.0)])];
        let judged = |claim: Claim| {
            claim.check(&tables, None, |_, _, _| None, Judged::Yes).judged_at.unwrap_or_default()
        };
        let said = || claim(OPS.name, ("a", BASELINE), "5", (5.0, 5.0));
        assert_eq!(judged(said()), "3");
        assert_eq!(judged(said().at_least()), "1");
        assert_eq!(judged(said().up_to()), "2");
    }
}
