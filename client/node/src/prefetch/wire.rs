//! The protocol between a node and its prefetchers, in frames over TCP:
//!
//! ```text
//! length of what follows (4, big-endian) ‖ kind (1) ‖ body
//!
//! 1  hello     both ways, first of all            rlp([version, genesis hash, layer, levels that it keeps])
//! 2  refused   to the prefetcher, in place of it  why, in UTF-8
//! 3  block     to the prefetcher                  rlp([hash, block, senders])
//! 4  bag       to the node, one for each block    rlp([hash of the block, [[owner, path, row]…]])
//!              and in their order
//! 5  flushed   to the prefetcher                  nothing: a newer state is durable
//! 6  end       to the prefetcher                  nothing: the node is done
//! 7  away      to the node                        nothing: no store is open, and bags are empty until it is
//! 8  ready     to the node                        nothing: a store is open again
//! ```
//!
//! A prefetcher that says hello is ready. One that is away gets no blocks; those that it has go to others.

use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Header, RlpDecodable, RlpEncodable};
use polytrie_state::BagNode;
use socket2::{SockRef, TcpKeepalive};
use std::{
    io::{self, Read},
    net::TcpStream,
    time::Duration,
};
use thiserror::Error;

/// The version of the protocol.
pub(super) const VERSION: u64 = 2;
/// The most bytes of a frame before both sides have said hello.
pub(super) const HELLO_BYTES: usize = 1 << 10;
/// The most bytes of a frame with a block. Hardly any block is larger, and such a block is not announced.
pub(super) const BLOCK_BYTES: usize = 32 << 20;
/// The most bytes of a frame with a bag.
pub(super) const BAG_BYTES: usize = 8 << 20;
/// The most nodes of a bag. Decoded, the smallest ones take far more memory than in their frame.
pub(super) const BAG_NODES: usize = BAG_BYTES / 64;
/// Time without a word from the other machine after which the system asks whether it is there.
const SILENCE: Duration = Duration::from_secs(30);
/// Interval at which the system asks again. Some questions without an answer, nine on Linux, end the connection.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Lets the system end a connection after the other machine has vanished. Otherwise a side that only waits for frames
/// would wait for ever.
pub(super) fn notice_loss(stream: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(ASK_EVERY);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// A message, which is sent as one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Hello(Hello),
    Refused(String),
    Block(AnnouncedBlock),
    Bag(SentBag),
    Flushed,
    End,
    Away,
    Ready,
}

/// The parameters on which both sides must agree, and the levels of the node.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(super) struct Hello {
    pub(super) version: u64,
    pub(super) genesis: B256,
    pub(super) layer: String,
    /// Number of levels of the account trie that the node keeps in memory.
    pub(super) levels: u8,
}

/// A block that the node will execute.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(super) struct AnnouncedBlock {
    pub(super) hash: B256,
    pub(super) rlp: Bytes,
    /// The senders of its transactions, which the node has recovered already.
    pub(super) senders: Vec<Address>,
}

/// The nodes that were read for a block.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable)]
pub(super) struct SentBag {
    pub(super) block: B256,
    /// At most [`BAG_NODES`].
    pub(super) nodes: Vec<BagNode>,
}

impl Decodable for SentBag {
    fn decode(buf: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let mut fields = Header::decode_bytes(buf, true)?;
        let block = B256::decode(&mut fields)?;
        let mut rest = Header::decode_bytes(&mut fields, true)?;
        if !fields.is_empty() {
            return Err(alloy_rlp::Error::UnexpectedLength);
        }
        let mut nodes = Vec::new();
        while !rest.is_empty() {
            if nodes.len() == BAG_NODES {
                return Err(alloy_rlp::Error::Custom("a bag has more nodes than one may have"));
            }
            nodes.push(BagNode::decode(&mut rest)?);
        }
        Ok(Self { block, nodes })
    }
}

/// The bytes received are no message.
#[derive(Debug, Error)]
pub(super) enum WireError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it ends within a frame")]
    Cut,
    #[error("a frame of {found} bytes, where {most} are the most")]
    TooLong { found: usize, most: usize },
    #[error("a frame of the unknown kind {0}")]
    Unknown(u8),
    #[error("a frame of kind {kind} whose content does not decode: {reason}")]
    Body { kind: u8, reason: String },
}

