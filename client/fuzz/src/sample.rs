//! The chain that the repository has as a sample, on layers in memory.

use alloy_primitives::{Address, Bytes, U256};
use polytrie::{
    blocks::BlockReader,
    chain::{Candidate, Chain, ChainOptions},
    datadir::{DataDir, OpenOptions},
    layers::{LayerOptions, testsetup},
};
use std::{collections::BTreeMap, io::Cursor};

/// Its genesis.json.
pub const GENESIS: &[u8] = include_bytes!("../../tests/data/sample/genesis.json");
const CHAIN: &[u8] = include_bytes!("../../tests/data/sample/chain.rlp.gz");

/// The chain up to some block.
#[derive(Debug)]
pub struct Sample {
    /// The chain.
    pub chain: Chain,
    /// Its directory, which is in memory.
    pub dir: DataDir,
    /// Accounts that the blocks changed, with the slots of them that they changed.
    pub written: BTreeMap<Address, Vec<U256>>,
}

/// RLP of its first blocks after the genesis block.
pub fn blocks(count: usize) -> Vec<Bytes> {
    let reader = BlockReader::from_reader("the sample", Cursor::new(CHAIN))
        .expect("the sample is a block file");
    reader.take(count).map(|block| block.expect("the sample is whole").rlp.into()).collect()
}

/// What a directory in memory is opened with.
pub fn options(state: &str) -> OpenOptions {
    let mut layer = LayerOptions { trie_cache: 1 << 24, ..LayerOptions::default() }.proving();
    layer.lvmt.needs.setup = Some(testsetup::dir());
    let (state, kv) = (Some(state.to_owned()), Some("memory".to_owned()));
    OpenOptions { state, kv, layer, ..OpenOptions::default() }
}

/// The first blocks, on a layer; those after the genesis block go through `each` when they are in.
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
