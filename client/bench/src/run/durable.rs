//! A block of reads and writes on the state layer alone, durable at its end.

use super::Result;
use crate::{fixture::OpenStore, measure::BlockTimes};
use alloy_primitives::{B256, U256};
use polytrie_state::{BlockRef, Finished, Session, SessionCounters, StateError};
use std::time::Instant;

/// Runs `work` in a block on top of block `number`, and writes the block. It is durable when this returns, if the
/// store makes each write durable. Returns its times and counters.
pub(super) fn durable_block(
    open: &OpenStore,
    number: u64,
    work: impl FnOnce(&mut Session) -> Result<(), StateError>,
) -> Result<(BlockTimes, SessionCounters)> {
    let mut times = BlockTimes::default();
    let mut start = Instant::now();
    let mut lap = || {
        let now = Instant::now();
        now - std::mem::replace(&mut start, now)
    };
    let parent = BlockRef { number, hash: B256::from(U256::from(number)) };
    let mut session = Session::begin(&*open.layer, parent)?;
    work(&mut session)?;
    times.execute = lap();
    let Finished { mut outcome, counters, .. } = session.finish()?;
    times.commit = lap();
    open.store.write(std::mem::take(&mut outcome.batch))?;
    times.flush = lap();
    outcome.accept()?;
    times.commit += lap();
    Ok((times, counters))
}

/// Prepares for block `number` of a warm-up of so many blocks. Before the last one all earlier ones go to the engine: the
/// pause before the clock starts is then short, and work in the background, such as a merge, gains little by it.
pub(super) fn before_warmup_block(open: &OpenStore, number: u64, blocks: u64) -> Result<()> {
    if number + 1 == blocks {
        open.store.checkpoint()?;
    }
    Ok(())
}
