//! Whether a run was cold.

use super::{BenchError, RunResult};
use crate::measure::Measured;
use serde::{Deserialize, Serialize};

/// Device reads an operation, below which a run is not called cold: half of the operations had to wait for the device.
const COLD_READS: f64 = 0.5;
/// Bytes that count as one read.
const READ_BYTES: f64 = 4096.0;

/// How cold a run was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Coldness {
    /// Reads of 4 KiB from the device an operation or transaction.
    pub device_reads_per_operation: f64,
    /// The least number of reads with which a run counts as cold.
    pub required: f64,
}

impl Coldness {
    /// How cold a run was; `None` where the system does not tell what was read from devices.
    pub fn of(measured: &Measured) -> Option<Self> {
        let bytes = measured.device?.read_bytes as f64;
        let device_reads_per_operation = bytes / READ_BYTES / measured.operations.max(1) as f64;
        Some(Self { device_reads_per_operation, required: COLD_READS })
    }

    /// Whether it may be called cold.
    pub fn is_proven(&self) -> bool {
        self.device_reads_per_operation >= self.required
    }
}

/// The proof that a run was cold.
///
/// # Errors
///
/// If there is none.
pub(super) fn prove(result: &RunResult) -> Result<Coldness, BenchError> {
    let (run, subject) = (result.run, &result.subject);
    let Some(coldness) = Coldness::of(&result.measured) else {
        return Err(BenchError::Refused(format!(
            "run {run} of {subject} cannot be called cold: the system does not say what was read from devices (/proc/self/io)"
        )));
    };
    if coldness.is_proven() {
        return Ok(coldness);
    }
    Err(BenchError::Refused(format!(
        "run {run} of {subject} was not cold: {:.3} reads of 4 KiB from the device an operation, at least {COLD_READS} expected; what it needs fits into memory, so choose more --keys or --accounts, a smaller --trie.cache, or --kv rocksdb, which reads past the page cache (or leave out --cold)",
        coldness.device_reads_per_operation
    )))
}
