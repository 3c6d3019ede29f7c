//! The trail, by which a store that commits by itself follows the chain's store.
//!
//! A layer whose commitment lives in a second store, as that of an adapter of a published crate does, has two stores
//! and one truth: flat rows in the chain's store, which are written with the block, and the commitment beside them.
//! The trail lists in the chain's store the steps that the other one may not have yet:
//!
//! ```text
//! chain's store   flat rows ‖ block ‖ head ‖ row n: mark before step n, what the step is ‖ end: first and last step, mark after
//! other store     step n, once the batch above is durable: it is behind, or level, and never ahead
//! open            the mark of the other store is looked for in the trail; the steps since then are what it lacks
//! ```
//!
//! A [`Mark`] is a position of the other store, and a [`TrailStep`] holds what it takes to go on from there. A step
//! is a block, or the undo of one. If the commitment depends on the state alone, a step holds the touched keys
//! ([`Touched`]): the last value of each is in the flat rows, whatever happened in between. If the commitment depends
//! on the history, a step holds all writes of a block.
//!
//! A step with very many keys, as that of a block which wipes a large contract, has its bytes in several rows, because an
//! engine may take no value that long. All but the first lead from the mark after the step to that mark.
//!
//! A row exists from the batch of its step until the batch of a later step, after the other store has the step
//! durably. So the number of rows depends on when commits became durable, and not on the blocks alone, unlike all
//! other rows of a layer.

use crate::{CheckReport, Result, StateError, Touched, corrupt, each_row};
use alloy_primitives::B256;
use polytrie_kv::{Batch, KeyRange, Read, Table, append_checksum, strip_checksum};
use std::{fmt::Debug, ops::ControlFlow};

/// The table of the trail: number of a step → mark before it ‖ step ‖ checksum; and the row of the end.
pub const TRAIL_TABLE: Table = Table::new(3, "Trail", 8);

/// Largest number of bytes of a step in one row.
const ROW_BYTES: usize = 1 << 20;

/// The key of the row that holds the end of the trail.
const END: [u8; 8] = [0xff; 8];

/// A position of a store that commits by itself. The default is that of a store that was never filled.
pub trait Mark: Debug + Default + Clone + Copy + PartialEq + Send + Sync + 'static {
    /// Appends the encoded mark.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes a mark, and returns the bytes behind it.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])>;

    /// Returns the digest of the commitment at this position.
    fn digest(&self) -> B256;

    /// Whether the store was filled.
    fn is_filled(&self) -> bool {
        true
    }

    /// Returns the mark of the same place, not filled.
    #[must_use]
    fn unfilled(&self) -> Self {
        Self::default()
    }

    /// Returns the mark with the place of `other`, for a store with the same content at that place. No block
    /// determines the place.
    #[must_use]
    fn in_place_of(self, other: &Self) -> Self {
        let _ = other;
        self
    }
}

/// A digest is enough of a mark if the commitment depends on the state alone.
impl Mark for B256 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_slice());
    }

    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (digest, rest) = bytes.split_first_chunk::<32>()?;
        Some((Self::new(*digest), rest))
    }

    fn digest(&self) -> B256 {
        *self
    }
}

/// The data that another store needs to apply a step.
pub trait TrailStep: Debug + Sized {
    /// Appends the encoded step.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes a step; `None` if the bytes are not exactly what [`Self::encode`] writes.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// Encoded as `(account ‖ number of slots, 4 bytes, big-endian ‖ slots…)…`.
impl TrailStep for Touched {
    fn encode(&self, out: &mut Vec<u8>) {
        for (account, slots) in self {
            out.extend_from_slice(account.as_slice());
            // Memory cannot hold as many slots as would overflow this.
            out.extend_from_slice(&(slots.len() as u32).to_be_bytes());
            slots.iter().for_each(|slot| out.extend_from_slice(slot.as_slice()));
        }
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut touched = Self::new();
        while let Some((account, after)) = bytes.split_first_chunk::<32>() {
            let (count, mut after) = after.split_first_chunk::<4>()?;
            let slots = touched.entry(B256::new(*account)).or_default();
            for _ in 0..u32::from_be_bytes(*count) {
                let (slot, more) = after.split_first_chunk::<32>()?;
                slots.insert(B256::new(*slot));
                after = more;
            }
            bytes = after;
        }
        bytes.is_empty().then_some(touched)
    }
}

/// A step that another store lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking<M, S> {
    /// The step.
    pub step: S,
    /// The mark after the step.
    pub after: M,
}

