//! The table that explains a ratio that was not reproduced: how long each part of the work took.

use super::{
    claim::Verdict,
    result::{Grid, PartResult, Row, markdown_table},
};
use crate::{
    Subject,
    report::{LayerSummary, plot::short},
};

/// A table in Markdown with a row for each layer and a column for each quantity of a ratio that was not reproduced:
/// how long each part of an operation or transaction took. The point is the one that judges the first such ratio.
/// `None` if every judged ratio was reproduced, or nothing was timed at that point.
pub(super) fn profile(part: &PartResult) -> Option<String> {
    let failed = || {
        part.claims
            .iter()
            .filter(|claim| claim.verdict.is_some_and(|verdict| verdict != Verdict::Near))
    };
    let at = failed().next()?.judged_at.clone()?;
    let report = &part.reports.iter().find(|report| report.at == at)?.report;
    // Throughput has a column already.
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
            row_of(&table.measured, &layer.subject)?.values[column]
        });
        let of_claims = of_claims.map(|value| value.map_or_else(|| "-".to_owned(), short));
        std::iter::once(layer.name()).chain(cells.map(short)).chain(of_claims).collect()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(heads.collect()).chain(report.layers.iter().map(row)).collect();
    Some(format!(
        "What one operation or transaction took at {at}, of the run with the median throughput (the engine's part is what the \
         executing thread waited for):\n\n{}",
        markdown_table(&rows)
    ))
}

/// The row of a layer on its engine. Its name contains the engine if several were measured.
fn row_of<'g>(grid: &'g Grid, subject: &Subject) -> Option<&'g Row> {
    let (label, kv) = (subject.label(), &subject.kv);
    grid.rows.iter().find(|row| row.name == label || row.name == format!("{label}/{kv}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_has_the_row_of_its_engine() {
        let row = |name: &str| Row { name: name.into(), like: "mpt".into(), values: Vec::new() };
        let found = |names: &[&str], kv: &str| {
            let grid = Grid { columns: Vec::new(), rows: names.iter().map(|n| row(n)).collect() };
            row_of(&grid, &Subject::new("mpt", kv)).map(|row| row.name.clone())
        };
        assert_eq!(found(&["mpt-hash", "mpt"], "mdbx").as_deref(), Some("mpt"));
        assert_eq!(found(&["mpt/mdbx", "mpt/rocksdb"], "rocksdb").as_deref(), Some("mpt/rocksdb"));
        assert_eq!(found(&["mpt/mdbx"], "rocksdb"), None);
    }
}
