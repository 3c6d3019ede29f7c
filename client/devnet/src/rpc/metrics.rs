//! Metrics of the node in the format of Prometheus.

use super::RpcState;
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Write, time::Duration};

/// Counters of requests by method.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    requests: Mutex<BTreeMap<&'static str, Requests>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Requests {
    answered: u64,
    failed: u64,
    time: Duration,
}

impl Metrics {
    /// Counts a request that was answered.
    pub(super) fn answered(&self, method: &'static str, success: bool, time: Duration) {
        let mut requests = self.requests.lock();
        let entry = requests.entry(method).or_default();
        entry.answered += 1;
        entry.failed += u64::from(!success);
        entry.time += time;
    }
}

impl RpcState {
    /// Returns all metrics in the text format of Prometheus.
    pub(super) fn metrics_text(&self) -> String {
        let mut text = Text::default();
        self.requests_text(&mut text);
        self.blocks_text(&mut text);
        self.pool_text(&mut text);
        self.store_text(&mut text);
        self.layer_text(&mut text);
        text.gauge(
            "process_resident_memory_bytes",
            "Memory that the process holds, in bytes.",
            polytrie_node::process::rss_bytes() as f64,
        );
        text.0
    }

    fn requests_text(&self, text: &mut Text) {
        let requests = self.metrics.requests.lock().clone();
        let by_method = |of: fn(&Requests) -> f64| -> Vec<(&str, f64)> {
            requests.iter().map(|(method, count)| (*method, of(count))).collect()
        };
        text.labelled(
            "polytrie_rpc_requests_total",
            "Requests answered, by method.",
            "method",
            &by_method(|count| count.answered as f64),
        );
        text.labelled(
            "polytrie_rpc_errors_total",
            "Requests answered with an error, by method.",
            "method",
            &by_method(|count| count.failed as f64),
        );
        text.labelled(
            "polytrie_rpc_seconds_total",
            "Time until the answer, by method, in seconds.",
            "method",
            &by_method(|count| count.time.as_secs_f64()),
        );
    }

    fn blocks_text(&self, text: &mut Text) {
        let head = self.node.view().head.number();
        text.gauge("polytrie_head_block", "Number of the head.", head as f64);
        let (blocks, totals) = self.node.miner().totals();
        text.counter("polytrie_blocks_made_total", "Blocks made since the start.", blocks as f64);
        text.counter(
            "polytrie_block_failures_total",
            "Attempts to make a block that failed.",
            self.node.miner().failures() as f64,
        );
        text.counter(
            "polytrie_transactions_total",
            "Transactions in blocks made since the start.",
            totals.txs as f64,
        );
        text.counter(
            "polytrie_gas_total",
            "Gas used by blocks made since the start.",
            totals.gas as f64,
        );
        text.labelled(
            "polytrie_block_seconds_total",
            "Time spent on blocks, by part, in seconds.",
            "part",
            &[
                ("execute", totals.execute.as_secs_f64()),
                ("state_read", totals.state_read.as_secs_f64()),
                ("state_commit", totals.state_commit.as_secs_f64()),
                ("seal", totals.check.as_secs_f64()),
                ("write", totals.write.as_secs_f64()),
            ],
        );
    }

    fn pool_text(&self, text: &mut Text) {
        let (pending, queued, dropped) = {
            let pool = self.node.pool();
            let (pending, queued) = pool.status();
            (pending, queued, pool.dropped())
        };
        text.gauge(
            "polytrie_pool_pending",
            "Transactions that can go into the next block.",
            pending as f64,
        );
        text.gauge(
            "polytrie_pool_queued",
            "Transactions that wait for another one.",
            queued as f64,
        );
        text.counter(
            "polytrie_pool_dropped_total",
            "Transactions thrown out without having been in a block.",
            dropped as f64,
        );
    }

    fn store_text(&self, text: &mut Text) {
        const NANOSECONDS: f64 = 1e9;
        let store = self.node.db().store();
        let (waiting, counters) = (store.pending(), store.counters());
        text.gauge(
            "polytrie_unflushed_blocks",
            "Blocks written and not durable yet.",
            self.node.view().head.number().saturating_sub(self.node.durable()) as f64,
        );
        text.gauge("polytrie_unflushed_bytes", "Memory they take, in bytes.", waiting.bytes as f64);
        text.gauge(
            "polytrie_store_bytes",
            "Size of the store on disk, in bytes.",
            store.disk_bytes().unwrap_or(0) as f64,
        );
        text.labelled(
            "polytrie_store_reads_total",
            "Rows read, by what had them: memory (not flushed yet), the cache of rows, or the engine.",
            "from",
            &[
                ("memory", counters.overlay_gets as f64),
                ("cache", counters.recent_gets as f64),
                ("engine", counters.engine_gets as f64),
            ],
        );
        text.counter(
            "polytrie_store_read_seconds_total",
            "Time in reads of the engine, estimated from one in 61, in seconds.",
            counters.engine_get_ns as f64 / NANOSECONDS,
        );
        text.counter(
            "polytrie_store_written_rows_total",
            "Rows put and deleted that reached the engine.",
            (counters.engine_puts + counters.engine_deletes) as f64,
        );
        text.counter(
            "polytrie_store_written_bytes_total",
            "Bytes that reached the engine.",
            counters.engine_write_bytes as f64,
        );
        text.counter(
            "polytrie_store_flush_seconds_total",
            "Time in which the engine was made durable, in seconds.",
            counters.flush_ns as f64 / NANOSECONDS,
        );
        text.counter(
            "polytrie_store_stall_seconds_total",
            "Time in which a block waited for that, in seconds.",
            counters.stall_ns as f64 / NANOSECONDS,
        );
    }

    fn layer_text(&self, text: &mut Text) {
        let figures = self.node.layer().figures();
        let figures: Vec<_> =
            figures.into_iter().map(|(figure, value)| (figure, value as f64)).collect();
        text.family(
            "polytrie_layer_figure",
            "gauge",
            "What the state layer counts by itself, by name.",
        );
        text.rows("polytrie_layer_figure", "figure", &figures);
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "counter", help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    /// Writes a counter with one value for each label.
    fn labelled(&mut self, name: &str, help: &str, label: &str, rows: &[(&str, f64)]) {
        self.family(name, "counter", help);
        self.rows(name, label, rows);
    }

    fn rows(&mut self, name: &str, label: &str, rows: &[(&str, f64)]) {
        for (row, value) in rows {
            let _ = writeln!(self.0, "{name}{{{label}=\"{row}\"}} {value}");
        }
    }
}
