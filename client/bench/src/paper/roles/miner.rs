//! Counts of the witnesses that a miner can still use when they belong to a state before its own.

use super::{Counted, Course, loads::Key, walk::walk};
use crate::{Comparison, Result};
use alloy_primitives::{B256, map::HashSet};
use polytrie_state::hash_address;

/// Sizes of the state: name and number of accounts.
pub(in crate::paper) const ACCOUNTS: &[(&str, usize)] = &[
    ("10,000 accounts", 10_000),
    ("100,000 accounts", 100_000),
    ("1,000,000 accounts", 1_000_000),
];

/// Counts transactions that fail because a witness is out of date. The miner holds this many levels of its own state.
/// It can attach a witness of the state one block before if all nodes below these levels are still part of the state,
/// so if nothing changed under the same node of the first level below them.
pub(super) fn count(base: &Comparison, course: &Course, levels: usize) -> Result<Counted> {
    let (mut transactions, mut aborted) = (0_u64, 0_u64);
    walk(base, course, (1, 2), &mut |turn| {
        // The client did not see the changes of the last block.
        let changed: HashSet<u64> =
            turn.heads[0].changed.iter().map(|hash| path(hash, levels)).collect();
        for loads in turn.loads {
            let is_below_a_change = |key: &Key| match key {
                Key::Account(address) => changed.contains(&path(&hash_address(address), levels)),
                // A slot is judged with its account.
                Key::Slot(..) => false,
            };
            transactions += 1;
            aborted += u64::from(loads.keys().any(is_below_a_change));
        }
        Ok(())
    })?;
    let values = vec![aborted as f64 / transactions.max(1) as f64];
    Ok(Counted { variant: course.name.to_owned(), values })
}

/// The first nibbles of a hash: the path from the root through this many levels.
fn path(hash: &B256, levels: usize) -> u64 {
    let first = u64::from_be_bytes(*hash.first_chunk().unwrap_or(&[0; 8]));
    first.checked_shr(64 - 4 * levels.min(16) as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_a_nibble_a_level() {
        let hash = B256::repeat_byte(0x5a);
        assert_eq!([0, 1, 2, 3].map(|levels| path(&hash, levels)), [0, 0x5, 0x5a, 0x5a5]);
        assert_eq!(path(&hash, 16), 0x5a5a_5a5a_5a5a_5a5a);
    }
}
