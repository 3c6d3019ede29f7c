//! Rows read ahead by going through them in order.
//!
//! Rows are stored in the order of their paths. Where the keys of an update lie close together, a store that reads a few
//! hundred rows at a time has them sooner this way than one by one, and for much less of the processor's time.

use crate::{
    LeafValue, MissingPaths, RowSource, RowsAhead, TrieError,
    ahead::Walk,
    codec::{nibble, path_of},
};
use alloy_primitives::B256;
use parking_lot::Mutex;
use std::{cmp::Ordering, ops::ControlFlow};

/// How many rows may be passed until it would have been better to ask for them one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Rows for each key.
    pub(crate) a_key: usize,
    /// Rows before that is looked at.
    pub(crate) at_first: usize,
}

impl Patience {
    /// So many rows take about as long to pass as one of them takes by itself.
    const MEASURED: Self = Self { a_key: 32, at_first: 256 };
}

impl<V: LeafValue> MissingPaths<'_, V> {
    /// Reads the rows by going through all that lie between them. Returns what was found, and what is missing still: next to
    /// everything if the store does not get rows faster this way, and the rest from where they lie too far apart.
    ///
    /// What is found may lack rows that were never flushed, and those that removals need beside the ways of their keys.
    ///
    /// # Errors
    ///
    /// As [`MissingPaths::read`].
    pub fn gather(self, rows: &impl RowSource) -> Result<(RowsAhead, Self), TrieError> {
        self.gather_with(Patience::MEASURED, rows)
    }

    pub(crate) fn gather_with(
        mut self,
        patience: Patience,
        rows: &impl RowSource,
    ) -> Result<(RowsAhead, Self), TrieError> {
        let (Some(&(depth, part)), Some(last)) = (self.below.first(), self.last()) else {
            return Ok((RowsAhead::default(), self));
        };
        let mut found = Mutex::default();
        // Rows on the way of the first key may come long before it.
        let first = &part[..1];
        Walk { rows, found: Some(&found) }.below(depth, first)?;
        let from = path_of(&first[0].0, 64);
        let keys: Vec<(usize, &B256)> = self.keys().collect();
        let (mut done, mut passed, mut given_up) = (1, 0, false);
        let mut pick = |path: &[u8]| {
            while keys.get(done).is_some_and(|(_, key)| compare(key, path).is_lt()) {
                done += 1;
            }
            let Some((depth, key)) = keys.get(done) else { return ControlFlow::Break(()) };
            passed += 1;
            given_up = passed > patience.at_first + patience.a_key * done;
            if given_up {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(path.len() >= *depth && compare(key, path).is_eq())
        };
        let gathered = rows.gather(&from, &last, &mut pick, &mut |path, row| {
            found.get_mut().insert(path, row.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
        if gathered && !given_up {
            done = keys.len();
        }
        self.skip(done);
        Ok((RowsAhead(found.into_inner()), self))
    }
}

/// How the beginning of a key compares with a path, a byte a nibble.
fn compare(key: &B256, path: &[u8]) -> Ordering {
    let nibbles = (0..path.len().min(64)).map(|i| nibble(key, i));
    nibbles.cmp(path.iter().copied())
}