/// The end of a trail, and the range of steps that have rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trail<M> {
    /// The first step that has a row; all later ones have one.
    first: u64,
    /// The last step.
    last: u64,
    /// The mark after the last step.
    mark: M,
}

impl<M: Mark> Trail<M> {
    /// Creates a trail without steps at this mark.
    pub const fn at(mark: M) -> Self {
        Self { first: 1, last: 0, mark }
    }

    /// Reads the trail of a store. If there is none, returns that of a store that was never filled.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if it is damaged; or if the store fails.
    pub fn read(rows: &dyn Read) -> Result<Self> {
        let Some(row) = rows.get(TRAIL_TABLE, &END)? else { return Ok(Self::at(M::default())) };
        let found = strip_checksum(&END, &row).and_then(|row| {
            let (first, row) = row.split_first_chunk::<8>()?;
            let (last, row) = row.split_first_chunk::<8>()?;
            let (first, last) = (u64::from_be_bytes(*first), u64::from_be_bytes(*last));
            let (mark, rest) = M::decode(row)?;
            rest.is_empty().then_some(Self { first, last, mark })
        });
        found.ok_or_else(|| corrupt!("the end of the trail is damaged"))
    }

    /// Replaces the stored trail with one without steps: the other store is at this mark.
    pub fn begin(batch: &mut Batch, mark: M) -> Self {
        batch.delete_range(TRAIL_TABLE, &[], None);
        let trail = Self::at(mark);
        trail.put_end(batch);
        trail
    }

    /// Adds a step, which leads to the mark `after`, to the batch of its block. The other store has everything up to
    /// the step `done` durably.
    #[must_use = "it is the trail once the batch is written"]
    pub fn step(&self, batch: &mut Batch, step: &impl TrailStep, after: M, done: u64) -> Self {
        let first = self.first.max(done.min(self.last).saturating_add(1));
        for gone in self.first..first {
            batch.delete(TRAIL_TABLE, &gone.to_be_bytes());
        }
        let mut next = Self { first, ..*self };
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        // A step without bytes has a row too.
        let pieces = bytes.chunks(ROW_BYTES).chain(bytes.is_empty().then_some(&bytes[..]));
        for piece in pieces {
            let mut row = Vec::new();
            next.mark.encode(&mut row);
            row.extend_from_slice(piece);
            (next.last, next.mark) = (next.last + 1, after);
            let key = next.last.to_be_bytes();
            append_checksum(&key, &mut row);
            batch.put(TRAIL_TABLE, &key, &row);
        }
        next.put_end(batch);
        next
    }

    /// Returns the mark at the end.
    pub const fn mark(&self) -> M {
        self.mark
    }

