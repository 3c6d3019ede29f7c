//! Figures about the node for Prometheus.

use super::Rpc;
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Write, time::Duration};

/// Requests by method.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    requests: Mutex<BTreeMap<String, Requests>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Requests {
    answered: u64,
    failed: u64,
    time: Duration,
}

/// Methods that are told apart; whoever makes names up must not fill the memory.
const METHODS: usize = 512;

impl Metrics {
    /// A request was answered.
    pub(super) fn answered(&self, method: &str, success: bool, time: Duration) {
        let mut requests = self.requests.lock();
        let known = requests.contains_key(method) || requests.len() < METHODS;
        let entry = requests.entry(if known { method } else { "other" }.to_owned()).or_default();
        entry.answered += 1;
        entry.failed += u64::from(!success);
        entry.time += time;
    }
}

impl Rpc {
    /// All figures in the text form that Prometheus reads.
    pub(super) fn metrics_text(&self) -> String {
        let mut text = Text::default();
        let requests = self.metrics.requests.lock().clone();
        text.family("polytrie_rpc_requests_total", "counter", "Requests answered, by method.");
        for (method, count) in &requests {
            text.labelled("polytrie_rpc_requests_total", method, count.answered as f64);
        }
        text.family(
            "polytrie_rpc_errors_total",
            "counter",
            "Requests answered with an error, by method.",
        );
        for (method, count) in &requests {
            text.labelled("polytrie_rpc_errors_total", method, count.failed as f64);
        }
        text.family(
            "polytrie_rpc_seconds_total",
            "counter",
            "Time until the answer, by method, in seconds.",
        );
        for (method, count) in &requests {
            text.labelled("polytrie_rpc_seconds_total", method, count.time.as_secs_f64());
        }
        let node = &self.node;
        let view = node.view();
        text.one("polytrie_head_block", "gauge", "Number of the head.", view.head.number() as f64);
        let (blocks, totals) = node.miner().totals();
        text.one(
            "polytrie_blocks_made_total",
            "counter",
            "Blocks made since the start.",
            blocks as f64,
        );
        text.one(
            "polytrie_transactions_total",
            "counter",
            "Transactions in blocks made since the start.",
            totals.txs as f64,
        );
        text.one(
            "polytrie_gas_total",
            "counter",
            "Gas used by blocks made since the start.",
            totals.gas as f64,
        );
        text.family(
            "polytrie_block_seconds_total",
            "counter",
            "Time spent on blocks, by part, in seconds.",
        );
        for (part, time) in [
            ("execute", totals.execute),
            ("state_read", totals.state_read),
            ("state_commit", totals.state_commit),
            ("seal", totals.check),
            ("write", totals.write),
        ] {
            let _ = writeln!(
                text.0,
                "polytrie_block_seconds_total{{part=\"{part}\"}} {}",
                time.as_secs_f64()
            );
        }
        let (pending, queued, dropped) = {
            let pool = node.pool();
            let (pending, queued) = pool.status();
            (pending, queued, pool.dropped())
        };
        text.one(
            "polytrie_pool_pending",
            "gauge",
            "Transactions that can go into the next block.",
            pending as f64,
        );
        text.one(
            "polytrie_pool_queued",
            "gauge",
            "Transactions that wait for another one.",
            queued as f64,
        );
        text.one(
            "polytrie_pool_dropped_total",
            "counter",
            "Transactions thrown out without having been in a block.",
            dropped as f64,
        );
        let waiting = node.db().store().pending();
        text.one(
            "polytrie_unflushed_blocks",
            "gauge",
            "Blocks written and not durable yet.",
            waiting.batches as f64,
        );
        text.one(
            "polytrie_unflushed_bytes",
            "gauge",
            "Memory they take, in bytes.",
            waiting.bytes as f64,
        );
        text.0
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn labelled(&mut self, name: &str, method: &str, value: f64) {
        let method: String =
            method.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect();
        let _ = writeln!(self.0, "{name}{{method=\"{method}\"}} {value}");
    }
}
