//! How the database follows the store of the chain.
//!
//! The seam's trail ([`polytrie_state::Trail`]) says which keys were touched, and is for a store whose digest tells the state.
//! The root of this one tells how the state came about, so its trail, in the same table, has every step with its values:
//!
//! ```text
//! chain's store   flat rows ‖ block ‖ head ‖ row n: log before step n, what it wrote or that it went back ‖ end
//! end             first and last step that have rows ‖ number of the files ‖ log after the last step
//! database        step n, once the batch above is durable: it is behind, or level, and never ahead
//! open            its log is looked for in the trail; the steps since then are taken one by one
//! ```
//!
//! A step is a block, or the way back from one. Rows go with the batch of a later step, once the database has theirs durably.

use alloy_primitives::B256;
use polytrie_kv::{Batch, KeyRange, Read, append_checksum, strip_checksum};
use polytrie_state::{
    CheckReport, StateError, TRAIL_TABLE,
    foreign::{Changes, Key},
    scan,
};
use std::{ops::ControlFlow, sync::Arc};

/// The key of the row that says where the trail ends.
const END: [u8; 8] = [0xff; 8];
/// What begins the content of a block.
const BLOCK: u8 = 0;
/// What is the content of a way back.
const BACK: u8 = 1;

/// A log of operations.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// How many there are.
    pub(crate) operations: u64,
    /// The root of the database after them.
    pub(crate) root: B256,
}

impl Mark {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.operations.to_be_bytes());
        out.extend_from_slice(self.root.as_slice());
    }

    /// A mark, and the bytes after it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (operations, rest) = bytes.split_first_chunk::<8>()?;
        let (root, rest) = rest.split_first_chunk::<32>()?;
        let (operations, root) = (u64::from_be_bytes(*operations), B256::new(*root));
        Some((Self { operations, root }, rest))
    }
}

/// What a step did.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// It wrote this.
    Block(Arc<Changes>),
    /// It went back to an earlier log.
    Back,
}

/// A step that the database lacks.
#[derive(Debug)]
pub(crate) struct Lacking {
    pub(crate) step: Step,
    /// The log after it.
    pub(crate) after: Mark,
}

/// Where a trail ends, and from where on it is there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trail {
    /// The number of the files that belong to it.
    pub(crate) files: u64,
    /// The first step that has a row; all after it have one.
    first: u64,
    /// The last step.
    last: u64,
    /// The log after it; without operations nothing was filled.
    pub(crate) mark: Mark,
}

impl Trail {
    /// The trail of a store; the default one if it has none, as before it was filled.
    pub(crate) fn read(rows: &dyn Read) -> Result<Self, StateError> {
        let Some(row) = rows.get(TRAIL_TABLE, &END)? else { return Ok(Self::default()) };
        let found = strip_checksum(&END, &row).and_then(|row| {
            let (first, row) = row.split_first_chunk::<8>()?;
            let (last, row) = row.split_first_chunk::<8>()?;
            let (files, row) = row.split_first_chunk::<8>()?;
            let [first, last, files] = [first, last, files].map(|n| u64::from_be_bytes(*n));
            let (mark, rest) = Mark::decode(row)?;
            rest.is_empty().then_some(Self { files, first, last, mark })
        });
        found.ok_or_else(|| StateError::Corrupt("the end of the trail is damaged".into()))
    }

    /// Whether there is a state that it belongs to.
    pub(crate) const fn is_filled(&self) -> bool {
        self.mark.operations > 0
    }

    /// Removes whatever there is: the files of this number are being filled.
    pub(crate) fn fill(batch: &mut Batch, files: u64) -> Self {
        batch.delete_range(TRAIL_TABLE, &[], None);
        let trail = Self { files, ..Self::default() };
        trail.put_end(batch);
        trail
    }

    /// The trail of the same files when nothing was filled.
    pub(crate) fn unfilled(&self) -> Self {
        Self { files: self.files, ..Self::default() }
    }

    /// Adds a trail without steps: the files of this number have this log.
    pub(crate) fn begin(batch: &mut Batch, files: u64, mark: Mark) -> Self {
        let trail = Self { files, first: 1, last: 0, mark };
        trail.put_end(batch);
        trail
    }

