//! The node's side: it accepts prefetchers, announces blocks to them, and hands their bags to the layer.

use super::{
    PrefetchError,
    wire::{
        AnnouncedBlock, BAG_BYTES, BLOCK_BYTES, HELLO_BYTES, Hello, Message, SentBag, VERSION,
        WireError, notice_loss, read_raw,
    },
};
use crate::import::Upcoming;
use alloy_primitives::B256;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Condvar, Mutex};
use polytrie_chain::{Candidate, Chain};
use polytrie_kv::{Worker, caught};
use polytrie_layers as layers;
use polytrie_state::{BagCounts, StateLayer};
use serde::Serialize;
use std::{
    collections::{BTreeSet, VecDeque},
    io::{self, Read, Write},
    iter,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Number of blocks by which blocks are announced earlier than the last late bag took; and least number of blocks without
/// a node after which prefetchers count as idle.
const SPARE: usize = 4;
/// Blocks are announced at most so many blocks before their execution.
const FARTHEST: usize = 64;
/// Number of blocks that one prefetcher may have at a time: one to work on, and one so that it need not wait. So a slow one
/// gets few blocks, and others get the rest.
const AT_A_TIME: usize = 2;
/// Most time for which a block waits for its bag.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Time in which a prefetcher has opened a newer state, also where hardly a block is executed meanwhile. Tests may stand
/// still for longer.
const OPENING: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 10 });
/// Number of frames that may wait to be sent to one prefetcher: its blocks, and news of the store.
const OUTBOX: usize = AT_A_TIME + 4;
/// Number of prefetchers that may be connected at a time.
const MOST_PREFETCHERS: usize = 16;
/// Number of connections that may be open at a time, with those that have not said hello or learn that they are too many.
const MOST_CONNECTIONS: usize = 2 * MOST_PREFETCHERS;
/// Interval at which a thread that waits for a connection checks whether it should go on.
const TICK: Duration = Duration::from_millis(50);
/// Time within which a new connection must send its hello. A prefetcher sends it at once, but its machine may stand still for
/// some seconds.
const GREETING: Duration = Duration::from_secs(60);
/// Time within which a bag must come, and a frame must be received.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time within which prefetchers must end after the node is done.
const GRACE: Duration = Duration::from_secs(2);

/// The prefetchers of a node.
#[derive(Debug)]
pub struct Prefetchers {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// The thread that accepts connections. Its drop waits until they are closed.
    acceptor: Option<Worker>,
    /// Number of the last block that was announced.
    announced: u64,
    /// The durable progress of the store that prefetchers are informed of.
    durable: u64,
    informing: Informing,
    /// Number of nodes that had come in time when the last block was executed.
    brought: u64,
    /// Number of blocks that were executed since that number grew, while there were prefetchers.
    idle: usize,
    /// Beginning of the turn of a block without a bag and its number of transactions, if it is such a block's turn.
    alone_since: Option<(Instant, u32)>,
    /// Time that each transaction of the last block without a bag took. A block waits for no longer than its transactions
    /// would take like that.
    alone: Duration,
}

/// The work that prefetchers have done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefetcherReport {
    /// Number of connections that said hello.
    pub connected: u64,
    /// Number of announcements. A block is announced to one prefetcher, and again to another one if the first is late.
    pub announced: u64,
    /// The bags and nodes that they sent.
    #[serde(flatten)]
    pub sent: BagCounts,
}

#[derive(Debug)]
struct Shared {
    hello: Hello,
    layer: Arc<dyn StateLayer>,
    open: Mutex<Vec<Connection>>,
    /// Lock that is held while a bag is decoded and hashed, so that only one bag at a time takes time and memory.
    turn: Mutex<()>,
    /// The time at which the node was done.
    ended: OnceLock<Instant>,
    connected: AtomicU64,
    announced: AtomicU64,
    /// Number of blocks that were executed.
    executed: AtomicUsize,
    /// Number of the last block whose turn has begun.
    turn_of: AtomicU64,
    /// Current least distance between the announcement of a block and its turn, in blocks. It is zero as long as bags come in
    /// time.
    nearest: AtomicUsize,
    /// Numbers of the blocks, from the last turn on, whose bags have come.
    came: Mutex<BTreeSet<u64>>,
    /// Signals that a bag has come, or that a prefetcher has left.
    news: Condvar,
}

