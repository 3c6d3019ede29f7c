//! Where the time went, beside a ratio that is not found again.

use super::{
    BASELINE,
    result::{PartResult, markdown_table},
};
use crate::report::{LayerSummary, plot::short};

/// What one operation or transaction took under each layer that ran in turns with the papers' baseline, at the largest
/// point, in Markdown; `None` if all that could be judged is found again.
pub(super) fn profile(part: &PartResult) -> Option<String> {
    part.claims.iter().find(|claim| claim.is_reproduced == Some(false))?;
    let has_baseline =
        |layers: &[LayerSummary]| layers.iter().any(|layer| layer.subject.state == BASELINE);
    let report = part.reports.iter().rev().find(|report| has_baseline(&report.layers))?;
    let heads = [
        "layer",
        "a second",
        "EVM and rules, µs",
        "structure, µs",
        "engine, µs",
        "rows read",
        "rows written",
    ];
    let row = |layer: &LayerSummary| {
        let (time, rows) = (&layer.time, &layer.amplification);
        let cells = [
            layer.throughput.spread.median,
            layer.micros(time.execution),
            layer.micros(time.structure),
            layer.micros(time.engine),
            layer.each(rows.engine_reads),
            layer.each(rows.engine_writes),
        ];
        std::iter::once(layer.name()).chain(cells.map(short)).collect()
    };
    let heads = heads.map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> =
        std::iter::once(heads).chain(report.layers.iter().map(row)).collect();
    let size = ["accounts", "keys"].iter().find_map(|field| report.parameters[*field].as_f64());
    let size = size.map_or(String::new(), |size| format!(" at {}", short(size)));
    Some(format!(
        "What one operation or transaction took{size}, of the run with the median throughput:\n\n{}",
        markdown_table(&rows)
    ))
}
