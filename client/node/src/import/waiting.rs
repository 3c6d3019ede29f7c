//! Blocks that may turn out to be invalid, with their places.

use super::error::{ImportError, Origin};
use alloy_primitives::B256;
use polytrie_chain::{BlockStats, InsertError};
use std::collections::{HashMap, VecDeque};

/// Blocks that may turn out to be invalid, with their places.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Blocks that were executed, and whose root may not be known yet, oldest first.
    pub(super) blocks: VecDeque<Executed>,
    /// Blocks of other branches, which were not executed.
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
    /// An error with the place of the block that it is about: the one at hand, or one that came before it. One that
    /// came with an earlier import has none.
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
