//! Sorting of any number of items.
//!
//! Items that do not fit into memory go to a scratch store in sorted runs, which are merged at the end. So each item
//! is written and read once more, in order. A row holds many items, because a row for each would take twice the space:
//!
//! ```text
//! run (4), number of the row in it (4)  ──►  items
//! item   bytes that its key shares with the one before (2), bytes of the rest (2), of the value (4), rest, value
//! ```

use crate::{
    Batch, Result, Table, prefix_end,
    scratch::{Part, Scratch},
    take_array,
};
use std::{cmp::Reverse, collections::BinaryHeap, iter, mem};

/// The table of runs.
const RUNS: Table = Table::new(0, "Runs", 8);
/// Bytes of items after which a row ends: four rows fit into a page of MDBX.
const ROW: usize = 900;

/// An item that can be sorted.
pub trait Sortable: Sized + 'static {
    /// The sort key, of less than 64 KiB; keys compare as their bytes do.
    type Key: Ord + AsRef<[u8]>;

    /// Returns the item's key.
    fn key(&self) -> Self::Key;

    /// Returns the rest of the item, beside its key, as bytes.
    fn value(&self) -> Vec<u8>;

    /// Decodes an item from its row; `None` if the bytes do not decode.
    fn from_row(key: &[u8], value: &[u8]) -> Option<Self>;
}

/// A sorter, which takes items in any order and returns them sorted.
#[derive(Debug)]
pub struct Sorter<T> {
    scratch: Scratch,
    /// Largest number of items in memory.
    most: usize,
    held: Vec<T>,
    /// The part that holds the full runs, and their number.
    spilled: Option<(Part, u32)>,
}

impl<T: Sortable> Sorter<T> {
    /// Creates an empty sorter that holds at most `most` items in memory.
    pub const fn new(scratch: Scratch, most: usize) -> Self {
        Self { scratch, most, held: Vec::new(), spilled: None }
    }

    /// Adds an item. Of several items with the same key, at least one is returned.
    ///
    /// # Errors
    ///
    /// If the scratch store fails.
    pub fn add(&mut self, one: T) -> Result<()> {
        self.held.push(one);
        if self.held.len() < self.most {
            return Ok(());
        }
        self.held.sort_unstable_by_key(T::key);
        let (part, runs) = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert((self.scratch.part()?, 0)),
        };
        part.write(&rows(*runs, &self.held))?;
        *runs += 1;
        self.held.clear();
        Ok(())
    }

    /// Returns all items in order and leaves the sorter empty.
    ///
    /// # Errors
    ///
    /// If the scratch store fails.
    pub fn drain(&mut self) -> Result<Run<'_, T>> {
        self.held.sort_unstable_by_key(T::key);
        let Some((part, runs)) = self.spilled.take() else {
            return Ok(Box::new(self.held.drain(..).map(Ok)));
        };
        let spilled = (0..runs).map(|number| -> Run<'_, T> {
            let number = number.to_be_bytes();
            let rows = part.rows(RUNS, number.to_vec(), prefix_end(&number));
            Box::new(rows.flat_map(|row| {
                let unreadable = || Part::unreadable("a row that was to be sorted");
                let found = row.and_then(|(_, row)| items(&row).ok_or_else(unreadable));
                let all = |items: Vec<T>| items.into_iter().map(Ok).collect();
                found.map_or_else(|error| vec![Err(error)], all)
            }))
        });
        let last: Run<'_, T> = Box::new(mem::take(&mut self.held).into_iter().map(Ok));
        let mut runs: Vec<_> = spilled.chain([last]).collect();
        // The first item of each run, and the order of these items.
        let mut heads: Vec<Option<T>> = Vec::with_capacity(runs.len());
        let mut order = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            let head = run.next().transpose()?;
            order.extend(head.as_ref().map(|one| Reverse((one.key(), number))));
            heads.push(head);
        }
        Ok(Box::new(iter::from_fn(move || {
            let Reverse((_, number)) = order.pop()?;
            let next = match runs[number].next().transpose() {
                Ok(next) => next,
                Err(error) => {
                    // No item after the failed one would be in order.
                    order.clear();
                    return Some(Err(error));
                }
            };
            order.extend(next.as_ref().map(|one| Reverse((one.key(), number))));
            mem::replace(&mut heads[number], next).map(Ok)
        })))
    }
}

