//! A page for a browser: one file, no network, light and dark, wide and narrow.

mod figures;
mod words;

use super::{
    LayerSummary, Report,
    difference::other_conditions,
    gibibytes, mebibytes,
    plot::{self, Bar, escape, grouped, marked, short},
};
use crate::measure::Proofs;
use std::fmt::Write;

/// Style of the page beside that of its plots.
const STYLE: &str = include_str!("page.css");
/// Widths for which each plot is drawn, in pixels; the next one is that for narrow screens.
const WIDE: f64 = 780.0;
const NARROW: f64 = 340.0;
/// Width of a picture, in pixels.
const PICTURE: f64 = 720.0;

/// Returns the beginning of a page.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(title),
        plot::STYLE
    )
}

/// End of a page.
pub const FOOT: &str = "</main>\n</body>\n</html>\n";

/// Returns a plot for wide and for narrow screens, with a caption.
pub fn figure(draw: impl Fn(f64) -> String, caption: &str) -> String {
    format!(
        "<figure>\n<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
        draw(WIDE),
        draw(NARROW),
        escape(caption)
    )
}

/// Returns a table whose first column stays in place when the others are scrolled.
pub fn table(rows: &[Vec<String>]) -> String {
    let mut text = String::from("<div class=\"scroll\"><table>\n");
    for (index, row) in rows.iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        text += "<tr>";
        for cell in row {
            // Writing to a String cannot fail.
            let _ = write!(text, "<{tag}>{}</{tag}>", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</table></div>\n"
}

/// Returns the page of several reports, of which there must be at least one: first what they have in common, then
/// each. For reports that differ only in the size of the state, a plot shows the effect of the size.
pub fn page(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let mut text = head("State layers compared");
    text += "<h1>State layers compared</h1>\n";
    let _ = write!(
        text,
        "<p class=\"lead\">{}</p>\n<p>{}</p>\n",
        match reports.len() {
            1 => marked(&words::headline(first)),
            _ => marked(&format!("{}: {}", words::title(first), words::headline(first))),
        },
        words::WHAT_IS_A_LAYER
    );
    text += &layers(reports);
    for alike in words::of_several_sizes(reports) {
        text += &figures::over_size(&alike, alike.len() == reports.len());
    }
    for report in reports {
        text += &section(report, reports.len() > 1);
    }
    text += "<h2>How this was measured</h2>\n";
    for paragraph in words::how(first) {
        let _ = writeln!(text, "<p>{}</p>", escape(&paragraph));
    }
    text += &conditions(first);
    for report in &reports[1..] {
        for (name, above, here) in other_conditions(first, report) {
            let change = format!("{}: {name} is {here}, not {above}", words::title(report));
            let _ = writeln!(text, "<p class=\"note\">{}</p>", escape(&change));
        }
    }
    for report in reports {
        let _ = writeln!(text, "<pre>{}</pre>", escape(&report.command));
    }
    text + FOOT
}

/// Returns the throughput of each layer, the fastest first, as a separate SVG file.
pub fn picture(report: &Report) -> String {
    let mut bars = figures::throughput_bars(report);
    let length = |bar: &Bar| bar.parts.iter().map(|part| part.length).sum::<f64>();
    bars.rows.sort_by(|a, b| length(b).total_cmp(&length(a)));
    plot::standalone(&bars.svg(PICTURE))
}

/// Returns descriptions of the layers.
fn layers(reports: &[Report]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for layer in reports.iter().flat_map(|report| &report.layers) {
        if !names.contains(&layer.subject.state.as_str()) {
            names.push(&layer.subject.state);
        }
    }
    let mut text = String::from("<dl>\n");
    for name in names {
        let about = polytrie_layers::LAYERS.iter().find(|kind| kind.name == name);
        let about = about.map_or("", |kind| kind.about);
        let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(about));
    }
    text += "</dl>\n";
    let mut notes: Vec<&str> = Vec::new();
    for note in reports.iter().flat_map(|report| &report.notes) {
        if !notes.contains(&note.as_str()) {
            notes.push(note);
            let _ = writeln!(text, "<p class=\"note\">{}</p>", marked(note));
        }
    }
    text
}

/// Returns the section of one report.
fn section(report: &Report, titled: bool) -> String {
    let mut text = String::new();
    let title = if titled { words::title(report) } else { "What was run".to_owned() };
    let _ = writeln!(text, "<h2>{}</h2>", escape(&title));
    let _ = writeln!(text, "<p>{}</p>", escape(&words::workload(report)));
    for (title, figure) in figures::all(report) {
        let _ = write!(text, "<h2>{}</h2>\n{figure}", escape(title));
    }
    text += "<h2>All figures</h2>\n";
    text += &table(&summary(report));
    let _ = writeln!(text, "<p class=\"note\">{}</p>", escape(words::TABLE));
    text
}

fn summary(report: &Report) -> Vec<Vec<String>> {
    let operation = report.operation_unit();
    let has_baseline = report.has_baseline();
    let mut heads =
        vec!["layer".to_owned(), report.unit.clone(), "spread".to_owned(), "× mpt".to_owned()];
    if has_baseline {
        heads.push("× mpt-hash".to_owned());
    }
    heads.extend([
        format!("execution µs/{operation}"),
        format!("structure µs/{operation}"),
        format!("engine µs/{operation}"),
        format!("engine reads/{operation}"),
        format!("engine writes/{operation}"),
        format!("bytes written/{operation}"),
        format!("bytes to the device/{operation}"),
        "block p50 ms".to_owned(),
        "block p99 ms".to_owned(),
        "longest ms".to_owned(),
        "disk MiB".to_owned(),
        "own MiB".to_owned(),
        "peak MiB".to_owned(),
    ]);
    let has_proofs = report.has_proofs();
    if has_proofs {
        heads.extend(["proof bytes", "proof µs"].map(str::to_owned));
    }
    let row = |layer: &LayerSummary| {
        let spread = &layer.throughput.spread;
        let mebibytes = |bytes| grouped(mebibytes(bytes));
        let mut cells = vec![
            name(layer, report),
            grouped(spread.median),
            format!("{:.1} %", spread.relative * 100.0),
            ratio(layer.ratio_to_mpt, layer.ratio_range()),
        ];
        if has_baseline {
            cells.push(ratio(layer.ratio_to_mpt_hash, layer.baseline_range()));
        }
        cells.extend([
            short(layer.micros(layer.time.execution)),
            short(layer.micros(layer.time.structure)),
            short(layer.micros(layer.time.engine)),
            short(layer.each(layer.amplification.engine_reads)),
            short(layer.each(layer.amplification.engine_writes)),
            short(layer.each(layer.amplification.engine_write_bytes)),
            report.device_write_bytes(layer).map_or_else(|| "–".to_owned(), short),
            short(layer.block_seconds.p50 * 1e3),
            short(layer.block_seconds.p99 * 1e3),
            short(layer.block_seconds.max * 1e3),
            mebibytes(layer.disk_bytes),
            mebibytes(layer.own_rss_bytes),
            mebibytes(layer.peak_rss_bytes),
        ]);
        if has_proofs {
            let shown = |proofs: Proofs| [proofs.bytes, proofs.seconds.p50 * 1e6].map(short);
            let none = || ["–", "–"].map(str::to_owned);
            cells.extend(report.proofs(layer).map_or_else(none, shown));
        }
        cells
    };
    std::iter::once(heads).chain(report.layers.iter().map(row)).collect()
}

/// Returns a ratio to another layer, with the least and the greatest of all turns.
fn ratio(median: Option<f64>, range: Option<(f64, f64)>) -> String {
    let median = median.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
    median + &range.map_or_else(String::new, |(min, max)| format!(" ({min:.2}–{max:.2})"))
}

/// Returns the layer's name, with the engine if there are several.
fn name(layer: &LayerSummary, report: &Report) -> String {
    let kv = &layer.subject.kv;
    match report.layers.iter().all(|other| other.subject.kv == *kv) {
        true => layer.subject.label(),
        false => layer.subject.to_string(),
    }
}

/// Returns machine, versions and limits.
fn conditions(report: &Report) -> String {
    let machine = &report.machine;
    let gib = |bytes: u64| format!("{:.1} GiB", gibibytes(bytes));
    let mut rows = vec![
        ("Machine", format!("{}, {} cores, {}", machine.cpu, machine.cores, machine.system)),
        ("Memory", gib(machine.memory_bytes)),
        ("Version", format!("polytrie {}", report.version)),
        ("Threads", report.threads.to_string()),
        ("Seed", report.seed.to_string()),
        ("Finished", words::date(report.finished_at)),
    ];
    if let Some(limit) = machine.memory_limit_bytes {
        rows.push(("Limit of the machine", gib(limit)));
    }
    if let Some(limit) = &report.memory_limit {
        rows.push(("Memory of each run", limit.to_string()));
    }
    if let Some(cores) = &report.pinned {
        rows.push(("Bound to cores", cores.clone()));
    }
    let mut text = String::from("<dl>\n");
    for (name, value) in rows {
        let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    text + "</dl>\n"
}
