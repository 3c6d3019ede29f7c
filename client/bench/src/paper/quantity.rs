//! Quantities that experiments take from a measurement.

use crate::report::{LayerSummary, mebibytes};
use std::fmt;

/// A quantity of a layer's summary.
#[derive(Clone, Copy)]
pub struct Quantity {
    /// Name in tables.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Reads the value from a summary; NaN if the layer does not have it.
    pub of: fn(&LayerSummary) -> f64,
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quantity").field(&self.name).finish()
    }
}

const fn quantity(
    name: &'static str,
    unit: &'static str,
    of: fn(&LayerSummary) -> f64,
) -> Quantity {
    Quantity { name, unit, of }
}

/// The ratio of two figures of the layer's own; NaN if it lacks one.
fn share(summary: &LayerSummary, part: &str, whole: &str) -> f64 {
    let counted = |name: &str| summary.layer.get(name).copied();
    counted(part).zip(counted(whole)).map_or(f64::NAN, |(part, whole)| mean(part, whole))
}

/// The mean, a sum over a count; a count of 0 counts as 1.
fn mean(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

pub(super) const TPS: Quantity =
    quantity("throughput", "transactions a second", |l| l.throughput.spread.median);
pub(super) const OPS: Quantity =
    quantity("throughput", "operations a second", |l| l.throughput.spread.median);
pub(super) const EXECUTION: Quantity =
    quantity("execution", "µs each", |l| l.micros(l.time.execution));
pub(super) const STRUCTURE: Quantity =
    quantity("authenticated structure", "µs each", |l| l.micros(l.time.structure));
pub(super) const ENGINE: Quantity = quantity("engine", "µs each", |l| l.micros(l.time.engine));
pub(super) const READ_AMPLIFICATION: Quantity =
    quantity("read amplification", "engine reads a read", |l| l.amplification.read);
pub(super) const WRITE_AMPLIFICATION: Quantity =
    quantity("write amplification", "engine writes a write", |l| l.amplification.write);
pub(super) const READ_SIZE: Quantity = quantity("size of a read", "bytes", |l| {
    mean(l.amplification.engine_read_bytes, l.amplification.engine_reads)
});
pub(super) const WRITE_SIZE: Quantity = quantity("size of a write", "bytes, key included", |l| {
    mean(l.amplification.engine_write_bytes, l.amplification.engine_writes)
});
pub(super) const READ_BYTES: Quantity =
    quantity("read from the engine", "bytes each", |l| l.each(l.amplification.engine_read_bytes));
/// Part of the trie nodes that were found in the cache; NaN for layers that do not count it.
pub(super) const HIT_RATE: Quantity =
    quantity("hit rate", "of 1", |l| share(l, "node_cache_hits", "nodes_read"));
/// Part of the paths that the EVM requested and that workers fetched before the next block began; NaN for layers that
/// do not count it.
pub(super) const FETCHED: Quantity =
    quantity("paths fetched", "of 1", |l| share(l, "paths_fetched", "paths_asked"));
pub(super) const MEMORY: Quantity = quantity("memory", "MiB", |l| mebibytes(l.own_rss_bytes));
pub(super) const DISK: Quantity = quantity("disk", "MiB", |l| mebibytes(l.disk_bytes));
pub(super) const SLOAD: Quantity = quantity("SLOAD", "s", |l| l.time.sload);
pub(super) const SSTORE: Quantity = quantity("SSTORE", "s", |l| l.time.sstore);
/// Time of SLOAD and SSTORE together. SSTORE is the time to apply writes; the slot that it reads first is
/// timed as SLOAD.
pub(super) const ACCESS: Quantity =
    quantity("SLOAD and SSTORE", "s", |l| l.time.sload + l.time.sstore);
pub(super) const COMMIT: Quantity = quantity("commit", "s", |l| l.time.commit);
pub(super) const FLUSH: Quantity = quantity("flush", "s", |l| l.time.flush);
pub(super) const GET: Quantity = quantity("engine get", "s", |l| l.time.get);
/// Sum of the four times, as the paper adds them.
pub(super) const STATE: Quantity =
    quantity("state in all", "s", |l| l.time.sload + l.time.sstore + l.time.commit + l.time.flush);

/// Time of a curve operation; measured without a layer.
pub(super) const ADDITION: Quantity = quantity("addition", "µs", |_| f64::NAN);
pub(super) const MULTIPLICATION: Quantity = quantity("multiplication", "µs", |_| f64::NAN);

/// A quantity that is counted of a paper's roles, not of a layer.
const fn counted(name: &'static str, unit: &'static str) -> Quantity {
    quantity(name, unit, |_| f64::NAN)
}

pub(super) const FORESEEN: Quantity = counted("accounts and slots foreseen", "of 1");
pub(super) const DIFFERENT: Quantity = counted("transactions that loaded other things", "of 1");
pub(super) const INCOMPLETE: Quantity = counted("transactions that loaded more", "of 1");
pub(super) const STALE: Quantity = counted("transactions that were shown old values", "of 1");
pub(super) const WITNESS: Quantity = counted("witness", "bytes a transaction");
pub(super) const ABORTED: Quantity = counted("witnesses that cannot be carried over", "of 1");
