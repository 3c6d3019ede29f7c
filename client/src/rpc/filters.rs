//! Filters that a client asks again and again.

use crate::devnet::{Event, PoolTransaction};
use alloy_primitives::U256;
use alloy_rpc_types_eth::Filter;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// A filter nobody asked for so long is removed.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Filters that are kept; the one that was not asked for longest goes first.
const MOST: usize = 4096;

/// What a filter waits for.
#[derive(Debug, Clone)]
pub(super) enum FilterKind {
    /// New blocks.
    Blocks,
    /// Transactions that wait for a block, with all their fields or only their hashes.
    Pending { full: bool },
    /// Logs.
    Logs(Box<Filter>),
}

/// The filters that clients have made.
#[derive(Debug, Default)]
pub(super) struct Filters {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    filters: BTreeMap<u64, Entry>,
    last: u64,
}

#[derive(Debug)]
struct Entry {
    kind: FilterKind,
    /// The first block that was not told of.
    next: u64,
    events: Option<Receiver<Event>>,
    asked: Instant,
}

/// What is new since a filter was last asked.
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) kind: FilterKind,
    /// The first block that is new.
    pub(super) from: u64,
    pub(super) pending: Vec<Arc<PoolTransaction>>,
}

impl Filters {
    /// A filter that begins after the block `head`; returns its number.
    pub(super) fn add(&self, kind: FilterKind, head: u64, events: Option<Receiver<Event>>) -> u64 {
        let mut all = self.all.lock();
        let now = Instant::now();
        all.filters.retain(|_, entry| now.duration_since(entry.asked) < PATIENCE);
        if all.filters.len() >= MOST {
            let oldest = all.filters.iter().min_by_key(|(_, entry)| entry.asked).map(|(id, _)| *id);
            if let Some(id) = oldest {
                all.filters.remove(&id);
            }
        }
        all.last += 1;
        let id = all.last;
        all.filters.insert(id, Entry { kind, next: head + 1, events, asked: now });
        id
    }

    pub(super) fn remove(&self, id: U256) -> bool {
        u64::try_from(id).is_ok_and(|id| self.all.lock().filters.remove(&id).is_some())
    }

    pub(super) fn kind(&self, id: U256) -> Option<FilterKind> {
        let id = u64::try_from(id).ok()?;
        Some(self.all.lock().filters.get(&id)?.kind.clone())
    }

    /// What is new, up to the block `head`.
    pub(super) fn poll(&self, id: U256, head: u64) -> Option<Poll> {
        let id = u64::try_from(id).ok()?;
        let mut all = self.all.lock();
        let entry = all.filters.get_mut(&id)?;
        entry.asked = Instant::now();
        // The user may have taken blocks back in the meantime; then those that follow are new.
        let from = entry.next.min(head + 1);
        entry.next = head + 1;
        let mut pending = Vec::new();
        if let Some(events) = &mut entry.events {
            loop {
                match events.try_recv() {
                    Ok(Event::Pending(tx)) => pending.push(tx),
                    Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
        }
        Some(Poll { kind: entry.kind.clone(), from, pending })
    }
}
