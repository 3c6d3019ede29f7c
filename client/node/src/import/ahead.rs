//! Blocks before their execution, and reading the state that they will need.

use crate::access_lists::AccessListReader;
use alloy_eips::eip7928::AccountChanges;
use polytrie_chain::executor::{Prefetch, Prefetcher, accesses};
use polytrie_chain::{Candidate, Chain, ChainError, ListUse};
use polytrie_chainspec::ChainSpec;
use std::sync::Arc;

/// Greatest distance of a block that is looked at. Blocks without transactions take no room, so without this limit a
/// chain of them would be searched to its end before each block.
const FARTHEST: usize = 256;

/// Blocks in the order of their execution.
pub trait Upcoming {
    /// Returns the block after the next `ahead` ones, if it is prepared.
    fn peek(&mut self, ahead: usize) -> Option<&Candidate>;
}

/// The blocks after the current one, some of which are run ahead to read the state that they will need.
#[derive(Debug)]
pub struct Ahead<B> {
    /// `None` if no block is run ahead.
    prefetcher: Option<Prefetcher>,
    /// Known access lists of blocks, if they are used.
    lists: Option<AccessListReader>,
    /// Number of blocks so far whose access list was known.
    listed: u64,
    /// The blocks that will be executed.
    pub blocks: B,
}

impl<B: Upcoming> Ahead<B> {
    /// Makes the source of these blocks; `when` says whether they are run ahead of their execution.
    pub fn new(when: Prefetch, spec: &Arc<ChainSpec>, blocks: B) -> Self {
        Self { prefetcher: Prefetcher::new(when, spec), lists: None, listed: 0, blocks }
    }

    /// Adds known access lists of some of the blocks.
    #[must_use]
    pub fn with_lists(mut self, lists: Option<AccessListReader>) -> Self {
        self.lists = lists;
        self
    }

    /// Says whether other processes read ahead. Blocks are run ahead beside them only with [`Prefetch::On`].
    pub const fn leave_to_others(&mut self, has_others: bool) {
        if let Some(prefetcher) = &mut self.prefetcher {
            prefetcher.leave_to_others(has_others);
        }
    }

    /// Returns the number of blocks so far whose access list was known.
    pub const fn listed(&self) -> u64 {
        self.listed
    }

    /// Starts the execution of a block: gives it its list or the accesses of its run ahead, and starts to read or run
    /// later blocks ahead, as many as there is room for.
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
            // Otherwise the list was read from the file when its accesses began to be read ahead.
            if candidate.accesses.is_empty() || runs_by_list {
                candidate.listed = list_of(&mut self.lists, candidate);
            }
        }
        let Some(prefetcher) = &mut self.prefetcher else { return Ok(()) };
        let mut place = prefetcher.blocks_ahead();
        while place < FARTHEST
            && prefetcher.has_room()
            && let Some(next) = self.blocks.peek(place)
        {
            let (hash, reader) = (next.header.hash(), || chain.layer().reader());
            let transactions = next.block.body.transactions.len();
            if transactions > 0
                && let Some(list) = list_of(&mut self.lists, next)
            {
                prefetcher.begin_known(hash, accesses(&list), transactions, reader)?;
            } else if let Ok(senders) = next.senders() {
                prefetcher.begin(hash, &next.block, senders, reader)?;
            }
            place += 1;
        }
        Ok(())
    }

    /// Records that a block with this number of transactions was executed. Returns the number of transactions that were
    /// run ahead so far.
    pub fn executed(&mut self, transactions: usize, chain: &Chain) -> u64 {
        let Some(prefetcher) = &mut self.prefetcher else { return 0 };
        prefetcher.executed(transactions, || chain.db().store().counters().slow_engine_gets);
        prefetcher.transactions()
    }
}

/// Returns the access list of a block, if it is known. A file that cannot be read is not used again, because no result
/// depends on it.
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
