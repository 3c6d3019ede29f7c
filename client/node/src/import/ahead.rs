//! Blocks on their way to their turn: being made ready, and run ahead of it.

use super::{
    ImportError, ImportOptions,
    pipeline::{Content, Pipeline},
};
use alloy_primitives::B256;
use polytrie_chain::executor::Prefetcher;
use polytrie_chain::{Chain, ChainError};
use polytrie_state::Access;
use std::sync::Arc;

/// The blocks that come after the one at hand.
#[derive(Debug)]
pub(super) struct Ahead {
    /// `None` if no block is run ahead.
    prefetcher: Option<Prefetcher>,
    pub(super) pipeline: Pipeline,
}

impl Ahead {
    pub(super) fn start(chain: &Chain, options: &mut ImportOptions) -> Result<Self, ImportError> {
        let spec = Arc::clone(chain.spec());
        let head = chain.head().number();
        let pipeline = Pipeline::start(
            spec,
            options.files.clone(),
            options.begun.take(),
            options.threads,
            head,
        )?;
        let prefetcher = Prefetcher::new(options.prefetch, chain.spec());
        Ok(Self { prefetcher, pipeline })
    }

    /// The turn of the block with this hash has come: what it is going to touch, as far as that is known.
    pub(super) fn hints(&mut self, hash: &B256, chain: &Chain) -> Result<Vec<Access>, ImportError> {
        let Some(prefetcher) = &mut self.prefetcher else { return Ok(Vec::new()) };
        let accesses = prefetcher.take(hash);
        run_ahead(prefetcher, &mut self.pipeline, chain)?;
        Ok(accesses)
    }

    /// A block with this many transactions was executed. Returns how many transactions were run ahead so far.
    pub(super) fn executed(&mut self, transactions: usize, chain: &Chain) -> u64 {
        let Some(prefetcher) = &mut self.prefetcher else { return 0 };
        prefetcher.executed(transactions, || chain.db().store().counters().slow_engine_gets);
        prefetcher.transactions()
    }
}

/// Begins to run blocks that are ready ahead of their turn, as many as there is room for.
fn run_ahead(
    prefetcher: &mut Prefetcher,
    pipeline: &mut Pipeline,
    chain: &Chain,
) -> Result<(), ImportError> {
    let mut place = prefetcher.blocks_ahead();
    while prefetcher.has_room()
        && let Some(prepared) = pipeline.peek(place)
    {
        if let Content::Ready(next) = &prepared.content
            && let Ok(senders) = &next.senders
        {
            let reader = || chain.layer().reader_ahead();
            prefetcher
                .begin(next.header.hash(), &next.block, senders, reader)
                .map_err(ChainError::from)?;
        }
        place += 1;
    }
    Ok(())
}
