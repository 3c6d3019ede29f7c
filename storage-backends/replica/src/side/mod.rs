//! The trie side: threads that own the tries, and nothing else does.
//!
//! ```text
//!  executing thread                     worker 0                 worker 1 …
//!  ────────────────                     ────────                 ──────────
//!  hints (bounded, may be dropped) ──►  account trie,            its part of
//!  writes, in order ─────────────────►  its part of the          the storage tries
//!  Finish ───────────────────────────►  storage tries                │
//!                                          ◄── roots, rows ──────────┘
//!         ◄── root and rows ────────────────┘
//!                                       readers: paths that are missing, where the store is slow
//! ```
//!
//! A trie is owned by one worker for good: which one, its account's hash says. Everything else moves through
//! channels, so there is nothing to lock and nothing that the order of threads could change: rows and roots
//! are a function of the writes, and each worker sees those in order.

mod accounts;
mod ahead;
mod effort;
mod message;
mod readers;
mod storage;
mod worker;

pub(crate) use ahead::rows_of;
pub(crate) use message::{Hints, LeafWrite, Sealed, StorageWrite, Work, Writes};

use crate::{error::gone, options::ReplicaOptions};
use alloy_primitives::B256;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::{Mutex, MutexGuard};
use polytrie_kv::{Store, Table};
use polytrie_state::StateError;
use readers::Readers;
use std::{
    io,
    thread::{self, JoinHandle},
};
use worker::{Peers, Setup, Worker};

/// Nodes of the account trie by path.
pub(crate) const ACCOUNT_TRIE: Table = Table::new(52, "ReplicaAccountTrie", 64);
/// Nodes of all storage tries by account hash and path.
pub(crate) const STORAGE_TRIE: Table = Table::new(53, "ReplicaStorageTrie", 96);

/// Hints that travel together: waking a thread costs more than all of them.
pub(crate) const HINTS_AT_ONCE: usize = 32;

/// The workers, wherever they are.
///
/// They work on threads of their own while a block is under way that is large enough to be shared. At the end of
/// the block they come back; a small one does not leave the thread that executes it, since waking another one takes
/// as long as a dozen transactions.
#[derive(Debug)]
pub(crate) struct TrieSide {
    seat: Mutex<Seat>,
    /// A thread for each worker; none if there are to be no threads.
    links: Vec<Link>,
    threads: Vec<JoinHandle<()>>,
}

/// Where the workers are.
#[derive(Debug)]
enum Seat {
    /// With whoever calls.
    Here(Vec<Worker>),
    /// On their threads.
    Away,
    /// On their threads, and told to come back.
    Returning,
}

#[derive(Debug)]
struct Link {
    to_thread: Sender<Worker>,
    from_thread: Receiver<Worker>,
    work: Sender<Work>,
    hints: Sender<Hints>,
}

fn no_thread(error: io::Error) -> StateError {
    polytrie_kv::KvError::Engine {
        engine: "replica",
        action: "starting a worker",
        reason: error.to_string(),
    }
    .into()
}

impl TrieSide {
    pub(crate) fn start(
        store: &Store,
        flat: &Store,
        root: B256,
        options: &ReplicaOptions,
    ) -> Result<Self, StateError> {
        let count = options.workers.max(1);
        let setup = |root, peers, readers| Setup {
            store: store.clone(),
            root,
            peers,
            readers,
            cache_bytes: options.cache_bytes / count,
            #[cfg(test)]
            trouble: options.trouble.clone(),
        };
        let mut threads = Vec::new();
        let readers = match options.readers {
            count if count > 0 && options.workers > 0 => {
                Some(Readers::start(count, options.queue, store, flat, &mut threads)?)
            }
            _ => None,
        };
        let (others, parts): (Vec<_>, Vec<_>) = (1..count).map(|_| unbounded()).unzip();
        let first = Peers::First(parts);
        let mut workers = vec![Worker::new(setup(Some(root), first, readers.clone()))];
        for to_first in others {
            let peers = Peers::Other(to_first);
            workers.push(Worker::new(setup(None, peers, readers.clone())));
        }
        let mut links = Vec::new();
        for _ in 0..options.workers {
            links.push(Link::start(queue_of(options.queue), &mut threads)?);
        }
        Ok(Self { seat: Mutex::new(Seat::Here(workers)), links, threads })
    }

    /// Number of parts the tries are in.
    pub(crate) fn parts(&self) -> usize {
        self.links.len().max(1)
    }

    /// Whether hints have any effect.
    pub(crate) const fn takes_hints(&self) -> bool {
        !self.links.is_empty()
    }

    /// Whether the workers are on their threads.
    pub(crate) fn is_away(&self) -> bool {
        matches!(*self.seat.lock(), Seat::Away)
    }

    /// The part that an account's storage trie is in.
    pub(crate) fn part_of(&self, account: &B256) -> usize {
        usize::from(account[0]) % self.parts()
    }

    /// Hands hints to a worker; returns whether there was room for them.
    pub(crate) fn hint(&self, part: usize, hints: Hints) -> bool {
        // A worker that is gone says so when the block ends.
        self.send_away().is_ok()
            && self.links.get(part).is_some_and(|link| link.hints.try_send(hints).is_ok())
    }

