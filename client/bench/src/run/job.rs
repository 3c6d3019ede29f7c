//! The job of one process of a measurement.

use super::{BenchError, ChainBench, StoreBench, TraceBench};
use crate::{
    Base, BaseSpec, Cache, PreparedChain, Settings, Subject, fixture::OpenStore, worst::WorstBench,
};
use polytrie_kv::{Durability, StoreOptions};
use polytrie_node::process::{peak_rss_bytes, rss_bytes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{io, path::PathBuf, sync::Arc, time::Duration};

/// One run. Travels as JSON from the process that compares to the one that measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// What is measured.
    pub subject: Subject,
    /// How it is opened.
    pub settings: Settings,
    /// Threads that recover senders.
    pub threads: usize,
    /// Part of its time that the run is made longer by.
    pub slowed: f64,
    /// From how long on the log has a line for a block; `None` for no such lines.
    pub log_slow_blocks: Option<Duration>,
    /// The copy of the store that this run may spoil; `None` if the engine keeps nothing on a disk.
    pub store: Option<PathBuf>,
    /// What is in the store at the start.
    pub base: BaseSpec,
    /// Where prepared things are, for an engine that has to be filled first.
    pub cache: PathBuf,
    /// What is to be done with it.
    pub work: Work,
}

/// What a run does.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// The state layer alone.
    Store(StoreBench),
    /// A trace of writes on the state layer alone.
    Trace(TraceBench),
    /// Worst cases.
    Worst(WorstBench),
    /// A chain through executor and layer.
    Chain {
        /// How.
        bench: ChainBench,
        /// The prepared chain.
        chain: PathBuf,
        /// Number of the block that it begins on.
        above: u64,
        /// The file of its access lists, if something is made of them.
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
    /// Does it, in this process. Returns what was measured: of worst cases the
    /// [`WorstFigures`](crate::worst::WorstFigures) of each test and the most memory that the process held, in bytes, else
    /// [`Measured`](crate::measure::Measured).
    ///
    /// # Errors
    ///
    /// If anything fails, or the layer's answers are wrong.
    pub fn run(&self) -> Result<Value, BenchError> {
        let options = self.settings.engine.store();
        // Each block of state alone is durable at its end.
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
                let figures = bench.run(self.store.as_deref(), &mut open)?;
                json(&(figures, peak_rss_bytes()))
            }
            Work::Chain { bench, chain, lists, .. } => {
                let chain = PreparedChain::at(chain.clone());
                let bal = self.subject.bal;
                let lists = lists.as_deref().filter(|_| !bal.is_off());
                let blocks = bench.blocks(&chain, lists, self.threads)?;
                let rss = rss_bytes();
                let open = self.open(StoreOptions { flush_every: bench.flush_every, ..options })?;
                json(&bench.run(&chain, blocks, &open, bal, rss)?)
            }
        }
    }

    fn open(&self, options: StoreOptions) -> Result<OpenStore, BenchError> {
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

fn json(figures: &impl Serialize) -> Result<Value, BenchError> {
    let action = "write down the figures";
    serde_json::to_value(figures)
        .map_err(|error| BenchError::Process { action, source: io::Error::other(error) })
}
