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
use parking_lot::Mutex;
use polytrie_chain::{Candidate, Chain};
use polytrie_kv::{Worker, caught};
use polytrie_layers as layers;
use polytrie_state::{BagCounts, StateLayer};
use serde::Serialize;
use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Least distance between the announcement of a block and its turn, in blocks, if bags come at once. It grows by the
/// number of blocks that are executed until a bag comes.
const NEAREST: usize = 4;
/// Blocks are announced at most so many blocks before their execution.
const FARTHEST: usize = 64;
/// Number of blocks that one prefetcher may have at a time: one to work on, and one so that it need not wait. So a slow one
/// gets few blocks, and others get the rest.
const AT_A_TIME: usize = 2;
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
    /// The durable progress of the store that prefetchers were last informed of.
    durable: u64,
    /// Number of nodes that had come in time when the last block was executed.
    brought: u64,
    /// Number of blocks that were executed since that number grew, while there were prefetchers.
    idle: usize,
}

/// The work that prefetchers have done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefetcherReport {
    /// Number of connections that said hello.
    pub connected: u64,
    /// Number of blocks that were announced, each to one prefetcher.
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
    /// Current least distance between the announcement of a block and its turn, in blocks.
    nearest: AtomicUsize,
}

/// A prefetcher that said hello.
#[derive(Debug)]
struct Connection {
    number: u64,
    outbox: Sender<Arc<Vec<u8>>>,
    due: Due,
}

/// The blocks of a prefetcher whose bag has not come, in the order in which they were announced.
type Due = Arc<Mutex<VecDeque<DueBlock>>>;

#[derive(Debug)]
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
        Ok(Self { address, shared, acceptor, announced: 0, durable, brought: 0, idle: 0 })
    }

    /// Returns the address on which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether there are prefetchers, and bring nodes in time. They are idle if none has come for more blocks than lie
    /// between the announcement of a block and its turn: they may hang, wait for a store, or be far too slow.
    pub fn read_ahead(&self) -> bool {
        self.are_connected() && self.idle <= self.shared.nearest.load(Relaxed)
    }

    fn are_connected(&self) -> bool {
        !self.shared.open.lock().is_empty()
    }

    /// Announces blocks that are executed soon, as many as prefetchers have time for. Each goes to one of them, and those
    /// whose bags would be late go to none.
    pub fn announce(&mut self, upcoming: &mut impl Upcoming) {
        if !self.are_connected() {
            return;
        }
        let before = self.announced;
        for place in self.shared.nearest.load(Relaxed)..FARTHEST {
            let Some(next) = upcoming.peek(place) else {
                // A pipe may never have so many blocks, and without bags nothing would show that they take less by now.
                if self.announced == before {
                    self.shared.took(0);
                }
                return;
            };
            let number = next.header.number;
            if number <= self.announced || next.block.body.transactions.is_empty() {
                continue;
            }
            if !self.shared.announce(next) {
                return;
            }
            self.announced = number;
        }
    }

    #[cfg(test)]
    pub(super) fn took(&self, blocks: usize) {
        self.shared.took(blocks);
    }

    /// Ends the turn of the blocks up to the head, and informs prefetchers if a newer state is durable than before. The turn
    /// of a block whose root is that of a group lasts until the group ends, as the root takes its nodes.
    pub fn executed(&mut self, chain: &Chain) {
        self.shared.executed.fetch_add(1, Relaxed);
        if let Some(bags) = self.shared.layer.bags() {
            bags.over(chain.head().number());
            let brought = bags.counts().nodes;
            self.count(brought);
        }
        let durable = chain.db().store().progress().durable;
        if durable > self.durable {
            self.durable = durable;
            let frame = Arc::new(Message::Flushed.encode());
            for connection in &*self.shared.open.lock() {
                // A prefetcher with a full outbox is informed of the next state.
                let _ = connection.outbox.try_send(Arc::clone(&frame));
            }
        }
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
            nearest: AtomicUsize::new(NEAREST),
        })
    }

    /// Announces a block to the prefetcher with the fewest blocks; `false` if none has time. A block that is too large for
    /// a frame is left out.
    fn announce(&self, block: &Candidate) -> bool {
        let Ok(senders) = block.senders() else { return true };
        let open = self.open.lock();
        let load = |connection: &&Connection| connection.due.lock().len();
        // A prefetcher that sends bags and reads no frames has few blocks, and a full outbox.
        let has_time = |of: &&Connection| load(of) < AT_A_TIME && !of.outbox.is_full();
        let Some(connection) = open.iter().filter(has_time).min_by_key(load) else { return false };
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

    /// Records that so many blocks were executed between the announcement of a block and its bag. A slower bag raises the
    /// least distance at once, a faster one lowers it by one block.
    fn took(&self, blocks: usize) {
        let nearer = self.nearest.load(Relaxed).saturating_sub(1);
        let nearest = (blocks + NEAREST).max(nearer).min(FARTHEST - 1);
        self.nearest.store(nearest, Relaxed);
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
    shared.enter(Connection { number, outbox, due: Arc::clone(&due) });
    tracing::info!("a prefetcher at {peer} has connected");
    // After a panic the thread that sends would wait for frames until the node is done, and this one for that thread.
    let ended = caught(|| take_bags(shared, stream, &due));
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
        let asked = due.lock().pop_front().filter(|asked| asked.hash == block);
        let DueBlock { number, executed, .. } = asked.ok_or_else(unexpected)?;
        shared.took(shared.executed.load(Relaxed).saturating_sub(executed));
        if let Some(bags) = shared.layer.bags() {
            bags.offer(number, nodes);
        }
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
        shared.enter(Connection { number, outbox, due: Due::default() });
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
    fn blocks_are_announced_as_early_as_bags_take() {
        let shared = shared();
        let after = |blocks: usize| {
            shared.took(blocks);
            shared.nearest.load(Relaxed)
        };
        assert_eq!([0, 1, 20, 3, 19].map(after), [4, 5, 24, 23, 23]);
        assert_eq!(after(1_000), FARTHEST - 1);
        for _ in 0..FARTHEST {
            after(0);
        }
        assert_eq!(after(0), NEAREST);
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
