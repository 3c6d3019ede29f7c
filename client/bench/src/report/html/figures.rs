//! The plots of a report.

use super::{
    super::{
        LayerSummary, Report,
        plot::{Bar, Bars, COLOURS, Line, Lines, Part, escape, grouped, short},
    },
    figure, mebibytes, name, words,
};
use polytrie_node::words::counted;

/// Returns titles and figures, in the order of the page.
pub(super) fn all(report: &Report) -> Vec<(&'static str, String)> {
    vec![
        ("How fast", throughput(report)),
        ("Where the time goes", split(report)),
        ("Over the run", over_time(report)),
        ("How long a block takes", blocks(report)),
        ("What a read causes", reads(report)),
        ("What a write causes", writes(report)),
        ("On disk", disk(report)),
        ("In memory", memory(report)),
    ]
}

/// Returns one bar per layer.
fn bars(report: &Report, label: &str, value: impl Fn(&LayerSummary) -> (f64, String)) -> Bars {
    let row = |(index, layer): (usize, &LayerSummary)| {
        let (length, text) = value(layer);
        Bar::new(&name(layer, report), index, length, &text)
    };
    let rows = report.layers.iter().enumerate().map(row).collect();
    Bars { label: label.to_owned(), legend: Vec::new(), rows }
}

/// Returns the bars of the layers' throughput.
pub(super) fn throughput_bars(report: &Report) -> Bars {
    let mut bars = bars(report, "Throughput of each layer", |layer| {
        let median = layer.throughput.spread.median;
        let mut text = format!("{} {}", grouped(median), report.unit);
        let ratios = [(layer.ratio_to_mpt, "mpt"), (layer.ratio_to_mpt_hash, "mpt-hash")];
        for (ratio, reference) in ratios {
            text += &ratio.map_or_else(String::new, |ratio| format!(" · {ratio:.2} × {reference}"));
        }
        (median, text)
    });
    for (bar, layer) in bars.rows.iter_mut().zip(&report.layers) {
        bar.marks.clone_from(&layer.throughput.runs);
    }
    bars
}

fn throughput(report: &Report) -> String {
    let bars = throughput_bars(report);
    let caption = format!(
        "Longer is better. A bar is the median of {}, each in a process of its own; the marks on it are the single runs. The further apart they are, the less a small difference between two layers means.",
        counted(report.runs, "run")
    );
    figure(|width| bars.svg(width), &caption)
}

fn split(report: &Report) -> String {
    let parts = |layer: &LayerSummary| {
        let time = &layer.time;
        [time.execution, time.structure, time.engine, time.recover].map(|part| layer.micros(part))
    };
    let recovered = report.layers.iter().any(|layer| layer.time.recover > 0.0);
    let mut legend =
        vec!["execution".to_owned(), "authenticated structure".into(), "engine".into()];
    if recovered {
        legend.push("waiting for senders".into());
    }
    let row = |layer: &LayerSummary| {
        let parts = parts(layer);
        let part = |(series, length): (usize, &f64)| Part {
            series,
            length: *length,
            title: format!("{}: {} µs", legend[series], short(*length)),
        };
        Bar {
            name: name(layer, report),
            value: format!("{} µs", short(parts.iter().sum())),
            parts: parts.iter().enumerate().take(legend.len()).map(part).collect(),
            marks: Vec::new(),
        }
    };
    let rows = report.layers.iter().map(row).collect();
    let bars = Bars {
        label: format!("Microseconds of each {} by what they are spent on", report.operation()),
        legend,
        rows,
    };
    figure(|width| bars.svg(width), words::split(report))
}

fn over_time(report: &Report) -> String {
    let lines = report.layers.iter().enumerate().filter_map(|(series, layer)| {
        let parts = &report.median_run(layer)?.measured.over_time;
        let count = parts.len().max(1) as f64;
        let point = |(index, value): (usize, &f64)| ((index as f64 + 0.5) / count * 100.0, *value);
        let points = parts.iter().enumerate().map(point).collect();
        Some(Line { name: name(layer, report), series, dashed: series >= COLOURS, points })
    });
    let plot = Lines {
        label: "Throughput of each layer over the course of a run".into(),
        x: "percent of the blocks".into(),
        y: report.unit.clone(),
        log_x: false,
        names: Vec::new(),
        marked: false,
        lines: lines.collect(),
    };
    figure(
        |width| plot.svg(width),
        "Each line is one run, from its first to its last block. A line that falls says that the layer becomes slower as it goes; a dip is a moment at which it waited, for example for the disk.",
    )
}

