//! Connections that break the protocol, and how they end.

use super::{
    Prefetchers,
    wire::{BAG_BYTES, Hello, Message, SentBag, VERSION},
};
use alloy_primitives::B256;
use polytrie_kv::Store;
use polytrie_layers::{self as layers, LayerOptions};
use polytrie_state::{StateError, StateLayer};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};

const GENESIS: B256 = B256::repeat_byte(1);

fn layer(name: &str) -> Arc<dyn StateLayer> {
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