/// Returns the rows of a run.
fn rows<T: Sortable>(run: u32, sorted: &[T]) -> Batch {
    let (mut batch, mut row, mut number) = (Batch::new(), Vec::with_capacity(2 * ROW), 0_u32);
    let mut last: Option<T::Key> = None;
    for (place, one) in sorted.iter().enumerate() {
        let (key, value) = (one.key(), one.value());
        let bytes = key.as_ref();
        let before = last.as_ref().map_or(&[][..], AsRef::as_ref);
        let shared = bytes.iter().zip(before).take_while(|(a, b)| a == b).count();
        row.extend_from_slice(&(shared as u16).to_be_bytes());
        row.extend_from_slice(&((bytes.len() - shared) as u16).to_be_bytes());
        row.extend_from_slice(&(value.len() as u32).to_be_bytes());
        row.extend_from_slice(&bytes[shared..]);
        row.extend_from_slice(&value);
        last = Some(key);
        if row.len() >= ROW || place + 1 == sorted.len() {
            batch.put(RUNS, &[run.to_be_bytes(), number.to_be_bytes()].concat(), &row);
            (number, last) = (number + 1, None);
            row.clear();
        }
    }
    batch
}

/// Returns the items of a row; `None` if it does not decode.
fn items<T: Sortable>(mut row: &[u8]) -> Option<Vec<T>> {
    let (mut items, mut key) = (Vec::with_capacity(row.len() / 32), Vec::new());
    while !row.is_empty() {
        let shared = usize::from(u16::from_be_bytes(take_array(&mut row)?));
        let rest_len = u16::from_be_bytes(take_array(&mut row)?);
        let value_len = u32::from_be_bytes(take_array(&mut row)?);
        let (rest, after) = row.split_at_checked(rest_len.into())?;
        let (value, after) = after.split_at_checked(value_len as usize)?;
        key.truncate(shared);
        key.extend_from_slice(rest);
        items.push(T::from_row(&key, value)?);
        row = after;
    }
    Some(items)
}

/// An iterator over items in order; it ends after an error.
pub type Run<'a, T> = Box<dyn Iterator<Item = Result<T>> + 'a>;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A number, and its square.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Number(u32, u64);

    impl Number {
        fn new(n: u32) -> Self {
            Self(n, u64::from(n) * u64::from(n))
        }
    }

    impl Sortable for Number {
        type Key = [u8; 4];

        fn key(&self) -> Self::Key {
            self.0.to_be_bytes()
        }

        fn value(&self) -> Vec<u8> {
            self.1.to_be_bytes().to_vec()
        }

        fn from_row(key: &[u8], value: &[u8]) -> Option<Self> {
            let number = u32::from_be_bytes(key.try_into().ok()?);
            Some(Self(number, u64::from_be_bytes(value.try_into().ok()?)))
        }
    }

    #[test]
    fn everything_comes_out_once_and_sorted() {
        const MOST: usize = 100;
        let mut sorter = Sorter::new(Scratch::default(), MOST);
        // From the second round on, the sorter has already been drained.
        for count in [0, 1, MOST as u32 - 1, MOST as u32, 20 * MOST as u32 + 7, 5] {
            for n in 0..count {
                // The order is scrambled: the factor is invertible modulo 2^32.
                sorter.add(Number::new(n.wrapping_mul(2_654_435_761))).unwrap();
                assert!(sorter.held.len() < MOST);
            }
            let mut expected: Vec<_> =
                (0..count).map(|n| Number::new(n.wrapping_mul(2_654_435_761))).collect();
            expected.sort_unstable_by_key(|number| number.0);
            let found: Vec<_> = sorter.drain().unwrap().map(Result::unwrap).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_comes_twice_may_come_out_twice() {
        let mut sorter = Sorter::new(Scratch::default(), 10);
        for n in (0..50).chain(20..70).rev() {
            sorter.add(Number::new(n)).unwrap();
        }
        let mut found: Vec<_> = sorter.drain().unwrap().map(|one| one.unwrap().0).collect();
        assert!(found.is_sorted());
        found.dedup();
        assert_eq!(found, Vec::from_iter(0..70));
    }
}