/// A prefetcher that said hello.
#[derive(Debug)]
struct Connection {
    number: u64,
    outbox: Sender<Arc<Vec<u8>>>,
    due: Due,
    /// Whether its last bag came too late, or a block has waited for one in vain.
    is_late: Arc<AtomicBool>,
}

impl Connection {
    fn is_late(&self) -> bool {
        self.is_late.load(Relaxed)
    }

    /// Whether it has this block to work on.
    fn has(&self, number: u64) -> bool {
        self.due.lock().iter().any(|block| block.number == number)
    }

    /// Whether it takes one more block. A prefetcher that sends bags and reads no frames has few blocks, and a full outbox.
    fn has_time(&self) -> bool {
        self.due.lock().len() < AT_A_TIME && !self.outbox.is_full()
    }
}

/// The blocks of a prefetcher whose bag has not come, in the order in which they were announced.
type Due = Arc<Mutex<VecDeque<DueBlock>>>;

#[derive(Debug, Clone, Copy)]
struct DueBlock {
    number: u64,
    hash: B256,
    since: Instant,
    /// Number of blocks that were executed before it was announced.
    executed: usize,
}

impl Prefetchers {
    /// Listens on an address. Called before other work, so that an address in use is reported first.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on.
    pub fn bind(address: SocketAddr) -> Result<TcpListener, PrefetchError> {
        TcpListener::bind(address).map_err(|source| PrefetchError::Listen { address, source })
    }

    /// Starts to accept prefetchers for the blocks that will be executed on a chain.
    ///
    /// # Errors
    ///
    /// If the layer does not support prefetchers, or the system gives no thread.
    pub fn start(listener: TcpListener, chain: &Chain) -> Result<Self, PrefetchError> {
        let layer = Arc::clone(chain.layer());
        let durable = chain.db().store().progress().durable;
        Self::of(listener, chain.spec().genesis_hash(), layer, durable)
    }

    pub(super) fn of(
        listener: TcpListener,
        genesis: B256,
        layer: Arc<dyn StateLayer>,
        durable: u64,
    ) -> Result<Self, PrefetchError> {
        let shared = Arc::new(Shared::new(genesis, layer)?);
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let failed = |source| PrefetchError::Listen { address: unknown, source };
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let acceptor = {
            let shared = Arc::clone(&shared);
            Worker::start("prefetchers", move || accept(&shared, &listener))?
        };
        let acceptor = Some(acceptor);
        let (alone_since, alone) = (None, Duration::ZERO);
        let (announced, brought, idle) = (0, 0, 0);
        let informing = Informing::default();
        Ok(Self {
            address,
            shared,
            acceptor,
            announced,
            durable,
            informing,
            brought,
            idle,
            alone_since,
            alone,
        })
    }

    /// Returns the address on which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether there are prefetchers, and bring nodes in time. They are idle if none has come for more blocks than lie
    /// between the announcement of a block and its turn: they may hang, wait for a store, or be far too slow.
    pub fn read_ahead(&self) -> bool {
        self.are_connected() && self.idle <= self.shared.nearest.load(Relaxed).max(SPARE)
    }

    fn are_connected(&self) -> bool {
        !self.shared.open.lock().is_empty()
    }

    /// Begins the turn of a block: announces those after it, and waits for its bag if a prefetcher is at work on it. The
    /// wait is no longer than a block takes without a bag. Reading beside the prefetcher would read each row twice.
    pub fn begin(&mut self, block: &Candidate, upcoming: &mut impl Upcoming) {
        self.announce(upcoming);
        let (number, transactions) = (block.header.number, block.block.body.transactions.len());
        // No block has as many transactions as would not fit.
        let transactions = u32::try_from(transactions).unwrap_or(u32::MAX);
        let patience = self.alone.saturating_mul(transactions).min(LONGEST_WAIT);
        let is_alone = transactions > 0 && !self.wait(number, patience, upcoming);
        self.shared.turn_of.store(number, Relaxed);
        self.alone_since = is_alone.then(|| (Instant::now(), transactions));
    }

