//! The queue of steps that a store which commits by itself does not have yet.

use crate::Result;
use polytrie_kv::Store;
use std::collections::VecDeque;

/// Number of durable steps that justify a commit.
const STEPS: usize = 128;
/// Largest number of steps that wait: the cost of a step grows with the number below it.
const MOST_STEPS: usize = 256;
/// Largest number of keys that the waiting steps change, with any amount of memory.
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
pub type Waiting<W> = VecDeque<Waits<W>>;

/// Whether no further step may wait, given memory for `keys` keys.
pub fn is_full<W>(waiting: &Waiting<W>, keys: usize) -> bool {
    let held: usize = waiting.iter().map(|step| step.keys).sum();
    held >= keys.min(MOST_KEYS) || waiting.len() >= MOST_STEPS
}

/// Returns how many of the oldest steps should be committed now. If no further step may wait, the chain's store is
/// flushed so that they become durable, whatever it still gathers. If that store is flushed by hand, the caller
/// has work to do before a flush: the flush is only requested, and until it happens more steps wait than the
/// limits allow.
///
/// # Errors
///
/// If the chain's store fails.
pub fn due<W>(waiting: &Waiting<W>, store: &Store, limits: Limits) -> Result<usize> {
    let room = limits.keys.min(MOST_KEYS);
    let is_full = is_full(waiting, room);
    if !is_full && waiting.len() < STEPS {
        return Ok(0);
    }
    let mut keys = 0;
    // The newest steps stay with at most half of the allowed keys, so that not every step causes a commit.
    let fits = |step: &&Waits<W>| {
        keys += step.keys;
        keys <= room / 2
    };
    let newest = waiting.iter().rev().take(limits.newest).take_while(fits).count();
    let wanted = waiting.len() - newest;
    let durable = || {
        let durable = if limits.is_kept { store.progress().durable } else { u64::MAX };
        waiting.partition_point(|step| step.batch <= durable)
    };
    let mut count = durable();
    if is_full && count < wanted {
        if !store.is_flushed_by_hand() {
            store.flush()?;
            count = durable();
        } else if count == 0 {
            store.ask_flush();
        }
    }
    Ok(if is_full || count >= STEPS { count.min(wanted) } else { 0 })
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
            waiting.push_back(Waits { step, batch: store.progress().written, keys, work: () });
        }
    }

    #[test]
    fn what_is_durable_is_due_but_for_the_newest() {
        let (store, mut waiting) = (store(Durability::Deferred), Waiting::default());
        add(&mut waiting, &store, 200, 1);
        assert_eq!(due(&waiting, &store, LIMITS).unwrap(), 0);
        assert_eq!(due(&waiting, &store, Limits { is_kept: false, ..LIMITS }).unwrap(), 168);
        store.flush().unwrap();
        assert_eq!(due(&waiting, &store, LIMITS).unwrap(), 168);
        assert_eq!(due(&waiting, &store, Limits { newest: 0, ..LIMITS }).unwrap(), 200);
        add(&mut waiting, &store, 20, 1);
        assert_eq!(due(&waiting, &store, LIMITS).unwrap(), 188);
        add(&mut waiting, &store, 20, 1);
        assert_eq!(due(&waiting, &store, LIMITS).unwrap(), 200);
        waiting.drain(..200);
        assert!(is_full(&waiting, 40) && !is_full(&waiting, 41));
    }

    #[test]
    fn what_has_no_room_is_made_durable() {
        let (store, mut waiting) = (store(Durability::Deferred), Waiting::default());
        add(&mut waiting, &store, 10, 10);
        assert_eq!(due(&waiting, &store, Limits { keys: 101, ..LIMITS }).unwrap(), 0);
        assert_eq!(store.progress().durable, 0);
        // The newest steps stay in half of the limit.
        assert_eq!(due(&waiting, &store, Limits { keys: 100, ..LIMITS }).unwrap(), 5);
        assert_eq!(store.progress().durable, 10);
        assert_eq!(due(&waiting, &store, Limits { keys: 0, ..LIMITS }).unwrap(), 10);
        let mut waiting = Waiting::default();
        add(&mut waiting, &store, 4, MOST_KEYS / 4);
        assert_eq!(due(&waiting, &store, LIMITS).unwrap(), 2);
        let mut waiting = Waiting::default();
        add(&mut waiting, &store, MOST_STEPS as u64, 1);
        assert_eq!(due(&waiting, &store, LIMITS).unwrap(), MOST_STEPS - 32);
    }

    #[test]
    fn what_is_flushed_by_hand_is_asked_for() {
        let (store, mut waiting) = (store(Durability::ByHand), Waiting::default());
        add(&mut waiting, &store, MOST_STEPS as u64, 1);
        assert!(!store.is_full());
        assert_eq!(due(&waiting, &store, LIMITS).unwrap(), 0);
        assert_eq!(store.progress().durable, 0);
        assert!(store.is_full());
        store.begin_flush().unwrap();
        add(&mut waiting, &store, 1, 1);
        assert_eq!(due(&waiting, &store, LIMITS).unwrap(), MOST_STEPS + 1 - 32);
        // The durable steps are enough to go on with.
        let all = Limits { newest: 0, ..LIMITS };
        assert_eq!(due(&waiting, &store, all).unwrap(), MOST_STEPS);
        assert!(!store.is_full());
    }
}
