//! The prefetcher's side: it receives blocks and sends bags of nodes.
//!
//! - `node.rs`: the connection to the node,
//! - `bag.rs`: the bag of a block, and the nodes that were sent lately,
//! - `pause.rs`: the time in which no state is opened, after one failed.

mod bag;
mod node;
mod pause;

use super::{
    PrefetchError,
    wire::{AnnouncedBlock, BLOCK_BYTES, Hello, Message, SentBag, VERSION},
};
use crate::datadir::{DataDir, OpenOptions};
use bag::{Filling, REMEMBERED, Sent, size};
use node::Node;
use pause::{LONGEST, Pause};
use polytrie_chain::executor::Foresight;
use polytrie_consensus::decode::decode_block;
use polytrie_layers as layers;
use polytrie_state::{Access, BagNode, StateError};
use serde::Serialize;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Least time for which a state is read before a newer one is opened.
const READ_AT_LEAST: Duration = Duration::from_secs(2);
/// A state is also read for so many times as long as it took to open.
const TIMES_OPENED: u32 = 20;
/// Time within which the node must say hello. It may still be opening its store, which takes a while on a large chain.
const GREETING: Duration = Duration::from_secs(300);

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
    Prefetcher::new(options, &foresight, state).work_for(&mut node)
}

/// A prefetcher at work.
struct Prefetcher<'a> {
    options: &'a PrefetchOptions,
    foresight: &'a Foresight,
    /// `None` while none can be read: the node knows that this prefetcher is away, and does not wait for its bags, which are
    /// empty then.
    state: Option<State>,
    /// Whether the store has a newer state.
    is_old: bool,
    pause: Pause,
    sent: Sent,
    done: Prefetched,
    /// The error after which nothing is sent any more: the node takes nothing, and may have said before that it is done.
    lost: Option<PrefetchError>,
}

impl<'a> Prefetcher<'a> {
    fn new(options: &'a PrefetchOptions, foresight: &'a Foresight, state: State) -> Self {
        Self {
            options,
            foresight,
            state: Some(state),
            is_old: false,
            pause: Pause::default(),
            sent: Sent::default(),
            done: Prefetched { states: 1, ..Prefetched::default() },
            lost: None,
        }
    }

    /// Sends a bag for each block, until the node is done.
    fn work_for(mut self, node: &mut Node) -> Result<Prefetched, PrefetchError> {
        loop {
            if self.is_old
                && self.lost.is_none()
                && let Some(state) = &self.state
            {
                // A block may be long in coming, and finds the newer state then.
                let rest = state.rest();
                if rest.is_zero() || !node.has_message(rest)? {
                    self.leave(node);
                }
            }
            if self.state.is_none() && self.lost.is_none() {
                self.open(node);
                if self.state.is_none() && !node.has_message(self.pause.rest())? {
                    continue;
                }
            }
            let received = node.receive(BLOCK_BYTES);
            match received.map_err(|error| self.lost.take().unwrap_or(error))? {
                Message::Block(_) if self.lost.is_some() => {}
                Message::Block(block) => {
                    let (block, nodes) = (block.hash, self.nodes_for(block, node)?);
                    self.done.blocks += 1;
                    self.done.nodes += nodes.len() as u64;
                    self.done.bytes += nodes.iter().map(|node| size(node) as u64).sum::<u64>();
                    self.say(node, &Message::Bag(SentBag { block, nodes }));
                }
                Message::Flushed => self.is_old = true,
                Message::End => return Ok(self.done),
                _ => return Err(node.broken("it says what no node says now")),
            }
        }
    }

    /// Opens the newest state, unless that has just failed.
    fn open(&mut self, node: &mut Node) {
        let began = Instant::now();
        if !self.pause.is_over(began) {
            return;
        }
        match State::open(self.options) {
            Ok(opened) => {
                (self.state, self.is_old) = (Some(opened), false);
                self.done.states += 1;
                self.say(node, &Message::Ready);
            }
            Err(error) => {
                let seconds = self.pause.begin(began.elapsed()).as_secs();
                tracing::warn!(
                    "no state is read and no block is taken, it is tried again after {seconds} s: {error}"
                );
            }
        }
    }

    /// Closes the state: a process can open a store only once at a time. As long as it is open, its store keeps what newer
    /// ones have replaced.
    fn leave(&mut self, node: &mut Node) {
        self.state = None;
        self.say(node, &Message::Away);
    }

    fn say(&mut self, node: &mut Node, message: &Message) {
        if self.lost.is_none() {
            self.lost = node.send(message).err();
        }
    }

