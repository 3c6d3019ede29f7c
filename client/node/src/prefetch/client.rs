//! The prefetcher's side: it receives blocks and sends bags of nodes.

use super::{
    PrefetchError,
    wire::{
        AnnouncedBlock, BAG_BYTES, BAG_NODES, BLOCK_BYTES, HELLO_BYTES, Hello, Message, SentBag,
        VERSION, WireError, notice_loss,
    },
};
use crate::datadir::{DataDir, OpenOptions};
use polytrie_chain::executor::Foresight;
use polytrie_consensus::decode::decode_block;
use polytrie_layers as layers;
use polytrie_state::{Access, BagNode, StateError};
use serde::Serialize;
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    io::{self, BufReader, Write},
    net::TcpStream,
    ops::ControlFlow,
    time::{Duration, Instant},
};

/// Least time for which a state is read before a newer one is opened.
const READ_AT_LEAST: Duration = Duration::from_secs(2);
/// A state is also read for so many times as long as it took to open.
const TIMES_OPENED: u32 = 20;
/// The shortest and the longest pause after a state could not be opened or read.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Bytes that a node takes in a frame beside its parts.
const NODE_OVERHEAD: usize = 16;
/// Bytes of a frame for its other fields than nodes.
const FRAME_OVERHEAD: usize = 64;
/// Number of blocks for which a node is not sent again, because the receiver has it; and of the first blocks, whose bags have
/// the levels that it keeps, too.
const REMEMBERED: u64 = 64;
/// Time within which the node must say hello. It may still be opening its store, which takes a while on a large chain.
const GREETING: Duration = Duration::from_secs(300);
/// Number of remembered nodes from which the old ones are removed.
const MOST_REMEMBERED: usize = 1 << 20;

/// The settings of a prefetcher.
#[derive(Debug)]
pub struct PrefetchOptions {
    /// The address of the node, as `host:port`.
    pub connect: String,
    /// The data directory to read; it is opened for reading only.
    pub open: OpenOptions,
    /// Number of threads that run transactions.
    pub threads: usize,
}

/// The work that a prefetcher has done.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Prefetched {
    /// Number of blocks that the node announced.
    pub blocks: u64,
    /// Number of trie nodes that were sent.
    pub nodes: u64,
    /// Bytes of the nodes that were sent.
    pub bytes: u64,
    /// Number of states that were read, one after the other.
    pub states: u64,
}

/// Reads for a node the trie nodes that its next blocks will need, until the node is done.
///
/// # Errors
///
/// If the data directory cannot be read, or the node cannot be reached, refuses this prefetcher, or closes the
/// connection.
pub fn prefetch(options: &PrefetchOptions) -> Result<Prefetched, PrefetchError> {
    let state = State::open(options)?;
    let foresight = Foresight::new(state.dir.spec()?, options.threads);
    let stamp = &state.dir.stamp;
    let (genesis, layer) = (stamp.genesis_hash, stamp.state.clone());
    let own = Hello { version: VERSION, genesis, layer, levels: 0 };
    let mut node = Node::connect(&options.connect, &own, GREETING)?;
    tracing::info!("connected to the node at {}", options.connect);
    read_blocks(options, &mut node, &foresight, state)
}

/// Sends a bag for each block, until the node is done. A store that cannot be read for a while costs bags, which are empty
/// then: the node does not wait for them.
fn read_blocks(
    options: &PrefetchOptions,
    node: &mut Node,
    foresight: &Foresight,
    state: State,
) -> Result<Prefetched, PrefetchError> {
    let mut state = Some(state);
    let mut done = Prefetched { states: 1, ..Prefetched::default() };
    let (mut sent, mut pause) = (Sent::default(), Pause::default());
    let (mut is_old, mut lost) = (false, None::<PrefetchError>);
    loop {
        let received = node.receive(BLOCK_BYTES);
        match received.map_err(|error| lost.take().unwrap_or(error))? {
            // The node takes no more bags: it may have said before that it is done.
            Message::Block(_) if lost.is_some() => {}
            Message::Block(block) => {
                let (hash, began) = (block.hash, Instant::now());
                // A process can open a store only once at a time.
                state = state.take().filter(|state| !is_old || !state.is_due());
                if state.is_none() && pause.is_over(began) {
                    match State::open(options) {
                        Ok(opened) => {
                            (state, is_old, pause) = (Some(opened), false, Pause::default());
                            done.states += 1;
                        }
                        Err(error) => {
                            let seconds = pause.begin(began.elapsed()).as_secs();
                            tracing::warn!(
                                "no state is read and bags are empty, it is tried again after {seconds} s: {error}"
                            );
                        }
                    }
                }
                // A node that has just started has none of the levels that it keeps.
                let levels = if done.blocks < REMEMBERED { 0 } else { node.levels };
                let read = state
                    .as_ref()
                    .map(|state| read_ahead(state, foresight, block, levels, &mut sent));
                let nodes = match read {
                    Some(Ok(nodes)) => nodes,
                    Some(Err(Failed::Block(reason))) => return Err(node.broken(&reason)),
                    Some(Err(Failed::State(error))) => {
                        // A cluster may have removed rows that only older states have.
                        tracing::warn!("a newer state is read, as this one fails: {error}");
                        state = None;
                        // The next block may have come long ago, and the node waits for its bag for two minutes only.
                        if began.elapsed() >= PAUSES.1 {
                            pause.begin(began.elapsed());
                        }
                        // What was read before the failure is not sent.
                        sent = Sent::default();
                        Vec::new()
                    }
                    None => Vec::new(),
                };
                done.blocks += 1;
                done.nodes += nodes.len() as u64;
                done.bytes += nodes.iter().map(|node| size(node) as u64).sum::<u64>();
                lost = node.send(&Message::Bag(SentBag { block: hash, nodes })).err();
            }
            Message::Flushed => {
                is_old = true;
                // As long as a state is open, its store keeps what newer ones have replaced. The next block may be far.
                state = state.take().filter(|state| !state.is_due());
            }
            Message::End => return Ok(done),
            Message::Hello(_) | Message::Refused(_) | Message::Bag(_) => {
                return Err(node.broken("it says what no node says now"));
            }
        }
    }
}