    /// Adds a step that leads to a log to the batch that it is part of. The database has everything up to the step `done`
    /// durably.
    pub(crate) fn step(&self, batch: &mut Batch, step: &Step, after: Mark, done: u64) -> Self {
        let first = self.first.max(done.min(self.last).saturating_add(1));
        for gone in self.first..first {
            batch.delete(TRAIL_TABLE, &gone.to_be_bytes());
        }
        let next = Self { files: self.files, first, last: self.last + 1, mark: after };
        let key = next.last.to_be_bytes();
        batch.put(TRAIL_TABLE, &key, &encode(&key, &self.mark, step));
        next.put_end(batch);
        next
    }

    /// The number of its last step.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// The steps since the log was this one, in order; `None` if it never was, as far as the trail goes.
    pub(crate) fn since(
        &self,
        rows: &dyn Read,
        mark: &Mark,
    ) -> Result<Option<Vec<Lacking>>, StateError> {
        let (mut lacking, mut after) = (Vec::new(), self.mark);
        if *mark == after {
            return Ok(Some(lacking));
        }
        for number in (self.first..=self.last).rev() {
            let key = number.to_be_bytes();
            let row = rows.get(TRAIL_TABLE, &key)?;
            let (before, step) =
                row.and_then(|row| decode(&key, &row)).ok_or_else(|| damaged(number))?;
            lacking.push(Lacking { step, after });
            if before == *mark {
                lacking.reverse();
                return Ok(Some(lacking));
            }
            after = before;
        }
        Ok(None)
    }

    /// Reports rows that are missing, too many, or damaged.
    pub(crate) fn check(
        &self,
        rows: &dyn Read,
        report: &mut CheckReport,
    ) -> Result<(), StateError> {
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
        if report.problems.is_empty() && self.is_filled() && next != self.last + 1 {
            report.problem(damaged(next).to_string());
        }
        Ok(())
    }

    fn put_end(&self, batch: &mut Batch) {
        let mut row = Vec::with_capacity(68);
        for number in [self.first, self.last, self.files] {
            row.extend_from_slice(&number.to_be_bytes());
        }
        self.mark.encode(&mut row);
        append_checksum(&END, &mut row);
        batch.put(TRAIL_TABLE, &END, &row);
    }
}

fn damaged(number: u64) -> StateError {
    StateError::Corrupt(format!("step {number} of the trail is damaged or missing"))
}

/// `log before ‖ 0 ‖ (key ‖ length of the value, 1 byte, 0 if it is gone ‖ value)… ‖ checksum`, or `log before ‖ 1 ‖ checksum`
fn encode(key: &[u8], before: &Mark, step: &Step) -> Vec<u8> {
    let mut row = Vec::new();
    before.encode(&mut row);
    match step {
        Step::Back => row.push(BACK),
        Step::Block(changes) => {
            row.push(BLOCK);
            for (key, value) in &**changes {
                let value = value.as_deref().unwrap_or_default();
                row.extend_from_slice(key);
                // A flat row has 73 bytes at most, and one at least.
                row.push(value.len() as u8);
                row.extend_from_slice(value);
            }
        }
    }
    append_checksum(key, &mut row);
    row
}

