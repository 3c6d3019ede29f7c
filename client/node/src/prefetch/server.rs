//! The node's side: connections of prefetchers, announcing blocks to them, and taking in what they send.

use super::{
    PrefetchError,
    wire::{AnnouncedBlock, BAG_BYTES, HELLO_BYTES, Hello, Message, SentBag, VERSION, WireError},
};
use crate::import::Upcoming;
use alloy_primitives::B256;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use polytrie_chain::{Candidate, Chain};
use polytrie_kv::{Store, Worker};
use polytrie_layers as layers;
use polytrie_state::{BagCounts, StateLayer};
use serde::Serialize;
use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Blocks nearer to their turn than this are not announced: it would be there before a bag of them is.
const NEAREST: usize = 4;
/// Blocks that are announced at most so many ahead of their turn.
const FARTHEST: usize = 64;
/// Blocks that one prefetcher may have at a time. A slow one so has few, and is passed over meanwhile.
const AT_A_TIME: usize = 4;
/// Frames that may wait to be sent to one prefetcher: its blocks, and what is said of the store.
const OUTBOX: usize = AT_A_TIME + 4;
/// Prefetchers at a time.
const MOST_CONNECTIONS: usize = 16;
/// How often a thread that waits for a connection looks whether it should go on.
const TICK: Duration = Duration::from_millis(50);
/// How long who connects may take to say who it is.
const GREETING: Duration = Duration::from_secs(5);
/// How long a bag may take, and what is sent to be taken.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long prefetchers may take to hear that the node is done.
const GRACE: Duration = Duration::from_secs(2);

/// The prefetchers of a node.
#[derive(Debug)]
pub struct Prefetchers {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Takes in connections, and waits for their ends when it is dropped.
    acceptor: Option<Worker>,
    /// Number of the last block that was announced.
    announced: u64,
    /// What of the store was durable when prefetchers were told last.
    durable: u64,
}

/// What came of prefetchers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefetcherReport {
    /// Connections of prefetchers.
    pub connected: u64,
    /// Blocks that were announced, each to one of them.
    pub announced: u64,
    /// What they sent.
    #[serde(flatten)]
    pub sent: BagCounts,
}

#[derive(Debug)]
struct Shared {
    hello: Hello,
    layer: Arc<dyn StateLayer>,
    open: Mutex<Vec<Connection>>,
    /// When the node was done.
    ended: OnceLock<Instant>,
    connected: AtomicU64,
    announced: AtomicU64,
}

/// A prefetcher that said hello.
#[derive(Debug)]
struct Connection {
    number: u64,
    outbox: Sender<Arc<Vec<u8>>>,
    due: Due,
}

/// The blocks of a prefetcher of which it has sent no bag yet, in their order.
type Due = Arc<Mutex<VecDeque<DueBlock>>>;

#[derive(Debug)]
struct DueBlock {
    number: u64,
    hash: B256,
    since: Instant,
}

