//! The queue of steps that a store which commits by itself does not have yet.

use crate::Result;
use polytrie_kv::Store;
use std::collections::VecDeque;

/// Number of durable steps that justify a commit.
const STEPS: usize = 128;
/// Largest number of steps that wait: the cost of a step grows with the number below it.
const MOST_STEPS: usize = 256;
/// Largest number of keys that the waiting steps change, whatever memory there is.
const MOST_KEYS: usize = 1 << 15;

/// A step that waits for a commit.
#[derive(Debug, Clone)]
pub struct Waits<W> {
    /// The number of the step in the trail.
    pub step: u64,
    /// Number of the batch of the chain's store that holds the step.
    pub batch: u64,
    /// Number of keys that the step changes.
    pub keys: usize,
    /// The work to commit.
    pub work: W,
}

/// The limits on waiting steps.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Number of keys that fit into memory.
    pub keys: usize,
    /// Number of newest steps that should stay in memory if they fit: they may be undone soon.
    pub newest: usize,
    /// Whether the files outlive the process. Then only steps that are durable in the chain's store may be committed.
    pub is_kept: bool,
}

/// The steps that wait, oldest first.
#[derive(Debug, Clone)]
pub struct Waiting<W> {
    steps: VecDeque<Waits<W>>,
    /// Number of keys that the steps change.
    keys: usize,
}

impl<W> Default for Waiting<W> {
    fn default() -> Self {
        Self { steps: VecDeque::new(), keys: 0 }
    }
}

impl<W> Waiting<W> {
    /// Adds a step behind the newest.
    pub fn push(&mut self, step: Waits<W>) {
        self.keys += step.keys;
        self.steps.push_back(step);
    }

    /// Removes the newest step and returns it.
    pub fn pop(&mut self) -> Option<Waits<W>> {
        let gone = self.steps.pop_back()?;
        self.keys -= gone.keys;
        Some(gone)
    }

    /// Removes the `count` oldest steps and returns them.
    pub fn take(&mut self, count: usize) -> VecDeque<Waits<W>> {
        let rest = self.steps.split_off(count.min(self.steps.len()));
        let taken = std::mem::replace(&mut self.steps, rest);
        self.keys -= taken.iter().map(|step| step.keys).sum::<usize>();
        taken
    }

    /// Returns the newest step.
    pub fn last(&self) -> Option<&Waits<W>> {
        self.steps.back()
    }

    /// Returns the step at an index, counted from the oldest.
    pub fn get(&self, at: usize) -> Option<&Waits<W>> {
        self.steps.get(at)
    }

    /// Returns all steps, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Waits<W>> {
        self.steps.iter()
    }

    /// Returns all steps for changing, oldest first.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Waits<W>> {
        self.steps.iter_mut()
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether no step waits.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether no further step may wait, given memory for `keys` keys.
    pub fn is_full(&self, keys: usize) -> bool {
        self.keys >= keys.min(MOST_KEYS) || self.len() >= MOST_STEPS
    }

    /// Returns how many of the oldest steps should be committed now. If the queue is full, the chain's store is
    /// flushed so that they become durable, whatever it still gathers. If that store is flushed by hand, the caller
    /// has work to do before a flush: the flush is only requested, and until it happens more steps wait than the
    /// limits allow.
    ///
    /// # Errors
    ///
    /// If the chain's store fails.
    pub fn due(&self, store: &Store, limits: Limits) -> Result<usize> {
        let room = limits.keys.min(MOST_KEYS);
        let is_full = self.is_full(room);
        if !is_full && self.len() < STEPS {
            return Ok(0);
        }
        let wanted = self.len() - self.newest(limits.newest, room);
        let mut count = self.durable(store, limits);
        if is_full && count < wanted {
            if !store.is_flushed_by_hand() {
                store.flush()?;
                count = self.durable(store, limits);
            } else if count == 0 {
                store.ask_flush();
            }
        }
        Ok(if is_full || count >= STEPS { count.min(wanted) } else { 0 })
    }

    /// Returns how many of the oldest steps may be committed.
    fn durable(&self, store: &Store, limits: Limits) -> usize {
        let durable = if limits.is_kept { store.progress().durable } else { u64::MAX };
        self.steps.partition_point(|step| step.batch <= durable)
    }

    /// Returns how many of the newest steps stay: with at most half of the allowed keys, so that not every step
    /// causes a commit.
    fn newest(&self, count: usize, room: usize) -> usize {
        let mut keys = 0;
        let fits = |step: &&Waits<W>| {
            keys += step.keys;
            keys <= room / 2
        };
        self.steps.iter().rev().take(count).take_while(fits).count()
    }
}

