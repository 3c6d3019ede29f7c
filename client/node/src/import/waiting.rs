//! Blocks that may still be found to be invalid, with their places in files.

use super::error::{ImportError, Origin};
use alloy_primitives::B256;
use polytrie_chain::{BlockStats, InsertError};
use std::collections::{BTreeMap, VecDeque};

/// Blocks that may still be found to be invalid, with their places in files.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Blocks that were executed and whose root may not be verified yet, the oldest first.
    pub(super) blocks: VecDeque<Executed>,
    /// The places of blocks of other branches, which were not executed, by number and hash.
    aside: BTreeMap<(u64, B256), Origin>,
}

#[derive(Debug)]
pub(super) struct Executed {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) place: Origin,
    pub(super) stats: BlockStats,
}

impl Waiting {
    /// Keeps the place of a block of another branch. Those before block `first` are forgotten, because no branch with one
    /// can become the better one.
    pub(super) fn put_aside(&mut self, number: u64, hash: B256, place: Origin, first: u64) {
        while let Some(oldest) = self.aside.first_entry() {
            if oldest.key().0 >= first {
                break;
            }
            oldest.remove();
        }
        if number >= first {
            self.aside.insert((number, hash), place);
        }
    }

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
                    .or_else(|| self.aside.get(&(block.number, block.hash)).cloned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_chain::{InvalidBlock, InvalidReason};
    use std::sync::Arc;

    /// Branches of a long import take no more room than those that can still win.
    #[test]
    fn only_the_places_of_branches_that_can_win_are_kept() {
        let mut waiting = Waiting::default();
        let hash = |number: u64| B256::left_padding_from(&number.to_be_bytes());
        let place = |index: u64| Origin { file: Arc::from("file"), index, offset: 0 };
        for number in 1..=3_000u64 {
            let first = number.saturating_sub(99);
            waiting.put_aside(number, hash(number), place(number), first);
            assert!(waiting.aside.len() <= 100);
        }
        waiting.put_aside(7, hash(7), place(7), 2_901);
        let blame = |number: u64| {
            let reason = InvalidReason::FileReceiptCount { found: 0, expected: 1 };
            let block = Box::new(InvalidBlock { number, hash: hash(number), reason });
            match waiting.blame(InsertError::Invalid(block), None) {
                ImportError::Invalid { place, .. } => Some(place.index),
                _ => None,
            }
        };
        assert_eq!([7, 2_900, 2_901, 3_000].map(blame), [None, None, Some(2_901), Some(3_000)]);
    }
}
