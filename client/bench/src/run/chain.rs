//! A benchmark of a chain, through the same calls as an import: [`Ahead`] and [`Chain::insert`].

use super::{BenchError, Result, afterwards::Sample, lists::unusable};
use crate::{
    CacheError, PreparedChain,
    fixture::OpenStore,
    measure::{BlockTimes, Measured, Recorder},
};
use polytrie_chain::executor::Prefetch;
use polytrie_chain::{BlockStats, Candidate, Chain, ChainOptions, InsertError, Inserted};
use polytrie_chainspec::ChainSpec;
use polytrie_files::{BlockFileError, BlockReader, RawBlock};
use polytrie_node::access_lists::{AccessListMode, AccessListReader};
use polytrie_node::import::{Ahead, Content, ImportError, Permit, Pipeline, Upcoming};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, io, path::Path, sync::Arc, time::Instant};

/// Blocks of warm-up that are enough for any chain: as many as the interval of `lmpt` on a node. In a benchmark the
/// interval is no longer than the warm-up.
const ENOUGH_WARMUP: u64 = 1_000;

/// Parameters of `bench chain`, without those of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainBench {
    /// Blocks at the start that are not measured.
    pub warmup_blocks: u64,
    /// Whether blocks are decoded and their senders recovered during the run, ahead of execution on other threads.
    pub recover: bool,
    /// Mode of running blocks ahead to read what they need, as `import --prefetch` sets it.
    pub prefetch: Prefetch,
    /// Threads that run transactions where access lists allow them to run at the same time.
    #[serde(default, skip_serializing_if = "is_one")]
    pub bal_threads: usize,
    /// Number of blocks that become durable together.
    pub flush_every: u64,
}

/// Whether the number of threads is the default, so that reports leave it out.
const fn is_one(threads: &usize) -> bool {
    *threads <= 1
}

/// The blocks of a chain, in order, ready to be executed.
#[derive(Debug)]
pub(super) enum Blocks {
    /// Decoded blocks in memory, with their senders.
    InMemory(VecDeque<Candidate>),
    /// Blocks that are read from their file during the run, as an import reads them.
    FromFile(Pipeline),
}