    /// Waits for the bag of a block, and goes on announcing others. Returns whether it has come.
    pub(super) fn wait(
        &mut self,
        number: u64,
        patience: Duration,
        upcoming: &mut impl Upcoming,
    ) -> bool {
        let (shared, until) = (Arc::clone(&self.shared), Instant::now() + patience);
        loop {
            {
                let mut came = shared.came.lock();
                if came.contains(&number) {
                    return true;
                }
                if patience.is_zero() || !self.read_ahead() || !shared.expects(number) {
                    return false;
                }
                if shared.news.wait_until(&mut came, until).timed_out() {
                    shared.is_late_with(number);
                    return came.contains(&number);
                }
            }
            // The prefetcher that sent a bag has time for another block.
            self.announce(upcoming);
        }
    }

    /// Announces blocks that are executed soon, in their order and as many as prefetchers have time for. Each goes to one of
    /// them, and again to another one if the first is late. Those whose bags would be late go to none.
    pub fn announce(&mut self, upcoming: &mut impl Upcoming) {
        if !self.are_connected() {
            return;
        }
        let (before, nearest) = (self.announced, self.shared.nearest.load(Relaxed));
        for place in 0..FARTHEST {
            let Some(next) = upcoming.peek(place) else {
                // A pipe may never have so many blocks, and without bags nothing would show that they take less by now.
                if self.announced == before {
                    self.shared.was_in_time();
                }
                return;
            };
            let number = next.header.number;
            if next.block.body.transactions.is_empty() {
                continue;
            }
            if number <= self.announced {
                self.shared.announce_again(next);
            } else if place >= nearest {
                if !self.shared.announce(next) {
                    return;
                }
                self.announced = number;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn connected(&self) -> u64 {
        self.shared.connected.load(Relaxed)
    }

    #[cfg(test)]
    pub(super) fn was_late(&self, blocks: usize) {
        self.shared.was_late(blocks);
    }

    /// Ends the turn of the blocks up to the head, and informs prefetchers if a newer state is durable than before. The turn
    /// of a block whose root is that of a group lasts until the group ends, as the root takes its nodes.
    pub fn executed(&mut self, chain: &Chain) {
        self.shared.executed.fetch_add(1, Relaxed);
        if let Some((since, transactions)) = self.alone_since.take() {
            self.alone = since.elapsed() / transactions;
        }
        {
            let mut came = self.shared.came.lock();
            *came = came.split_off(&self.shared.turn_of.load(Relaxed));
        }
        if let Some(bags) = self.shared.layer.bags() {
            bags.over(chain.head().number());
            let brought = bags.counts().nodes;
            self.count(brought);
        }
        let durable = chain.db().store().progress().durable;
        if durable > self.durable {
            self.durable = durable;
            self.informing.begin(&self.shared);
        }
        self.informing.go_on(&self.shared);
    }

    /// Counts a block that was executed, by the number of nodes that have come in time so far.
    pub(super) fn count(&mut self, brought: u64) {
        let is_idle = brought == self.brought && self.are_connected();
        let idle = if is_idle { self.idle + 1 } else { 0 };
        (self.brought, self.idle) = (brought, idle);
    }

    /// Tells prefetchers that the node is done, and waits until their connections are closed.
    pub fn finish(mut self) -> PrefetcherReport {
        self.end();
        PrefetcherReport {
            connected: self.shared.connected.load(Relaxed),
            announced: self.shared.announced.load(Relaxed),
            sent: self.shared.layer.bags().map(|bags| bags.counts()).unwrap_or_default(),
        }
    }

    fn end(&mut self) {
        let _ = self.shared.ended.set(Instant::now());
        self.shared.open.lock().clear();
        self.acceptor = None;
    }
}

/// The prefetchers that have not heard of the last durable state. They hear of it one after the other: while one opens it,
/// the others send bags.
#[derive(Debug, Default)]
struct Informing {
    /// The numbers of their connections.
    left: VecDeque<u64>,
    /// Number of blocks that were executed when the last one was informed.
    executed: usize,
    /// The time at which the last one was informed.
    since: Option<Instant>,
}

impl Informing {
    fn begin(&mut self, shared: &Shared) {
        for connection in &*shared.open.lock() {
            if !self.left.contains(&connection.number) {
                self.left.push_back(connection.number);
            }
        }
    }

    /// Informs the next one, if the last one has opened its state by now: it would be late otherwise.
    fn go_on(&mut self, shared: &Shared) {
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

impl Drop for Prefetchers {
    /// Ends all connections. Afterwards the layer is not used any more, and the store may be closed.
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn new(genesis: B256, layer: Arc<dyn StateLayer>) -> Result<Self, PrefetchError> {
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
            news: Condvar::new(),
        })
    }

    /// Announces a block to the prefetcher with the fewest blocks, or to one that is late if no other has time; `false` if
    /// none has. A block that is too large for a frame is left out.
    fn announce(&self, block: &Candidate) -> bool {
        let open = self.open.lock();
        let load = |of: &&Connection| (of.is_late(), of.due.lock().len());
        let to = open.iter().filter(|of| of.has_time()).min_by_key(load);
        to.is_some_and(|to| self.announce_to(to, block))
    }

    /// Announces a block again, if its bag has not come, only prefetchers that are late have it and another one has time.
    fn announce_again(&self, block: &Candidate) {
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

    fn announce_to(&self, connection: &Connection, block: &Candidate) -> bool {
        let Ok(senders) = block.senders() else { return true };
        let (number, hash) = (block.header.number, block.header.hash());
        let announced = AnnouncedBlock { hash, rlp: block.rlp.clone(), senders: senders.to_vec() };
        let frame = Message::Block(announced).encode();
        if frame.len() > BLOCK_BYTES {
            return true;
        }
        // The block is recorded before the bag can come.
        let (since, executed) = (Instant::now(), self.executed.load(Relaxed));
        connection.due.lock().push_back(DueBlock { number, hash, since, executed });
        let is_sent = connection.outbox.try_send(Arc::new(frame)).is_ok();
        if is_sent {
            self.announced.fetch_add(1, Relaxed);
        } else {
            connection.due.lock().pop_back();
        }
        is_sent
    }

    /// Whether a prefetcher that is not late is at work on a block.
    fn expects(&self, number: u64) -> bool {
        self.open.lock().iter().any(|of| !of.is_late() && of.has(number))
    }

    /// Whether no other prefetcher could have been in time.
    fn are_all_late(&self) -> bool {
        self.open.lock().iter().all(Connection::is_late)
    }

    /// Notes that a block has waited in vain.
    fn is_late_with(&self, number: u64) {
        for connection in self.open.lock().iter().filter(|of| of.has(number)) {
            connection.is_late.store(true, Relaxed);
        }
    }

    /// Records that a bag came too late, and that so many blocks were executed after the announcement of its block: the
    /// next ones are announced as early as that.
    fn was_late(&self, blocks: usize) {
        let nearest = (blocks + SPARE).max(self.nearest.load(Relaxed).saturating_sub(1));
        self.nearest.store(nearest.min(FARTHEST - 1), Relaxed);
    }

    /// Records that a bag came in time: the least distance is one block shorter.
    fn was_in_time(&self) {
        self.nearest.store(self.nearest.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// Records that the bag of a block is there, which a prefetcher has to work on no more, and whether it is late.
    fn came(&self, due: &Mutex<VecDeque<DueBlock>>, number: u64, is_late: bool) {
        // A block that waits finds its bag here or on its way.
        let mut came = self.came.lock();
        due.lock().pop_front();
        if !is_late {
            came.insert(number);
        }
        self.news.notify_all();
    }

    /// Whether the grace after the end of the node is over.
    fn is_over(&self) -> bool {
        self.ended.get().is_some_and(|ended| ended.elapsed() > GRACE)
    }

    fn enter(&self, connection: Connection) {
        let mut open = self.open.lock();
        // A connection that comes after the end would never be dropped.
        if self.ended.get().is_none() {
            self.connected.fetch_add(1, Relaxed);
            open.push(connection);
        }
    }

    fn leave(&self, number: u64) {
        self.open.lock().retain(|connection| connection.number != number);
        // A block may wait for a bag of this one.
        let _came = self.came.lock();
        self.news.notify_all();
    }
}

/// Accepts connections until the node is done. Then waits until they are closed.
fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut connections: Vec<Worker> = Vec::new();
    let mut number = 0;
    while shared.ended.get().is_none() {
        connections.retain(|connection| !connection.is_finished());
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    tracing::debug!("a connection of a prefetcher is lost: {error}");
                }
                thread::sleep(TICK);
                continue;
            }
        };
        if connections.len() >= MOST_CONNECTIONS {
            tracing::debug!("a connection of {peer} is one too many");
            continue;
        }
        number += 1;
        let shared = Arc::clone(shared);
        let work = move || {
            if let Err(error) = serve(&shared, &stream, peer, number) {
                tracing::debug!("the connection of {peer} is closed: {error}");
            }
            // The shutdown ends the thread that sends, whatever it waits for.
            let _ = stream.shutdown(Shutdown::Both);
        };
        match Worker::start("prefetcher", work) {
            Ok(worker) => connections.push(worker),
            Err(error) => tracing::warn!("a prefetcher at {peer} is not taken in: {error}"),
        }
    }
}

/// Serves one connection, until either side ends it.
fn serve(
    shared: &Shared,
    stream: &TcpStream,
    peer: SocketAddr,
    number: u64,
) -> Result<(), WireError> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    notice_loss(stream)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    let is_patient = || began.elapsed() < GREETING && shared.ended.get().is_none();
    let mut input = Patient { stream, is_patient: &is_patient };
    let Some(Message::Hello(hello)) = Message::read(&mut input, HELLO_BYTES)? else {
        return Ok(());
    };
    let mut output = stream;
    let is_full = shared.open.lock().len() >= MOST_PREFETCHERS;
    let many = || format!("the node has {MOST_PREFETCHERS} prefetchers; wait for one to leave");
    let objection = Hello::objection(&shared.hello, &hello).or_else(|| is_full.then(many));
    if let Some(reason) = objection {
        tracing::warn!("a prefetcher at {peer} is refused: {reason}");
        return Ok(output.write_all(&Message::Refused(reason).encode())?);
    }
    output.write_all(&Message::Hello(shared.hello.clone()).encode())?;
    let (outbox, frames) = bounded(OUTBOX);
    let due = Due::default();
    let sender = stream.try_clone()?;
    let sender = Worker::start("prefetcher-out", move || send(&sender, &frames));
    let _sender = sender.map_err(io::Error::other)?;
    let is_late = Arc::new(AtomicBool::new(false));
    shared.enter(Connection { number, outbox, due: Arc::clone(&due), is_late: is_late.clone() });
    tracing::info!("a prefetcher at {peer} has connected");
    // After a panic the thread that sends would wait for frames until the node is done, and this one for that thread.
    let ended = caught(|| take_bags(shared, stream, &due, &is_late));
    shared.leave(number);
    match ended {
        Ok(Ok(())) => tracing::info!("the prefetcher at {peer} has left"),
        Ok(Err(error)) => tracing::info!("the prefetcher at {peer} has left: {error}"),
        Err(said) => tracing::error!("the thread of the prefetcher at {peer} panicked: {said}"),
    }
    let _ = stream.shutdown(Shutdown::Both);
    Ok(())
}

/// Hands bags to the layer, until the prefetcher closes the connection, is too slow or breaks the protocol.
fn take_bags(
    shared: &Shared,
    stream: &TcpStream,
    due: &Mutex<VecDeque<DueBlock>>,
    is_late: &AtomicBool,
) -> Result<(), WireError> {
    let is_patient = || {
        let is_slow = due.lock().front().is_some_and(|block| block.since.elapsed() > PATIENCE);
        !is_slow && !shared.is_over()
    };
    let mut input = Patient { stream, is_patient: &is_patient };
    while let Some(frame) = read_raw(&mut input, BAG_BYTES)? {
        let unexpected = || io::Error::other("it sends what it was not asked for");
        let _turn = shared.turn.lock();
        let Message::Bag(SentBag { block, nodes }) = Message::decode(&frame)? else {
            return Err(unexpected().into());
        };
        let asked = due.lock().front().filter(|asked| asked.hash == block).copied();
        let DueBlock { number, executed, .. } = asked.ok_or_else(unexpected)?;
        if let Some(bags) = shared.layer.bags() {
            bags.offer(number, nodes);
        }
        let was_late = number <= shared.turn_of.load(Relaxed);
        is_late.store(was_late, Relaxed);
        if !was_late {
            shared.was_in_time();
        } else if shared.are_all_late() {
            shared.was_late(shared.executed.load(Relaxed).saturating_sub(executed));
        }
        // From then on the block does not wait for it, so its nodes must be there.
        shared.came(due, number, was_late);
    }
    Ok(())
}

/// Sends frames, and the message of the end after the last one.
fn send(mut stream: &TcpStream, frames: &Receiver<Arc<Vec<u8>>>) {
    let mut send = || -> io::Result<()> {
        for frame in frames {
            stream.write_all(&frame)?;
        }
        stream.write_all(&Message::End.encode())?;
        // Bags that still come are read, because the prefetcher might not receive the end otherwise.
        stream.shutdown(Shutdown::Write)
    };
    if send().is_err() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Reads from a connection whose reads time out, as long as `is_patient` returns `true`.
struct Patient<'a> {
    stream: &'a TcpStream,
    is_patient: &'a dyn Fn() -> bool,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The check also applies to a connection that sends a byte now and then.
        while (self.is_patient)() {
            match self.stream.read(buffer) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                other => return other,
            }
        }
        Err(io::Error::other("it takes too long"))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::Block;
    use polytrie_chainspec::ChainSpec;
    use polytrie_kv::Store;
    use polytrie_layers::LayerOptions;

