//! The figures of one run.

use super::{Percentiles, Schedule};
use alloy_primitives::B256;
use polytrie_kv::CountersSnapshot;
use polytrie_node::process::DeviceIo;
use polytrie_state::SessionCounters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The figures of one run, without its warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Blocks, each of them one commit.
    pub blocks: u64,
    /// Operations (of `bench store`: a read and a write of one key) or transactions.
    pub operations: u64,
    /// Gas used; `None` where there is no EVM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas: Option<u64>,
    /// Wall-clock time.
    pub seconds: f64,
    /// Operations or transactions a second.
    pub throughput: f64,
    /// Millions of gas a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mgas_per_second: Option<f64>,
    /// Where the time went.
    pub time: TimeSplit,
    /// Seconds a block took.
    pub block_seconds: Percentiles,
    /// Throughput of up to fifty equal parts of the run, one after the other: a slope or a stall shows.
    pub over_time: Vec<f64>,
    /// What was asked of the layer.
    pub session: SessionCounters,
    /// What was asked of the store, and what reached the engine.
    pub counters: CountersSnapshot,
    /// What reached devices; `None` where the system does not tell.
    pub device: Option<DeviceIo>,
    /// What reached the engine for each read and write of the layer.
    pub amplification: Amplification,
    /// Bytes on disk before the first block, and after the last one was durable: of the engine, and of the files that the
    /// layer has beside it.
    pub disk_bytes_before: u64,
    /// See above.
    pub disk_bytes: u64,
    /// Memory held before the layer was opened: the workload and the program.
    pub rss_before_bytes: u64,
    /// The most memory ever held, pages of mapped files (MDBX) included.
    pub peak_rss_bytes: u64,
    /// Memory held at the end, such pages not included.
    pub own_rss_bytes: u64,
    /// What the layer counted of its own work from the first block on, the warm-up's included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layer: BTreeMap<String, u64>,
    /// Blocks that ran by their access list.
    #[serde(default, skip_serializing_if = "is_none")]
    pub by_list: u64,
    /// What other numbers of threads would make of the transactions, where they ran at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// The commitment after the last block.
    pub commitment: Commitment,
    /// All values read, folded into one: layers that remember the same agree. `None` where not read directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<B256>,
    /// Each block; a comparison of runs takes them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each_block: Vec<BlockFigures>,
}

/// Whether there is nothing to tell.
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// One block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFigures {
    /// Its number.
    pub number: u64,
    /// Operations or transactions.
    pub operations: u64,
    /// Gas; `None` where there is no EVM.
    pub gas: Option<u64>,
    /// Wall-clock time.
    pub nanoseconds: u64,
}

/// A commitment, as far as it can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commitment {
    /// 32 bytes that stand for it.
    pub digest: B256,
    /// Whether it is the state root of the Ethereum specification.
    pub canonical: bool,
}

/// Where the time went, in seconds. The first three add up to the total, up to what is between them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeSplit {
    /// The EVM and what is around it. `bench store`: handing over keys and values.
    pub execution: f64,
    /// In the layer, without waiting for the engine: account reads, SLOAD, SSTORE and commit less gets. The least that it
    /// can be where threads of the layer read beside it.
    pub structure: f64,
    /// Waiting for the engine: gets, of whichever thread and at most as long as the layer took, writes, flushes.
    pub engine: f64,
    /// Waiting for senders; zero unless recovery is included.
    pub recover: f64,
    /// Accounts read from the layer.
    pub account_read: f64,
    /// Slots read from the layer.
    pub sload: f64,
    /// Writes of transactions handed to the layer.
    pub sstore: f64,
    /// Commitments, and making them the head.
    pub commit: f64,
    /// Gets of the engine, summed over all threads.
    pub get: f64,
    /// Handing batches to the store.
    pub write: f64,
    /// Waiting for flushes.
    pub flush_wait: f64,
    /// Flushing, on whichever thread.
    pub flush: f64,
    /// Writes that waited for an earlier flush.
    pub stall: f64,
}

/// Reads and writes asked of the layer (accounts and slots; 104 and 64 bytes each) against those that reach the engine
/// (rows, with their keys).
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Amplification {
    /// Asked of the layer.
    pub layer_reads: u64,
    /// Bytes of them.
    pub layer_read_bytes: u64,
    /// Rows asked of the engine, scans counted as one.
    pub engine_reads: u64,
    /// Bytes that the engine returned.
    pub engine_read_bytes: u64,
    /// Given to the layer.
    pub layer_writes: u64,
    /// Bytes of them.
    pub layer_write_bytes: u64,
    /// Rows written to the engine.
    pub engine_writes: u64,
    /// Bytes of them.
    pub engine_write_bytes: u64,
    /// Engine reads a layer read.
    pub read: f64,
    /// Engine writes a layer write.
    pub write: f64,
    /// Bytes written to the engine a byte given to the layer.
    pub write_bytes: f64,
}

impl Amplification {
    /// The amplification that follows from these counts.
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