    /// Returns the number of the last step.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the steps since the other store was at this mark, in order; `None` if the mark is not in the trail.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if a row is damaged; or if the store fails.
    pub fn since<S: TrailStep>(
        &self,
        rows: &dyn Read,
        mark: &M,
    ) -> Result<Option<Vec<Lacking<M, S>>>> {
        let (mut lacking, mut found) = (Vec::new(), *mark == self.mark);
        if !found {
            self.back(rows, |before, step| {
                lacking.push(step);
                found = before == *mark;
                if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        lacking.reverse();
        Ok(found.then_some(lacking))
    }

    /// Passes the steps to `visit` with the mark before each, from the last one back.
    fn back<S: TrailStep>(
        &self,
        rows: &dyn Read,
        mut visit: impl FnMut(M, Lacking<M, S>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut after = self.mark;
        // The bytes of a step in the rows that were read.
        let mut bytes = Vec::new();
        for number in (self.first..=self.last).rev() {
            let key = number.to_be_bytes();
            let row = rows.get(TRAIL_TABLE, &key)?.unwrap_or_default();
            let found = strip_checksum(&key, &row).and_then(M::decode);
            let (before, piece) = found.ok_or_else(|| damaged(number))?;
            bytes = [piece, &bytes[..]].concat();
            if before == after {
                continue;
            }
            let step = S::decode(&bytes).ok_or_else(|| damaged(number))?;
            if visit(before, Lacking { step, after }).is_break() {
                break;
            }
            bytes.clear();
            after = before;
        }
        Ok(())
    }

    /// Reports rows that are missing, too many, or damaged.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn check<S: TrailStep>(&self, rows: &dyn Read, report: &mut CheckReport) -> Result<()> {
        match Self::read(rows) {
            Ok(found) if found == *self => {}
            Ok(_) | Err(StateError::Corrupt(_)) => {
                report.problem("the end of the trail is damaged or missing".to_owned());
            }
            Err(error) => return Err(error),
        }
        let steps = self.first..=self.last;
        let is_step = |key| steps.contains(&u64::from_be_bytes(key));
        report.part(|_| {
            each_row(rows, TRAIL_TABLE, KeyRange::ALL, |key, _| {
                match key == END || <[u8; 8]>::try_from(key).is_ok_and(is_step) {
                    true => Ok(()),
                    false => Err(corrupt!("the trail has rows that are none of its steps")),
                }
            })?;
            self.back::<S>(rows, |_, _| ControlFlow::Continue(()))
        })
    }

    fn put_end(&self, batch: &mut Batch) {
        let mut row = Vec::new();
        row.extend_from_slice(&self.first.to_be_bytes());
        row.extend_from_slice(&self.last.to_be_bytes());
        self.mark.encode(&mut row);
        append_checksum(&END, &mut row);
        batch.put(TRAIL_TABLE, &END, &row);
    }
}

fn damaged(step: u64) -> StateError {
    corrupt!("step {step} of the trail is damaged or missing")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_kv::Store;
    use std::collections::BTreeSet;

    fn hash(n: u8) -> B256 {
        B256::repeat_byte(n)
    }

    fn touched(keys: &[(u8, &[u8])]) -> Touched {
        let slots = |slots: &[u8]| slots.iter().copied().map(hash).collect();
        keys.iter().map(|(account, of)| (hash(*account), slots(of))).collect()
    }

    /// Returns the step of this number, which leads to a mark.
    fn step(number: u8, after: u8) -> Lacking<B256, Touched> {
        let step = touched(&[(number, &[number]), (9, &[number, number + 1])]);
        Lacking { step, after: hash(after) }
    }

    const STEPS: [(u8, u8); 4] = [(1, 1), (2, 2), (3, 1), (4, 3)];

    /// Writes a trail through marks 0, 1, 2, 1, 3.
    fn trail(store: &Store, done: u64) -> Trail<B256> {
        let mut batch = Batch::new();
        let mut trail = Trail::begin(&mut batch, hash(0));
        store.write(batch).unwrap();
        for (number, after) in STEPS {
            let mut batch = Batch::new();
            let Lacking { step, after } = step(number, after);
            trail = trail.step(&mut batch, &step, after, done);
            store.write(batch).unwrap();
        }
        trail
    }

    fn since(trail: &Trail<B256>, store: &Store, mark: u8) -> Option<Vec<Lacking<B256, Touched>>> {
        trail.since(store, &hash(mark)).unwrap()
    }

    #[test]
    fn the_steps_since_a_mark_are_known_as_far_as_the_trail_goes() {
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        assert_eq!(Trail::read(&store).unwrap(), Trail::at(B256::ZERO));
        let whole = trail(&store, 0);
        assert_eq!(Trail::read(&store).unwrap(), whole);
        assert_eq!((whole.last(), whole.mark()), (4, hash(3)));
        let steps = STEPS.map(|(number, after)| step(number, after));
        assert_eq!(since(&whole, &store, 3), Some(vec![]));
        // If the store was at the mark several times, the last time counts.
        assert_eq!(since(&whole, &store, 1), Some(steps[3..].to_vec()));
        assert_eq!(since(&whole, &store, 2), Some(steps[2..].to_vec()));
        assert_eq!(since(&whole, &store, 0), Some(steps.to_vec()));
        assert_eq!(since(&whole, &store, 7), None);

        // Steps that the other store has are no longer in the trail.
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        let short = trail(&store, 2);
        assert_eq!(since(&short, &store, 0), None);
        assert_eq!(since(&short, &store, 2), Some(steps[2..].to_vec()));
    }

    #[test]
    fn a_step_with_very_many_keys_is_several_rows() {
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        let before = trail(&store, 0);
        let slot = |n: usize| B256::left_padding_from(&(n as u64).to_be_bytes());
        let slots = (0..5 * ROW_BYTES / 64).map(slot).collect();
        let wiped = Touched::from([(hash(1), BTreeSet::new()), (hash(2), slots)]);
        let mut batch = Batch::new();
        let long = before.step(&mut batch, &wiped, hash(5), 0);
        store.write(batch).unwrap();
        assert_eq!((long.last(), long.mark()), (before.last() + 3, hash(5)));
        for number in before.last() + 1..=long.last() {
            let row = store.get(TRAIL_TABLE, &number.to_be_bytes()).unwrap().unwrap();
            assert!(row.len() < ROW_BYTES + 100, "{}", row.len());
        }
        let mut batch = Batch::new();
        let next = long.step(&mut batch, &touched(&[(7, &[7])]), hash(6), 0);
        store.write(batch).unwrap();
        let lacks = |mark| since(&next, &store, mark).unwrap();
        let last = Lacking { step: touched(&[(7, &[7])]), after: hash(6) };
        assert_eq!(lacks(5), std::slice::from_ref(&last));
        assert_eq!(lacks(3), [Lacking { step: wiped, after: hash(5) }, last]);
        assert_eq!(lacks(0).len(), STEPS.len() + 2);
        let mut report = CheckReport::default();
        next.check::<Touched>(&store, &mut report).unwrap();
        assert_eq!(report.problems, [""; 0]);
    }

    #[test]
    fn damage_is_found() {
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        let whole = trail(&store, 1);
        let problems = |trail: Result<Trail<B256>>| {
            let mut report = CheckReport::default();
            let Ok(trail) = trail else { return 1 };
            trail.check::<Touched>(&store, &mut report).unwrap();
            report.problems.len()
        };
        let set = |key: &[u8], value: Option<&[u8]>| {
            let mut batch = Batch::new();
            match value {
                Some(value) => batch.put(TRAIL_TABLE, key, value),
                None => batch.delete(TRAIL_TABLE, key),
            }
            store.write(batch).unwrap();
        };
        assert_eq!(problems(Ok(whole)), 0);
        for key in [END, 2u64.to_be_bytes(), 3u64.to_be_bytes(), 4u64.to_be_bytes()] {
            let row = store.get(TRAIL_TABLE, &key).unwrap().unwrap();
            let assert_found = |context: &str| {
                for trail in [Trail::read(&store), Ok(whole)] {
                    assert_eq!(problems(trail), 1, "{context}");
                }
            };
            for at in 0..row.len() {
                let mut changed = row.clone();
                changed[at] ^= 1;
                set(&key, Some(&changed));
                assert_found(&format!("byte {at}"));
            }
            set(&key, None);
            assert_found("missing");
            if key != END {
                assert!(whole.since::<Touched>(&store, &hash(7)).is_err());
            }
            set(&key, Some(&row));
        }
        set(&5u64.to_be_bytes(), Some(b"one too many"));
        assert_eq!(problems(Ok(whole)), 1);
        let mut batch = Batch::new();
        let anew = Trail::begin(&mut batch, hash(0));
        store.write(batch).unwrap();
        assert_eq!(problems(Ok(anew)), 0);
    }
}
