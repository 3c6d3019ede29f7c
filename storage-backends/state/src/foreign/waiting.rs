//! Steps that a store which commits by itself does not have yet.

use crate::StateError;
use polytrie_kv::Store;
use std::collections::VecDeque;

/// So many durable steps are worth a commit.
const STEPS: usize = 128;
/// Steps that wait at most: each costs as much as all below it.
const MOST_STEPS: usize = 256;
/// Keys that they change at most, however much memory there is.
const MOST_KEYS: usize = 1 << 15;

/// A step that waits.
#[derive(Debug, Clone)]
pub struct Waits<W> {
    /// Its number in the trail.
    pub step: u64,
    /// The batch of the chain's store that it is part of.
    pub batch: u64,
    /// Keys that it changes.
    pub keys: usize,
    /// What is to be committed.
    pub work: W,
}

/// How much may wait, and for what.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Keys that there is memory for.
    pub keys: usize,
    /// The newest steps, so many, stay where there is memory: they are those that may be taken back soon.
    pub newest: usize,
    /// Whether the files outlive the process: then only what is durable in the chain's store may be committed.
    pub is_kept: bool,
}

/// The steps that wait, oldest first.
#[derive(Debug, Clone)]
pub struct Waiting<W> {
    steps: VecDeque<Waits<W>>,
    /// Keys that they change.
    keys: usize,
}

impl<W> Default for Waiting<W> {
    fn default() -> Self {
        Self { steps: VecDeque::new(), keys: 0 }
    }
}

impl<W> Waiting<W> {
    /// Adds a step on top.
    pub fn push(&mut self, step: Waits<W>) {
        self.keys += step.keys;
        self.steps.push_back(step);
    }

    /// Takes the newest one away.
    pub fn pop(&mut self) -> Option<Waits<W>> {
        let gone = self.steps.pop_back()?;
        self.keys -= gone.keys;
        Some(gone)
    }

    /// Takes the oldest ones away, so many.
    pub fn take(&mut self, count: usize) -> VecDeque<Waits<W>> {
        let rest = self.steps.split_off(count.min(self.steps.len()));
        let taken = std::mem::replace(&mut self.steps, rest);
        self.keys -= taken.iter().map(|step| step.keys).sum::<usize>();
        taken
    }

    /// The newest one.
    pub fn last(&self) -> Option<&Waits<W>> {
        self.steps.back()
    }

    /// One of them, counted from the oldest on.
    pub fn get(&self, at: usize) -> Option<&Waits<W>> {
        self.steps.get(at)
    }

    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Waits<W>> {
        self.steps.iter()
    }

    /// All of them, to be changed.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Waits<W>> {
        self.steps.iter_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether there is no room for more, if there is memory for so many keys.
    pub fn is_full(&self, keys: usize) -> bool {
        self.keys >= keys.min(MOST_KEYS) || self.len() >= MOST_STEPS
    }

    /// How many of the oldest are to be committed now. What has to be durable for that is made so where there is no room for
    /// more, whatever the chain's store gathers. Where that is flushed by hand, there is something to do before: it is asked
    /// for, and what waits is more than there is room for until it is done.
    ///
    /// # Errors
    ///
    /// If that store fails.
    pub fn due(&self, store: &Store, limits: Limits) -> Result<usize, StateError> {
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

    /// How many of the oldest may be committed.
    fn durable(&self, store: &Store, limits: Limits) -> usize {
        let durable = if limits.is_kept { store.progress().durable } else { u64::MAX };
        self.steps.partition_point(|step| step.batch <= durable)
    }

    /// How many of the newest ones stay: with half of the room at most, so that not every step is a commit.
    fn newest(&self, count: usize, room: usize) -> usize {
        let mut keys = 0;
        let fits = |step: &&Waits<W>| {
            keys += step.keys;
            keys <= room / 2
        };
        self.steps.iter().rev().take(count).take_while(fits).count()
    }
}

/// Makes a batch of the chain's store durable, if what is committed on top of it is to be kept, and cannot wait until that is
/// flushed by hand: after a way back. Who flushes by hand does what must come first before it goes to another branch.
///
/// # Errors
///
/// If that store fails.
pub fn make_durable(store: &Store, batch: u64, is_kept: bool) -> Result<(), StateError> {
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

    /// Adds so many steps, each a batch of the store.
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
        // The newest ones stay in half of the room.
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
        // What is durable is enough to go on with.
        let all = Limits { newest: 0, ..LIMITS };
        assert_eq!(waiting.due(&store, all).unwrap(), MOST_STEPS);
        assert!(!store.is_full());
    }
}
