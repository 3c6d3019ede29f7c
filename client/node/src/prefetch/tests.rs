//! Connections that break the protocol, and how they end.

use super::{
    PrefetchOptions, Prefetchers, prefetch,
    wire::{AnnouncedBlock, BAG_BYTES, BLOCK_BYTES, Hello, Message, SentBag, VERSION},
};
use crate::{
    datadir::{DataDir, OpenOptions},
    import::Upcoming,
};
use alloy_primitives::{B256, Bytes};
use polytrie_chain::Candidate;
use polytrie_chainspec::ChainSpec;
use polytrie_files::BlockReader;
use polytrie_kv::Store;
use polytrie_layers::{self as layers, LayerOptions};
use polytrie_state::{BagNode, StateError, StateLayer};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

const GENESIS: B256 = B256::repeat_byte(1);

pub(super) fn layer(name: &str) -> Arc<dyn StateLayer> {
    let kind = layers::layer(name).unwrap();
    let store = Store::memory(kind.tables).unwrap();
    (kind.open)(store.into(), &LayerOptions::default()).unwrap()
}

fn start(layer: Arc<dyn StateLayer>) -> Result<Prefetchers, super::PrefetchError> {
    let listener = Prefetchers::bind(([127, 0, 0, 1], 0).into()).unwrap();
    Prefetchers::of(listener, GENESIS, layer, 0)
}

fn hello() -> Hello {
    Hello { version: VERSION, genesis: GENESIS, layer: "rain".to_owned(), levels: 0 }
}

/// Connects, says hello, and reads the answer.
fn connect(prefetchers: &Prefetchers, hello: Hello) -> (TcpStream, Message) {
    let mut stream = TcpStream::connect(prefetchers.address()).unwrap();
    stream.write_all(&Message::Hello(hello).encode()).unwrap();
    let answer = Message::read(&mut stream, BAG_BYTES).unwrap().unwrap();
    (stream, answer)
}

#[test]
fn a_layer_without_a_use_for_prefetchers_has_none() {
    let Err(super::PrefetchError::State(error)) = start(layer("raw")) else { panic!() };
    assert!(matches!(error, StateError::Unsupported { layer: "raw", .. }));
    assert!(error.to_string().contains("use `rain`"), "{error}");
}

#[test]
fn strangers_are_turned_away() {
    let prefetchers = start(layer("rain")).unwrap();
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &Message::End.encode(), &[0, 0, 0, 1, 9]] {
        let mut stream = TcpStream::connect(prefetchers.address()).unwrap();
        stream.write_all(words).unwrap();
        let mut answer = Vec::new();
        // Mostly the system reports that sent bytes were not read.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    let other = Hello { layer: "mpt".to_owned(), ..hello() };
    let (mut stream, answer) = connect(&prefetchers, other);
    let Message::Refused(reason) = answer else { panic!("{answer:?}") };
    assert!(reason.contains("`mpt`") && reason.contains("`rain`"), "{reason}");
    assert_eq!(Message::read(&mut stream, BAG_BYTES).unwrap(), None);
}

