//! `rain`.

use super::kind::LayerKind;
use polytrie_rain::{RainLayer, RainOptions, verify};

pub(super) const KIND: LayerKind = LayerKind {
    name: "rain",
    about: "the same trie in versions of shared nodes, in shards with a log and checkpoints each",
    canonical: true,
    tables: RainLayer::TABLES,
    open: |store, options| {
        let options = RainOptions {
            retain: options.rain_retain,
            cache_bytes: options.trie_cache,
            ..RainOptions::default()
        };
        Ok(RainLayer::open(store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    keeps_flat: false,
    settle: None,
};
