//! What experiments tell of a measurement.

use crate::report::LayerSummary;
use std::fmt;

/// A figure of a layer's summary.
#[derive(Clone, Copy)]
pub struct Quantity {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Finds it.
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

/// Mean of a sum over a count; 0 where there is nothing to divide by.
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
/// Of layers that count it.
pub(super) const HIT_RATE: Quantity = quantity("hit rate", "of 1", |l| {
    let counted = |name: &str| l.layer.get(name).copied();
    match (counted("node_cache_hits"), counted("nodes_read")) {
        (Some(hits), Some(asked)) => mean(hits, asked),
        _ => f64::NAN,
    }
});
pub(super) const MEMORY: Quantity =
    quantity("memory", "MiB", |l| l.own_rss_bytes as f64 / f64::from(1 << 20));
pub(super) const DISK: Quantity =
    quantity("disk", "MiB", |l| l.disk_bytes as f64 / f64::from(1 << 20));
pub(super) const SLOAD: Quantity = quantity("SLOAD", "s", |l| l.time.sload);
pub(super) const SSTORE: Quantity = quantity("SSTORE", "s", |l| l.time.sstore);
/// Together, as what an SSTORE reads is told apart from it.
pub(super) const ACCESS: Quantity =
    quantity("SLOAD and SSTORE", "s", |l| l.time.sload + l.time.sstore);
pub(super) const COMMIT: Quantity = quantity("commit", "s", |l| l.time.commit);
pub(super) const FLUSH: Quantity = quantity("flush", "s", |l| l.time.flush);
pub(super) const GET: Quantity = quantity("engine get", "s", |l| l.time.get);
/// The four together, as the paper sums them.
pub(super) const STATE: Quantity =
    quantity("state in all", "s", |l| l.time.sload + l.time.sstore + l.time.commit + l.time.flush);

/// Of the curve; not of a layer.
pub(super) const ADDITION: Quantity = quantity("addition", "µs", |_| f64::NAN);
pub(super) const MULTIPLICATION: Quantity = quantity("multiplication", "µs", |_| f64::NAN);

/// What is counted of a paper's roles; none of it is of a layer.
const fn counted(name: &'static str, unit: &'static str) -> Quantity {
    quantity(name, unit, |_| f64::NAN)
}

pub(super) const FORESEEN: Quantity = counted("accounts and slots foreseen", "of 1");
pub(super) const DIFFERENT: Quantity = counted("transactions that loaded other things", "of 1");
pub(super) const INCOMPLETE: Quantity = counted("transactions that loaded more", "of 1");
pub(super) const STALE: Quantity = counted("transactions that were shown old values", "of 1");
pub(super) const WITNESS: Quantity = counted("witness", "bytes a transaction");
pub(super) const ABORTED: Quantity = counted("witnesses that cannot be carried over", "of 1");