/// Many prefetchers may come at one moment.
#[test]
fn one_prefetcher_too_many_learns_why() {
    let prefetchers = start(layer("rain")).unwrap();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let come = |_| scope.spawn(|| connect(&prefetchers, hello()));
        let coming: Vec<_> = (0..24).map(come).collect();
        coming.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let refused: Vec<_> = answers
        .iter()
        .filter_map(|(_, answer)| match answer {
            Message::Hello(_) => None,
            Message::Refused(reason) => Some(reason),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((answers.len(), refused.len()), (24, 8));
    assert!(refused.iter().all(|reason| reason.contains("has 16 prefetchers")), "{refused:?}");
}

/// A bag for a block that was not announced ends the connection.
#[test]
fn bags_are_for_blocks_that_were_announced() {
    let prefetchers = start(layer("rain")).unwrap();
    let (mut stream, answer) = connect(&prefetchers, hello());
    let Message::Hello(node) = answer else { panic!("{answer:?}") };
    assert_eq!(node, Hello { levels: 4, ..hello() });
    let bag = SentBag { block: B256::ZERO, nodes: Vec::new() };
    stream.write_all(&Message::Bag(bag).encode()).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty() || rest == Message::End.encode(), "{rest:?}");
    assert_eq!(prefetchers.finish().sent.bags, 0);
}

/// The directory of the sample chain.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/sample");

/// The first blocks of the sample chain.
struct Sample(Vec<Candidate>);

impl Sample {
    fn read() -> Self {
        let spec = ChainSpec::load(&format!("{SAMPLE}/genesis.json")).unwrap();
        let file = Path::new(SAMPLE).join("chain.rlp.gz");
        let blocks = BlockReader::open(file).unwrap().take(20);
        Self(blocks.map(|block| Candidate::prepare(&spec, block.unwrap().rlp).unwrap()).collect())
    }
}

impl Upcoming for Sample {
    fn peek(&mut self, ahead: usize) -> Option<&Candidate> {
        self.0.get(ahead)
    }
}

/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(3_600);

/// Announces blocks until the prefetcher at the other end of a connection has received something.
fn announce_to(stream: &TcpStream, prefetchers: &mut Prefetchers, blocks: &mut Sample) {
    // What the prefetcher has said may not have come.
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    while stream.peek(&mut [0]).is_err() {
        prefetchers.announce(blocks);
    }
    stream.set_read_timeout(None).unwrap();
}

/// Returns the hash of the block that is announced next.
fn announced(stream: &mut TcpStream) -> B256 {
    let message = Message::read(stream, BLOCK_BYTES).unwrap();
    let Some(Message::Block(block)) = message else { panic!("{message:?}") };
    block.hash
}

fn send_bag(stream: &mut TcpStream, block: B256) {
    let bag = SentBag { block, nodes: Vec::new() };
    stream.write_all(&Message::Bag(bag).encode()).unwrap();
}

/// Each block has one prefetcher, in order. It waits for the bag of that one, and for no bag that was late before: then
/// another prefetcher has the block, too.
#[test]
fn a_block_waits_for_its_bag_as_long_as_its_prefetcher_is_in_time() {
    let mut prefetchers = start(layer("rain")).unwrap();
    let mut blocks = Sample::read();
    let filled = blocks.0.iter().filter(|block| !block.block.body.transactions.is_empty());
    let filled: Vec<_> =
        filled.map(|block| (block.header.number, block.header.hash())).take(4).collect();
    let [(first, _), (second, again), (third, then), (last, _)] = filled[..] else { panic!() };
    let (mut one, _) = connect(&prefetchers, hello());
    announce_to(&one, &mut prefetchers, &mut blocks);
    for (_, hash) in &filled[..2] {
        assert_eq!(announced(&mut one), *hash);
    }
    send_bag(&mut one, filled[0].1);
    assert!(prefetchers.wait(first, LONG, &mut blocks));
    // Without patience no prefetcher is late, and for a block that no prefetcher has there is nothing to wait for.
    assert!(!prefetchers.wait(second, Duration::ZERO, &mut blocks));
    assert!(!prefetchers.wait(u64::MAX, LONG, &mut blocks));
    assert!(!prefetchers.wait(second, Duration::from_nanos(1), &mut blocks));
    assert!(!prefetchers.wait(second, LONG, &mut blocks), "its prefetcher is late");

    let (mut other, _) = connect(&prefetchers, hello());
    announce_to(&other, &mut prefetchers, &mut blocks);
    for (number, hash) in [(second, again), (third, then)] {
        assert_eq!(announced(&mut other), hash);
        send_bag(&mut other, hash);
        assert!(prefetchers.wait(number, LONG, &mut blocks));
    }
    // A prefetcher that leaves is not waited for.
    drop((one, other));
    assert!(!prefetchers.wait(last, LONG, &mut blocks));
}

/// The prefetcher answers its blocks with empty bags, which do not count.
#[test]
fn blocks_of_a_prefetcher_that_is_away_or_gone_go_to_another_one() {
    let mut prefetchers = start(layer("rain")).unwrap();
    let mut blocks = Sample::read();
    let filled = blocks.0.iter().find(|block| !block.block.body.transactions.is_empty());
    let first = filled.unwrap().header.number;
    let (mut one, _) = connect(&prefetchers, hello());
    announce_to(&one, &mut prefetchers, &mut blocks);
    let hashes = [(); 2].map(|()| announced(&mut one));
    one.write_all(&Message::Away.encode()).unwrap();
    // A block that waits goes on as soon as its prefetcher is away.
    assert!(!prefetchers.wait(first, LONG, &mut blocks));
    assert!(!prefetchers.read_ahead());
    hashes.into_iter().for_each(|hash| send_bag(&mut one, hash));

    let (mut other, _) = connect(&prefetchers, hello());
    announce_to(&other, &mut prefetchers, &mut blocks);
    assert_eq!(announced(&mut other), hashes[0]);
    drop(other);
    while prefetchers.read_ahead() {
        std::thread::yield_now();
    }
    one.write_all(&Message::Ready.encode()).unwrap();
    announce_to(&one, &mut prefetchers, &mut blocks);
    assert_eq!(announced(&mut one), hashes[0]);
    send_bag(&mut one, hashes[0]);
    assert!(prefetchers.wait(first, LONG, &mut blocks));
}

/// A bag may hold anything, and must be that of the block at hand.
#[test]
fn bags_are_taken_in_the_order_of_their_blocks() {
    let mut prefetchers = start(layer("rain")).unwrap();
    let mut blocks = Sample::read();
    let (mut stream, _) = connect(&prefetchers, hello());
    // Those that would be late are left out, and so is the sixth one, which has no transactions. A prefetcher has two.
    prefetchers.was_late(0);
    announce_to(&stream, &mut prefetchers, &mut blocks);
    let announced = [(); 2].map(|()| announced(&mut stream));
    assert_eq!(announced, [4, 6].map(|place: usize| blocks.0[place].header.hash()));
    let mut send = |block: B256, nodes: Vec<BagNode>| {
        stream.write_all(&Message::Bag(SentBag { block, nodes }).encode()).unwrap();
    };
    let row = Bytes::from_static(b"no node");
    send(announced[0], vec![BagNode { owner: Bytes::new(), path: Bytes::new(), row }]);
    // The bag of the first block again, where that of the second one is due.
    send(announced[0], Vec::new());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty() || rest == Message::End.encode(), "{rest:?}");
    let report = prefetchers.finish();
    assert_eq!((report.announced, report.sent.bags, report.sent.refused), (2, 1, 1));
}

