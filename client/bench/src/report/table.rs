//! Tables for the terminal.

use super::{Report, bounds, gibibytes, mebibytes};
use crate::measure::Proofs;
use polytrie_node::words::counted;
use serde_json::Value;
use std::fmt::Write;

/// Returns the tables and lines of a report.
pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    let cold = if report.cold { ", every run proven cold" } else { "" };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "bench {}: {}; {} of each in turns{cold}; seed {}",
        report.bench,
        parameters(&report.parameters),
        counted(report.runs, "run"),
        report.seed
    );
    let machine = &report.machine;
    let _ = writeln!(
        text,
        "{} ({} cores), {:.1} GiB of memory, {}; polytrie {}",
        machine.cpu,
        machine.cores,
        gibibytes(machine.memory_bytes),
        machine.system,
        report.version
    );
    let limits = bounds(report.memory_limit.as_ref(), report.pinned.as_deref());
    for line in limits.iter().chain(&report.notes) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    text += &speed(report);
    text.push('\n');
    text += &costs(report);
    text.push('\n');
    text += &resources(report);
    if let Some(schedule) = schedule(report) {
        text.push('\n');
        text += &schedule;
    }
    text
}

/// Returns the estimates for other numbers of threads, if there are any.
fn schedule(report: &Report) -> Option<String> {
    let scheduled: Vec<_> =
        report.layers.iter().filter_map(|layer| Some((layer, layer.schedule.as_ref()?))).collect();
    let threads = &scheduled.first()?.1.threads;
    let mut heads = vec!["layer".to_owned(), "EVM us".to_owned(), "longest".to_owned()];
    heads.extend(threads.iter().map(|scheduled| scheduled.threads.to_string()));
    let mut rows = vec![heads];
    for (layer, schedule) in scheduled {
        let mut row = vec![layer.name()];
        row.extend([schedule.seconds, schedule.longest].map(|s| format!("{:.2}", layer.micros(s))));
        row.extend(schedule.threads.iter().map(|scheduled| format!("{:.0}", scheduled.throughput)));
        rows.push(row);
    }
    let unit = &report.unit;
    Some(
        format!(
            "simulated: {unit} on so many threads, by a greedy schedule of the measured times of transactions, all else as it was\n"
        ) + &columns(&rows),
    )
}

