//! The job of one process of a benchmark.

use super::{BenchError, ChainBench, Result, StoreBench, TraceBench};
use crate::{
    Base, BaseSpec, Cache, PreparedChain, Settings, Subject, fixture::OpenStore, worst::WorstBench,
};
use alloy_primitives::B256;
use polytrie_kv::{Durability, StoreOptions};
use polytrie_node::process::{peak_rss_bytes, rss_bytes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{io, path::PathBuf, sync::Arc, time::Duration};

/// A run of one layer. It travels as JSON from the process that compares to the one that measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Layer and engine to measure.
    pub subject: Subject,
    /// Settings with which they are opened.
    pub settings: Settings,
    /// Threads that recover senders.
    pub threads: usize,
    /// Part of its time by which the run is made longer; 0 for none.
    pub slowed: f64,
    /// Time from which on a block gets a log line; `None` for no such lines.
    pub log_slow_blocks: Option<Duration>,
    /// Directory of the store, which the run may change; `None` if the engine keeps nothing on disk.
    pub store: Option<PathBuf>,
    /// Digest of the commitment to which the blocks of a chain are taken back at the end; `None` if the store is a copy
    /// that is not needed any more.
    pub restore: Option<B256>,
    /// Content of the store at the start.
    pub base: BaseSpec,
    /// Directory of the cache, for an engine in memory that has to be filled first.
    pub cache: PathBuf,
    /// The work to measure.
    pub work: Work,
}

/// The work of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Random reads and writes on the state layer alone.
    Store(StoreBench),
    /// A trace of writes on the state layer alone.
    Trace(TraceBench),
    /// Worst cases.
    Worst(WorstBench),
    /// The blocks of a chain, through executor and layer.
    Chain {
        /// Parameters of the benchmark.
        bench: ChainBench,
        /// Directory of the prepared chain.
        chain: PathBuf,
        /// Number of the block on which the chain begins.
        above: u64,
        /// File of the access lists, if they are used.
        lists: Option<PathBuf>,
    },
}

impl Work {
    /// Number of the first block that is measured.
    pub const fn first_block(&self) -> u64 {
        match self {
            Self::Store(bench) => bench.warmup_blocks + 1,
            Self::Trace(bench) => bench.warmup_blocks + 1,
            Self::Worst(_) => 1,
            Self::Chain { bench, above, .. } => *above + bench.warmup_blocks + 1,
        }
    }
}

impl Job {
    /// Runs the job in this process and returns its figures as JSON. For worst cases these are the
    /// [`WorstFigures`](crate::worst::WorstFigures) of each test, the largest number of blocks that the layer's own files
    /// lacked at the end of a test, and the most memory in bytes that the process held; else
    /// [`Measured`](crate::measure::Measured).
    ///
    /// # Errors
    ///
    /// If the store, the layer or the chain fails, or the layer's answers are wrong.
    pub fn run(&self) -> Result<Value> {
        let options = self.settings.engine.store();
        // Without a chain, each block is durable at its end.
        let durable = StoreOptions { durability: Durability::EveryWrite, ..options };
        match &self.work {
            Work::Store(bench) => {
                let rss = rss_bytes();
                json(&bench.run(&self.open(durable)?, rss)?)
            }
            Work::Trace(bench) => {
                let rss = rss_bytes();
                json(&bench.run(&self.open(durable)?, rss)?)
            }
            Work::Worst(bench) => {
                let mut open = || self.open(options.clone());
                let (figures, behind) = bench.run(self.store.as_deref(), &mut open)?;
                json(&(figures, behind, peak_rss_bytes()))
            }
            Work::Chain { bench, chain, above, lists } => {
                let chain = PreparedChain::at(chain.clone());
                let bal = self.subject.bal;
                let lists = lists.as_deref().filter(|_| !bal.is_off());
                let blocks = bench.blocks(&chain, lists, self.threads)?;
                let rss = rss_bytes();
                let open = self.open(StoreOptions { flush_every: bench.flush_every, ..options })?;
                let (mut measured, sample) = bench.run(&chain, blocks, &open, bal, rss)?;
                if let Some(commitment) = self.restore {
                    restore(&open, &chain, *above, commitment)?;
                    measured.restored = Some(sample.held(&open)?);
                }
                json(&measured)
            }
        }
    }

    fn open(&self, options: StoreOptions) -> Result<OpenStore> {
        let in_memory = PathBuf::new();
        let dir = self.store.as_ref().unwrap_or(&in_memory);
        let mut open = OpenStore::open(&self.subject, dir, &self.settings, options)?;
        open.slowed = self.slowed;
        open.log_slow_blocks = self.log_slow_blocks;
        if self.store.is_none() {
            let cache = Arc::new(Cache::open(&self.cache)?);
            open.fill(&Base::new(self.base.clone(), cache))?;
        }
        Ok(open)
    }
}

/// Takes back all blocks above this one, and checks that the commitment is the one before them. A layer without a
/// commitment proves nothing by that.
fn restore(open: &OpenStore, prepared: &PreparedChain, above: u64, commitment: B256) -> Result<()> {
    let mut chain = open.go_on(prepared.spec()?)?;
    chain.unwind_to(above)?;
    chain.flush()?;
    open.store.settle()?;
    let found = open.layer.commitment().digest();
    if found != commitment {
        return Err(BenchError::Wrong(format!(
            "the layer `{}` has the commitment {found} when all blocks are taken back, and had {commitment} before them",
            open.layer.name()
        )));
    }
    Ok(())
}

fn json(figures: &impl Serialize) -> Result<Value> {
    let action = "write down the figures";
    serde_json::to_value(figures)
        .map_err(|error| BenchError::Process { action, source: io::Error::other(error) })
}