    fn shared() -> Shared {
        let kind = layers::layer("rain").unwrap();
        let store = Store::memory(kind.tables).unwrap();
        let layer = (kind.open)(store.into(), &LayerOptions::default()).unwrap();
        Shared::new(B256::ZERO, layer).unwrap()
    }

    /// Adds a prefetcher. Returns the frames that its thread would send.
    fn connect(shared: &Shared, number: u64) -> Receiver<Arc<Vec<u8>>> {
        let (outbox, frames) = bounded(OUTBOX);
        let is_late = Arc::default();
        shared.enter(Connection { number, outbox, due: Due::default(), is_late });
        frames
    }

    /// Returns a block with so many bytes as its RLP.
    fn block(bytes: usize) -> Candidate {
        let spec = ChainSpec::load("dev").unwrap();
        Candidate::of(&spec, Block::default(), vec![0; bytes].into()).0
    }

    /// The first prefetcher has no block, as if it had sent its bags without reading a frame.
    #[test]
    fn a_prefetcher_that_reads_nothing_takes_no_blocks_from_others() {
        let shared = shared();
        let (unread, read) = (connect(&shared, 1), connect(&shared, 2));
        while shared.open.lock()[0].outbox.try_send(Arc::default()).is_ok() {}
        for _ in 0..AT_A_TIME {
            assert!(shared.announce(&block(10)));
        }
        assert_eq!((unread.len(), read.len()), (OUTBOX, AT_A_TIME));
        assert!(!shared.announce(&block(10)));
    }