    /// Hands writes to the workers, on their threads from now on if there are such.
    pub(crate) fn write(
        &self,
        writes: impl IntoIterator<Item = (usize, Writes)>,
        share: bool,
    ) -> Result<(), StateError> {
        if share {
            self.send_away()?;
        }
        writes.into_iter().try_for_each(|(part, writes)| self.send(part, Work::Writes(writes)))
    }

    /// Hands work to all workers.
    pub(crate) fn send_all(&self, work: impl Fn() -> Work) -> Result<(), StateError> {
        (0..self.parts()).try_for_each(|part| self.send(part, work()))
    }

    /// The rows of the oldest block that ended are in the store.
    pub(crate) fn accept(&self) -> Result<(), StateError> {
        let heavy = match &*self.arrived()? {
            Seat::Here(workers) => workers.iter().any(Worker::is_over_budget),
            _ => false,
        };
        // Making room takes a while; the next block need not wait for that.
        if heavy {
            self.send_away()?;
        }
        self.send_all(|| Work::Accept)
    }

    /// Asks for the root of what was written so far and waits for it.
    ///
    /// That happens after every transaction or never (receipts before Byzantium), so the workers come home: two
    /// threads that wait for each other all the time are slower than one.
    pub(crate) fn root(&self) -> Result<B256, StateError> {
        self.call_home()?;
        let (reply, root) = bounded(1);
        self.ask(reply, Work::Root)?;
        root.recv().map_err(|_| gone())?
    }

    /// Ends the block; the trie after it comes through the channel. With `go_on`, the next block begins before that: the
    /// workers do not come back.
    pub(crate) fn finish(
        &self,
        go_on: bool,
    ) -> Result<Receiver<Result<Sealed, StateError>>, StateError> {
        let (reply, sealed) = bounded(1);
        self.ask(reply, Work::Finish)?;
        if !go_on {
            self.call_home()?;
        }
        Ok(sealed)
    }

    fn ask<T>(
        &self,
        reply: Sender<T>,
        work: impl Fn(Option<Sender<T>>) -> Work,
    ) -> Result<(), StateError> {
        // The others first: the first one waits for them.
        (1..self.parts()).try_for_each(|part| self.send(part, work(None)))?;
        self.send(0, work(Some(reply)))
    }

    fn send(&self, part: usize, work: Work) -> Result<(), StateError> {
        match &mut *self.arrived()? {
            Seat::Here(workers) => {
                workers[part].handle(work);
                Ok(())
            }
            Seat::Away | Seat::Returning => self.links[part].work.send(work).map_err(|_| gone()),
        }
    }

    /// Where the workers are, when those that are on their way have come.
    fn arrived(&self) -> Result<MutexGuard<'_, Seat>, StateError> {
        let mut seat = self.seat.lock();
        if matches!(*seat, Seat::Returning) {
            *seat = Seat::Here(self.welcome()?);
        }
        Ok(seat)
    }

    /// The workers go to their threads, if they have any.
    fn send_away(&self) -> Result<(), StateError> {
        if self.links.is_empty() {
            return Ok(());
        }
        let mut seat = self.seat.lock();
        let workers = match std::mem::replace(&mut *seat, Seat::Away) {
            Seat::Here(workers) => workers,
            Seat::Returning => self.welcome()?,
            Seat::Away => return Ok(()),
        };
        for (worker, link) in workers.into_iter().zip(&self.links) {
            link.to_thread.send(worker).map_err(|_| gone())?;
        }
        Ok(())
    }

    /// The workers come back when they have done what was handed to them so far.
    fn call_home(&self) -> Result<(), StateError> {
        let mut seat = self.seat.lock();
        if !matches!(*seat, Seat::Away) {
            return Ok(());
        }
        self.links.iter().try_for_each(|link| link.work.send(Work::Home).map_err(|_| gone()))?;
        *seat = Seat::Returning;
        Ok(())
    }

    fn welcome(&self) -> Result<Vec<Worker>, StateError> {
        self.links.iter().map(|link| link.from_thread.recv().map_err(|_| gone())).collect()
    }
}

impl Link {
    /// A thread that works for whatever worker comes to it.
    fn start(queue: usize, threads: &mut Vec<JoinHandle<()>>) -> Result<Self, StateError> {
        let (to_thread, arrivals) = unbounded::<Worker>();
        let (departures, from_thread) = unbounded();
        let (work, to_do) = unbounded();
        let (hints, hinted) = bounded(queue);
        let life = move || {
            for mut worker in arrivals {
                // When nobody can send anything any more, the layer is closed.
                if !worker.run(&to_do, &hinted) || departures.send(worker).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("replica-trie".into()).spawn(life);
        threads.push(thread.map_err(no_thread)?);
        Ok(Self { to_thread, from_thread, work, hints })
    }
}

/// A queue is counted in hints, which travel in bundles.
fn queue_of(hints: usize) -> usize {
    (hints / HINTS_AT_ONCE).max(1)
}

impl Drop for TrieSide {
    fn drop(&mut self) {
        // Threads end when nobody can send them anything, readers when all workers have.
        *self.seat.get_mut() = Seat::Away;
        self.links.clear();
        for thread in self.threads.drain(..) {
            // A worker catches what goes wrong in its work; it has been told to whoever asked.
            let _ = thread.join();
        }
    }
}