    /// Returns the nodes for a block; none if there is no state, or it cannot be read.
    fn nodes_for(
        &mut self,
        block: AnnouncedBlock,
        node: &mut Node,
    ) -> Result<Vec<BagNode>, PrefetchError> {
        let Some(state) = &mut self.state else { return Ok(Vec::new()) };
        // A node that has just started has none of the levels that it keeps.
        let levels = if self.done.blocks < REMEMBERED { 0 } else { node.levels };
        let began = Instant::now();
        match read_ahead(state, self.foresight, block, levels, &mut self.sent) {
            Ok(nodes) => {
                (state.was_read, self.pause) = (true, Pause::default());
                Ok(nodes)
            }
            Err(Failed::Block(reason)) => Err(node.broken(&reason)),
            Err(Failed::State(error)) => {
                // A cluster may have removed rows that only older states have.
                tracing::warn!("a newer state is read, as this one fails: {error}");
                // A store that is away may take as long to fail again, and one that is damaged fails at once.
                if !state.was_read || began.elapsed() >= LONGEST {
                    self.pause.begin(began.elapsed());
                }
                self.leave(node);
                // What was read before the failure is not sent.
                self.sent = Sent::default();
                Ok(Vec::new())
            }
        }
    }
}

/// The state that blocks are run on.
struct State {
    dir: DataDir,
    opened: Instant,
    /// Time that it took to open.
    took: Duration,
    /// Whether nodes for a block were read from it.
    was_read: bool,
}

impl State {
    fn open(options: &PrefetchOptions) -> Result<Self, PrefetchError> {
        let began = Instant::now();
        let dir = DataDir::open(&options.open, false)?;
        layers::bags(&*dir.layer)?;
        Ok(Self { dir, opened: Instant::now(), took: began.elapsed(), was_read: false })
    }

