//! The connected prefetchers, the blocks that each has to work on, and the bags that have come.

use super::{FARTHEST, SPARE};
use crate::prefetch::{
    PrefetchError,
    wire::{AnnouncedBlock, BLOCK_BYTES, Hello, Message, VERSION},
};
use alloy_primitives::B256;
use crossbeam_channel::Sender;
use parking_lot::{Condvar, Mutex};
use polytrie_chain::Candidate;
use polytrie_layers as layers;
use polytrie_state::StateLayer;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Number of prefetchers that may be connected at a time.
pub(super) const MOST_PREFETCHERS: usize = 16;
/// Number of blocks that one prefetcher may have at a time: one to work on, and one so that it need not wait. So a slow one
/// gets few blocks, and others get the rest.
pub(super) const AT_A_TIME: usize = 2;
/// Number of frames that may wait to be sent to one prefetcher: its blocks, and news of the store.
pub(super) const OUTBOX: usize = AT_A_TIME + 4;
/// Time within which prefetchers must end after the node is done.
pub(super) const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) hello: Hello,
    pub(super) layer: Arc<dyn StateLayer>,
    pub(super) open: Mutex<Vec<Connection>>,
    /// Lock that is held while a bag is decoded and hashed, so that only one bag at a time takes time and memory.
    pub(super) turn: Mutex<()>,
    /// The time at which the node was done.
    pub(super) ended: OnceLock<Instant>,
    pub(super) connected: AtomicU64,
    pub(super) announced: AtomicU64,
    /// Number of blocks that were executed.
    pub(super) executed: AtomicUsize,
    /// Number of the last block that has begun its turn.
    pub(super) turn_of: AtomicU64,
    /// Current least distance between the announcement of a block and its turn, in blocks. It is zero as long as bags come in
    /// time.
    pub(super) nearest: AtomicUsize,
    /// Numbers of the blocks, from the last turn on, whose bags have come.
    pub(super) came: Mutex<BTreeSet<u64>>,
    /// Numbers of the blocks, from the last turn on, whose prefetcher has left or is away, and that no other one has. Locked
    /// after all other locks.
    pub(super) abandoned: Mutex<BTreeSet<u64>>,
    /// Signals that a bag has come, or that a prefetcher has left or is away.
    pub(super) news: Condvar,
}

/// A prefetcher that said hello.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) outbox: Sender<Arc<Vec<u8>>>,
    pub(super) work: Arc<Work>,
}

/// The blocks of a prefetcher, and how it does with them.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The blocks without their bag, in the order in which they were announced.
    pub(super) due: Mutex<VecDeque<DueBlock>>,
    /// Whether its last bag came too late, or a block has waited for one in vain.
    pub(super) is_late: AtomicBool,
    /// The time since which it has no store open, as it says. Changes while the connections are locked.
    pub(super) away: Mutex<Option<Instant>>,
    /// The time for which it was away before, since it last sent a bag or had none to send.
    pub(super) was_away: Mutex<Duration>,
}

impl Work {
    /// Returns the time for which it is away, together with that before; `None` if it has a store open.
    pub(super) fn away_for(&self, now: Instant) -> Option<Duration> {
        let since = (*self.away.lock())?;
        Some(*self.was_away.lock() + now.saturating_duration_since(since))
    }
}

impl Connection {
    pub(super) fn is_late(&self) -> bool {
        self.work.is_late.load(Relaxed)
    }

    pub(super) fn is_away(&self) -> bool {
        self.work.away.lock().is_some()
    }

    /// Whether it works on this block.
    pub(super) fn has(&self, number: u64) -> bool {
        !self.is_away() && self.work.due.lock().iter().any(|block| block.number == number)
    }