/// The time in which no state is opened, after that failed.
#[derive(Debug, Default)]
struct Pause {
    length: Duration,
    until: Option<Instant>,
}

impl Pause {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Begins a pause after an attempt that took so long, and returns its length. It is as long as that, so that blocks
    /// which came meanwhile have their bags before the next attempt, or twice as long as the one before.
    fn begin(&mut self, took: Duration) -> Duration {
        self.length = took.max(self.length.saturating_mul(2)).clamp(PAUSES.0, PAUSES.1);
        self.until = Some(Instant::now() + self.length);
        self.length
    }
}

/// The state that blocks are run on.
struct State {
    dir: DataDir,
    opened: Instant,
    /// Time that it took to open.
    took: Duration,
}

impl State {
    fn open(options: &PrefetchOptions) -> Result<Self, PrefetchError> {
        let began = Instant::now();
        let dir = DataDir::open(&options.open, false)?;
        layers::bags(&*dir.layer)?;
        Ok(Self { dir, opened: Instant::now(), took: began.elapsed() })
    }

    /// Whether this one was read for long enough to open a newer one.
    fn is_due(&self) -> bool {
        let least = READ_AT_LEAST.max(self.took.saturating_mul(TIMES_OPENED));
        self.opened.elapsed() >= least
    }
}

/// The reason why a block has no bag.
enum Failed {
    Block(String),
    State(StateError),
}

/// Runs a block and reads the nodes on the paths to the keys that it touches, up to the size of a bag.
fn read_ahead(
    state: &State,
    foresight: &Foresight,
    block: AnnouncedBlock,
    levels: u8,
    sent: &mut Sent,
) -> Result<Vec<BagNode>, Failed> {
    let AnnouncedBlock { rlp, senders, .. } = block;
    let block = decode_block(&rlp).map_err(|e| Failed::Block(format!("it sends no block: {e}")))?;
    let number = block.header.number;
    let layer = &state.dir.layer;
    let bags = layers::bags(&**layer).map_err(Failed::State)?;
    let reader = layer.reader().map_err(Failed::State)?;
    let mut gather = |accesses: &[Access]| bags.gather(accesses);
    let touched = foresight.touched(&block, &senders, reader, &mut gather);
    let touched = touched.map_err(Failed::State)?;
    let room = BAG_BYTES - FRAME_OVERHEAD;
    let mut bag = Filling { block: number, nodes: Vec::new(), room, sent };
    bags.pack(&touched, levels, &mut |node| bag.take(node)).map_err(Failed::State)?;
    Ok(bag.nodes)
}

/// A bag that is being filled.
struct Filling<'s> {
    /// Number of the block that the bag is for.
    block: u64,
    nodes: Vec<BagNode>,
    /// Bytes of nodes that it may still take.
    room: usize,
    sent: &'s mut Sent,
}

impl Filling<'_> {
    /// Takes a node, unless it was sent lately. Breaks if there is no room for it.
    fn take(&mut self, node: BagNode) -> ControlFlow<()> {
        let hash = self.sent.hash(&node);
        if self.sent.has(hash, self.block) {
            return ControlFlow::Continue(());
        }
        let rest = self.room.checked_sub(size(&node)).filter(|_| self.nodes.len() < BAG_NODES);
        let Some(rest) = rest else { return ControlFlow::Break(()) };
        self.room = rest;
        self.sent.record(hash, self.block);
        self.nodes.push(node);
        ControlFlow::Continue(())
    }
}