    /// Returns the time for which it is still read before a newer one is opened.
    fn rest(&self) -> Duration {
        let least = READ_AT_LEAST.max(self.took.saturating_mul(TIMES_OPENED));
        least.saturating_sub(self.opened.elapsed())
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
    bags.make_room().map_err(Failed::State)?;
    let reader = layer.reader().map_err(Failed::State)?;
    let mut gather = |accesses: &[Access]| {
        bags.gather(accesses)?;
        foresight.read_codes(&*reader, accesses, &|| false)
    };
    let state = Arc::clone(&reader);
    let touched = foresight.touched(&block, &senders, state, &mut gather, &|| false);
    let touched = touched.map_err(Failed::State)?;
    let mut bag = Filling::new(number, sent);
    bags.pack(&touched, levels, &mut |node| bag.take(node)).map_err(Failed::State)?;
    Ok(bag.nodes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::prefetch::wire::{BAG_BYTES, HELLO_BYTES};
    use alloy_consensus::{Block, TxEnvelope};
    use alloy_primitives::{Address, B256, Bytes};
    use polytrie_kv::Batch;
    use polytrie_state::STAMP_FILE;
    use std::{
        fs,
        io::Write,
        net::{TcpListener, TcpStream},
        path::Path,
        thread::{self, JoinHandle},
    };
    use tempfile::TempDir;

    /// Makes a data directory of `rain`, without the nodes of accounts if it is `damaged`. Returns the options of a prefetcher
    /// that reads it.
    fn made(data: &Path, damaged: bool) -> PrefetchOptions {
        let (chain, layer) = (Some("dev".to_owned()), Some("rain".to_owned()));
        let datadir = Some(data.to_owned());
        let mut open = OpenOptions { datadir, chain, state: layer, ..OpenOptions::default() };
        let (chain, dir) = DataDir::open(&open, true).unwrap().into_chain().unwrap();
        let nodes = dir.kind.tables.iter().find(|table| table.name == "RainAccountNodes").unwrap();
        if damaged {
            let mut batch = Batch::new();
            batch.delete_range(*nodes, &[], None);
            dir.store.write(batch).unwrap();
            dir.store.flush().unwrap();
        }
        drop((chain, dir));
        open.engine.read_only = true;
        PrefetchOptions { connect: String::new(), open, threads: 1 }
    }

    /// Connects to a node that says these messages, and then does what `work` does.
    fn connect<T: Send + 'static>(
        messages: Vec<Message>,
        work: impl FnOnce(TcpStream) -> T + Send + 'static,
    ) -> (Node, JoinHandle<T>) {
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = server.local_addr().unwrap().to_string();
        let layer = "rain".to_owned();
        let own = Hello { version: VERSION, genesis: B256::ZERO, layer, levels: 0 };
        let hello = Message::Hello(own.clone());
        let served = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            Message::read(&mut stream, HELLO_BYTES).unwrap();
            for message in [hello].iter().chain(&messages) {
                stream.write_all(&message.encode()).unwrap();
            }
            work(stream)
        });
        (Node::connect(&address, &own, GREETING).unwrap(), served)
    }

    /// What the store has replaced since takes its place for as long as it is open.
    #[test]
    fn a_newer_state_is_opened_although_no_block_comes() {
        let dir = TempDir::new().unwrap();
        let options = made(&dir.path().join("data"), false);
        let mut state = State::open(&options).unwrap();
        let foresight = Foresight::new(state.dir.spec().unwrap(), options.threads);
        let least = READ_AT_LEAST - Duration::from_millis(50);
        (state.opened, state.took) = (Instant::now().checked_sub(least).unwrap(), Duration::ZERO);
        let (mut node, served) = connect(vec![Message::Flushed], |mut stream| {
            // Were the prefetcher to wait for a block, this ends the test.
            stream.set_read_timeout(Some(GREETING)).unwrap();
            let said = [(); 2].map(|()| Message::read(&mut stream, BAG_BYTES).unwrap().unwrap());
            stream.write_all(&Message::End.encode()).unwrap();
            said
        });
        let done = Prefetcher::new(&options, &foresight, state).work_for(&mut node).unwrap();
        assert_eq!(served.join().unwrap(), [Message::Away, Message::Ready]);
        assert_eq!((done.blocks, done.states), (0, 2));
    }

    /// A cluster may be away for longer than its store is patient.
    #[test]
    fn without_a_store_it_is_away_and_comes_back_by_itself() {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        let options = made(&data, false);
        let mut state = State::open(&options).unwrap();
        let foresight = Foresight::new(state.dir.spec().unwrap(), options.threads);
        let long_ago = Instant::now().checked_sub(READ_AT_LEAST).unwrap();
        (state.opened, state.took) = (long_ago, Duration::ZERO);
        let [stamp, away] = [STAMP_FILE, "away"].map(|name| data.join(name));
        fs::rename(&stamp, &away).unwrap();

        let hash = B256::repeat_byte(1);
        let block = AnnouncedBlock { hash, rlp: Bytes::new(), senders: Vec::new() };
        let messages = vec![Message::Flushed, Message::Block(block)];
        let (mut node, served) = connect(messages, move |mut stream| {
            let mut said = Vec::new();
            for is_last in [false, false, true] {
                if is_last {
                    fs::rename(&away, &stamp).unwrap();
                }
                said.push(Message::read(&mut stream, BAG_BYTES).unwrap().unwrap());
            }
            stream.write_all(&Message::End.encode()).unwrap();
            said
        });
        let mut prefetcher = Prefetcher::new(&options, &foresight, state);
        prefetcher.pause.least = Duration::from_millis(1);
        let done = prefetcher.work_for(&mut node).unwrap();
        let bag = Message::Bag(SentBag { block: hash, nodes: Vec::new() });
        assert_eq!(served.join().unwrap(), [Message::Away, bag, Message::Ready]);
        assert_eq!((done.blocks, done.nodes, done.states), (1, 0, 2));
    }

    /// Otherwise the prefetcher would open a state for each block, and take blocks from prefetchers that have a store.
    #[test]
    fn after_a_state_that_cannot_be_read_the_next_one_is_opened_later() {
        let dir = TempDir::new().unwrap();
        let options = made(&dir.path().join("data"), true);
        let state = State::open(&options).unwrap();
        let foresight = Foresight::new(state.dir.spec().unwrap(), options.threads);
        let hashes = [1, 2].map(B256::repeat_byte);
        let blocks = hashes.map(|hash| {
            let rlp = alloy_rlp::encode(Block::<TxEnvelope>::default()).into();
            // Some of them are in each part of the state.
            let senders = (0..=u8::MAX).map(Address::repeat_byte).collect();
            Message::Block(AnnouncedBlock { hash, rlp, senders })
        });
        let messages = blocks.into_iter().chain([Message::End]).collect();
        let (mut node, served) = connect(messages, |mut stream| {
            let mut said = Vec::new();
            while let Some(message) = Message::read(&mut stream, BAG_BYTES).unwrap() {
                said.push(message);
            }
            said
        });
        let mut prefetcher = Prefetcher::new(&options, &foresight, state);
        prefetcher.pause.least = LONGEST;
        let done = prefetcher.work_for(&mut node).unwrap();
        drop(node);
        let [one, two] = hashes.map(|block| Message::Bag(SentBag { block, nodes: Vec::new() }));
        assert_eq!(served.join().unwrap(), [Message::Away, one, two]);
        assert_eq!((done.blocks, done.nodes, done.states), (2, 0, 1));
    }
}
