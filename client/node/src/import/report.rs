//! The figures of an import.

use crate::{
    prefetch::PrefetcherReport, process::peak_rss_bytes, witness::WitnessDir, words::counted,
};
use polytrie_chain::{BlockStats, Chain, Head};
use polytrie_kv::{CountersSnapshot, EngineReads};
use polytrie_state::CommitmentKind;
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt, time::Duration};

/// The result of an import; serialises to the JSON of `--json`.
#[derive(Debug, Default, Clone, Serialize)]
pub struct ImportReport {
    /// Name of the state layer.
    pub state: String,
    /// Name of the engine.
    pub kv: String,
    /// Name of the chain.
    pub chain: String,
    /// Number of blocks executed.
    pub blocks: u64,
    /// Number of transactions in these blocks.
    pub txs: u64,
    /// Gas used by these blocks.
    pub gas: u64,
    /// Wall-clock time.
    #[serde(serialize_with = "seconds")]
    pub seconds: Duration,
    /// Transactions a second.
    pub tps: f64,
    /// Millions of gas a second.
    pub mgas_per_second: f64,
    /// Number of transactions that were run ahead of their execution, or whose block's access list was known and read
    /// ahead.
    pub prefetched: u64,
    /// Number of blocks with an access list that was known before their execution.
    pub listed: u64,
    /// Number of blocks that ran by their access list.
    pub by_list: u64,
    /// Number of blocks in the files that were stored already.
    pub skipped: u64,
    /// Number of blocks of other branches.
    pub side: u64,
    /// Number of times that another branch became the canonical one.
    pub reorganised: u64,
    /// Number of blocks with transactions whose receipts root was not compared: with `--verify none`, and where
    /// receipts before Byzantium have state roots that the layer does not give.
    pub receipts_unchecked: u64,
    /// The head after the import.
    pub head: HeadReport,
    /// Number of blocks above the head that were executed and are lost, because the store failed.
    pub lost: u64,
    /// Whether the files lack the last block that was asked for, and the chain ends before it.
    #[serde(skip)]
    pub lacks_last: bool,
    /// The block that is invalid, if the import ended at one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<InvalidReport>,
    /// The split of the time, in seconds. `decode` and `recover` are summed over threads and run in parallel with the
    /// others.
    pub time: TimeSplit,
    /// Reads and writes asked of the store, and those that reached the engine.
    pub counters: CountersSnapshot,
    /// Reads of the engine that transactions waited for.
    pub waited: EngineReads,
    /// Counters of the state layer itself, by name.
    pub layer: BTreeMap<&'static str, u64>,
    /// The comparison with the shadow, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowReport>,
    /// The witnesses that were written, if any were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<WitnessReport>,
    /// The work of prefetchers, if there could be any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetchers: Option<PrefetcherReport>,
    /// Number of blocks with written access lists, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists_written: Option<u64>,
    /// The peak of the process's memory, in bytes.
    pub peak_rss_bytes: u64,
}

/// The comparisons of a shadow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShadowReport {
    /// Name of the shadow's state layer.
    pub state: String,
    /// Number of blocks with compared writes.
    pub blocks: u64,
    /// Whether state roots were compared, too.
    pub roots: bool,
}

/// The files that `--witness` wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WitnessReport {
    /// Number of files.
    pub blocks: u64,
    /// Bytes of trie nodes and code in them.
    pub bytes: u64,
}

impl WitnessReport {
    pub(super) const fn of(dir: &WitnessDir) -> Self {
        Self { blocks: dir.blocks, bytes: dir.bytes }
    }
}

/// The head after an import.
#[derive(Debug, Default, Clone, Serialize)]
pub struct HeadReport {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: alloy_primitives::B256,
    /// State root in its header.
    pub state_root: alloy_primitives::B256,
    /// The layer's commitment; `None` if the store failed and the layer is not at this head.
    pub commitment: Option<alloy_primitives::B256>,
}

/// An invalid block at which an import ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InvalidReport {
    /// Block number; `None` if its header does not decode.
    pub number: Option<u64>,
    /// Block hash; `None` if the block does not decode.
    pub hash: Option<alloy_primitives::B256>,
    /// The rule that it breaks, with the found and the expected value.
    pub reason: String,
}