    #[test]
    fn blocks_are_announced_as_early_as_late_bags_took() {
        let shared = shared();
        assert_eq!(shared.nearest.load(Relaxed), 0);
        let after = |blocks: usize| {
            shared.was_late(blocks);
            shared.nearest.load(Relaxed)
        };
        assert_eq!([0, 1, 20, 3, 19].map(after), [4, 5, 24, 23, 23]);
        assert_eq!(after(1_000), FARTHEST - 1);
        for nearest in (0..FARTHEST - 1).rev() {
            shared.was_in_time();
            assert_eq!(shared.nearest.load(Relaxed), nearest);
        }
        shared.was_in_time();
        assert_eq!(shared.nearest.load(Relaxed), 0);
    }

    #[test]
    fn prefetchers_hear_of_a_newer_state_one_after_the_other() {
        let shared = shared();
        let (one, other) = (connect(&shared, 1), connect(&shared, 2));
        let mut informing = Informing::default();
        let mut after = |blocks: usize| {
            shared.executed.fetch_add(blocks, Relaxed);
            informing.begin(&shared);
            informing.go_on(&shared);
            (one.len(), other.len())
        };
        assert_eq!([SPARE, 1, SPARE, 1].map(&mut after), [(1, 0), (1, 0), (1, 1), (1, 1)]);
        shared.open.lock()[0].is_late.store(true, Relaxed);
        assert_eq!([SPARE, FARTHEST].map(after), [(1, 1), (2, 1)]);
    }

