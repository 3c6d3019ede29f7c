//! The heat map: a row per test, a column per layer, and colours for the ratio to `mpt`.

use super::report::{WorstReport, name};
use crate::report::plot::{Heat, HeatRow, standalone};

/// Width of the drawing.
const WIDTH: f64 = 860.0;

/// Draws the map as a separate SVG file.
pub(super) fn draw(report: &WorstReport) -> String {
    let subjects = report.subjects();
    let row = |row: &super::report::WorstRow| HeatRow {
        name: row.name(),
        ratios: subjects
            .iter()
            .map(|subject| {
                let cell = row.layers.iter().find(|cell| cell.subject == **subject)?;
                cell.ratio_to_mpt
            })
            .collect(),
    };
    let heat = Heat {
        label: "Speed of each layer in each worst case, as a multiple of mpt".to_owned(),
        columns: subjects.iter().map(|subject| name(subject, report)).collect(),
        rows: report.tests.iter().map(row).collect(),
    };
    standalone(&heat.svg(WIDTH))
}
