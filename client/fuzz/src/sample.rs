//! The sample chain of the repository, on layers in memory.

use alloy_primitives::{Address, Bytes, U256};
use polytrie::{
    blocks::BlockReader,
    chain::{Candidate, Chain, ChainOptions},
    datadir::{DataDir, OpenOptions},
    layers::{LayerOptions, testsetup},
};
use std::{collections::BTreeMap, io::Cursor};

/// Content of the sample's genesis.json.
pub const GENESIS: &[u8] = include_bytes!("../../tests/data/sample/genesis.json");
const CHAIN: &[u8] = include_bytes!("../../tests/data/sample/chain.rlp.gz");

/// The first blocks of the sample chain, stored on one layer.
#[derive(Debug)]
pub struct Sample {
    /// The chain.
    pub chain: Chain,
    /// Data directory in memory.
    pub dir: DataDir,
    /// Accounts that the blocks changed, each with the slots that they changed.
    pub written: BTreeMap<Address, Vec<U256>>,
}

/// RLP of the sample's first `count` blocks after the genesis block.
pub fn blocks(count: usize) -> Vec<Bytes> {
    let reader = BlockReader::from_reader("the sample", Cursor::new(CHAIN))
        .expect("the sample is a block file");
    reader.take(count).map(|block| block.expect("the sample is whole").rlp.into()).collect()
}

/// Options that open a data directory in memory, for a layer that makes proofs.
pub fn options(state: &str) -> OpenOptions {
    let mut layer = LayerOptions { trie_cache: 1 << 24, ..LayerOptions::default() }.proving();
    layer.lvmt.needs.setup = Some(testsetup::dir());
    let (state, kv) = (Some(state.to_owned()), Some("memory".to_owned()));
    OpenOptions { state, kv, layer, ..OpenOptions::default() }
}

/// Imports the first `count` blocks on a layer, and calls `each` after each of them.
pub fn sample(
    state: &str,
    chain: ChainOptions,
    count: usize,
    mut each: impl FnMut(&mut Chain),
) -> Sample {
    let chain_options = ChainOptions { keep_writes: true, ..chain };
    let options = OpenOptions { chain_options, ..options(state) };
    let dir = DataDir::create_with(&options, GENESIS).expect("memory does not fail");
    let (mut chain, dir) = dir.into_chain().expect("memory does not fail");
    let mut written: BTreeMap<Address, Vec<U256>> = BTreeMap::new();
    for rlp in blocks(count) {
        let candidate = Candidate::prepare(chain.spec(), rlp).expect("the sample decodes");
        chain.insert(candidate).expect("the sample is valid");
        each(&mut chain);
    }
    chain.settle().expect("the sample is valid");
    for block in chain.take_written() {
        for account in block.writes.accounts() {
            let Some(address) = account.address else { continue };
            let slots = written.entry(address).or_default();
            slots.extend(account.slots.iter().filter_map(|slot| slot.slot));
        }
    }
    Sample { chain, dir, written }
}
