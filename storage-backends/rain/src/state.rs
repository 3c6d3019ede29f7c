//! The state as it is read from a store.

use crate::{
    SHARD_COUNT,
    checkpoint::{Replayed, Saved, replay},
    meta::Meta,
    shard::Lost,
    version::Version,
};
use polytrie_kv::Read;
use polytrie_state::{Result, corrupt};
use rayon::{ThreadPoolBuilder, prelude::*};

/// The head in a store, and how far the rows of each shard go.
pub(crate) struct State {
    pub(crate) version: Version,
    pub(crate) shards: Shardwise,
}

/// The rows of each shard.
pub(crate) struct Shardwise {
    /// The checkpoint of each shard.
    pub(crate) saved: [Saved; SHARD_COUNT],
    /// Rows of each shard that have lost their node since its checkpoint.
    pub(crate) lost: [Lost; SHARD_COUNT],
    /// Number of the last row of each shard's log, or of its checkpoint.
    pub(crate) logged: [u64; SHARD_COUNT],
}

impl State {
    pub(crate) fn empty() -> Self {
        let version = Version::empty();
        let saved = version.parts.clone().map(|part| Saved { part, seq: 0 });
        let shards = Shardwise { saved, lost: Default::default(), logged: [0; SHARD_COUNT] };
        Self { version, shards }
    }
}

/// Replays all shards at the same time, whatever the number of cores: mostly they wait for the store, which reads the
/// nodes on the way to each key of a log one after the other.
fn replay_all(store: &dyn Read) -> Result<Vec<Replayed>> {
    let all = || -> Result<Vec<Replayed>> {
        (0..SHARD_COUNT).into_par_iter().map(|shard| replay(store, shard)).collect()
    };
    match ThreadPoolBuilder::new().num_threads(SHARD_COUNT).build() {
        Ok(pool) => pool.install(all),
        // Without threads of its own it takes longer.
        Err(_) => all(),
    }
}

/// Reads the state: takes the checkpoints, replays the logs, and compares the root with that of the head.
pub(crate) fn read_state(store: &dyn Read) -> Result<State> {
    let meta = Meta::read(store)?;
    let replayed = replay_all(store)?;
    let Some(meta) = meta else {
        // A load that was cut off has left nodes, and no row that leads to them.
        return Ok(State::empty());
    };
    let State { mut version, mut shards } = State::empty();
    for (shard, Replayed { saved, part, lost, last }) in replayed.into_iter().enumerate() {
        shards.saved[shard] = saved;
        version.parts[shard] = part;
        shards.lost[shard] = lost;
        shards.logged[shard] = last;
    }
    let version = Version::of(version.parts, store, meta.seq)?;
    if version.root != meta.root {
        return Err(corrupt!(
            "checkpoints and logs make the state root {}, the head has {}",
            version.root,
            meta.root
        ));
    }
    Ok(State { version, shards })
}
