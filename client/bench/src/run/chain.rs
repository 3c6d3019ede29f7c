//! A chain through executor and layer.

use super::BenchError;
use crate::{
    CacheError, PreparedChain,
    fixture::OpenStore,
    measure::{BlockTimes, Measured, Recorder},
};
use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{Address, B256};
use crossbeam_channel::{Receiver, bounded};
use polytrie_chain::executor::{BlockToExecute, Executor, Prefetch, Prefetcher, recover_senders};
use polytrie_chainspec::ChainSpec;
use polytrie_files::BlockReader;
use polytrie_kv::KvError;
use polytrie_state::{BlockRef, FinishedLater, PendingOutcome, Session, SessionCounters};
use rayon::prelude::*;
use serde::{Deserialize, Deserializer, Serialize};
use std::{collections::VecDeque, io, sync::Arc, thread, time::Instant};

/// Bytes of contract code kept ready to run.
const CODE_CACHE: usize = 16 << 20;
/// Blocks whose senders may be known ahead of execution.
const BLOCKS_AHEAD: usize = 64;
/// Blocks of warm-up that are enough for any chain: an interval of `lmpt` as a node has it, which gets one that is no longer
/// than the warm-up.
const ENOUGH_WARMUP: u64 = 1_000;
/// Transactions that one thread recovers at a time.
const RECOVER_PORTION: usize = 16;

/// The parameters of `bench chain` beside the workload's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainBench {
    /// Blocks at the start that are not measured.
    pub warmup_blocks: u64,
    /// Whether recovering the senders is part of what is measured; it runs ahead, on other threads.
    pub recover: bool,
    /// Whether blocks are run ahead of their turn, as `import --prefetch` does.
    #[serde(default, deserialize_with = "prefetch")]
    pub prefetch: Prefetch,
    /// Blocks that become durable together.
    pub flush_every: u64,
}

/// Reads also what reports said before there was a choice of three.
fn prefetch<'de, D: Deserializer<'de>>(value: D) -> Result<Prefetch, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Told {
        Whether(bool),
        When(Prefetch),
    }
    Ok(match Told::deserialize(value)? {
        Told::Whether(true) => Prefetch::On,
        Told::Whether(false) => Prefetch::Off,
        Told::When(when) => when,
    })
}

/// A chain in memory, ready to be executed.
#[derive(Debug)]
pub(super) struct LoadedChain {
    spec: Arc<ChainSpec>,
    blocks: Vec<Block<TxEnvelope>>,
    senders: Vec<Vec<Address>>,
    /// Hashes of the blocks from the genesis block on.
    hashes: Vec<B256>,
    /// The first block past the merge, counted from block 1 as 0.
    first_merged: usize,
    /// Whether all blocks are empty, so that each is an operation.
    empty_blocks: bool,
}

impl LoadedChain {
    pub(super) fn load(chain: &PreparedChain) -> Result<Self, BenchError> {
        let damaged = |text: String| {
            CacheError::at("use", chain.dir())(io::Error::other(format!("{text}; remove it")))
        };
        let spec = chain.spec()?;
        let mut rest = chain.senders()?.into_iter();
        let (mut blocks, mut senders) = (Vec::new(), Vec::new());
        let mut hashes = vec![spec.genesis_hash()];
        for raw in BlockReader::open(chain.blocks())? {
            let block = raw?.decode()?;
            let of_block: Vec<_> = rest.by_ref().take(block.body.transactions.len()).collect();
            if of_block.len() != block.body.transactions.len() {
                return Err(damaged("it has fewer senders than transactions".into()).into());
            }
            if block.header.parent_hash != hashes[blocks.len()] {
                return Err(damaged(format!("block {} has no parent", blocks.len() + 1)).into());
            }
            hashes.push(block.header.hash_slow());
            blocks.push(block);
            senders.push(of_block);
        }
        let mut total_difficulty = spec.genesis_header().difficulty;
        let first_merged = blocks.iter().take_while(|block| {
            let merged = spec.is_merged_after(total_difficulty);
            total_difficulty += block.header.difficulty;
            !merged
        });
        let first_merged = first_merged.count();
        let empty_blocks = senders.iter().all(Vec::is_empty);
        Ok(Self { spec, blocks, senders, hashes, first_merged, empty_blocks })
    }

    /// What a block counts for.
    fn operations(&self, index: usize) -> u64 {
        match self.empty_blocks {
            true => 1,
            false => self.blocks[index].body.transactions.len() as u64,
        }
    }
}

