//! Tests of reading and writing, on real chain files where they are at hand.

mod era1_files;
mod formats;
#[path = "../../../consensus/src/tests/made_up.rs"]
mod made_up;
mod mistakes;
mod properties;

use alloy_consensus::{Block, TxEnvelope};
use made_up::made_up_chain;

use super::{BlockFileError, BlockReader, RawBlock};
use polytrie_testing::fixture;

/// All blocks, or the first error.
fn all(reader: Result<BlockReader, BlockFileError>) -> Result<Vec<RawBlock>, BlockFileError> {
    reader?.collect()
}

/// All blocks of bytes whose format is to be detected.
fn read(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Vec<RawBlock>, BlockFileError> {
    all(BlockReader::from_reader("test", std::io::Cursor::new(bytes)))
}

fn encode(chain: &[Block<TxEnvelope>]) -> Vec<Vec<u8>> {
    chain.iter().map(alloy_rlp::encode).collect()
}
