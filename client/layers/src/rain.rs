//! The layer `rain`: its options and its entry in the list of layers.

use super::{
    engines::is_elsewhere,
    kind::{Hooks, LayerKind, Stateless},
    options::LayerOptions,
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
    about: "Ethereum's trie in versions that share nodes, in shards with a log and checkpoints each",
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
        put_off: Some(put_off),
        ..Hooks::NONE
    },
};

/// Returns a note for the reader of a report if the run ended before every shard had written its nodes.
fn put_off(_: &LayerOptions, above: u64, last: u64) -> Option<String> {
    let (blocks, cycle) = (last.saturating_sub(above), RainLayer::CYCLE);
    (blocks < cycle).then(|| {
        format!(
            "rain has put off writing nodes: its shards take turns to write what many blocks have changed, and some have not had their turn, or wrote little, in a run of {blocks} blocks; with {cycle} blocks or more, that is part of its figures"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_which_not_every_shard_wrote_has_a_note() {
        let options = LayerOptions::default();
        let cycle = RainLayer::CYCLE;
        for above in [0, 20_000_100] {
            assert!(put_off(&options, above, above + cycle - 1).is_some());
            assert_eq!(put_off(&options, above, above + cycle), None);
        }
    }
}