/// The split of the time of an import.
#[derive(Debug, Default, Clone, Serialize)]
pub struct TimeSplit {
    /// Decoding and body checks, on worker threads.
    #[serde(serialize_with = "seconds")]
    pub decode: Duration,
    /// Sender recovery, on worker threads.
    #[serde(serialize_with = "seconds")]
    pub recover: Duration,
    /// Checks of headers and results.
    #[serde(serialize_with = "seconds")]
    pub check: Duration,
    /// Execution in the EVM.
    #[serde(serialize_with = "seconds")]
    pub execute: Duration,
    /// Reading state for the EVM.
    #[serde(serialize_with = "seconds")]
    pub state_read: Duration,
    /// Computing commitments.
    #[serde(serialize_with = "seconds")]
    pub state_commit: Duration,
    /// Handing batches to the store.
    #[serde(serialize_with = "seconds")]
    pub write: Duration,
    /// Flushing to the engine, on the flush thread.
    #[serde(serialize_with = "seconds")]
    pub flush: Duration,
    /// Waiting for the last flush.
    #[serde(serialize_with = "seconds")]
    pub flush_wait: Duration,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

impl ImportReport {
    pub(super) fn begin(chain: &Chain) -> Self {
        Self {
            state: chain.layer().name().to_owned(),
            kv: chain.db().store().engine_name().to_owned(),
            chain: chain.spec().name().to_owned(),
            head: HeadReport::of(chain),
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, stats: &BlockStats) {
        self.blocks += 1;
        self.txs += stats.txs;
        self.gas += stats.gas;
        self.by_list += u64::from(stats.by_list);
        self.receipts_unchecked += u64::from(!stats.receipts_checked && stats.txs > 0);
        self.waited += stats.waited;
        self.time.check += stats.check;
        self.time.execute += stats.execute;
        self.time.state_read += stats.state_read;
        self.time.state_commit += stats.state_commit;
        self.time.write += stats.write;
    }

    pub(super) fn end(&mut self, chain: &Chain, seconds: Duration, before: CountersSnapshot) {
        self.seconds = seconds;
        // An import without work takes nearly no time, by which the figures cannot be divided.
        let elapsed = seconds.as_secs_f64().max(1e-9);
        self.tps = self.txs as f64 / elapsed;
        self.mgas_per_second = self.gas as f64 / 1e6 / elapsed;
        self.counters = chain.db().store().counters() - before;
        self.layer = chain.layer().figures().into_iter().collect();
        self.time.flush = Duration::from_nanos(self.counters.flush_ns);
        self.peak_rss_bytes = peak_rss_bytes();
    }

    /// Sets the head after the import: that of the chain or, if it could not be flushed, the one in the store.
    pub(super) fn leave(&mut self, chain: &Chain, is_flushed: bool) {
        if is_flushed {
            self.head = HeadReport::of(chain);
            return;
        }
        match chain.db().flushed_head() {
            // A layer that gives state roots gave this block the root in its header.
            Ok(Some(head)) if head.hash() != self.head.hash => {
                let root = head.header.state_root;
                let is_root = chain.options().verify_roots
                    && chain.layer().commitment().kind() == CommitmentKind::StateRoot;
                self.head =
                    HeadReport { commitment: is_root.then_some(root), ..HeadReport::at(&head) };
            }
            // The head is the one from before the import.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!("the head that is still in the store cannot be read: {error}")
            }
        }
        self.lost = chain.head().number().saturating_sub(self.head.number);
    }

    /// Returns the summary for users; `completed` says whether the import reached the end of its files.
    pub fn summary(&self, completed: bool) -> String {
        let ended = if completed { "completed in" } else { "stopped after" };
        let seconds = self.seconds.as_secs_f64();
        let mgas = self.gas as f64 / 1e6;
        let skipped = match self.skipped {
            0 => None,
            skipped => Some(format!("{skipped} skipped: stored already")),
        };
        let side = match self.side {
            0 => None,
            side => Some(format!("{side} of other branches")),
        };
        let beside = match (skipped, side) {
            (Some(skipped), Some(side)) => format!(" ({skipped}; {side})"),
            (Some(one), None) | (None, Some(one)) => format!(" ({one})"),
            (None, None) => String::new(),
        };
        format!(
            "Import {ended} {seconds:.1} seconds, {}{beside}, {:.0} blk/s, {}, {:.0} tx/s, {mgas:.0} Mgas, {:.0} Mgas/s",
            counted(self.blocks, "block"),
            self.blocks as f64 / seconds.max(1e-9),
            counted(self.txs, "transaction"),
            self.tps,
            self.mgas_per_second,
        )
    }
}

impl fmt::Display for HeadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "head {} {} state root {}", self.number, self.hash, self.state_root)
    }
}

impl HeadReport {
    /// Returns the head of a chain.
    pub fn of(chain: &Chain) -> Self {
        let commitment = Some(chain.layer().commitment().digest());
        Self { commitment, ..Self::at(chain.head()) }
    }

    fn at(head: &Head) -> Self {
        Self {
            number: head.number(),
            hash: head.hash(),
            state_root: head.header.state_root,
            commitment: None,
        }
    }
}