impl ChainBench {
    /// The warm-up of a chain of so many blocks, by default: a tenth, or what is enough if the chain holds it
    /// three times.
    pub const fn default_warmup(blocks: u64) -> u64 {
        if blocks >= 3 * ENOUGH_WARMUP {
            ENOUGH_WARMUP
        } else if blocks > 1 {
            blocks.div_ceil(10)
        } else {
            0
        }
    }

    /// Runs on a store that holds the chain's genesis state.
    pub(super) fn run(
        &self,
        chain: &LoadedChain,
        open: &OpenStore,
        counters: bool,
        threads: usize,
        rss_before: u64,
    ) -> Result<Measured, BenchError> {
        check_root(open, chain.spec.genesis_header().state_root, 0)?;
        let executor = Executor::new(CODE_CACHE);
        let prefetcher = Prefetcher::new(self.prefetch, &chain.spec);
        let mut run = Run { chain, open, counters, executor, prefetcher, waiting: VecDeque::new() };
        if !self.recover {
            return self.blocks(&mut run, rss_before, |index| Ok(chain.senders[index].clone()));
        }
        thread::scope(|scope| {
            let (send, receive) = bounded(BLOCKS_AHEAD);
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads.max(1))
                .build()
                .map_err(|e| process("start threads", io::Error::other(e)))?;
            let work = move || {
                for block in &chain.blocks {
                    let senders = pool.install(|| recover(&block.body.transactions));
                    if send.send(senders).is_err() {
                        // The run has ended.
                        return;
                    }
                }
            };
            thread::Builder::new().spawn_scoped(scope, work).map_err(KvError::thread)?;
            self.blocks(&mut run, rss_before, |index| received(&receive, index))
        })
    }

    fn blocks(
        &self,
        run: &mut Run<'_>,
        rss_before: u64,
        mut senders: impl FnMut(usize) -> Result<Vec<Address>, BenchError>,
    ) -> Result<Measured, BenchError> {
        let mut recorder = None;
        let mut operations = 0;
        for index in 0..run.chain.blocks.len() {
            let number = index as u64 + 1;
            if number == self.warmup_blocks {
                // The clock stands until the warm-up is flushed. With one block to flush, nothing gains much by it that
                // works in the background, such as a merge.
                run.settle(0, &mut BlockTimes::default())?;
                run.open.store.flush()?;
            }
            if number == self.warmup_blocks + 1 {
                run.settle(0, &mut BlockTimes::default())?;
                recorder = Some(Recorder::start(run.open, rss_before)?);
            }
            let start = Instant::now();
            let senders = senders(index)?;
            let recover = start.elapsed();
            let (mut times, session) = run.block(index, &senders)?;
            let is_last = index + 1 == run.chain.blocks.len();
            run.settle(if is_last { 0 } else { run.open.layer.depth() }, &mut times)?;
            times.recover = if self.recover { recover } else { times.recover };
            if let Some(recorder) = &mut recorder {
                let gas = Some(run.chain.blocks[index].header.gas_used);
                operations += run.chain.operations(index);
                recorder.block(run.chain.operations(index), gas, times, session);
            }
        }
        match recorder {
            Some(_) if operations == 0 => Err(BenchError::Usage(format!(
                "the {} blocks after the warm-up of {} hold no transactions; choose another --warmup or --to",
                run.chain.blocks.len() as u64 - self.warmup_blocks,
                self.warmup_blocks
            ))),
            Some(recorder) => Ok(recorder.finish(run.open)?),
            None => Err(BenchError::Usage(format!(
                "the chain has {} blocks, all of them in the warm-up of {}; choose a smaller --warmup, or more blocks (--txs, or a later --to)",
                run.chain.blocks.len(),
                self.warmup_blocks
            ))),
        }
    }
}

fn process(action: &'static str, source: io::Error) -> BenchError {
    BenchError::Process { action, source }
}

fn recover(transactions: &[TxEnvelope]) -> Result<Vec<Address>, String> {
    let portions: Result<Vec<_>, _> =
        transactions.par_chunks(RECOVER_PORTION).map(recover_senders).collect();
    portions.map(|portions| portions.concat()).map_err(|e| e.to_string())
}

fn received(
    senders: &Receiver<Result<Vec<Address>, String>>,
    index: usize,
) -> Result<Vec<Address>, BenchError> {
    let ended = |_| Err("the thread that recovers senders ended".to_owned());
    senders
        .recv()
        .unwrap_or_else(ended)
        .map_err(|text| BenchError::Wrong(format!("block {}: {text}", index + 1)))
}

struct Run<'a> {
    chain: &'a LoadedChain,
    open: &'a OpenStore,
    counters: bool,
    executor: Executor,
    prefetcher: Option<Prefetcher>,
    /// Blocks that were executed and whose root may not be known yet, by their positions.
    waiting: VecDeque<(usize, Box<dyn PendingOutcome>)>,
}