/// Returns the most bytes that a node takes in a frame.
fn size(node: &BagNode) -> usize {
    node.owner.len() + node.path.len() + node.row.len() + NODE_OVERHEAD
}

/// The nodes that were sent for the last blocks.
#[derive(Default)]
struct Sent {
    hasher: RandomState,
    /// The last block for which a node was sent, by the hash of the node and its place. Two nodes with the same hash
    /// cost a read of the store.
    nodes: HashMap<u64, u64>,
    /// The last block for which old nodes were removed.
    cleared: u64,
}

impl Sent {
    fn hash(&self, node: &BagNode) -> u64 {
        self.hasher.hash_one((&node.owner, &node.path, &node.row))
    }

    /// Whether the node with this hash was sent for a block near to this one.
    fn has(&self, hash: u64, block: u64) -> bool {
        self.nodes.get(&hash).is_some_and(|of| is_near(*of, block))
    }

    /// Records that the node with this hash is sent for a block.
    fn record(&mut self, hash: u64, block: u64) {
        // At most once a block: if no node is old, each node of the block would cause a search through all of them.
        if self.nodes.len() >= MOST_REMEMBERED && self.cleared != block {
            self.cleared = block;
            self.nodes.retain(|_, of| is_near(*of, block));
        }
        // If all of them are near, the node is not recorded and may be sent again.
        if self.nodes.len() < MOST_REMEMBERED {
            self.nodes.insert(hash, block);
        }
    }
}

const fn is_near(of: u64, block: u64) -> bool {
    block.abs_diff(of) < REMEMBERED
}

/// The connection to the node that executes blocks.
struct Node {
    address: String,
    input: BufReader<TcpStream>,
    output: TcpStream,
    /// Number of levels of the account trie that the node keeps in memory.
    levels: u8,
}

impl Node {
    /// Connects, and waits for the hello of the node for no longer than `patience`.
    fn connect(address: &str, own: &Hello, patience: Duration) -> Result<Self, PrefetchError> {
        let address = address.to_owned();
        let connect = || -> io::Result<(BufReader<TcpStream>, TcpStream)> {
            let output = TcpStream::connect(&*address)?;
            output.set_nodelay(true)?;
            notice_loss(&output)?;
            output.set_read_timeout(Some(patience))?;
            Ok((BufReader::new(output.try_clone()?), output))
        };
        let (input, output) = connect()
            .map_err(|source| PrefetchError::Connect { address: address.clone(), source })?;
        let mut node = Self { address, input, output, levels: 0 };
        node.send(&Message::Hello(own.clone()))?;
        let objection = match node.greeting(patience)? {
            Message::Hello(hello) => {
                node.levels = hello.levels;
                Hello::objection(&hello, own)
            }
            Message::Refused(reason) => Some(reason),
            _ => return Err(node.broken("it does not answer as a node does")),
        };
        match objection {
            None => Ok(node),
            Some(reason) => Err(PrefetchError::Refused { address: node.address, reason }),
        }
    }

