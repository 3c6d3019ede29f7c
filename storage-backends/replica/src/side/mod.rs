//! The trie side: the worker threads, which alone own the tries.
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
//! A trie always belongs to one worker, which its account's hash decides. Everything else moves through channels, so
//! there is nothing to lock, and the order of threads can change nothing: rows and roots are a function of the
//! writes, and each worker sees those in order.

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
use polytrie_kv::{KvError, Store, Worker as Thread};
use polytrie_state::{Result, WriteSet, ahead::Readers};
use polytrie_trie::Prefetcher;
use std::sync::{Arc, OnceLock, atomic::AtomicBool};
use worker::{Peers, Worker};

/// Number of hints that are sent together: waking a thread costs more than all of them.
pub(crate) const HINTS_AT_ONCE: usize = 32;

/// The workers, wherever they are.
///
/// They run on their threads while a block is in progress that is large enough to be shared. At the end of the block
/// they come back. A small block stays on the executing thread, since waking another one takes as long as a dozen
/// transactions. A chain of small blocks does not even start the threads.
#[derive(Debug)]
pub(crate) struct TrieSide {
    seat: Mutex<Seat>,
    /// Number of workers.
    parts: usize,
    /// Number of threads: one for each worker, or none.
    threads: usize,
    /// Number of bundles of hints that may wait for each worker.
    queue: usize,
    /// The threads, once they were needed.
    links: OnceLock<Vec<Link>>,
    /// Whether reads read paths, see `known.rs`.
    paths_pay: AtomicBool,
    pub(crate) readers: Arc<Readers>,
}

/// The place of the workers.
#[derive(Debug)]
enum Seat {
    /// The workers are here, and the calling thread runs them.
    Here(Vec<Worker>),
    /// The workers are on their threads.
    Away,
    /// The workers are on their threads, and were called back.
    Returning,
}

#[derive(Debug)]
struct Link {
    to_thread: Sender<Worker>,
    from_thread: Receiver<Worker>,
    work: Sender<Work>,
    hints: Sender<Hints>,
    thread: Thread,
}

/// The trie after an ended block.
#[derive(Debug)]
pub(crate) enum Sealing {
    /// The trie is computed.
    Done(Result<Sealed>),
    /// The trie is being computed.
    UnderWay(Receiver<Result<Sealed>>),
}

impl Sealing {
    /// Whether the trie can be received without waiting.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Done(_) => true,
            Self::UnderWay(sealed) => !sealed.is_empty(),
        }
    }
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
        let worker = |root, peers| {
            let source = Prefetcher::new(TRIE, store.clone(), Arc::clone(&readers));
            Worker::new(options, source, root, peers)
        };
        let (others, parts): (Vec<_>, Vec<_>) = (1..count).map(|_| unbounded()).unzip();
        let mut workers = vec![worker(Some(root), Peers::First(parts))];
        workers.extend(others.into_iter().map(|to_first| worker(None, Peers::Other(to_first))));
        Self {
            seat: Mutex::new(Seat::Here(workers)),
            parts: count,
            threads: options.workers,
            queue: (options.queue / HINTS_AT_ONCE).max(1),
            links: OnceLock::new(),
            paths_pay: AtomicBool::new(true),
            readers,
        }
    }

    /// Returns the number of parts that the tries are divided into.
    pub(crate) const fn parts(&self) -> usize {
        self.parts
    }

    /// Whether hints help the block that begins: if the store is slow, or if the workers are on their threads and
    /// idle. A block that may be small is executed faster without them.
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

    /// Returns the part that an account's storage trie is in.
    pub(crate) fn part_of(&self, account: &B256) -> usize {
        usize::from(account[0]) % self.parts()
    }

    /// Sends hints to a worker; returns whether there was room for them.
    pub(crate) fn hint(&self, part: usize, hints: Hints) -> bool {
        // The end of the block reports a worker that has ended.
        self.send_away().is_ok()
            && self.link(part).is_ok_and(|link| link.hints.try_send(hints).is_ok())
    }

    /// Sends all writes of a block, none of which was sent before.
    pub(crate) fn take(&self, writes: &WriteSet) -> Result<()> {
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

    /// Sends writes to the workers, which are on their threads from now on if there are any.
    fn write(&self, writes: impl IntoIterator<Item = (usize, Writes)>, share: bool) -> Result<()> {
        if share {
            self.send_away()?;
        }
        writes.into_iter().try_for_each(|(part, writes)| self.send(part, Work::Writes(writes)))
    }

    /// Sends a message to all workers.
    pub(crate) fn send_all(&self, work: impl Fn() -> Work) -> Result<()> {
        (0..self.parts()).try_for_each(|part| self.send(part, work()))
    }

    /// Notes that the rows of the oldest ended block are in the store.
    pub(crate) fn accept(&self) -> Result<()> {
        let heavy = match &*self.arrived()? {
            Seat::Here(workers) => workers.iter().any(Worker::is_over_budget),
            _ => false,
        };
        // Evicting nodes takes a while; the next block need not wait for that.
        if heavy {
            self.send_away()?;
        }
        self.send_all(|| Work::Accept)
    }

    /// Computes the root of the writes so far, and waits for it.
    ///
    /// This happens after every transaction or never (receipts before Byzantium), so the workers are called back: two
    /// threads that constantly wait for each other are slower than one.
    pub(crate) fn root(&self) -> Result<B256> {
        self.call_home()?;
        match &mut *self.arrived()? {
            Seat::Here(workers) => last_of(workers, Worker::root),
            Seat::Away | Seat::Returning => Err(gone()),
        }
    }

    /// Ends the block. With `go_on`, the next one begins before its trie is computed, and the workers stay on their
    /// threads.
    pub(crate) fn finish(&self, go_on: bool) -> Result<Sealing> {
        if let Seat::Here(workers) = &mut *self.arrived()? {
            return Ok(Sealing::Done(last_of(workers, Worker::finish)));
        }
        let (reply, sealed) = bounded(1);
        // The others come first, because the first one waits for them.
        (1..self.parts).try_for_each(|part| self.send(part, Work::Finish(None)))?;
        self.send(0, Work::Finish(Some(reply)))?;
        if !go_on {
            self.call_home()?;
        }
        Ok(Sealing::UnderWay(sealed))
    }

    fn send(&self, part: usize, work: Work) -> Result<()> {
        match &mut *self.arrived()? {
            Seat::Here(workers) => {
                workers[part].handle(work);
                Ok(())
            }
            Seat::Away | Seat::Returning => self.link(part)?.work.send(work).map_err(|_| gone()),
        }
    }

    /// Returns the place of the workers, after waiting for those that were called back.
    fn arrived(&self) -> Result<MutexGuard<'_, Seat>> {
        let mut seat = self.seat.lock();
        if matches!(*seat, Seat::Returning) {
            *seat = Seat::Here(self.welcome()?);
        }
        Ok(seat)
    }

    /// Sends the workers to their threads, if they have any.
    fn send_away(&self) -> Result<()> {
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

    /// Calls the workers back; they come when they have processed all earlier messages.
    fn call_home(&self) -> Result<()> {
        let mut seat = self.seat.lock();
        if !matches!(*seat, Seat::Away) {
            return Ok(());
        }
        self.links()?.iter().try_for_each(|link| link.work.send(Work::Home).map_err(|_| gone()))?;
        *seat = Seat::Returning;
        Ok(())
    }

    fn welcome(&self) -> Result<Vec<Worker>> {
        self.links()?.iter().map(|link| link.from_thread.recv().map_err(|_| gone())).collect()
    }

    fn link(&self, part: usize) -> Result<&Link> {
        self.links()?.get(part).ok_or_else(gone)
    }

    /// Returns the threads, and starts them if necessary.
    fn links(&self) -> Result<&[Link]> {
        if let Some(links) = self.links.get() {
            return Ok(links);
        }
        let started = (0..self.threads).map(|_| Link::start(self.queue));
        let started = started.collect::<Result<Vec<_>, _>>()?;
        // If another call was faster, these threads end at once.
        Ok(self.links.get_or_init(|| started))
    }
}