impl Blocks {
    /// Takes the next block; `None` after the last one. The caller holds the permit until the block is in the chain.
    pub(super) fn next(&mut self) -> Result<Option<(Candidate, Option<Permit>)>> {
        match self {
            Self::InMemory(blocks) => Ok(blocks.pop_front().map(|block| (block, None))),
            Self::FromFile(pipeline) => {
                for prepared in pipeline {
                    let prepared = prepared?;
                    if let Content::Ready(candidate) = prepared.content {
                        return Ok(Some((*candidate, Some(prepared.permit))));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Begins the chain in a store that holds the state before its first block.
///
/// # Errors
///
/// If the store holds another state, or fails.
pub(crate) fn begin(
    prepared: &PreparedChain,
    open: &OpenStore,
    options: ChainOptions,
) -> Result<Chain> {
    let spec = prepared.spec()?;
    Ok(match prepared.start()? {
        None => open.begin(spec, options)?,
        Some(start) => open.begin_partial(spec, &start, options)?,
    })
}

/// Decodes all blocks of a chain and adds the senders that were recovered when it was prepared.
///
/// # Errors
///
/// If the files of the chain cannot be read.
pub(crate) fn candidates(chain: &PreparedChain, spec: &ChainSpec) -> Result<VecDeque<Candidate>> {
    let raw: Vec<RawBlock> =
        BlockReader::open(chain.blocks()).and_then(Iterator::collect).map_err(read)?;
    let ready = |raw: RawBlock| -> Result<Candidate, BlockFileError> {
        Ok(Candidate::with_senders(spec, raw.decode()?, raw.rlp, Some(Vec::new())).0)
    };
    let mut blocks: Vec<_> =
        raw.into_par_iter().map(ready).collect::<Result<_, _>>().map_err(read)?;
    let mut senders = chain.senders()?.into_iter();
    for candidate in &mut blocks {
        let transactions = candidate.block.body.transactions.len();
        let of_block: Vec<_> = senders.by_ref().take(transactions).collect();
        if of_block.len() != transactions {
            let text = "it has fewer senders than transactions; remove it";
            return Err(CacheError::at("use", chain.dir())(io::Error::other(text)).into());
        }
        candidate.set_senders(of_block);
    }
    Ok(blocks.into())
}

impl Upcoming for Blocks {
    fn peek(&mut self, ahead: usize) -> Option<&Candidate> {
        match self {
            Self::InMemory(blocks) => blocks.get(ahead),
            Self::FromFile(pipeline) => pipeline.peek(ahead),
        }
    }
}

fn read(error: BlockFileError) -> BenchError {
    ImportError::from(error).into()
}

impl ChainBench {
    /// Default number of warm-up blocks for a chain of `blocks` blocks: a tenth of them, or 1,000 if there are at least
    /// 3,000. A chain of one block has none.
    pub const fn default_warmup(blocks: u64) -> u64 {
        if blocks >= 3 * ENOUGH_WARMUP {
            ENOUGH_WARMUP
        } else if blocks > 1 {
            blocks.div_ceil(10)
        } else {
            0
        }
    }

    /// The error for a chain of so many blocks, all of which are in the warm-up.
    pub(super) fn nothing_left(&self, blocks: u64) -> BenchError {
        BenchError::Usage(format!(
            "the chain has {blocks} blocks, all of them in the warm-up of {}; choose a smaller --warmup, or more blocks (--txs, or a later --to)",
            self.warmup_blocks
        ))
    }

    /// Number of threads that run the transactions of a block.
    fn threads_of(&self, bal: AccessListMode) -> usize {
        if bal == AccessListMode::Parallel { self.bal_threads } else { 1 }
    }

    /// Opens or loads the blocks. This happens before the store is open, so that it is not measured.
    pub(super) fn blocks(
        &self,
        chain: &PreparedChain,
        lists: Option<&Path>,
        threads: usize,
    ) -> Result<Blocks> {
        let spec = chain.spec()?;
        if !self.recover {
            let mut blocks = candidates(chain, &spec)?;
            if let Some(lists) = lists {
                let mut lists = AccessListReader::open(lists).map_err(unusable)?;
                for candidate in &mut blocks {
                    let list = lists.get(&candidate.header.hash()).map_err(unusable)?;
                    candidate.listed = list.map(Arc::new);
                }
            }
            return Ok(Blocks::InMemory(blocks));
        }
        let start = chain.start()?.map(|start| start.number);
        let known = start.unwrap_or(spec.genesis_header().number);
        Ok(Blocks::FromFile(Pipeline::start(spec, vec![chain.blocks()], None, threads, known)?))
    }

    /// Runs the chain on a store that holds the state before its first block. `bal` says how the access lists of
    /// blocks are used. Returns the figures, and the accounts that were read in the end.
    pub(super) fn run(
        &self,
        prepared: &PreparedChain,
        blocks: Blocks,
        open: &OpenStore,
        bal: AccessListMode,
        rss_before: u64,
    ) -> Result<(Measured, Sample)> {
        let length = prepared.length()?;
        let list_use = bal.list_use(self.threads_of(bal));
        let options =
            ChainOptions { list_use, keep_transaction_times: true, ..ChainOptions::default() };
        let mut chain = begin(prepared, open, options)?;
        let mut ahead = Ahead::new(self.prefetch, chain.spec(), blocks);
        let mut recorder = None;
        let mut operations = 0;
        let mut sample = Sample::default();
        for number in 1..=length.blocks {
            if number == self.warmup_blocks {
                // The clock starts after the warm-up is flushed. The last block of the warm-up is flushed by itself,
                // so that work in the background, such as a merge, gains little by the pause.
                settle(&mut chain)?;
                chain.flush()?;
            }
            if number == self.warmup_blocks + 1 {
                settle(&mut chain)?;
                recorder = Some(Recorder::start(open, rss_before)?);
            }
            let start = Instant::now();
            let missing = || {
                let text = format!("it ends before block {number}; remove it");
                CacheError::at("use", prepared.dir())(io::Error::other(text))
            };
            let (candidate, _permit) = ahead.blocks.next()?.ok_or_else(missing)?;
            let recover = start.elapsed();
            sample.add(&candidate, number, length.blocks);
            let (mut times, stats) = insert(&mut chain, &mut ahead, candidate)?;
            if number == length.blocks {
                let start = Instant::now();
                settle(&mut chain)?;
                times.commit += start.elapsed();
            }
            if self.recover {
                times.recover = recover;
            }
            let ran = chain.take_transaction_times();
            if let Some(recorder) = &mut recorder {
                if stats.by_list {
                    recorder.by_list(ran, self.threads_of(bal));
                }
                let counted = if length.is_empty_blocks() { 1 } else { stats.txs };
                operations += counted;
                recorder.block(counted, Some(stats.gas), times, stats.session);
            }
        }
        match recorder {
            Some(_) if operations == 0 => Err(BenchError::Usage(format!(
                "the {} blocks after the warm-up of {} hold no transactions; choose another --warmup or --to",
                length.blocks - self.warmup_blocks,
                self.warmup_blocks
            ))),
            Some(recorder) => {
                let measured = recorder.finish(open)?;
                let checksum = Some(sample.held(open)?);
                Ok((Measured { checksum, proofs: sample.proofs(open)?, ..measured }, sample))
            }
            None => Err(self.nothing_left(length.blocks)),
        }
    }
}

/// Executes and inserts a block as an import does. Time that goes into neither the commitment nor the store
/// counts as execution.
fn insert(
    chain: &mut Chain,
    ahead: &mut Ahead<Blocks>,
    mut candidate: Candidate,
) -> Result<(BlockTimes, BlockStats)> {
    let start = Instant::now();
    let transactions = candidate.block.body.transactions.len();
    ahead.begin(&mut candidate, chain)?;
    let inserted = chain.insert(candidate).map_err(|error| wrong(chain, error))?;
    ahead.executed(transactions, chain);
    let Inserted::Extended(stats) = inserted else {
        return Err(BenchError::Wrong("a block is not on top of the one before it".into()));
    };
    let write = stats.write.saturating_sub(stats.accept);
    let commit = stats.state_commit + stats.accept;
    let execute = start.elapsed().saturating_sub(commit + write);
    Ok((BlockTimes { execute, commit, write, ..BlockTimes::default() }, *stats))
}

/// Waits until the roots of all blocks so far are computed.
fn settle(chain: &mut Chain) -> Result<()> {
    chain.settle().map_err(|error| wrong(chain, error))
}

pub(super) fn wrong(chain: &Chain, error: InsertError) -> BenchError {
    match error {
        InsertError::Invalid(block) => {
            BenchError::Wrong(format!("with the layer `{}`, {block}", chain.layer().name()))
        }
        InsertError::Broken(error) => error.into(),
    }
}