impl Run<'_> {
    /// Executes a block on top of those before it, as an import does.
    fn block(
        &mut self,
        index: usize,
        senders: &[Address],
    ) -> Result<(BlockTimes, SessionCounters), BenchError> {
        let Self { chain, open, counters, executor, prefetcher, waiting } = self;
        let block = &chain.blocks[index];
        let number = block.header.number;
        let mut times = BlockTimes::default();
        let mut start = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            now - std::mem::replace(&mut start, now)
        };
        let mut accesses = Vec::new();
        if let Some(prefetcher) = prefetcher {
            accesses = prefetcher.take(&chain.hashes[index + 1]);
            let first = index + 1 + prefetcher.blocks_ahead();
            for (next, block) in chain.blocks.iter().enumerate().skip(first) {
                if !prefetcher.has_room() {
                    break;
                }
                let (hash, senders) = (chain.hashes[next + 1], &chain.senders[next]);
                prefetcher.begin(hash, block, senders, || open.layer.reader_ahead())?;
            }
        }
        let parent = BlockRef { number: number - 1, hash: chain.hashes[index] };
        let mut session = Session::begin(&*open.layer, parent)?;
        if !*counters {
            session = session.without_counters();
        }
        let merged = index >= chain.first_merged;
        let rules = chain.spec.rules(number, block.header.timestamp, merged);
        let genesis = chain.spec.genesis_header().number;
        let hash = |number: u64| {
            chain.hashes.get(usize::try_from(number.checked_sub(genesis)?).ok()?).copied()
        };
        let executed = executor
            .execute_block(
                &mut session,
                rules,
                &hash,
                BlockToExecute::new(block, senders).with_accesses(&accesses),
            )
            .map_err(|e| BenchError::Wrong(format!("block {number} does not execute: {e}")))?;
        times.execute = lap();
        let FinishedLater { outcome, counters, .. } = session.finish_later()?;
        times.commit = lap();
        waiting.push_back((index, outcome));
        if let Some(prefetcher) = prefetcher {
            let slow_reads = || open.store.counters().slow_engine_gets;
            prefetcher.executed(block.body.transactions.len(), slow_reads);
        }
        if executed.gas_used != block.header.gas_used {
            return Err(BenchError::Wrong(format!(
                "block {number} used {} gas, expected {}: the layer `{}` answers reads wrongly",
                executed.gas_used,
                block.header.gas_used,
                open.layer.name()
            )));
        }
        Ok((times, counters))
    }

    /// Makes blocks the head whose roots are known, and waits for others as long as more than `most` wait; they become
    /// durable when the store flushes.
    fn settle(&mut self, most: usize, times: &mut BlockTimes) -> Result<(), BenchError> {
        let Self { chain, open, waiting, .. } = self;
        while let Some((index, outcome)) = waiting.pop_front() {
            if waiting.len() < most && !outcome.is_ready() {
                waiting.push_front((index, outcome));
                return Ok(());
            }
            let start = Instant::now();
            let mut outcome = outcome.resolve()?;
            times.commit += start.elapsed();
            let start = Instant::now();
            open.store.write(std::mem::take(&mut outcome.batch))?;
            times.write += start.elapsed();
            let start = Instant::now();
            outcome.accept()?;
            times.commit += start.elapsed();
            let header = &chain.blocks[index].header;
            check_root(open, header.state_root, header.number)?;
        }
        Ok(())
    }
}

/// Canonical layers must come to the root in the header.
fn check_root(open: &OpenStore, expected: B256, number: u64) -> Result<(), BenchError> {
    match open.layer.commitment().as_state_root() {
        Some(found) if found != expected => Err(BenchError::Wrong(format!(
            "the layer `{}` has the state root {found} after block {number}, expected {expected}",
            open.layer.name()
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn reports_from_before_there_were_three_choices_are_read() {
        let read = |prefetch: &str| {
            let json =
                format!(r#"{{"warmup_blocks": 1, "recover": false, "flush_every": 1{prefetch}}}"#);
            let bench: ChainBench = serde_json::from_str(&json).unwrap();
            bench.prefetch
        };
        assert_eq!(read(""), Prefetch::Off);
        assert_eq!(read(r#", "prefetch": false"#), Prefetch::Off);
        assert_eq!(read(r#", "prefetch": true"#), Prefetch::On);
        for when in [Prefetch::Auto, Prefetch::On, Prefetch::Off] {
            let written = serde_json::to_string(&when).unwrap();
            assert_eq!(read(&format!(r#", "prefetch": {written}"#)), when);
        }
    }
}
