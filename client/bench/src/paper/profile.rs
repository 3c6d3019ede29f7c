//! Where the time went, beside a ratio that is not found again.

use super::{
    claim::Verdict,
    result::{PartResult, markdown_table},
};
use crate::report::{LayerSummary, plot::short};

/// What one operation or transaction took under each layer at the point by which a ratio was judged that is not found again,
/// in Markdown, with what that ratio is of; `None` if all that could be judged is found again, or nothing is timed there.
pub(super) fn profile(part: &PartResult) -> Option<String> {
    let failed = || {
        part.claims
            .iter()
            .filter(|claim| claim.verdict.is_some_and(|verdict| verdict != Verdict::Near))
    };
    let at = failed().next()?.judged_at.clone()?;
    let report = &part.reports.iter().find(|report| report.at == at)?.report;
    // Throughput has its column already.
    let is_there = |quantity: &str| failed().any(|claim| claim.quantity == quantity);
    let tables: Vec<_> = part
        .tables
        .iter()
        .filter(|table| table.quantity != "throughput" && is_there(&table.quantity))
        .collect();
    let heads = [
        "layer",
        "a second",
        "EVM and rules, µs",
        "structure, µs",
        "engine, µs",
        "rows read",
        "rows written",
    ];
    let heads = heads
        .map(str::to_owned)
        .into_iter()
        .chain(tables.iter().map(|table| format!("{}, {}", table.quantity, table.unit)));
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
        let of_claims = tables.iter().map(|table| {
            let column = table.measured.columns.iter().position(|(_, name)| *name == at)?;
            let row = table.measured.rows.iter().find(|row| row.like == layer.subject.label())?;
            row.values[column]
        });
        let of_claims = of_claims.map(|value| value.map_or_else(|| "-".to_owned(), short));
        std::iter::once(layer.name()).chain(cells.map(short)).chain(of_claims).collect()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(heads.collect()).chain(report.layers.iter().map(row)).collect();
    Some(format!(
        "What one operation or transaction took at {at}, of the run with the median throughput:\n\n{}",
        markdown_table(&rows)
    ))
}