/// Returns the parameters as `name value`, in the order of their names.
fn parameters(parameters: &Value) -> String {
    let Value::Object(fields) = parameters else { return String::new() };
    let shown = fields.iter().filter(|(name, _)| *name != "seed").map(|(name, value)| {
        let value = match value {
            Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" "),
            other => plain(other),
        };
        format!("{} {value}", name.replace('_', "-"))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the throughput, and the parts of an operation's time.
fn speed(report: &Report) -> String {
    let operation = report.operation();
    let has_baseline = report.has_baseline();
    // Waiting for senders is a part of the total only where they are recovered during the run.
    let recovers = report.layers.iter().any(|layer| layer.time.recover > 0.0);
    let mut heads = vec!["layer", &report.unit, "min-max", "x mpt", "min-max"];
    if has_baseline {
        heads.extend(["x mpt-hash", "min-max"]);
    }
    heads.extend(["exec", "structure", "engine"]);
    if recovers {
        heads.push("recover");
    }
    heads.extend(["acct", "sload", "sstore", "commit", "get", "flush"]);
    let mut rows = vec![heads.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for layer in &report.layers {
        let micros = |seconds: f64| format!("{:.2}", layer.micros(seconds));
        let spread = &layer.throughput.spread;
        let time = &layer.time;
        let none = || "-".to_owned();
        let ratio = |ratio: Option<f64>| ratio.map_or_else(none, |ratio| format!("{ratio:.2}"));
        let range = |range: Option<(f64, f64)>| {
            range.map_or_else(none, |(min, max)| format!("{min:.2}-{max:.2}"))
        };
        let mut row = vec![
            layer.name(),
            format!("{:.0}", spread.median),
            format!("{:.0}-{:.0}", spread.min, spread.max),
            ratio(layer.ratio_to_mpt),
            range(layer.ratio_range()),
        ];
        if has_baseline {
            row.extend([ratio(layer.ratio_to_mpt_hash), range(layer.baseline_range())]);
        }
        row.extend([time.execution, time.structure, time.engine].map(micros));
        if recovers {
            row.push(micros(time.recover));
        }
        let overlapping =
            [time.account_read, time.sload, time.sstore, time.commit, time.get, time.flush];
        row.extend(overlapping.map(micros));
        rows.push(row);
    }
    let article = if operation == "operation" { "an" } else { "a" };
    let recover = if recovers { " + recover" } else { "" };
    format!(
        "throughput, and microseconds {article} {operation} (exec + structure + engine{recover} = total; the rest overlap)\n"
    ) + &columns(&rows)
}

/// Returns reads and writes at the layer and at the engine.
fn costs(report: &Report) -> String {
    let operation = report.operation_unit();
    let heads = [
        "layer".to_owned(),
        format!("reads/{operation}"),
        "engine".to_owned(),
        "ampl.".to_owned(),
        format!("writes/{operation}"),
        "engine".to_owned(),
        "ampl.".to_owned(),
        format!("bytes/{operation}"),
        format!("device/{operation}"),
    ];
    let mut rows = vec![heads.to_vec()];
    for layer in &report.layers {
        let shown = |value: f64| format!("{value:.2}");
        let each = |count: u64| shown(layer.each(count));
        let amplification = &layer.amplification;
        rows.push(vec![
            layer.name(),
            each(amplification.layer_reads),
            each(amplification.engine_reads),
            shown(amplification.read),
            each(amplification.layer_writes),
            each(amplification.engine_writes),
            shown(amplification.write),
            each(amplification.engine_write_bytes),
            report.device_write_bytes(layer).map_or_else(|| "-".to_owned(), shown),
        ]);
    }
    "at the layer and at the engine\n".to_owned() + &columns(&rows)
}

/// Returns the times of blocks, the disk and memory of the runs, and the proofs.
fn resources(report: &Report) -> String {
    let mut heads = vec!["layer", "p50 ms", "p99 ms", "disk MiB", "own MiB", "peak MiB"];
    let has_proofs = report.has_proofs();
    if has_proofs {
        heads.extend(["proof B", "proof us"]);
    }
    let mut rows = vec![heads.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for layer in &report.layers {
        let mebibytes = |bytes: u64| format!("{:.0}", mebibytes(bytes));
        let mut row = vec![
            layer.name(),
            format!("{:.2}", layer.block_seconds.p50 * 1e3),
            format!("{:.2}", layer.block_seconds.p99 * 1e3),
            mebibytes(layer.disk_bytes),
            mebibytes(layer.own_rss_bytes),
            mebibytes(layer.peak_rss_bytes),
        ];
        if has_proofs {
            let cells = |proofs: Proofs| {
                [format!("{:.0}", proofs.bytes), format!("{:.0}", proofs.seconds.p50 * 1e6)]
            };
            let none = || ["-", "-"].map(str::to_owned);
            row.extend(report.proofs(layer).map_or_else(none, cells));
        }
        rows.push(row);
    }
    let proofs = if has_proofs { "; the proof of an account" } else { "" };
    format!("time of a block; disk and memory{proofs}\n") + &columns(&rows)
}

/// Formats rows, the first column aligned to the left and all others to the right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in rows {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(columns(&[row(["a", "bcd"]), row(["efg", "h"])]), "a    bcd\nefg    h\n");
        assert_eq!(columns(&[]), "");
    }

    #[test]
    fn parameters_are_named() {
        let value = serde_json::json!({ "seed": 1, "block_txs": 2, "workload": "erc20" });
        assert_eq!(parameters(&value), "block-txs 2, workload erc20");
    }
}
