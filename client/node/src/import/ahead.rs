//! Blocks on their way to their turn, and running them ahead of it.

use polytrie_chain::executor::{Prefetch, Prefetcher};
use polytrie_chain::{Candidate, Chain, ChainError};
use polytrie_chainspec::ChainSpec;
use std::sync::Arc;

/// Blocks in the order of their turns.
pub trait Upcoming {
    /// The block that comes after the next `ahead` ones, if it is ready by now.
    fn peek(&mut self, ahead: usize) -> Option<&Candidate>;
}

/// The blocks that come after the one at hand, some of which are run ahead to read what they will need.
#[derive(Debug)]
pub struct Ahead<B> {
    /// `None` if no block is run ahead.
    prefetcher: Option<Prefetcher>,
    /// The blocks.
    pub blocks: B,
}

impl<B: Upcoming> Ahead<B> {
    /// These blocks, run ahead of their turn when `when` says.
    pub fn new(when: Prefetch, spec: &Arc<ChainSpec>, blocks: B) -> Self {
        Self { prefetcher: Prefetcher::new(when, spec), blocks }
    }

    /// The turn of a block has come: tells it what running it ahead has touched, and begins to run others ahead, as many
    /// as there is room for.
    ///
    /// # Errors
    ///
    /// If the layer gives no reader.
    pub fn begin(&mut self, candidate: &mut Candidate, chain: &Chain) -> Result<(), ChainError> {
        let Some(prefetcher) = &mut self.prefetcher else { return Ok(()) };
        candidate.accesses = prefetcher.take(&candidate.header.hash());
        let mut place = prefetcher.blocks_ahead();
        while prefetcher.has_room()
            && let Some(next) = self.blocks.peek(place)
        {
            if let Ok(senders) = &next.senders {
                let reader = || chain.layer().reader();
                prefetcher.begin(next.header.hash(), &next.block, senders, reader)?;
            }
            place += 1;
        }
        Ok(())
    }

    /// A block with this many transactions was executed. Returns how many transactions were run ahead so far.
    pub fn executed(&mut self, transactions: usize, chain: &Chain) -> u64 {
        let Some(prefetcher) = &mut self.prefetcher else { return 0 };
        prefetcher.executed(transactions, || chain.db().store().counters().slow_engine_gets);
        prefetcher.transactions()
    }
}
