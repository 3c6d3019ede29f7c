//! The news of a newer durable state.

use super::{
    FARTHEST, SPARE,
    shared::{Connection, Shared},
};
use crate::prefetch::wire::Message;
use std::{
    collections::VecDeque,
    iter,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Time in which a prefetcher has opened a newer state, also where hardly a block is executed meanwhile. Tests may stand
/// still for longer.
const OPENING: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 10 });

/// The prefetchers that have not heard of the last durable state. They hear of it one after the other: while one opens it,
/// the others send bags.
#[derive(Debug, Default)]
pub(super) struct Informing {
    /// The numbers of their connections.
    pub(super) left: VecDeque<u64>,
    /// Number of blocks that were executed when the last one was informed.
    pub(super) executed: usize,
    /// The time at which the last one was informed.
    pub(super) since: Option<Instant>,
}

impl Informing {
    pub(super) fn begin(&mut self, shared: &Shared) {
        for connection in &*shared.open.lock() {
            if !self.left.contains(&connection.number) {
                self.left.push_back(connection.number);
            }
        }
    }

    /// Informs the next one, if the last one has opened its state by now: it would be late otherwise.
    pub(super) fn go_on(&mut self, shared: &Shared) {
        let (open, executed) = (shared.open.lock(), shared.executed.load(Relaxed));
        let least = if open.iter().any(Connection::is_late) { FARTHEST } else { SPARE };
        // The blocks of a pipe may come slowly, and a cluster keeps the rows of an older state for two flushes.
        let is_long_ago = self.since.is_none_or(|since| since.elapsed() >= OPENING);
        if executed < self.executed + least && !is_long_ago {
            return;
        }
        let connected = |number: u64| open.iter().find(|of| of.number == number);
        // Those that have left take no turn.
        let next = iter::from_fn(|| self.left.pop_front()).find_map(connected);
        if let Some(connection) = next {
            (self.executed, self.since) = (executed, Some(Instant::now()));
            // A prefetcher with a full outbox is informed of the next state.
            let _ = connection.outbox.try_send(Arc::new(Message::Flushed.encode()));
        }
    }
}
