//! `lmpt`.

use super::{
    kind::{LayerKind, Parameters},
    options::{DEFAULT_LMPT_INTERVAL, LayerOptions},
};
use polytrie_lmpt::{LmptLayer, LmptOptions, verify};
use polytrie_state::StateError;

pub(super) const KIND: LayerKind = LayerKind {
    name: "lmpt",
    about: "layered tries: new writes in small tries in memory, merged into one on disk in the background",
    canonical: false,
    tables: LmptLayer::TABLES,
    open: |store, options| {
        let options = LmptOptions {
            interval: options.lmpt_interval.unwrap_or(DEFAULT_LMPT_INTERVAL),
            memory_bytes: options.lmpt_memory,
            cache_bytes: options.trie_cache,
            ..LmptOptions::default()
        };
        Ok(LmptLayer::open(store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    keeps_flat: false,
    settle: Some(settle),
};

/// The parameter of the stamp that says which interval the state is built with.
const INTERVAL: &str = "lmpt.interval";

#[expect(clippy::unnecessary_wraps, reason = "as the table wants it")]
fn settle(
    options: &mut LayerOptions,
    stamped: Option<&Parameters>,
) -> Result<Parameters, StateError> {
    let made_with = stamped.and_then(|parameters| parameters.get(INTERVAL)?.parse().ok());
    let interval = options.lmpt_interval.or(made_with).unwrap_or(DEFAULT_LMPT_INTERVAL);
    options.lmpt_interval = Some(interval);
    Ok(Parameters::from([(INTERVAL.to_owned(), interval.to_string())]))
}