impl Hello {
    /// Returns why a prefetcher is of no use to a node, in words for its user; `None` if they fit.
    pub(super) fn objection(node: &Self, prefetcher: &Self) -> Option<String> {
        let mine = |hello: &Self| {
            // The other side chose the name, and a log shows it.
            format!("genesis {} under `{}`", hello.genesis, hello.layer.escape_debug())
        };
        if node.version != prefetcher.version {
            return Some(format!(
                "the node speaks version {} of the protocol, the prefetcher version {}; run the same build of polytrie on both sides",
                node.version, prefetcher.version
            ));
        }
        let is_same = (node.genesis, &node.layer) == (prefetcher.genesis, &prefetcher.layer);
        (!is_same).then(|| {
            format!(
                "the node has {}, the data directory of the prefetcher {}; name one of the same chain and layer with --datadir",
                mine(node),
                mine(prefetcher)
            )
        })
    }
}

impl Message {
    const fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => 1,
            Self::Refused(_) => 2,
            Self::Block(_) => 3,
            Self::Bag(_) => 4,
            Self::Flushed => 5,
            Self::End => 6,
            Self::Away => 7,
            Self::Ready => 8,
        }
    }

    /// Encodes the message as a frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut frame = vec![0, 0, 0, 0, self.kind()];
        match self {
            Self::Hello(hello) => hello.encode(&mut frame),
            Self::Refused(reason) => frame.extend_from_slice(reason.as_bytes()),
            Self::Block(block) => block.encode(&mut frame),
            Self::Bag(bag) => bag.encode(&mut frame),
            Self::Flushed | Self::End | Self::Away | Self::Ready => {}
        }
        // No message comes near to 4 GiB; a wrong length would end the connection.
        let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
        frame[..4].copy_from_slice(&length.to_be_bytes());
        frame
    }

    /// Decodes the message of a frame that was read.
    pub(super) fn decode(frame: &[u8]) -> Result<Self, WireError> {
        let (&kind, body) = frame.split_first().ok_or(WireError::Cut)?;
        let malformed = |reason: String| WireError::Body { kind, reason };
        Ok(match kind {
            1 => Self::Hello(rlp(kind, body)?),
            2 => {
                let text =
                    String::from_utf8(body.to_vec()).map_err(|e| malformed(e.to_string()))?;
                // The text is shown to users, so control characters are replaced.
                Self::Refused(text.replace(char::is_control, " "))
            }
            3 => Self::Block(rlp(kind, body)?),
            4 => Self::Bag(rlp(kind, body)?),
            5..=8 if !body.is_empty() => return Err(malformed("it has one".to_owned())),
            5 => Self::Flushed,
            6 => Self::End,
            7 => Self::Away,
            8 => Self::Ready,
            _ => return Err(WireError::Unknown(kind)),
        })
    }

    /// Reads and decodes a message; see [`read_raw`].
    pub(super) fn read(input: &mut impl Read, most: usize) -> Result<Option<Self>, WireError> {
        read_raw(input, most)?.map(|frame| Self::decode(&frame)).transpose()
    }
}

/// Reads a frame of at most `most` bytes, without its length; `None` if the other side has closed the connection between
/// frames.
pub(super) fn read_raw(input: &mut impl Read, most: usize) -> Result<Option<Vec<u8>>, WireError> {
    let mut length = [0; 4];
    match fill(input, &mut length)? {
        4 => {}
        0 => return Ok(None),
        _ => return Err(WireError::Cut),
    }
    // The length fits on every machine that this runs on.
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > most {
        return Err(WireError::TooLong { found: length, most });
    }
    // The frame takes only as much memory as bytes have come.
    let mut frame = Vec::new();
    input.by_ref().take(length as u64).read_to_end(&mut frame)?;
    if frame.len() == length { Ok(Some(frame)) } else { Err(WireError::Cut) }
}

fn rlp<T: Decodable>(kind: u8, body: &[u8]) -> Result<T, WireError> {
    let malformed = |error: alloy_rlp::Error| WireError::Body { kind, reason: error.to_string() };
    alloy_rlp::decode_exact(body).map_err(malformed)
}