impl Prefetchers {
    /// Listens on an address, so that it is known to be free before anything else is done.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub fn bind(address: SocketAddr) -> Result<TcpListener, PrefetchError> {
        TcpListener::bind(address).map_err(|source| PrefetchError::Listen { address, source })
    }

    /// Takes in prefetchers for the blocks that will be executed on a chain.
    ///
    /// # Errors
    ///
    /// If its layer has no use for them, or the system gives no thread.
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
        let hello = Hello {
            version: VERSION,
            genesis,
            layer: layer.name().to_owned(),
            levels: layers::bags(&*layer)?.levels_kept(),
        };
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let failed = |source| PrefetchError::Listen { address: unknown, source };
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let shared = Arc::new(Shared {
            hello,
            layer,
            open: Mutex::default(),
            ended: OnceLock::new(),
            connected: AtomicU64::new(0),
            announced: AtomicU64::new(0),
        });
        let acceptor = {
            let shared = Arc::clone(&shared);
            Worker::start("prefetchers", move || accept(&shared, &listener))?
        };
        Ok(Self { address, shared, acceptor: Some(acceptor), announced: 0, durable })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Announces blocks whose turn comes soon, as many as prefetchers have time for.
    pub fn announce(&mut self, upcoming: &mut impl Upcoming) {
        if self.shared.open.lock().is_empty() {
            return;
        }
        for place in NEAREST..FARTHEST {
            let Some(next) = upcoming.peek(place) else { return };
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

    /// Tells prefetchers if a newer state is durable than before.
    pub fn executed(&mut self, store: &Store) {
        let durable = store.progress().durable;
        if durable > self.durable {
            self.durable = durable;
            let frame = Arc::new(Message::Flushed.encode());
            for connection in &*self.shared.open.lock() {
                // Whoever has so much to do hears of the next one.
                let _ = connection.outbox.try_send(Arc::clone(&frame));
            }
        }
    }

    /// Tells prefetchers that the node is done, and waits for their ends.
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
    /// The layer is not used any more afterwards: the store may be closed.
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Announces a block to the prefetcher that has fewest of them; `false` if none has time.
    fn announce(&self, block: &Candidate) -> bool {
        let Ok(senders) = &block.senders else { return true };
        let open = self.open.lock();
        let load = |connection: &&Connection| connection.due.lock().len();
        let Some(connection) = open.iter().min_by_key(load).filter(|of| load(of) < AT_A_TIME)
        else {
            return false;
        };
        let (number, hash) = (block.header.number, block.header.hash());
        let announced = AnnouncedBlock { hash, rlp: block.rlp.clone(), senders: senders.clone() };
        let frame = Arc::new(Message::Block(announced).encode());
        // Before the bag can come.
        connection.due.lock().push_back(DueBlock { number, hash, since: Instant::now() });
        let is_sent = connection.outbox.try_send(frame).is_ok();
        if is_sent {
            self.announced.fetch_add(1, Relaxed);
        } else {
            connection.due.lock().pop_back();
        }
        is_sent
    }

    /// Whether what began so long ago is not to go on: the node is done.
    fn is_over(&self) -> bool {
        self.ended.get().is_some_and(|ended| ended.elapsed() > GRACE)
    }

    fn enter(&self, connection: Connection) {
        let mut open = self.open.lock();
        // Else nobody would drop it.
        if self.ended.get().is_none() {
            self.connected.fetch_add(1, Relaxed);
            open.push(connection);
        }
    }

    fn leave(&self, number: u64) {
        self.open.lock().retain(|connection| connection.number != number);
    }
}

/// Takes in connections until the node is done, and waits for their ends then.
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
            tracing::debug!("a prefetcher at {peer} is one too many");
            continue;
        }
        number += 1;
        let shared = Arc::clone(shared);
        let work = move || {
            if let Err(error) = serve(&shared, &stream, peer, number) {
                tracing::debug!("the connection of {peer} is closed: {error}");
            }
            // Ends the thread that sends, whatever it waits for.
            let _ = stream.shutdown(Shutdown::Both);
        };
        match Worker::start("prefetcher", work) {
            Ok(worker) => connections.push(worker),
            Err(error) => tracing::warn!("a prefetcher at {peer} is not taken in: {error}"),
        }
    }
}

/// Talks with whoever has connected, until either side has enough.
fn serve(
    shared: &Shared,
    stream: &TcpStream,
    peer: SocketAddr,
    number: u64,
) -> Result<(), WireError> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    let is_patient = || began.elapsed() < GREETING && shared.ended.get().is_none();
    let mut input = Patient { stream, is_patient: &is_patient };
    let Some(Message::Hello(hello)) = Message::read(&mut input, HELLO_BYTES)? else {
        return Ok(());
    };
    let mut output = stream;
    if let Some(reason) = Hello::objection(&shared.hello, &hello) {
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
    let ended = take_bags(shared, stream, &due);
    shared.leave(number);
    let why = ended.as_ref().map_or_else(|error| format!(": {error}"), |_| String::new());
    tracing::info!("the prefetcher at {peer} has left{why}");
    let _ = stream.shutdown(Shutdown::Both);
    Ok(())
}

/// Takes in bags, until the prefetcher has no more, or does something else.
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
    while let Some(message) = Message::read(&mut input, BAG_BYTES)? {
        let unexpected = || io::Error::other("it sends what it was not asked for");
        let Message::Bag(SentBag { block, nodes }) = message else {
            return Err(unexpected().into());
        };
        let asked = due.lock().pop_front().filter(|asked| asked.hash == block);
        let DueBlock { number, .. } = asked.ok_or_else(unexpected)?;
        if let Some(bags) = shared.layer.bags() {
            bags.offer(number, nodes);
        }
    }
    Ok(())
}

/// Sends frames, and that it was the end when there will be none any more.
fn send(mut stream: &TcpStream, frames: &Receiver<Arc<Vec<u8>>>) {
    let mut send = || -> io::Result<()> {
        for frame in frames {
            stream.write_all(&frame)?;
        }
        stream.write_all(&Message::End.encode())?;
        // What the prefetcher has still sent is read, else it might not hear of the end.
        stream.shutdown(Shutdown::Write)
    };
    if send().is_err() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Reads of a connection whose reads time out, as long as there is patience.
struct Patient<'a> {
    stream: &'a TcpStream,
    is_patient: &'a dyn Fn() -> bool,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Also where a byte comes now and then.
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
