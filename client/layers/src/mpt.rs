//! The layer `mpt`: its entry in the list of layers.

use super::kind::{Hooks, LayerKind};
use polytrie_mpt::{MptLayer, MptOptions, verify};

pub(super) const KIND: LayerKind = LayerKind {
    name: MptLayer::NAME,
    about: "the Merkle Patricia trie as Ethereum specifies it, read and written through the trie",
    canonical: true,
    tables: MptLayer::TABLES,
    open: |place, options| {
        let options = MptOptions { cache_bytes: options.trie_cache, ..MptOptions::default() };
        Ok(MptLayer::open(place.store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    hooks: Hooks::NONE,
};
