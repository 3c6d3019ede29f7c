//! Chains for tests of this crate, on every layer.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::{Chain, ChainOptions, TABLES};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{MemoryEngine, Store, StoreOptions};
use polytrie_layers::{LayerKind, LayerOptions};
use std::sync::Arc;

/// The chain of development in what the engine holds. What a chain before it has not flushed is lost, as in a crash.
pub(crate) fn open(kind: &LayerKind, engine: &Arc<MemoryEngine>, options: ChainOptions) -> Chain {
    open_spec(kind, engine, options, ChainSpec::load("dev").unwrap())
}

/// As [`open`], another chain.
pub(crate) fn open_spec(
    kind: &LayerKind,
    engine: &Arc<MemoryEngine>,
    options: ChainOptions,
    spec: Arc<ChainSpec>,
) -> Chain {
    let tables = [kind.tables, TABLES].concat();
    let store = Store::open(engine.clone(), &tables, StoreOptions::default()).unwrap();
    let mut settings = LayerOptions::for_tests();
    kind.settle_parameters(&mut settings, None).unwrap();
    let layer = (kind.open)(store.clone().into(), &settings).unwrap();
    Chain::open(spec, store, layer, options).unwrap()
}
