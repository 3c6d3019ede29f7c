//! Blocks on their way to their turn, and running them ahead of it.

use crate::access_lists::AccessListReader;
use alloy_eips::eip7928::AccountChanges;
use polytrie_chain::executor::{Prefetch, Prefetcher, accesses};
use polytrie_chain::{Candidate, Chain, ChainError, ListUse};
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
    /// What blocks are known to touch, if that is to be made use of.
    lists: Option<AccessListReader>,
    /// Blocks of which that was known so far.
    listed: u64,
    /// The blocks.
    pub blocks: B,
}

impl<B: Upcoming> Ahead<B> {
    /// These blocks, run ahead of their turn when `when` says.
    pub fn new(when: Prefetch, spec: &Arc<ChainSpec>, blocks: B) -> Self {
        Self { prefetcher: Prefetcher::new(when, spec), lists: None, listed: 0, blocks }
    }

    /// These blocks, some of which are known to touch what these lists say.
    #[must_use]
    pub fn with_lists(mut self, lists: Option<AccessListReader>) -> Self {
        self.lists = lists;
        self
    }

    /// Blocks of which it was known what they touch.
    pub const fn listed(&self) -> u64 {
        self.listed
    }

    /// The turn of a block has come: tells it what it is known to touch, or what running it ahead has touched, and begins
    /// to read or run others ahead, as many as there is room for.
    ///
    /// # Errors
    ///
    /// If the layer gives no reader.
    pub fn begin(&mut self, candidate: &mut Candidate, chain: &Chain) -> Result<(), ChainError> {
        let hash = candidate.header.hash();
        if let Some(prefetcher) = &mut self.prefetcher {
            candidate.accesses = prefetcher.take(&hash);
        }
        let runs_by_list = chain.options().list_use != ListUse::Check;
        if candidate.listed.is_some() || self.lists.as_ref().is_some_and(|lists| lists.has(&hash)) {
            self.listed += 1;
            // Else it was read from the file when it was begun with.
            if candidate.accesses.is_empty() || runs_by_list {
                candidate.listed = list_of(&mut self.lists, candidate);
            }
        }
        if candidate.accesses.is_empty()
            && let Some(list) = &candidate.listed
        {
            candidate.accesses = accesses(list);
        }
        let Some(prefetcher) = &mut self.prefetcher else { return Ok(()) };
        let mut place = prefetcher.blocks_ahead();
        while prefetcher.has_room()
            && let Some(next) = self.blocks.peek(place)
        {
            let (hash, reader) = (next.header.hash(), || chain.layer().reader());
            let transactions = next.block.body.transactions.len();
            if transactions > 0
                && let Some(list) = list_of(&mut self.lists, next)
            {
                prefetcher.begin_known(hash, accesses(&list), transactions, reader)?;
            } else if let Ok(senders) = &next.senders {
                prefetcher.begin(hash, &next.block, senders, reader)?;
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

/// The list of a block, if it is known. A file that cannot be read is not asked again: nothing depends on it.
fn list_of(
    lists: &mut Option<AccessListReader>,
    block: &Candidate,
) -> Option<Arc<Vec<AccountChanges>>> {
    if let Some(list) = &block.listed {
        return Some(Arc::clone(list));
    }
    match lists.as_mut()?.get(&block.header.hash()) {
        Ok(list) => Some(Arc::new(list?)),
        Err(error) => {
            tracing::warn!("the import goes on without access lists: {error}");
            *lists = None;
            None
        }
    }
}
