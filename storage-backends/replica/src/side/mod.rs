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
//!                                       where the store is slow: paths that are missing are read ahead (`trie`)
//! ```
//!
//! A trie is owned by one worker for good: which one, its account's hash says. Everything else moves through
//! channels, so there is nothing to lock and nothing that the order of threads could change: rows and roots
//! are a function of the writes, and each worker sees those in order.

mod accounts;
mod effort;
mod known;
mod message;
mod outbox;
mod storage;
mod worker;

pub(crate) use message::{Hints, Sealed, Work};
pub(crate) use outbox::Outbox;

use crate::{TRIE, error::gone, options::ReplicaOptions};
use alloy_primitives::B256;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use message::Writes;
use parking_lot::{Mutex, MutexGuard};
use polytrie_kv::Store;
use polytrie_state::{StateError, WriteSet};
use polytrie_trie::{Prefetcher, Readers};
use std::{
    io,
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
};
use worker::{Peers, Setup, Worker};

/// Hints that travel together: waking a thread costs more than all of them.
pub(crate) const HINTS_AT_ONCE: usize = 32;

/// The workers, wherever they are.
///
/// They work on threads of their own while a block is under way that is large enough to be shared. At the end of
/// the block they come back; a small one does not leave the thread that executes it, since waking another one takes
/// as long as a dozen transactions. A chain of small blocks does not even start the threads.
#[derive(Debug)]
pub(crate) struct TrieSide {
    seat: Mutex<Seat>,
    /// Number of workers.
    parts: usize,
    /// Number of threads: one for each worker, or none.
    threads: usize,
    /// Hints that may wait for each worker.
    queue: usize,
    /// The threads, once they are needed.
    links: OnceLock<Vec<Link>>,
    pub(crate) readers: Arc<Readers>,
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
    thread: JoinHandle<()>,
}

/// The trie after a block that has ended.
#[derive(Debug)]
pub(crate) enum Sealing {
    /// It is there.
    Done(Result<Sealed, StateError>),
    /// It will come.
    UnderWay(Receiver<Result<Sealed, StateError>>),
}

impl Sealing {
    /// Whether nobody would have to wait for it.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Done(_) => true,
            Self::UnderWay(sealed) => !sealed.is_empty(),
        }
    }
}

fn no_thread(error: io::Error) -> StateError {
    polytrie_kv::KvError::thread(error).into()
}

impl TrieSide {
    pub(crate) fn new(store: &Store, root: B256, options: &ReplicaOptions) -> Self {
        let count = options.workers.max(1);
        #[cfg(test)]
        let always = options.trouble.as_ref().is_some_and(|trouble| trouble.slow_store);
        #[cfg(not(test))]
        let always = false;
        let readers = if options.workers > 0 { options.readers } else { 0 };
        let readers = Arc::new(Readers::new(readers, always));
        let setup = |root, peers| Setup {
            source: Prefetcher::new(TRIE, store.clone(), Arc::clone(&readers)),
            root,
            peers,
            cache_bytes: options.cache_bytes / count,
            #[cfg(test)]
            trouble: options.trouble.clone(),
        };
        let (others, parts): (Vec<_>, Vec<_>) = (1..count).map(|_| unbounded()).unzip();
        let mut workers = vec![Worker::new(setup(Some(root), Peers::First(parts)))];
        let others =
            others.into_iter().map(|to_first| Worker::new(setup(None, Peers::Other(to_first))));
        workers.extend(others);
        Self {
            seat: Mutex::new(Seat::Here(workers)),
            parts: count,
            threads: options.workers,
            queue: queue_of(options.queue),
            links: OnceLock::new(),
            readers,
        }
    }

    /// Number of parts the tries are in.
    pub(crate) const fn parts(&self) -> usize {
        self.parts
    }

    /// Whether hints help the block that begins: where the store is slow, and where the workers are on their threads, with
    /// nothing to do yet. A block that may be small is executed sooner without them.
    pub(crate) fn wants_hints(&self) -> bool {
        match &*self.seat.lock() {
            Seat::Here(_) => self.readers.is_slow(),
            Seat::Away | Seat::Returning => true,
        }
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
            && self.link(part).is_ok_and(|link| link.hints.try_send(hints).is_ok())
    }