/// Makes a batch of the chain's store durable, if the commit on top of it is to be kept. For use after blocks were
/// undone, when this cannot wait for a flush by hand. A caller that flushes by hand finishes its own writes
/// before it switches to another branch.
///
/// # Errors
///
/// If the chain's store fails.
pub fn make_durable(store: &Store, batch: u64, is_kept: bool) -> Result<()> {
    if is_kept && store.progress().durable < batch {
        store.flush()?;
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_kv::{Batch, Durability, StoreOptions};

    const LIMITS: Limits = Limits { keys: 1 << 20, newest: 32, is_kept: true };

    fn store(durability: Durability) -> Store {
        let options = StoreOptions { durability, background: false, ..StoreOptions::default() };
        let engine = std::sync::Arc::new(polytrie_kv::MemoryEngine::new());
        Store::open(engine, &[crate::TRAIL_TABLE], options).unwrap()
    }

    /// Adds `count` steps, each a batch of the store.
    fn add(waiting: &mut Waiting<()>, store: &Store, count: u64, keys: usize) {
        for step in 0..count {
            let mut batch = Batch::new();
            batch.put(crate::TRAIL_TABLE, &step.to_be_bytes(), b"a step");
            store.write(batch).unwrap();
            waiting.push(Waits { step, batch: store.progress().written, keys, work: () });
        }
    }

    #[test]
    fn what_is_durable_is_due_but_for_the_newest() {
        let (store, mut waiting) = (store(Durability::Deferred), Waiting::default());
        add(&mut waiting, &store, 200, 1);
        assert_eq!(waiting.due(&store, LIMITS).unwrap(), 0);
        assert_eq!(waiting.due(&store, Limits { is_kept: false, ..LIMITS }).unwrap(), 168);
        store.flush().unwrap();
        assert_eq!(waiting.due(&store, LIMITS).unwrap(), 168);
        assert_eq!(waiting.due(&store, Limits { newest: 0, ..LIMITS }).unwrap(), 200);
        add(&mut waiting, &store, 20, 1);
        assert_eq!(waiting.due(&store, LIMITS).unwrap(), 188);
        add(&mut waiting, &store, 20, 1);
        assert_eq!(waiting.due(&store, LIMITS).unwrap(), 200);
        assert_eq!((waiting.take(200).len(), waiting.len(), waiting.keys), (200, 40, 40));
        assert_eq!(waiting.pop().map(|last| last.step), Some(19));
        assert_eq!(waiting.keys, 39);
    }

    #[test]
    fn what_has_no_room_is_made_durable() {
        let (store, mut waiting) = (store(Durability::Deferred), Waiting::default());
        add(&mut waiting, &store, 10, 10);
        assert_eq!(waiting.due(&store, Limits { keys: 101, ..LIMITS }).unwrap(), 0);
        assert_eq!(store.progress().durable, 0);
        // The newest steps stay in half of the limit.
        assert_eq!(waiting.due(&store, Limits { keys: 100, ..LIMITS }).unwrap(), 5);
        assert_eq!(store.progress().durable, 10);
        assert_eq!(waiting.due(&store, Limits { keys: 0, ..LIMITS }).unwrap(), 10);
        let mut waiting = Waiting::default();
        add(&mut waiting, &store, 4, MOST_KEYS / 4);
        assert_eq!(waiting.due(&store, LIMITS).unwrap(), 2);
        let mut waiting = Waiting::default();
        add(&mut waiting, &store, MOST_STEPS as u64, 1);
        assert_eq!(waiting.due(&store, LIMITS).unwrap(), MOST_STEPS - 32);
    }

    #[test]
    fn what_is_flushed_by_hand_is_asked_for() {
        let (store, mut waiting) = (store(Durability::ByHand), Waiting::default());
        add(&mut waiting, &store, MOST_STEPS as u64, 1);
        assert!(!store.is_full());
        assert_eq!(waiting.due(&store, LIMITS).unwrap(), 0);
        assert_eq!(store.progress().durable, 0);
        assert!(store.is_full());
        store.begin_flush().unwrap();
        add(&mut waiting, &store, 1, 1);
        assert_eq!(waiting.due(&store, LIMITS).unwrap(), MOST_STEPS + 1 - 32);
        // The durable steps are enough to go on with.
        let all = Limits { newest: 0, ..LIMITS };
        assert_eq!(waiting.due(&store, all).unwrap(), MOST_STEPS);
        assert!(!store.is_full());
    }
}