fn blocks(report: &Report) -> String {
    let mut legend = Vec::new();
    let rows = report.layers.iter().map(|layer| {
        let times = layer.block_seconds;
        let steps =
            [("half of the blocks", times.p50), ("99 of 100", times.p99), ("all", times.max)];
        legend = steps.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut before = 0.0;
        let parts = steps.iter().enumerate().map(|(series, (what, seconds))| {
            let length = seconds * 1e3 - before;
            before = seconds * 1e3;
            Part { series, length, title: format!("{what}: within {} ms", short(seconds * 1e3)) }
        });
        let ms = |seconds: f64| short(seconds * 1e3);
        Bar {
            name: name(layer, report),
            parts: parts.collect(),
            value: format!("{} · {} · {} ms", ms(times.p50), ms(times.p99), ms(times.max)),
            marks: Vec::new(),
        }
    });
    let rows = rows.collect();
    let bars = Bars { label: "Milliseconds a block takes".into(), legend, rows };
    figure(
        |width| bars.svg(width),
        "Milliseconds within which half of the blocks, 99 of 100, and all of them were done. A long last part means that a few blocks take much longer than the others: whoever waits for them notices, even where the throughput is high.",
    )
}

fn reads(report: &Report) -> String {
    let bars = bars(report, "Engine reads for each read of the state", |layer| {
        let amplification = layer.amplification.read;
        (amplification, format!("{} reads of the engine", short(amplification)))
    });
    figure(
        |width| bars.svg(width),
        "For each account or slot that was asked of the layer: how many rows the layer had to ask of the key-value engine below. A trie reads the nodes on the way to a value, a flat layer the value only; what a layer has in memory it need not read at all.",
    )
}

fn writes(report: &Report) -> String {
    let bars = bars(report, "Engine writes for each write to the state", |layer| {
        let (rows, bytes) = (layer.amplification.write, layer.amplification.write_bytes);
        (rows, format!("{} rows, {} × the bytes", short(rows), short(bytes)))
    });
    figure(
        |width| bars.svg(width),
        "For each account or slot that a block changed: how many rows reached the engine, and how many bytes for each byte that was changed. Less is better: disks wear, and caches are filled with what is written. Files that a layer has beside the engine (nomt, qmdb) are not among these; the bytes to the device below are those of all files.",
    )
}

fn disk(report: &Report) -> String {
    let bars = bars(report, "Size of the store", |layer| {
        let size = mebibytes(layer.disk_bytes);
        (size, format!("{} MiB", grouped(size)))
    });
    figure(|width| bars.svg(width), "Size of the store after the run, everything included.")
}

fn memory(report: &Report) -> String {
    let bars = bars(report, "Memory at the end of the run", |layer| {
        let own = mebibytes(layer.own_rss_bytes);
        (
            own,
            format!("{} MiB, peak {} MiB", grouped(own), grouped(mebibytes(layer.peak_rss_bytes))),
        )
    });
    figure(
        |width| bars.svg(width),
        "Memory that belonged to the process alone at the end of the run, the blocks of the workload included. The peak also counts pages of the store that the system lends it while nobody else needs them.",
    )
}

/// Returns a plot of the throughput over the size of the state, from reports that differ in the
/// size. Unless these are all reports of the page, its title says which they are.
pub(super) fn over_size(reports: &[&Report], are_all: bool) -> String {
    let mut names: Vec<String> = Vec::new();
    for layer in reports.iter().flat_map(|report| &report.layers) {
        let name = layer.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let lines = names.iter().enumerate().map(|(series, name)| {
        let point = |report: &Report| {
            let layer = report.layers.iter().find(|layer| layer.name() == *name)?;
            Some((words::size(report)? as f64, layer.throughput.spread.median))
        };
        let mut points: Vec<_> = reports.iter().copied().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { name: name.clone(), series, dashed: series >= COLOURS, points }
    });
    let plot = Lines {
        label: "Throughput over the size of the state".into(),
        x: "accounts or keys before the first block".into(),
        y: reports[0].unit.clone(),
        log_x: true,
        names: Vec::new(),
        marked: true,
        lines: lines.collect(),
    };
    let which = match are_all {
        true => String::new(),
        false => format!(": {}", escape(&words::without_size(reports[0]))),
    };
    format!(
        "<h2>Over the size of the state{which}</h2>\n{}",
        figure(
            |width| plot.svg(width),
            "Each point is the median of one comparison. A line that falls says what a larger state costs; a line that stays flat says that the cost depends on what a block touches only."
        )
    )
}