impl Link {
    /// Starts a thread that runs any worker sent to it.
    fn start(queue: usize) -> Result<Self, KvError> {
        let (to_thread, arrivals) = unbounded::<Worker>();
        let (departures, from_thread) = unbounded();
        let (work, to_do) = unbounded();
        let (hints, hinted) = bounded(queue);
        let life = move || {
            for mut worker in arrivals {
                // The channels are closed when the layer is.
                if !worker.run(&to_do, &hinted) || departures.send(worker).is_err() {
                    return;
                }
            }
        };
        let thread = Thread::start("replica-trie", life)?;
        Ok(Self { to_thread, from_thread, work, hints, thread })
    }
}

/// Runs an action of all workers, the first one last: it waits for the results of the others, and returns the joint
/// one.
fn last_of<T>(
    workers: &mut [Worker],
    action: impl Fn(&mut Worker) -> Result<Option<T>>,
) -> Result<T> {
    let (first, others) = workers.split_first_mut().ok_or_else(gone)?;
    for other in others {
        // If one of them fails, the first one receives its error.
        let _ = action(other);
    }
    action(first)?.ok_or_else(gone)
}

impl Drop for TrieSide {
    fn drop(&mut self) {
        // The threads end when their channels are closed.
        *self.seat.get_mut() = Seat::Away;
        let links = self.links.take().unwrap_or_default();
        // All channels are closed before the first thread is waited for.
        let _threads: Vec<_> = links.into_iter().map(|link| link.thread).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReplicaLayer;
    use alloy_primitives::Address;
    use polytrie_state::{Account, AccountChange, StateLayer, hash_address};
    use polytrie_testing::suite::finished;

    /// Blocks that are dropped keep within the budget, too: what they have read stays in memory.
    #[test]
    fn the_budget_is_kept_while_blocks_are_dropped() {
        const ACCOUNTS: u64 = 50;
        const BLOCKS: u64 = 200;
        let store = Store::memory(ReplicaLayer::TABLES).expect("a store");
        let options =
            ReplicaOptions { cache_bytes: 600_000, workers: 0, ..ReplicaOptions::default() };
        let layer = ReplicaLayer::open(store.clone(), options.clone()).expect("the layer opens");
        let address = |n: u64| Address::left_padding_from(&n.to_be_bytes());
        let account = Some(Account { nonce: 1, ..Account::default() });
        let change = |n: u64| {
            let (address, slots) = (address(n), Vec::new());
            AccountChange { address, account, wiped: false, code: None, slots }
        };
        let accounts = (0..ACCOUNTS * BLOCKS).map(change).collect();
        finished(&*layer, 0, accounts).write(&store).expect("accepted");
        let root = layer.commitment().digest();
        let side = TrieSide::new(&store, root, &options);
        for block in 0..BLOCKS {
            side.send_all(|| Work::Begin).expect("the workers are here");
            for n in ACCOUNTS * block..ACCOUNTS * (block + 1) {
                let found = side.account(&hash_address(&address(n))).expect("a read");
                assert_eq!(found, Some(account));
            }
            side.send_all(|| Work::Reset(root)).expect("the workers are here");
            let seat = side.seat.lock();
            let Seat::Here(workers) = &*seat else { panic!("there are no threads") };
            assert!(!workers.iter().any(Worker::is_over_budget), "dropped block {block}");
        }
    }
}
