//! How a store that commits by itself follows the store of the chain.
//!
//! A layer whose commitment lives in a store of its own, as one over a published crate does, has two stores and one truth:
//! flat rows in the store of the chain, which are written with the block, and the commitment beside them. The trail says
//! in the chain's store what the other one may not have yet:
//!
//! ```text
//! chain's store   flat rows ‖ block ‖ head ‖ row n: digest before step n, keys that it touched ‖ end: n, digest after it
//! other store     step n, once the batch above is durable: it is behind, or level, and never ahead
//! open            the digest of the other store is looked for in the trail; the keys touched since then, with the values
//!                 that they have in the flat rows now, are what it lacks
//! ```
//!
//! A step is a block, or the way back from one. Values are not in the trail: the last one of each key is in the flat rows,
//! whatever happened in between. Rows go with the batch of a later step, once the other store has theirs durably. How many
//! there are thus depends on when things became durable, and not on the blocks alone, unlike all other rows of a layer.

use crate::{CheckReport, StateError, Touched, scan};
use alloy_primitives::B256;
use polytrie_kv::{Batch, KeyRange, Read, Table, append_checksum, strip_checksum};
use std::ops::ControlFlow;

/// The table of the trail: number of a step → digest before it ‖ what it touched; and its end.
pub const TRAIL_TABLE: Table = Table::new(3, "Trail", 8);

/// The key of the row that says where the trail ends.
const END: [u8; 8] = [0xff; 8];

/// Where a trail ends, and from where on it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trail {
    /// The first step that has a row; all after it have one.
    first: u64,
    /// The last step.
    last: u64,
    /// The digest after it.
    digest: B256,
}

impl Trail {
    /// A trail without steps, from a state with this digest on.
    pub const fn at(digest: B256) -> Self {
        Self { first: 1, last: 0, digest }
    }

    /// The trail of a store; `None` if it has none, as before it was filled.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if it is damaged; or if the store fails.
    pub fn read(rows: &dyn Read) -> Result<Option<Self>, StateError> {
        let Some(row) = rows.get(TRAIL_TABLE, &END)? else { return Ok(None) };
        let found = strip_checksum(&END, &row).and_then(|row| {
            let (first, row) = row.split_first_chunk::<8>()?;
            let (last, digest) = row.split_first_chunk::<8>()?;
            let digest = B256::try_from(digest).ok()?;
            let (first, last) = (u64::from_be_bytes(*first), u64::from_be_bytes(*last));
            Some(Self { first, last, digest })
        });
        found.map(Some).ok_or_else(|| StateError::Corrupt("the end of the trail is damaged".into()))
    }

    /// Removes whatever there is: until [`Self::begin`] no other store belongs to this one.
    pub fn remove(batch: &mut Batch) {
        batch.delete_range(TRAIL_TABLE, &[], None);
    }

    /// Adds a trail without steps: the other store has the state of this digest.
    pub fn begin(batch: &mut Batch, digest: B256) -> Self {
        let trail = Self::at(digest);
        trail.put_end(batch);
        trail
    }

    /// Adds a step that leads to a digest to the batch that it is part of. The other store has everything up to the step
    /// `done` durably.
    #[must_use = "it is the trail once the batch is written"]
    pub fn step(&self, batch: &mut Batch, digest: B256, touched: &Touched, done: u64) -> Self {
        let first = self.first.max(done.min(self.last).saturating_add(1));
        for gone in self.first..first {
            batch.delete(TRAIL_TABLE, &gone.to_be_bytes());
        }
        let next = Self { first, last: self.last + 1, digest };
        let key = next.last.to_be_bytes();
        batch.put(TRAIL_TABLE, &key, &encode(&key, &self.digest, touched));
        next.put_end(batch);
        next
    }

    /// The digest at its end.
    pub const fn digest(&self) -> B256 {
        self.digest
    }

    /// The number of its last step.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// What was touched since the state had this digest; `None` if it never had, as far as the trail goes.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if it is damaged; or if the store fails.
    pub fn since(&self, rows: &dyn Read, digest: &B256) -> Result<Option<Touched>, StateError> {
        let mut touched = Touched::new();
        if *digest == self.digest {
            return Ok(Some(touched));
        }
        for step in (self.first..=self.last).rev() {
            let key = step.to_be_bytes();
            let row = rows.get(TRAIL_TABLE, &key)?;
            let (before, keys) =
                row.and_then(|row| decode(&key, &row)).ok_or_else(|| damaged(step))?;
            for (account, slots) in keys {
                touched.entry(account).or_default().extend(slots);
            }
            if before == *digest {
                return Ok(Some(touched));
            }
        }
        Ok(None)
    }