    /// Whether it takes one more block. A prefetcher that sends bags and reads no frames has few blocks, and a full outbox.
    pub(super) fn has_time(&self) -> bool {
        !self.is_away() && self.work.due.lock().len() < AT_A_TIME && !self.outbox.is_full()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct DueBlock {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) since: Instant,
    /// Number of blocks that were executed before it was announced.
    pub(super) executed: usize,
}

impl Shared {
    pub(super) fn new(genesis: B256, layer: Arc<dyn StateLayer>) -> Result<Self, PrefetchError> {
        let hello = Hello {
            version: VERSION,
            genesis,
            layer: layer.name().to_owned(),
            levels: layers::bags(&*layer)?.levels_kept(),
        };
        Ok(Self {
            hello,
            layer,
            open: Mutex::default(),
            turn: Mutex::default(),
            ended: OnceLock::new(),
            connected: AtomicU64::new(0),
            announced: AtomicU64::new(0),
            executed: AtomicUsize::new(0),
            turn_of: AtomicU64::new(0),
            nearest: AtomicUsize::new(0),
            came: Mutex::default(),
            abandoned: Mutex::default(),
            news: Condvar::new(),
        })
    }

    /// Announces a block to the prefetcher with the fewest blocks, or to one that is late if no other has time; `false` if
    /// none has. A block that is too large for a frame is left out.
    pub(super) fn announce(&self, block: &Candidate) -> bool {
        let open = self.open.lock();
        let load = |of: &&Connection| (of.is_late(), of.work.due.lock().len());
        let to = open.iter().filter(|of| of.has_time()).min_by_key(load);
        to.is_some_and(|to| self.announce_to(to, block))
    }

    /// Announces a block again, if its bag has not come, only prefetchers that are late have it and another one has time.
    pub(super) fn announce_again(&self, block: &Candidate) {
        let number = block.header.number;
        if self.came.lock().contains(&number) {
            return;
        }
        let open = self.open.lock();
        let mut have = open.iter().filter(|of| of.has(number)).peekable();
        if have.peek().is_none() || !have.all(Connection::is_late) {
            return;
        }
        if let Some(to) = open.iter().find(|of| !of.is_late() && of.has_time()) {
            self.announce_to(to, block);
        }
    }

    pub(super) fn announce_to(&self, connection: &Connection, block: &Candidate) -> bool {
        let Ok(senders) = block.senders() else { return true };
        let (number, hash) = (block.header.number, block.header.hash());
        let announced = AnnouncedBlock { hash, rlp: block.rlp.clone(), senders: senders.to_vec() };
        let frame = Message::Block(announced).encode();
        if frame.len() > BLOCK_BYTES {
            return true;
        }
        // The block is recorded before the bag can come.
        let (since, executed) = (Instant::now(), self.executed.load(Relaxed));
        connection.work.due.lock().push_back(DueBlock { number, hash, since, executed });
        let is_sent = connection.outbox.try_send(Arc::new(frame)).is_ok();
        if is_sent {
            self.announced.fetch_add(1, Relaxed);
            self.abandoned.lock().remove(&number);
        } else {
            connection.work.due.lock().pop_back();
        }
        is_sent
    }

    /// Whether a prefetcher that is not late is at work on a block.
    pub(super) fn expects(&self, number: u64) -> bool {
        self.open.lock().iter().any(|of| !of.is_late() && of.has(number))
    }

    /// Whether no other prefetcher could have been in time.
    pub(super) fn are_all_late(&self) -> bool {
        self.open.lock().iter().all(|of| of.is_late() || of.is_away())
    }

    /// Whether there is a prefetcher that takes blocks.
    pub(super) fn is_any_ready(&self) -> bool {
        self.open.lock().iter().any(|of| !of.is_away())
    }

    /// Notes that a block has waited in vain.
    pub(super) fn is_late_with(&self, number: u64) {
        for connection in self.open.lock().iter().filter(|of| of.has(number)) {
            connection.work.is_late.store(true, Relaxed);
        }
    }

