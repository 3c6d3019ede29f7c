//! Reads the blocks of real chain files with code of the tests, so that the reader of the client is
//! not needed here.

use alloy_consensus::{Block, BlockBody, Header, TxEnvelope};
use alloy_primitives::U256;
use alloy_rlp::Decodable;
use flate2::read::MultiGzDecoder;
use polytrie_testing::fixture;
use std::{fs, io::Read};

/// Reads a fixture, decompressed if its name ends in `.gz`. Returns `None` if it is absent.
fn read_fixture(path: &str) -> Option<Vec<u8>> {
    let path = fixture(path)?;
    let bytes = fs::read(&path).expect("a fixture can be read");
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Some(bytes);
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("a fixture is whole");
    Some(unpacked)
}

/// Reads the blocks of a file of concatenated RLP, decompressed if its name ends in `.gz`.
pub(crate) fn rlp_blocks(path: &str) -> Option<Vec<Block<TxEnvelope>>> {
    let bytes = read_fixture(path)?;
    let mut rest = &bytes[..];
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        blocks.push(Block::decode(&mut rest).expect("a fixture holds valid blocks"));
    }
    Some(blocks)
}

/// Reads the blocks of an era1 file, each with its total difficulty.
///
/// This second reader knows only the records that it needs, and checks nothing else.
pub(crate) fn era1_blocks(path: &str) -> Option<Vec<(Block<TxEnvelope>, U256)>> {
    const HEADER: u16 = 3;
    const BODY: u16 = 4;
    const TOTAL_DIFFICULTY: u16 = 6;
    let bytes = read_fixture(path)?;
    let mut rest = &bytes[..];
    let (mut headers, mut bodies, mut difficulties) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let kind = u16::from_le_bytes([head[0], head[1]]);
        let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let (entry, after) = after.split_at(length as usize);
        rest = after;
        match kind {
            HEADER => {
                headers.push(Header::decode(&mut &unsnap(entry)[..]).expect("a valid header"))
            }
            BODY => bodies.push(BlockBody::decode(&mut &unsnap(entry)[..]).expect("a valid body")),
            TOTAL_DIFFICULTY => difficulties.push(U256::from_le_slice(entry)),
            _ => {}
        }
    }
    let blocks = headers.into_iter().zip(bodies).map(|(header, body)| Block::new(header, body));
    Some(blocks.zip(difficulties).collect())
}

fn unsnap(framed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    snap::read::FrameDecoder::new(framed).read_to_end(&mut bytes).expect("a fixture is whole");
    bytes
}
