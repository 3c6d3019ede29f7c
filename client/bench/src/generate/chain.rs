//! The chain of a workload: blocks with the roots that every client computes, made once and kept.

use super::{GenerateError, ProduceError, Producer};
use crate::{
    BaseSpec, Workload, WorkloadSpec,
    fixture::{
        Base, Cache, CacheError, PreparedChain, Settings, Subject,
        base::wallet,
        chain::{ChainFiles, FIGURES, OUTLINE, write},
        store::copied,
    },
};
use alloy_consensus::TxReceipt;
use alloy_primitives::B256;
use polytrie_chain::ChainOptions;
use polytrie_layers::LayerOptions;
use polytrie_node::words::counted;
use serde::{Deserialize, Serialize};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Bytes of trie nodes that are kept in memory while blocks are made.
const TRIE_CACHE: usize = 512 << 20;
/// Time between two reports of progress.
const PROGRESS: Duration = Duration::from_secs(8);

/// Size and head of a generated chain.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainFigures {
    /// Chain id.
    pub chain_id: u64,
    /// Hash of the genesis block.
    pub genesis_hash: B256,
    /// Bytes of `chain.rlp`.
    pub chain_bytes: u64,
    /// Blocks without the genesis block.
    pub blocks: u64,
    /// Transactions in all blocks.
    pub transactions: u64,
    /// Transactions that did not succeed.
    pub failed_transactions: u64,
    /// Gas that all blocks use.
    pub gas: u64,
    /// The last block.
    pub head: GeneratedHead,
}

/// The last block of a generated chain.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedHead {
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// State root after the block.
    pub state_root: B256,
}

impl PreparedChain {
    /// The chain of a workload: from the cache, or made now on the canonical layer `mpt`.
    ///
    /// # Errors
    ///
    /// If the chain cannot be made, or `interrupt` is set.
    pub fn of(
        spec: &WorkloadSpec,
        cache: &Arc<Cache>,
        base: &Base,
        interrupt: &AtomicBool,
    ) -> Result<Self, GenerateError> {
        let what = format!("chain-{}", serde_json::json!(spec.workload).as_str().unwrap_or("any"));
        let dir = cache.entry(&what, spec, |dir| make(spec, cache, base, dir, interrupt))?;
        Ok(Self::at(dir))
    }

    /// Size and head of the chain.
    ///
    /// # Errors
    ///
    /// If the file with these figures cannot be read.
    pub fn figures(&self) -> Result<ChainFigures, CacheError> {
        self.read_figures()
    }
}

/// Makes the chain in `dir`.
fn make(
    spec: &WorkloadSpec,
    cache: &Cache,
    base: &Base,
    dir: &Path,
    interrupt: &AtomicBool,
) -> Result<(), GenerateError> {
    debug_assert!(matches!(base.spec(), BaseSpec::Genesis { .. }));
    let subject = Subject::new("mpt", "mdbx");
    let settings = Settings {
        layer: LayerOptions { trie_cache: TRIE_CACHE, ..LayerOptions::default() },
        ..Settings::default()
    };
    let (_scratch, open, commitment) = copied(cache, base, &subject, &settings)?;
    let mut workload = spec.open(wallet(cache, spec.seed, spec.accounts())?)?;
    let plan = workload.genesis();
    write(&dir.join(OUTLINE), plan.outline(commitment))?;
    let chain_spec = Arc::new(plan.chain_spec(commitment)?);
    let chain = open.begin(chain_spec, ChainOptions::default()).map_err(ProduceError::from)?;
    let chain_spec = chain.spec();
    let mut figures = ChainFigures {
        chain_id: chain_spec.chain_id(),
        genesis_hash: chain_spec.genesis_hash(),
        ..ChainFigures::default()
    };
    let mut producer = Producer::new(chain);
    write_blocks(&mut *workload, &mut producer, dir, &mut figures, interrupt)?;
    let head = producer.parent();
    figures.head =
        GeneratedHead { number: head.number, hash: head.hash(), state_root: head.state_root };
    let text = serde_json::to_string_pretty(&figures)
        .map_err(|e| CacheError::at("write", dir)(e.into()))?;
    Ok(write(&dir.join(FIGURES), text)?)
}

fn write_blocks(
    workload: &mut dyn Workload,
    producer: &mut Producer,
    dir: &Path,
    figures: &mut ChainFigures,
    interrupt: &AtomicBool,
) -> Result<(), GenerateError> {
    let start = Instant::now();
    let mut files = ChainFiles::create::<GenerateError>(dir)?;
    let mut reported = start;
    while let Some(plan) = workload.next_block(producer.parent()) {
        if interrupt.load(Ordering::Relaxed) {
            return Err(GenerateError::Interrupted { blocks: figures.blocks });
        }
        let produced = producer.produce(plan, workload.wallet())?;
        files.push::<GenerateError>(&produced.rlp, &produced.senders)?;
        let receipts = &produced.executed.receipts;
        figures.blocks += 1;
        figures.transactions += receipts.len() as u64;
        figures.failed_transactions +=
            receipts.iter().filter(|receipt| !receipt.status()).count() as u64;
        figures.gas += produced.executed.gas_used;
        figures.chain_bytes += produced.rlp.len() as u64;
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            let transactions = counted(figures.transactions, "transaction");
            tracing::info!("{}, {transactions}", counted(figures.blocks, "block"));
        }
    }
    files.finish::<GenerateError>()?;
    tracing::info!(
        "made {} with {} in {:.1} s",
        counted(figures.blocks, "block"),
        counted(figures.transactions, "transaction"),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
