//! A miner that gets witnesses of the state before its own, and whether it can carry them over.

use super::{Counted, Course, loads::Key, walk::walk};
use crate::{BenchError, Comparison};
use alloy_primitives::{B256, map::HashSet};
use polytrie_state::hash_address;

/// The sizes of the state, with their names.
pub(in crate::paper) const ACCOUNTS: &[(&str, usize)] = &[
    ("10,000 accounts", 10_000),
    ("100,000 accounts", 100_000),
    ("1,000,000 accounts", 1_000_000),
];

/// Of so many levels the miner has the nodes of its own state. A witness that is a block old can be put below them if all it
/// holds below is still part of the state: if nothing has changed under the same node of the last of these levels' children.
pub(super) fn count(
    base: &Comparison,
    course: &Course,
    levels: usize,
) -> Result<Counted, BenchError> {
    let (mut transactions, mut aborted) = (0_u64, 0_u64);
    walk(base, course, (1, 2), &mut |turn| {
        // The last block is what the client did not see.
        let changed: HashSet<u64> =
            turn.heads[0].changed.iter().map(|hash| path(hash, levels)).collect();
        for loads in turn.loads {
            let is_below_a_change = |key: &Key| match key {
                Key::Account(address) => changed.contains(&path(&hash_address(address), levels)),
                // Under its account.
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

/// The first nibbles of a hash: the way from the root through so many levels.
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