fn decode(key: &[u8], row: &[u8]) -> Option<(Mark, Step)> {
    let (before, row) = Mark::decode(strip_checksum(key, row)?)?;
    let (kind, mut rest) = row.split_first()?;
    if *kind == BACK {
        return rest.is_empty().then_some((before, Step::Back));
    }
    let mut changes = Changes::new();
    while !rest.is_empty() {
        let (key, after) = rest.split_first_chunk::<{ size_of::<Key>() }>()?;
        let (length, after) = after.split_first()?;
        let (value, after) = after.split_at_checked(usize::from(*length))?;
        changes.insert(*key, (!value.is_empty()).then(|| value.to_vec()));
        rest = after;
    }
    (*kind == BLOCK).then(|| (before, Step::Block(Arc::new(changes))))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_kv::Store;

    fn mark(n: u8) -> Mark {
        Mark { operations: u64::from(n) + 1, root: B256::repeat_byte(n) }
    }

    fn changes(n: u8) -> Changes {
        [([n; 32], Some(vec![n; 1 + usize::from(n)])), ([n + 1; 32], None)].into()
    }

    /// A trail through logs 0, 1, 2, back to 1, 3.
    fn trail(store: &Store, done: u64) -> Trail {
        let mut batch = Batch::new();
        let mut trail = Trail::begin(&mut batch, 7, mark(0));
        store.write(batch).unwrap();
        for (n, after) in (1u8..).zip([1, 2, 1, 3]) {
            let step = if n == 3 { Step::Back } else { Step::Block(Arc::new(changes(n))) };
            let mut batch = Batch::new();
            trail = trail.step(&mut batch, &step, mark(after), done);
            store.write(batch).unwrap();
        }
        trail
    }

    fn since(trail: &Trail, store: &Store, from: u8) -> Option<Vec<(Option<Changes>, Mark)>> {
        let lacking = trail.since(store, &mark(from)).unwrap()?;
        let plain = lacking.into_iter().map(|Lacking { step, after }| match step {
            Step::Block(changes) => (Some(Arc::unwrap_or_clone(changes)), after),
            Step::Back => (None, after),
        });
        Some(plain.collect())
    }

    #[test]
    fn the_steps_since_a_log_are_known_as_far_as_the_trail_goes() {
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        assert_eq!(Trail::read(&store).unwrap(), Trail::default());
        let whole = trail(&store, 0);
        assert_eq!(Trail::read(&store).unwrap(), whole);
        assert_eq!((whole.last(), whole.mark, whole.files), (4, mark(3), 7));
        let step = |n: u8, after| (Some(changes(n)), mark(after));
        assert_eq!(since(&whole, &store, 3), Some(vec![]));
        // From the last time on that it was there.
        assert_eq!(since(&whole, &store, 1), Some(vec![step(4, 3)]));
        assert_eq!(since(&whole, &store, 2), Some(vec![(None, mark(1)), step(4, 3)]));
        let all = vec![step(1, 1), step(2, 2), (None, mark(1)), step(4, 3)];
        assert_eq!(since(&whole, &store, 0), Some(all));
        assert_eq!(since(&whole, &store, 9), None);

        // What the database has is gone from it.
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        let short = trail(&store, 2);
        assert_eq!(since(&short, &store, 0), None);
        assert!(since(&short, &store, 2).is_some());
    }

    #[test]
    fn damage_is_found() {
        let store = Store::memory(&[TRAIL_TABLE]).unwrap();
        trail(&store, 1);
        let problems = || {
            let mut report = CheckReport::default();
            let Ok(trail) = Trail::read(&store) else { return 1 };
            trail.check(&store, &mut report).unwrap();
            report.problems.len()
        };
        assert_eq!(problems(), 0);
        for key in [END, 2u64.to_be_bytes(), 3u64.to_be_bytes(), 4u64.to_be_bytes()] {
            let row = store.get(TRAIL_TABLE, &key).unwrap().unwrap();
            let set = |value: &[u8]| {
                let mut batch = Batch::new();
                batch.put(TRAIL_TABLE, &key, value);
                store.write(batch).unwrap();
            };
            for at in 0..row.len() {
                let mut changed = row.clone();
                changed[at] ^= 1;
                set(&changed);
                assert_eq!(problems(), 1, "byte {at}");
            }
            set(&row);
        }
        for key in [2u64, 4, 5] {
            let key = key.to_be_bytes();
            let row = store.get(TRAIL_TABLE, &key).unwrap();
            let mut batch = Batch::new();
            match &row {
                Some(_) => batch.delete(TRAIL_TABLE, &key),
                None => batch.put(TRAIL_TABLE, &key, b"one too many"),
            }
            store.write(batch).unwrap();
            assert_eq!(problems(), 1);
            let mut batch = Batch::new();
            match &row {
                Some(row) => batch.put(TRAIL_TABLE, &key, row),
                None => batch.delete(TRAIL_TABLE, &key),
            }
            store.write(batch).unwrap();
        }
        assert_eq!(problems(), 0);
    }
}
