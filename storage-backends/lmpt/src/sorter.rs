//! Leaves of the snapshot brought into the order of their places, however many there are.
//!
//! The slots of a contract come by hash, and their places are hashes of that. What does not fit into memory goes to a
//! scratch store in sorted runs, which are merged in the end: every leaf is written and read once more, in order.

use crate::{spill::Spill, value::Value};
use alloy_primitives::B256;
use polytrie_state::StateError;
use std::{cmp::Reverse, collections::BinaryHeap};

/// Leaves of a run, and most that are held in memory while leaves are added: 16 MiB.
const RUN: usize = 1 << 17;

type Leaf = (B256, Value);

/// Takes leaves in any order and gives them away sorted.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    held: Vec<Leaf>,
    /// Where full runs are, and how many.
    spilled: Option<(Spill, u32)>,
}

impl Sorter {
    /// Adds a leaf; no two have the same place.
    pub(crate) fn add(&mut self, place: B256, value: Value) -> Result<(), StateError> {
        self.held.push((place, value));
        if self.held.len() < RUN {
            return Ok(());
        }
        self.held.sort_unstable_by_key(|(place, _)| *place);
        let (spill, runs) = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert((Spill::new()?, 0)),
        };
        spill.write_run(*runs, &self.held)?;
        *runs += 1;
        self.held.clear();
        Ok(())
    }

    /// Gives everything away in order; the next leaves begin anew. After an error it is void.
    pub(crate) fn drain(
        &mut self,
        mut take: impl FnMut(B256, Value) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        self.held.sort_unstable_by_key(|(place, _)| *place);
        let Some((spill, runs)) = self.spilled.take() else {
            return self.held.drain(..).try_for_each(|(place, value)| take(place, value));
        };
        let last: Run<'_> = Box::new(std::mem::take(&mut self.held).into_iter().map(Ok));
        let spilled = (0..runs).map(|number| -> Run<'_> { Box::new(spill.run(number)) });
        let mut runs: Vec<Run<'_>> = spilled.chain([last]).collect();
        // The first leaf of each run, and the order of these.
        let mut heads = vec![None; runs.len()];
        let mut order = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            heads[number] = run.next().transpose()?;
            order.extend(heads[number].map(|(place, _)| Reverse((place, number))));
        }
        while let Some(Reverse((_, number))) = order.pop() {
            if let Some((place, value)) = heads[number] {
                take(place, value)?;
            }
            heads[number] = runs[number].next().transpose()?;
            order.extend(heads[number].map(|(place, _)| Reverse((place, number))));
        }
        Ok(())
    }
}

/// The leaves of a run, in order.
type Run<'a> = Box<dyn Iterator<Item = Result<Leaf, StateError>> + 'a>;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::{U256, keccak256};

    #[test]
    fn leaves_come_out_sorted() {
        let mut sorter = Sorter::default();
        // The second time after the runs of the first one.
        for count in [0, 1, RUN - 1, RUN, 2 * RUN + 1_000, 5] {
            for n in 0..count as u64 {
                sorter.add(keccak256(n.to_be_bytes()), Value::of_slot(U256::from(n + 1))).unwrap();
                assert!(sorter.held.len() < RUN);
            }
            let (mut found, mut last) = (0, B256::ZERO);
            sorter
                .drain(|place, value| {
                    assert!(last < place);
                    let Value::Slot(number) = value else { panic!("not a slot") };
                    assert_eq!(place, keccak256((number.to::<u64>() - 1).to_be_bytes()));
                    (found, last) = (found + 1, place);
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, count);
        }
    }
}
