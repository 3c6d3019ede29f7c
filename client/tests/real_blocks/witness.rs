//! Blocks with the trie nodes that they need: all of the above, and the state root.

use crate::{ancestors, archive, begin, decode_block, execute, mainnet, rules};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::Decodable;
use polytrie::executor::Executor;
use polytrie_kv::Store;
use polytrie_rain::{RainLayer, RainOptions, Witness};
use polytrie_state::StateLayer;
use serde::Deserialize;
use std::{collections::HashMap, sync::Arc};

#[derive(Debug, Deserialize)]
struct Fixture {
    block: String,
    hash: B256,
    ancestors: Vec<Bytes>,
    state: Vec<Bytes>,
    #[serde(default, rename = "statePost")]
    state_post: Vec<Bytes>,
    codes: Vec<Bytes>,
}

/// A layer that holds just the nodes of the witness.
fn layer(root: B256, fixture: Fixture) -> Arc<RainLayer> {
    let nodes = fixture.state.into_iter().chain(fixture.state_post).collect();
    let witness = Witness { root, nodes, codes: fixture.codes };
    let store = Store::memory(RainLayer::TABLES).expect("a store in memory opens");
    witness.fill(&store, None).expect("a witness holds valid nodes");
    let options = RainOptions { undo: false, ..RainOptions::default() };
    RainLayer::open(store, options).expect("a layer opens")
}

#[test]
fn every_block_executes_to_its_state_root() {
    let mut fixtures = Vec::new();
    if !archive::for_each("witness", |name, bytes| {
        fixtures.push(archive::json::<Fixture>(name, bytes));
    }) {
        return;
    }
    assert_eq!(fixtures.len(), 29);
    let spec = mainnet();
    let mut executor = Executor::new(16 << 20);
    let mut compared = 0;
    for fixture in fixtures {
        let block = decode_block(&fixture.block);
        assert_eq!(block.header.hash_slow(), fixture.hash);
        let number = block.header.number;
        let headers: Vec<Header> = fixture
            .ancestors
            .iter()
            .map(|rlp| Header::decode(&mut &rlp[..]).expect("a fixture holds valid headers"))
            .collect();
        let hashes: HashMap<u64, B256> =
            headers.iter().map(|header| (header.number, header.hash_slow())).collect();
        let parent = headers.iter().find(|header| header.number + 1 == number);
        let parent = parent.expect("the parent is among the ancestors");
        let layer = layer(parent.state_root, fixture);
        assert_eq!(layer.commitment().as_state_root(), Some(parent.state_root));

        let mut session = begin(&*layer, &block).with_intermediate_roots();
        let rules = rules(&spec, &block);
        let executed = execute(&mut executor, &mut session, rules, &block, &ancestors(&hashes));
        compared += usize::from(executed.receipts_comparable);
        let finished = session.finish().expect("a block ends");
        let root = finished.outcome.commitment.as_state_root();
        assert_eq!(root, Some(block.header.state_root), "state root of block {number}");
    }
    assert_eq!(
        compared, 29,
        "the receipts of every block can be compared, state roots in them included"
    );
}