    /// Receives the first message. A server of another protocol may never send one.
    fn greeting(&mut self, patience: Duration) -> Result<Message, PrefetchError> {
        let is_over = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
        };
        let answer = Message::read(&mut self.input, HELLO_BYTES);
        if matches!(&answer, Err(WireError::Io(error)) if is_over(error)) {
            let reason = format!("it has not said hello within {} s", patience.as_secs());
            let source = io::Error::new(io::ErrorKind::TimedOut, reason);
            return Err(PrefetchError::Connect { address: self.address.clone(), source });
        }
        let message = self.received(answer)?;
        self.output.set_read_timeout(None).map_err(|error| self.broken(&error.to_string()))?;
        Ok(message)
    }

    fn receive(&mut self, most: usize) -> Result<Message, PrefetchError> {
        let answer = Message::read(&mut self.input, most);
        self.received(answer)
    }

    fn received(
        &self,
        answer: Result<Option<Message>, WireError>,
    ) -> Result<Message, PrefetchError> {
        match answer {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(self.broken("it is gone without a word")),
            Err(error) => Err(self.broken(&error.to_string())),
        }
    }

    fn send(&mut self, message: &Message) -> Result<(), PrefetchError> {
        let sent = self.output.write_all(&message.encode());
        sent.map_err(|error| self.broken(&error.to_string()))
    }

    fn broken(&self, reason: &str) -> PrefetchError {
        PrefetchError::Broken { address: self.address.clone(), reason: reason.to_owned() }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::{B256, Bytes};
    use polytrie_state::STAMP_FILE;
    use std::{fs, net::TcpListener, thread};
    use tempfile::TempDir;

    /// It may wait for more, as a server of HTTP does.
    #[test]
    fn a_server_that_says_nothing_is_no_node() {
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = server.local_addr().unwrap().to_string();
        let (genesis, layer) = (B256::ZERO, "rain".to_owned());
        let own = Hello { version: VERSION, genesis, layer, levels: 0 };
        let found = Node::connect(&address, &own, Duration::from_millis(1));
        let error = found.err().unwrap().to_string();
        assert!(error.contains("has not said hello") && error.contains("--connect"), "{error}");
    }

    /// A cluster may be away for longer than its store is patient.
    #[test]
    fn a_store_that_cannot_be_opened_again_costs_bags_only() {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        let (chain, layer) = (Some("dev".to_owned()), Some("rain".to_owned()));
        let datadir = Some(data.clone());
        let mut open = OpenOptions { datadir, chain, state: layer, ..OpenOptions::default() };
        drop(DataDir::open(&open, true).unwrap().into_chain().unwrap());
        open.engine.read_only = true;
        let options = PrefetchOptions { connect: String::new(), open, threads: 1 };
        let mut state = State::open(&options).unwrap();
        let foresight = Foresight::new(state.dir.spec().unwrap(), options.threads);
        let long_ago = Instant::now().checked_sub(READ_AT_LEAST).unwrap();
        (state.opened, state.took) = (long_ago, Duration::ZERO);
        fs::remove_file(data.join(STAMP_FILE)).unwrap();

        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = server.local_addr().unwrap().to_string();
        let layer = "rain".to_owned();
        let own = Hello { version: VERSION, genesis: B256::ZERO, layer, levels: 0 };
        let (hello, block) = (own.clone(), B256::repeat_byte(1));
        let served = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            Message::read(&mut stream, HELLO_BYTES).unwrap();
            let block = AnnouncedBlock { hash: block, rlp: Bytes::new(), senders: Vec::new() };
            for message in [Message::Hello(hello), Message::Flushed, Message::Block(block)] {
                stream.write_all(&message.encode()).unwrap();
            }
            let bag = Message::read(&mut stream, BAG_BYTES).unwrap();
            stream.write_all(&Message::End.encode()).unwrap();
            bag
        });
        let mut node = Node::connect(&address, &own, GREETING).unwrap();
        let done = read_blocks(&options, &mut node, &foresight, state).unwrap();
        let bag = SentBag { block, nodes: Vec::new() };
        assert_eq!(served.join().unwrap(), Some(Message::Bag(bag)));
        assert_eq!((done.blocks, done.nodes, done.states), (1, 0, 1));
    }

    #[test]
    fn pauses_are_as_long_as_what_failed_and_grow() {
        let (mut pause, seconds) = (Pause::default(), Duration::from_secs);
        assert!(pause.is_over(Instant::now()));
        let lengths = [0, 0, 0, 12, 1, 60].map(|took| pause.begin(seconds(took)).as_secs());
        assert_eq!(lengths, [1, 2, 4, 12, 24, 30]);
        assert!(!pause.is_over(Instant::now()));
        assert!(pause.is_over(Instant::now() + seconds(30)));
    }

    /// A node that finds no room is not sent, so it must go into the bag of the next block that needs it.
    #[test]
    fn only_nodes_that_are_sent_are_left_out_later() {
        let node = |row: &'static [u8]| BagNode {
            owner: Bytes::new(),
            path: Bytes::new(),
            row: Bytes::from_static(row),
        };
        let (small, large) = (node(b"small"), node(&[7; 100]));
        let mut sent = Sent::default();
        let mut fill = |block| {
            let mut bag = Filling { block, nodes: Vec::new(), room: 120, sent: &mut sent };
            let is_full = [&small, &large].map(|node| bag.take(node.clone()).is_break());
            let rows: Vec<usize> = bag.nodes.iter().map(|node| node.row.len()).collect();
            (rows, is_full)
        };
        assert_eq!(fill(1), (vec![5], [false, true]));
        assert_eq!(fill(2), (vec![100], [false, false]));
        assert_eq!(fill(3), (vec![], [false, false]));
        assert_eq!(fill(1 + REMEMBERED), (vec![5], [false, false]));
    }

    #[test]
    fn old_nodes_are_looked_for_once_a_block() {
        let mut sent = Sent::default();
        let (block, known) = (1_000, MOST_REMEMBERED as u64);
        (0..known).for_each(|hash| sent.record(hash, block));
        sent.record(known, block);
        assert!(!sent.has(known, block), "there is no room");
        sent.nodes.insert(0, 1);
        sent.record(known, block);
        assert!(sent.nodes.contains_key(&0) && !sent.has(known, block));
        sent.record(known, block + 1);
        assert!(!sent.nodes.contains_key(&0) && sent.has(known, block + 1));
    }
}