/// The bags that took long may be those of a prefetcher that is gone, or that was opening a newer state.
#[test]
fn where_few_blocks_are_ahead_nearer_ones_are_announced() {
    let mut prefetchers = start(layer("rain")).unwrap();
    let mut blocks = Sample::read();
    let (stream, _) = connect(&prefetchers, hello());
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    prefetchers.was_late(2 * blocks.0.len());
    // Each attempt takes at least a millisecond.
    let is_announced = (0..60_000).any(|_| {
        prefetchers.announce(&mut blocks);
        stream.peek(&mut [0]).is_ok()
    });
    assert!(is_announced);
}

/// A node that has just started has none of the levels that it keeps, and would read them one by one.
#[test]
fn the_first_bags_have_the_upper_levels_too() {
    let dir = TempDir::new().unwrap();
    let (chain, state) = (Some(format!("{SAMPLE}/genesis.json")), Some("rain".to_owned()));
    let datadir = Some(dir.path().join("data"));
    let mut open = OpenOptions { datadir, chain, state, ..OpenOptions::default() };
    drop(DataDir::open(&open, true).unwrap().into_chain().unwrap());
    open.engine.read_only = true;
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let connect = server.local_addr().unwrap().to_string();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let message = Message::read(&mut stream, BAG_BYTES).unwrap();
        let Some(Message::Hello(hello)) = message else { panic!("{message:?}") };
        let block = Sample::read().0.swap_remove(0);
        let senders = block.senders().unwrap().to_vec();
        let (hash, rlp) = (block.header.hash(), block.rlp);
        let block = Message::Block(AnnouncedBlock { hash, rlp, senders });
        for message in [Message::Hello(Hello { levels: 4, ..hello }), block] {
            stream.write_all(&message.encode()).unwrap();
        }
        let bag = Message::read(&mut stream, BAG_BYTES).unwrap();
        stream.write_all(&Message::End.encode()).unwrap();
        bag
    });
    prefetch(&PrefetchOptions { connect, open, threads: 1 }).unwrap();
    let bag = served.join().unwrap();
    let Some(Message::Bag(SentBag { nodes, .. })) = bag else { panic!("{bag:?}") };
    assert!(nodes.iter().any(|node| node.owner.is_empty() && node.path.len() < 4), "{nodes:?}");
}

/// Executes blocks while no node comes, until the prefetchers count as idle. Returns the number of blocks.
fn blocks_until_idle(prefetchers: &mut Prefetchers, brought: u64) -> usize {
    let mut blocks = 0;
    while prefetchers.read_ahead() {
        prefetchers.count(brought);
        blocks += 1;
    }
    blocks
}

/// Such prefetchers may hang, or have no store that they could read.
#[test]
fn prefetchers_that_bring_nothing_are_not_relied_on() {
    let mut prefetchers = start(layer("rain")).unwrap();
    (0..100).for_each(|_| prefetchers.count(0));
    assert!(!prefetchers.read_ahead());
    let (stream, _) = connect(&prefetchers, hello());
    assert!(prefetchers.read_ahead(), "it counts from the hello of the node on");
    assert_eq!(blocks_until_idle(&mut prefetchers, 0), 5);
    // Nodes come again.
    prefetchers.count(1);
    assert_eq!(blocks_until_idle(&mut prefetchers, 1), 5);
    // Bags that take twenty blocks leave so many without any.
    prefetchers.was_late(20);
    prefetchers.count(2);
    assert_eq!(blocks_until_idle(&mut prefetchers, 2), 25);
    drop(stream);
}

#[test]
fn prefetchers_hear_that_the_node_is_done() {
    let prefetchers = start(layer("rain")).unwrap();
    let mut streams: Vec<_> = (0..3).map(|_| connect(&prefetchers, hello()).0).collect();
    // The node waits a short time for a connection that sends nothing.
    let silent = TcpStream::connect(prefetchers.address()).unwrap();
    let finish = std::thread::spawn(move || prefetchers.finish());
    for stream in &mut streams {
        assert_eq!(Message::read(stream, BAG_BYTES).unwrap(), Some(Message::End));
        assert_eq!(Message::read(stream, BAG_BYTES).unwrap(), None);
    }
    drop(streams);
    let report = finish.join().unwrap();
    assert_eq!((report.announced, report.sent.bags), (0, 0));
    drop(silent);
}
