//! Blocks that may still be found to be invalid, with their places in files.

use super::error::{ImportError, Origin};
use alloy_primitives::B256;
use polytrie_chain::{BlockStats, InsertError};
use std::collections::{HashMap, VecDeque};

/// Blocks that may still be found to be invalid, with their places in files.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Blocks that were executed and whose root may not be verified yet, the oldest first.
    pub(super) blocks: VecDeque<Executed>,
    /// The places of blocks of other branches, which were not executed.
    pub(super) aside: HashMap<B256, Origin>,
}

#[derive(Debug)]
pub(super) struct Executed {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) place: Origin,
    pub(super) stats: BlockStats,
}

impl Waiting {
    /// Adds to an error the place of its block, which is the current block or an earlier one. A block of an earlier
    /// import has no place.
    pub(super) fn blame(&self, error: InsertError, at_hand: Option<(B256, Origin)>) -> ImportError {
        match error {
            InsertError::Invalid(block) => {
                let waited = self.blocks.iter().find(|waiting| waiting.hash == block.hash);
                let place = at_hand
                    .filter(|(hash, _)| *hash == block.hash)
                    .map(|(_, place)| place)
                    .or_else(|| waited.map(|waited| waited.place.clone()))
                    .or_else(|| self.aside.get(&block.hash).cloned());
                match place {
                    Some(place) => ImportError::Invalid { place, block },
                    None => ImportError::Stored { block },
                }
            }
            InsertError::Broken(error) => {
                let place = at_hand.map(|(_, place)| place);
                ImportError::Broken { place, error: Box::new(error) }
            }
        }
    }
}
