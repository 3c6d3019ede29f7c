//! Chains on every layer, and branches of them.

use super::build;
use crate::{Candidate, Chain, ChainOptions, TABLES};
use alloy_primitives::{B256, Bytes};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{MemoryEngine, Store, StoreOptions};
use polytrie_layers::{LayerKind, LayerOptions};
use polytrie_state::{StateLayer, TxWrites};
use std::sync::Arc;

/// Opens the chain of development on an engine. Blocks that an earlier chain has not flushed are lost, as in a
/// crash.
pub(crate) fn open(kind: &LayerKind, engine: &Arc<MemoryEngine>, options: ChainOptions) -> Chain {
    open_spec(kind, engine, options, ChainSpec::load("dev").unwrap())
}

/// Opens another chain as [`open`] does.
pub(crate) fn open_spec(
    kind: &LayerKind,
    engine: &Arc<MemoryEngine>,
    options: ChainOptions,
    spec: Arc<ChainSpec>,
) -> Chain {
    let tables = [kind.tables, TABLES].concat();
    let store = Store::open(engine.clone(), &tables, StoreOptions::default()).unwrap();
    let layer = open_layer(kind, &store);
    Chain::open(spec, store, layer, options).unwrap()
}

/// Opens a layer in a store that has its tables.
pub(crate) fn open_layer(kind: &LayerKind, store: &Store) -> Arc<dyn StateLayer> {
    let mut settings = LayerOptions::for_tests();
    kind.settle_parameters(&mut settings, None).unwrap();
    (kind.open)(store.clone().into(), &settings).unwrap()
}

/// Builds an empty block on top of the head. Returns its hash and RLP.
pub(crate) fn next(chain: &mut Chain, salt: u8) -> (B256, Bytes) {
    let built = build(chain, salt, &TxWrites::default()).into_block();
    (built.header.hash(), built.rlp)
}

pub(crate) fn candidate(chain: &Chain, rlp: &Bytes) -> Candidate {
    Candidate::prepare(chain.spec(), rlp.clone()).unwrap()
}

/// Builds blocks on top of the head, each on the one before, in a fork of the chain.
pub(crate) fn branch(chain: &mut Chain, salt: u8, count: usize) -> Vec<(B256, Bytes)> {
    let mut fork = chain.fork().unwrap();
    let mut take_next = || {
        let block = next(&mut fork, salt);
        fork.insert(candidate(&fork, &block.1)).unwrap();
        fork.settle().unwrap();
        block
    };
    (0..count).map(|_| take_next()).collect()
}
