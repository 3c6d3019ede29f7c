//! The plot of a table, with the paper's numbers beside ours.

use super::result::{Grid, PartResult, Row, Table};
use crate::report::plot::{Bar, Bars, Line, Lines, short};

/// A plot of a table.
#[derive(Debug, Clone)]
pub enum Drawing {
    /// Lines over numbers. The paper's are dashed, if its points are of the same sort.
    Lines(Lines),
    /// Bars, one for each system and point.
    Bars(Bars),
}

impl Drawing {
    pub(super) fn of(part: &PartResult, table: &Table) -> Self {
        let label = format!("{}: {}", part.title, table.quantity);
        let mut systems: Vec<&str> = Vec::new();
        for row in table.measured.rows.iter().chain(&table.published.rows) {
            if !systems.contains(&row.like.as_str()) {
                systems.push(&row.like);
            }
        }
        let series = |row: &Row| systems.iter().position(|name| *name == row.like).unwrap_or(0);
        if table.measured.columns.len() > 1 && by_number(&table.measured) {
            let line = |row: &Row, grid: &Grid, dashed: bool| {
                let points = grid.columns.iter().zip(&row.values);
                Line {
                    name: if dashed { format!("{} (paper)", row.name) } else { row.name.clone() },
                    series: series(row),
                    dashed,
                    points: points.filter_map(|((x, _), y)| Some((*x, (*y)?))).collect(),
                }
            };
            let measured = &table.measured;
            let mut lines: Vec<_> =
                measured.rows.iter().map(|row| line(row, measured, false)).collect();
            if alike(table) {
                let published = &table.published;
                lines.extend(published.rows.iter().map(|row| line(row, published, true)));
            }
            let widest = measured.columns.iter().map(|(x, _)| *x).fold(0.0, f64::max);
            return Self::Lines(Lines {
                label,
                x: part.x.clone(),
                y: table.unit.clone(),
                log_x: widest > 10_000.0,
                names: Vec::new(),
                marked: true,
                lines,
            });
        }
        let mut rows = Vec::new();
        for (grid, suffix) in [(&table.published, " (paper)"), (&table.measured, "")] {
            for row in &grid.rows {
                for ((_, point), value) in grid.columns.iter().zip(&row.values) {
                    if let Some(value) = value {
                        let name = format!("{}{suffix} · {point}", row.name);
                        let text = format!("{} {}", short(*value), table.unit);
                        rows.push(Bar::new(&name, series(row), *value, &text));
                    }
                }
            }
        }
        Self::Bars(Bars { label, legend: Vec::new(), rows })
    }

    /// The plot as SVG, `width` pixels wide.
    pub fn svg(&self, width: f64) -> String {
        match self {
            Self::Lines(lines) => lines.svg(width),
            Self::Bars(bars) => bars.svg(width),
        }
    }

    pub(super) fn caption(&self) -> &'static str {
        match self {
            Self::Lines(lines) if lines.lines.iter().any(|line| line.dashed) => {
                "Solid: measured here. Dashed: the paper's numbers, on another machine; compare the shapes and the ratios."
            }
            Self::Lines(_) => "Measured here.",
            Self::Bars(_) => {
                "Where the paper gives a number it stands beside ours; it is of another machine."
            }
        }
    }
}

/// Whether the points are named after their numbers, so that values between two points make sense.
fn by_number(grid: &Grid) -> bool {
    let named = |(x, name): &(f64, String)| name.to_lowercase().contains(&short(*x).to_lowercase());
    grid.columns.iter().all(named)
}

/// Whether the paper's points are of the same sort and near enough to share axes with ours.
fn alike(table: &Table) -> bool {
    let ends = |numbers: &mut dyn Iterator<Item = f64>| {
        numbers.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), number| {
            (least.min(number), most.max(number))
        })
    };
    let across = |grid: &Grid| ends(&mut grid.columns.iter().map(|(x, _)| *x));
    let up = |grid: &Grid| {
        ends(&mut grid.rows.iter().flat_map(|row| row.values.iter().copied().flatten()))
    };
    let (ours, theirs) = (across(&table.measured), across(&table.published));
    let (low, high) = (up(&table.measured), up(&table.published));
    theirs.0 <= ours.1 * 20.0 && theirs.1 * 20.0 >= ours.0 && high.1 <= low.1 * 20.0
}