    /// No other one opens a state at that time, however few blocks were executed.
    #[test]
    fn the_first_prefetcher_hears_of_a_newer_state_at_once() {
        let shared = shared();
        let (one, other) = (connect(&shared, 1), connect(&shared, 2));
        let mut informing = Informing::default();
        informing.begin(&shared);
        informing.go_on(&shared);
        assert_eq!((one.len(), other.len()), (1, 0));
    }

    #[test]
    fn prefetchers_that_have_left_are_not_informed_first() {
        let shared = shared();
        let (_left, other) = (connect(&shared, 1), connect(&shared, 2));
        let mut informing = Informing::default();
        informing.begin(&shared);
        shared.leave(1);
        shared.executed.fetch_add(SPARE, Relaxed);
        informing.go_on(&shared);
        assert_eq!(other.len(), 1);
    }

    /// A block that waits holds the lock of what has come while it looks at what is on its way.
    #[test]
    fn a_bag_is_on_its_way_until_it_has_come() {
        let shared = shared();
        let _frames = connect(&shared, 1);
        assert!(shared.announce(&block(10)));
        let due = Arc::clone(&shared.open.lock()[0].due);
        let number = due.lock()[0].number;
        thread::scope(|scope| {
            let came = shared.came.lock();
            scope.spawn(|| shared.came(&due, number, false));
            assert!((0..1_000).all(|_| {
                thread::yield_now();
                shared.expects(number)
            }));
            drop(came);
        });
        assert!(shared.came.lock().contains(&number) && !shared.expects(number));
    }

    /// The bag of the one that was late may have come, while the other one has the block and is late.
    #[test]
    fn a_block_is_announced_again_until_its_bag_has_come() {
        let shared = shared();
        let (_late, other) = (connect(&shared, 1), connect(&shared, 2));
        let block = block(10);
        assert!(shared.announce(&block));
        shared.is_late_with(block.header.number);
        shared.came.lock().insert(block.header.number);
        shared.announce_again(&block);
        assert!(other.is_empty());
        shared.came.lock().clear();
        shared.announce_again(&block);
        assert_eq!(other.len(), 1);
    }

    /// A prefetcher would end at a frame that is too long.
    #[test]
    fn a_block_that_is_too_large_is_left_out() {
        let shared = shared();
        let frames = connect(&shared, 1);
        assert!(shared.announce(&block(BLOCK_BYTES)));
        assert!(frames.is_empty() && shared.open.lock()[0].due.lock().is_empty());
        assert!(shared.announce(&block(1_000)));
        let frame = frames.try_recv().unwrap();
        let message = Message::read(&mut &frame[..], BLOCK_BYTES).unwrap();
        assert!(matches!(message, Some(Message::Block(_))), "{message:?}");
    }
}