    /// Reports rows that are missing, too many, or damaged.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn check(&self, rows: &dyn Read, report: &mut CheckReport) -> Result<(), StateError> {
        let mut next = self.first;
        scan(rows, TRAIL_TABLE, KeyRange::ALL, |key, row| {
            if key == END {
                return Ok(ControlFlow::Continue(()));
            }
            if key != next.to_be_bytes() || decode(key, row).is_none() {
                report.problem(damaged(next).to_string());
                return Ok(ControlFlow::Break(()));
            }
            next += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        if report.problems.is_empty() && next != self.last + 1 {
            report.problem(damaged(next).to_string());
        }
        Ok(())
    }

    fn put_end(&self, batch: &mut Batch) {
        let mut row = Vec::with_capacity(52);
        row.extend_from_slice(&self.first.to_be_bytes());
        row.extend_from_slice(&self.last.to_be_bytes());
        row.extend_from_slice(self.digest.as_slice());
        append_checksum(&END, &mut row);
        batch.put(TRAIL_TABLE, &END, &row);
    }
}

fn damaged(step: u64) -> StateError {
    StateError::Corrupt(format!("step {step} of the trail is damaged or missing"))
}

/// `digest before ‖ (account ‖ number of slots, 4 bytes, big-endian ‖ slots…)… ‖ checksum`
fn encode(key: &[u8], before: &B256, touched: &Touched) -> Vec<u8> {
    let slots: usize = touched.values().map(|slots| slots.len()).sum();
    let mut row = Vec::with_capacity(36 + touched.len() * 36 + slots * 32);
    row.extend_from_slice(before.as_slice());
    for (account, slots) in touched {
        row.extend_from_slice(account.as_slice());
        // Nothing near as many fit into memory.
        row.extend_from_slice(&(slots.len() as u32).to_be_bytes());
        slots.iter().for_each(|slot| row.extend_from_slice(slot.as_slice()));
    }
    append_checksum(key, &mut row);
    row
}

fn decode(key: &[u8], row: &[u8]) -> Option<(B256, Touched)> {
    let (before, mut rest) = strip_checksum(key, row)?.split_first_chunk::<32>()?;
    let mut touched = Touched::new();
    while let Some((account, after)) = rest.split_first_chunk::<32>() {
        let (count, mut after) = after.split_first_chunk::<4>()?;
        let slots = touched.entry(B256::new(*account)).or_default();
        for _ in 0..u32::from_be_bytes(*count) {
            let (slot, more) = after.split_first_chunk::<32>()?;
            slots.insert(B256::new(*slot));
            after = more;
        }
        rest = after;
    }
    rest.is_empty().then_some((B256::new(*before), touched))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_kv::Store;

    fn hash(n: u8) -> B256 {
        B256::repeat_byte(n)
    }

    fn touched(keys: &[(u8, &[u8])]) -> Touched {
        let slots = |slots: &[u8]| slots.iter().copied().map(hash).collect();
        keys.iter().map(|(account, of)| (hash(*account), slots(of))).collect()
    }

    /// A trail through digests 0, 1, 2, 1, 3, each step of which touches the account of its number.
    fn trail(store: &Store, done: u64) -> Trail {
        let mut batch = Batch::new();
        let mut trail = Trail::begin(&mut batch, hash(0));
        store.write(batch).unwrap();
        for (step, digest) in (1u8..).zip([1, 2, 1, 3]) {
            let mut batch = Batch::new();
            let keys = touched(&[(step, &[step]), (9, &[step, step + 1])]);
            trail = trail.step(&mut batch, hash(digest), &keys, done);
            store.write(batch).unwrap();
        }
        trail
    }

    #[test]
    fn what_was_touched_since_a_digest_is_known_as_far_as_the_trail_goes() {
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        assert_eq!(Trail::read(&store).unwrap(), None);
        let whole = trail(&store, 0);
        assert_eq!(Trail::read(&store).unwrap(), Some(whole));
        assert_eq!((whole.last(), whole.digest()), (4, hash(3)));
        assert_eq!(whole.since(&store, &hash(3)).unwrap(), Some(Touched::new()));
        // From the last time on that it was there.
        let since = whole.since(&store, &hash(1)).unwrap();
        assert_eq!(since, Some(touched(&[(4, &[4]), (9, &[4, 5])])));
        let all = touched(&[(1, &[1]), (2, &[2]), (3, &[3]), (4, &[4]), (9, &[1, 2, 3, 4, 5])]);
        assert_eq!(whole.since(&store, &hash(0)).unwrap(), Some(all));
        assert_eq!(whole.since(&store, &hash(7)).unwrap(), None);

        // What the other store has is gone from it.
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        let short = trail(&store, 2);
        assert_eq!(short.since(&store, &hash(0)).unwrap(), None);
        let since = short.since(&store, &hash(2)).unwrap();
        assert_eq!(since, Some(touched(&[(3, &[3]), (4, &[4]), (9, &[3, 4, 5])])));
    }

    #[test]
    fn damage_is_found() {
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        let whole = trail(&store, 1);
        let problems = || {
            let mut report = CheckReport::default();
            let read = Trail::read(&store);
            let Ok(Some(trail)) = read else { return 1 };
            trail.check(&store, &mut report).unwrap();
            report.problems.len()
        };
        assert_eq!(problems(), 0);
        let keys = [END, 2u64.to_be_bytes(), 3u64.to_be_bytes(), 4u64.to_be_bytes()];
        for key in keys {
            let row = store.get(TRAIL_TABLE, &key).unwrap().unwrap();
            let set = |value: Option<&[u8]>| {
                let mut batch = Batch::new();
                match value {
                    Some(value) => batch.put(TRAIL_TABLE, &key, value),
                    None => batch.delete(TRAIL_TABLE, &key),
                }
                store.write(batch).unwrap();
            };
            for at in 0..row.len() {
                let mut changed = row.clone();
                changed[at] ^= 1;
                set(Some(&changed));
                assert_eq!(problems(), 1, "byte {at}");
            }
            set(None);
            assert_eq!(problems(), 1);
            if key != END {
                assert!(whole.since(&store, &hash(7)).is_err());
            }
            set(Some(&row));
        }
        let mut batch = Batch::new();
        batch.put(TRAIL_TABLE, &5u64.to_be_bytes(), b"one too many");
        store.write(batch).unwrap();
        assert_eq!(problems(), 1);
        let mut batch = Batch::new();
        Trail::remove(&mut batch);
        store.write(batch).unwrap();
        assert_eq!(Trail::read(&store).unwrap(), None);
    }
}
