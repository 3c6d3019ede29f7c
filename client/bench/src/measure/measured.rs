//! The figures of one run.

use super::{Percentiles, Schedule};
use alloy_primitives::B256;
use polytrie_kv::CountersSnapshot;
use polytrie_node::process::DeviceIo;
use polytrie_state::SessionCounters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures of one run, without its warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Number of blocks, each of them one commit.
    pub blocks: u64,
    /// Number of operations (in `bench store`: a read and a write of one key) or transactions.
    pub operations: u64,
    /// Gas used; `None` without an EVM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas: Option<u64>,
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// Operations or transactions per second.
    pub throughput: f64,
    /// Millions of gas per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mgas_per_second: Option<f64>,
    /// Parts of the time.
    pub time: TimeSplit,
    /// Percentiles of the blocks' times, in seconds.
    pub block_seconds: Percentiles,
    /// Throughput of up to fifty equal parts of the run in order, in which a trend or a stall is visible.
    pub over_time: Vec<f64>,
    /// Reads and writes of the layer.
    pub session: SessionCounters,
    /// Reads and writes of the store, and those that reached the engine.
    pub counters: CountersSnapshot,
    /// Bytes that were read from and written to devices; `None` if the system has no figure.
    pub device: Option<DeviceIo>,
    /// Reads and writes of the engine for each of the layer.
    pub amplification: Amplification,
    /// Bytes on disk before the first block: of the engine, and of the layer's files beside it.
    pub disk_bytes_before: u64,
    /// Bytes on disk after the last block was durable, counted in the same way.
    pub disk_bytes: u64,
    /// Memory before the layer was opened, in bytes: that of the workload and the program.
    pub rss_before_bytes: u64,
    /// Greatest memory of the process, in bytes, with pages of mapped files (MDBX).
    pub peak_rss_bytes: u64,
    /// Memory at the end, in bytes, without such pages.
    pub own_rss_bytes: u64,
    /// Figures of the layer about its own work from the first block on, with the warm-up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layer: BTreeMap<String, u64>,
    /// Number of blocks that ran by their access list.
    #[serde(default, skip_serializing_if = "is_none")]
    pub by_list: u64,
    /// Estimated throughput with other numbers of threads, if transactions ran at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Commitment after the last block.
    pub commitment: Commitment,
    /// Hash of all values read, or in a chain of what the accounts of the last blocks hold at the end: layers with the same
    /// values have the same one. `None` in reports of builds that did not read these accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<B256>,
    /// Hash of what the same accounts hold when all blocks are taken back; `None` if they are not. A comparison of runs removes
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<B256>,
    /// Proofs of accounts at the end of a chain; `None` if the layer makes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proofs: Option<Proofs>,
    /// Figures of each block; a comparison of runs removes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each_block: Vec<BlockFigures>,
}

/// Whether the count is zero, so that the field is left out.
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Figures of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFigures {
    /// Number of the block.
    pub number: u64,
    /// Number of operations or transactions.
    pub operations: u64,
    /// Gas used; `None` without an EVM.
    pub gas: Option<u64>,
    /// Wall-clock time.
    pub nanoseconds: u64,
}

/// Figures of proofs, each of one account.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Proofs {
    /// Number of proofs.
    pub count: u64,
    /// Mean number of bytes of a proof: of its nodes, hashes, points and values, however they are encoded.
    pub bytes: f64,
    /// Percentiles of the times of making one, in seconds.
    pub seconds: Percentiles,
}

/// A commitment, as far as it can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commitment {
    /// Digest of 32 bytes.
    pub digest: B256,
    /// Whether it is the state root of the Ethereum specification.
    pub canonical: bool,
}

/// Parts of the time, in seconds. The first four add up to the total.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeSplit {
    /// Time of the EVM and the code around it. In `bench store`: passing keys and values.
    pub execution: f64,
    /// Time in the layer without waiting for the engine: account reads, SLOAD, SSTORE and commit, minus the reads in
    /// `engine`. It includes waiting for a layer's own threads, except those that only read ahead.
    pub structure: f64,
    /// Time in which the executing thread waited for the engine: writes, flushes, its own gets, and threads that read
    /// ahead for it.
    pub engine: f64,
    /// Time of waiting for senders; zero unless the recovery is measured.
    pub recover: f64,
    /// Time of reads of accounts and code from the layer.
    pub account_read: f64,
    /// Time of slot reads from the layer, with handing over hints.
    pub sload: f64,
    /// Time of passing the writes of transactions to the layer, without the reads that this makes.
    pub sstore: f64,
    /// Time of commitments, and of making them the head.
    pub commit: f64,
    /// Time of gets of the engine, summed over all threads.
    pub get: f64,
    /// Time of passing batches to the store.
    pub write: f64,
    /// Time of waiting for flushes.
    pub flush_wait: f64,
    /// Time of flushes on any thread.
    pub flush: f64,
    /// Time of writes that waited for an earlier flush.
    pub stall: f64,
}

/// Reads and writes of the layer (accounts and slots; 104 and 64 bytes each) and those that reach the engine (rows,
/// with their keys).
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Amplification {
    /// Number of reads from the layer.
    pub layer_reads: u64,
    /// Number of bytes of these reads.
    pub layer_read_bytes: u64,
    /// Number of rows read from the engine; a scan counts as one.
    pub engine_reads: u64,
    /// Number of bytes that the engine returned.
    pub engine_read_bytes: u64,
    /// Number of writes to the layer.
    pub layer_writes: u64,
    /// Number of bytes of these writes.
    pub layer_write_bytes: u64,
    /// Number of rows written to the engine.
    pub engine_writes: u64,
    /// Number of bytes of these rows.
    pub engine_write_bytes: u64,
    /// Engine reads per layer read.
    pub read: f64,
    /// Engine writes per layer write.
    pub write: f64,
    /// Bytes written to the engine per byte written to the layer.
    pub write_bytes: f64,
}

impl Amplification {
    /// Computes the amplification from these counts.
    pub fn of(session: &SessionCounters, counters: &CountersSnapshot) -> Self {
        let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
        let engine_reads = counters.engine_gets + counters.scans;
        let engine_writes = counters.engine_puts + counters.engine_deletes + counters.engine_ranges;
        Self {
            layer_reads: session.reads(),
            layer_read_bytes: session.read_bytes(),
            engine_reads,
            engine_read_bytes: counters.read_bytes,
            layer_writes: session.writes(),
            layer_write_bytes: session.write_bytes(),
            engine_writes,
            engine_write_bytes: counters.engine_write_bytes,
            read: ratio(engine_reads, session.reads()),
            write: ratio(engine_writes, session.writes()),
            write_bytes: ratio(counters.engine_write_bytes, session.write_bytes()),
        }
    }
}