/// Fills a buffer until it is full or the input ends. Returns the number of bytes read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_system_watches_a_connection() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let is_watched = || SockRef::from(&stream).keepalive().unwrap();
        assert!(!is_watched());
        notice_loss(&stream).unwrap();
        assert!(is_watched());
    }

    fn messages() -> Vec<Message> {
        let genesis = B256::repeat_byte(1);
        let hello = Hello { version: 1, genesis, layer: "rain".to_owned(), levels: 4 };
        let node = BagNode {
            owner: Bytes::new(),
            path: Bytes::from_static(&[1, 2]),
            row: Bytes::from_static(b"row"),
        };
        vec![
            Message::Hello(hello),
            Message::Refused("another chain".to_owned()),
            Message::Block(AnnouncedBlock {
                hash: B256::repeat_byte(2),
                rlp: Bytes::from_static(b"block"),
                senders: vec![Address::repeat_byte(3); 2],
            }),
            Message::Bag(SentBag { block: B256::repeat_byte(2), nodes: vec![node; 3] }),
            Message::Flushed,
            Message::End,
            Message::Away,
            Message::Ready,
        ]
    }

    fn read(mut bytes: &[u8]) -> Result<Option<Message>, WireError> {
        Message::read(&mut bytes, 1_000)
    }

    /// An input that gives one byte at a time, and is interrupted before each.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let most = out.len().min(1);
            self.0.read(&mut out[..most])
        }
    }

    #[test]
    fn frames_come_back_one_by_one() {
        let bytes: Vec<u8> = messages().iter().flat_map(Message::encode).collect();
        let mut input = Slow(&bytes, false);
        for message in messages() {
            assert_eq!(Message::read(&mut input, 1_000).unwrap(), Some(message));
        }
        assert_eq!(Message::read(&mut input, 1_000).unwrap(), None);
    }

    #[test]
    fn a_frame_that_breaks_off_is_none() {
        for message in messages() {
            let frame = message.encode();
            for length in 1..frame.len() {
                assert!(matches!(read(&frame[..length]), Err(WireError::Cut)), "{length}");
            }
            // The content is cut, and the length says so.
            for length in 0..frame.len() - 4 {
                let mut short = frame[..4 + length].to_vec();
                short[..4].copy_from_slice(&(length as u32).to_be_bytes());
                let found = read(&short);
                let is_text = matches!(&found, Ok(Some(Message::Refused(_))));
                assert!(found.is_err() || is_text, "{length}: {found:?}");
            }
        }
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        let mut frame = messages()[0].encode();
        frame[..4].copy_from_slice(&1_001u32.to_be_bytes());
        assert!(matches!(read(&frame), Err(WireError::TooLong { found: 1_001, most: 1_000 })));
        frame[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(matches!(read(&frame), Err(WireError::TooLong { .. })));
    }

    /// Nodes of a few bytes would take twenty times the memory of their frame.
    #[test]
    fn a_bag_has_a_bounded_number_of_nodes() {
        let node = BagNode { owner: Bytes::new(), path: Bytes::new(), row: Bytes::new() };
        let bag = |count: usize| {
            let nodes = vec![node.clone(); count];
            Message::Bag(SentBag { block: B256::ZERO, nodes }).encode()
        };
        let read = |frame: Vec<u8>| Message::read(&mut &frame[..], BAG_BYTES);
        assert!(read(bag(BAG_NODES)).is_ok());
        let error = read(bag(BAG_NODES + 1)).unwrap_err().to_string();
        assert!(error.contains("more nodes"), "{error}");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for kind in [0, 9, 0xff] {
            assert!(
                matches!(read(&[0, 0, 0, 1, kind]), Err(WireError::Unknown(found)) if found == kind)
            );
        }
        for body in [&[0, 0, 0, 2, 5, 0][..], &[0, 0, 0, 2, 8, 1], &[0, 0, 0, 2, 2, 0xff]] {
            assert!(matches!(read(body), Err(WireError::Body { .. })));
        }
        assert!(read(b"GET / HTTP/1.1\r\n\r\n").is_err());
        let refused = [&[0, 0, 0, 4, 2][..], b"a\x1bb"].concat();
        assert_eq!(read(&refused).unwrap(), Some(Message::Refused("a b".to_owned())));
    }

    #[test]
    fn an_objection_names_both_sides() {
        let Some(Message::Hello(node)) = messages().into_iter().next() else { unreachable!() };
        assert_eq!(Hello::objection(&node, &Hello { levels: 0, ..node.clone() }), None);
        let other = Hello { layer: "mpt".to_owned(), ..node };
        let text = Hello::objection(&node, &other).unwrap();
        assert!(text.contains("`rain`") && text.contains("`mpt`"), "{text}");
        let other = Hello { layer: "a\x1b[2J\n".to_owned(), ..node };
        assert!(!Hello::objection(&node, &other).unwrap().contains(char::is_control));
        let other = Hello { genesis: B256::ZERO, ..node.clone() };
        assert!(Hello::objection(&node, &other).unwrap().contains("0x0101"));
        let other = Hello { version: 2, ..node.clone() };
        assert!(Hello::objection(&node, &other).unwrap().contains("version 2"));
    }
}