    /// Records that a bag came too late, and that so many blocks were executed after the announcement of its block: the
    /// next ones are announced as early as that.
    pub(super) fn was_late(&self, blocks: usize) {
        let nearest = (blocks + SPARE).max(self.nearest.load(Relaxed).saturating_sub(1));
        self.nearest.store(nearest.min(FARTHEST - 1), Relaxed);
    }

    /// Records that a bag came in time: the least distance is one block shorter.
    pub(super) fn was_in_time(&self) {
        self.nearest.store(self.nearest.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// Records that the bag of a block is there, which a prefetcher has to work on no more, and whether it is late.
    pub(super) fn came(&self, work: &Work, number: u64, is_late: bool) {
        // A block that waits finds its bag here or on its way.
        let mut came = self.came.lock();
        work.due.lock().pop_front();
        *work.was_away.lock() = Duration::ZERO;
        if !is_late {
            came.insert(number);
            self.abandoned.lock().remove(&number);
        }
        self.news.notify_all();
    }

    /// Whether the grace after the end of the node is over.
    pub(super) fn is_over(&self) -> bool {
        self.ended.get().is_some_and(|ended| ended.elapsed() > GRACE)
    }

    /// Adds a connection, unless all places are taken. Returns whether there was a place.
    pub(super) fn enter(&self, connection: Connection) -> bool {
        let mut open = self.open.lock();
        let has_place = open.len() < MOST_PREFETCHERS;
        // A connection that comes after the end would never be dropped.
        if has_place && self.ended.get().is_none() {
            self.connected.fetch_add(1, Relaxed);
            open.push(connection);
        }
        has_place
    }

    pub(super) fn leave(&self, number: u64) {
        let (came, mut open) = (self.came.lock(), self.open.lock());
        if let Some(place) = open.iter().position(|of| of.number == number) {
            let left = open.remove(place);
            self.abandon(&came, &open, &left.work);
        }
    }

    /// Records that a prefetcher has no store open from now on.
    pub(super) fn is_gone(&self, work: &Work) {
        let (came, open) = (self.came.lock(), self.open.lock());
        let mut away = work.away.lock();
        // One that has sent all its bags may open states as often as it likes.
        if away.is_none() && work.due.lock().is_empty() {
            *work.was_away.lock() = Duration::ZERO;
        }
        away.get_or_insert_with(Instant::now);
        drop(away);
        self.abandon(&came, &open, work);
    }

    /// Records that a prefetcher has a store open again.
    pub(super) fn is_back(&self, work: &Work) {
        let _open = self.open.lock();
        let Some(since) = work.away.lock().take() else { return };
        let was_away = since.elapsed();
        *work.was_away.lock() += was_away;
        for block in &mut *work.due.lock() {
            // The time that it was away is not counted, and that before is: otherwise it could go away each time.
            block.since += was_away;
            block.executed = self.executed.load(Relaxed);
            self.abandoned.lock().remove(&block.number);
        }
    }

    /// Leaves the blocks of a prefetcher to the others, if their bags have not come.
    fn abandon(&self, came: &BTreeSet<u64>, open: &[Connection], work: &Work) {
        let due: Vec<u64> = work.due.lock().iter().map(|block| block.number).collect();
        let is_taken =
            |number: &u64| came.contains(number) || open.iter().any(|of| of.has(*number));
        let left: Vec<u64> = due.into_iter().filter(|number| !is_taken(number)).collect();
        self.abandoned.lock().extend(left);
        // A block may wait for a bag of this one.
        self.news.notify_all();
    }

    /// Whether a block was announced, and no prefetcher works on it any more.
    pub(super) fn is_abandoned(&self, number: u64) -> bool {
        self.abandoned.lock().contains(&number)
    }

    /// Forgets the blocks before this one.
    pub(super) fn forget_until(&self, number: u64) {
        for blocks in [&self.came, &self.abandoned] {
            let mut blocks = blocks.lock();
            *blocks = blocks.split_off(&number);
        }
    }
}
