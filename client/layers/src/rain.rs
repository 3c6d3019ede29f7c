//! The layer `rain`: its options and its entry in the list of layers.

use super::{
    engines::is_elsewhere,
    kind::{Hooks, LayerKind, Stateless},
};
use clap::Args;
use polytrie_rain::{RainLayer, RainOptions, verify};
use serde::{Deserialize, Serialize};

/// What a user can set about `rain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layers")]
pub struct RainSettings {
    /// Levels of the account trie that `rain` always keeps in memory; those below share --trie.cache.
    #[arg(id = "rain.retain", long = "rain.retain", value_name = "LEVELS", default_value_t = Self::default().retain)]
    pub retain: usize,
}

impl Default for RainSettings {
    fn default() -> Self {
        Self { retain: RainOptions::default().retain }
    }
}

pub(super) const KIND: LayerKind = LayerKind {
    name: RainLayer::NAME,
    about: "the same trie in versions of shared nodes, in shards with a log and checkpoints each",
    canonical: true,
    tables: RainLayer::TABLES,
    open: |place, options| {
        let options = RainOptions {
            retain: options.rain.retain,
            cache_bytes: options.trie_cache,
            verify: is_elsewhere(place.store.engine_name()),
            ..RainOptions::default()
        };
        Ok(RainLayer::open(place.store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    hooks: Hooks {
        stateless: Some(Stateless {
            name: RainLayer::NAME,
            on_witness: |witness| Ok(RainLayer::on_witness(witness, None)?),
        }),
        bags: true,
        ..Hooks::NONE
    },
};
