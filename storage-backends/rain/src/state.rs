//! The state as it is read from a store.

use crate::{
    SHARD_COUNT,
    checkpoint::{Replayed, replay},
    meta::Meta,
    touches::Noted,
    version::Version,
};
use polytrie_state::{Result, corrupt};
use rayon::{ThreadPoolBuilder, prelude::*};

/// The head in a store, and how far the rows of each shard go.
pub(crate) struct State {
    pub(crate) version: Version,
    /// The shards in order; none if the store has no head.
    pub(crate) shards: Vec<Replayed>,
}

impl State {
    pub(crate) fn empty() -> Self {
        Self { version: Version::empty(), shards: Vec::new() }
    }
}

/// Number of shards that are replayed at the same time, whatever the number of cores: mostly they wait for the store. Each
/// asks for many rows at a time, and a cluster should answer all of them soon.
const AT_A_TIME: usize = SHARD_COUNT / 2;

/// Replays all shards.
fn replay_all(store: &Noted<'_>) -> Result<Vec<Replayed>> {
    let all = || -> Result<Vec<Replayed>> {
        (0..SHARD_COUNT).into_par_iter().map(|shard| replay(store, shard)).collect()
    };
    match ThreadPoolBuilder::new().num_threads(AT_A_TIME).build() {
        Ok(pool) => pool.install(all),
        // Without threads of its own it takes longer.
        Err(_) => all(),
    }
}

/// Reads the state: takes the checkpoints, replays the logs, and compares the root with that of the head.
pub(crate) fn read_state(store: &Noted<'_>) -> Result<State> {
    let meta = Meta::read(store)?;
    let shards = replay_all(store)?;
    let Some(meta) = meta else {
        // A load that was cut off has left nodes, and no row that leads to them.
        return Ok(State::empty());
    };
    let parts = std::array::from_fn(|shard| shards[shard].part.clone());
    let version = Version::of(parts, store, meta.seq)?;
    if version.root != meta.root {
        return Err(corrupt!(
            "checkpoints and logs make the state root {}, the head has {}",
            version.root,
            meta.root
        ));
    }
    Ok(State { version, shards })
}