    /// Hands over all that a block writes, if none of it was before.
    pub(crate) fn take(&self, writes: &WriteSet) -> Result<(), StateError> {
        if let Seat::Here(workers) = &mut *self.arrived()? {
            for (part, worker) in workers.iter_mut().enumerate() {
                worker.take(writes, |account| self.part_of(account) == part);
            }
            return Ok(());
        }
        let mut out = Outbox::default();
        for write in writes.accounts() {
            out.push(write.clone(), self);
        }
        out.send(self, false)
    }

    /// Hands writes to the workers, on their threads from now on if there are such.
    fn write(
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
        match &mut *self.arrived()? {
            Seat::Here(workers) => last_of(workers, Worker::root),
            Seat::Away | Seat::Returning => Err(gone()),
        }
    }

    /// Ends the block. With `go_on`, the next one begins before its trie is there: the workers do not come back.
    pub(crate) fn finish(&self, go_on: bool) -> Result<Sealing, StateError> {
        if let Seat::Here(workers) = &mut *self.arrived()? {
            return Ok(Sealing::Done(last_of(workers, Worker::finish)));
        }
        let (reply, sealed) = bounded(1);
        // The others first: the first one waits for them.
        (1..self.parts).try_for_each(|part| self.send(part, Work::Finish(None)))?;
        self.send(0, Work::Finish(Some(reply)))?;
        if !go_on {
            self.call_home()?;
        }
        Ok(Sealing::UnderWay(sealed))
    }

    fn send(&self, part: usize, work: Work) -> Result<(), StateError> {
        match &mut *self.arrived()? {
            Seat::Here(workers) => {
                workers[part].handle(work);
                Ok(())
            }
            Seat::Away | Seat::Returning => self.link(part)?.work.send(work).map_err(|_| gone()),
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
        if self.threads == 0 {
            return Ok(());
        }
        let mut seat = self.seat.lock();
        if matches!(*seat, Seat::Away) {
            return Ok(());
        }
        let links = self.links()?;
        let workers = match std::mem::replace(&mut *seat, Seat::Away) {
            Seat::Here(workers) => workers,
            Seat::Returning => self.welcome()?,
            Seat::Away => return Ok(()),
        };
        for (worker, link) in workers.into_iter().zip(links) {
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
        self.links()?.iter().try_for_each(|link| link.work.send(Work::Home).map_err(|_| gone()))?;
        *seat = Seat::Returning;
        Ok(())
    }

    fn welcome(&self) -> Result<Vec<Worker>, StateError> {
        self.links()?.iter().map(|link| link.from_thread.recv().map_err(|_| gone())).collect()
    }

    fn link(&self, part: usize) -> Result<&Link, StateError> {
        self.links()?.get(part).ok_or_else(gone)
    }

    /// The threads; they are started now if they were not.
    fn links(&self) -> Result<&[Link], StateError> {
        if let Some(links) = self.links.get() {
            return Ok(links);
        }
        let started: Result<_, _> = (0..self.threads).map(|_| Link::start(self.queue)).collect();
        let started = started.map_err(no_thread)?;
        // If somebody else was faster, these threads end at once.
        Ok(self.links.get_or_init(|| started))
    }
}

impl Link {
    /// A thread that works for whatever worker comes to it.
    fn start(queue: usize) -> io::Result<Self> {
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
        let thread = thread::Builder::new().name("replica-trie".into()).spawn(life)?;
        Ok(Self { to_thread, from_thread, work, hints, thread })
    }
}

/// Has all workers do something, the first one last: it waits for what the others tell it, and has the result.
fn last_of<T>(
    workers: &mut [Worker],
    action: impl Fn(&mut Worker) -> Result<Option<T>, StateError>,
) -> Result<T, StateError> {
    let (first, others) = workers.split_first_mut().ok_or_else(gone)?;
    for other in others {
        // If one fails, the first hears of it.
        let _ = action(other);
    }
    action(first)?.ok_or_else(gone)
}

/// A queue is counted in hints, which travel in bundles.
fn queue_of(hints: usize) -> usize {
    (hints / HINTS_AT_ONCE).max(1)
}

impl Drop for TrieSide {
    fn drop(&mut self) {
        // Threads end when no more can be sent to them.
        *self.seat.get_mut() = Seat::Away;
        let links = self.links.take().unwrap_or_default();
        let threads: Vec<_> = links.into_iter().map(|link| link.thread).collect();
        for thread in threads {
            // A worker catches what goes wrong in its work; it has been told to whoever asked.
            let _ = thread.join();
        }
    }
}
