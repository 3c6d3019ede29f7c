//! A change of the state, shard by shard.

use crate::{
    log::ShardWrite,
    shard::{Lost, apply},
    version::{Part, Version, shard_of},
};
use polytrie_kv::Read;
use polytrie_state::{StateError, WriteSet};
use rayon::prelude::*;
use std::cmp::Reverse;

/// The shards that a change concerns, what each of them is to log, and what its rows lose.
pub(crate) type Logs = Vec<(usize, Vec<ShardWrite>, Lost)>;

/// Work on a shard.
struct Job<'a> {
    keys: u64,
    part: &'a mut Part,
    writes: &'a [ShardWrite],
    lost: &'a mut Lost,
}

impl Job<'_> {
    fn run(&mut self, store: &dyn Read, seq: u64) -> Result<(), StateError> {
        *self.lost = apply(self.part, self.writes, store, seq)?;
        Ok(())
    }
}

/// A change with fewer keys is made on the caller's thread and at most one other.
const PARALLEL_FROM: u64 = 1_024;
/// For fewer keys another thread takes longer to wake up than they take.
const BESIDE_FROM: u64 = 64;

/// The version after a change, and what each shard is to log of it. What `from` shares with no other version is
/// changed where it is. Shards are worked on in parallel if that pays.
pub(crate) fn change(
    store: &dyn Read,
    from: Version,
    writes: &WriteSet,
    seq: u64,
) -> Result<(Version, Logs), StateError> {
    let accounts = writes.accounts();
    let mut logs: Logs = accounts
        .chunk_by(|a, b| shard_of(&a.hash) == shard_of(&b.hash))
        .map(|part| (shard_of(&part[0].hash), part.iter().map(ShardWrite::from).collect()))
        .map(|(shard, writes)| (shard, writes, Lost::default()))
        .collect();
    let mut parts = from.parts;
    // Both are in the order of the shards.
    let mut all = parts.iter_mut().enumerate();
    let mut jobs = Vec::with_capacity(logs.len());
    for (shard, writes, lost) in &mut logs {
        let part = all.find(|(n, _)| n == shard).map(|(_, part)| part);
        jobs.extend(part.map(|part| Job { keys: key_count(writes), part, writes, lost }));
    }
    let keys: u64 = jobs.iter().map(|job| job.keys).sum();
    if keys >= PARALLEL_FROM {
        jobs.par_iter_mut().try_for_each(|job| {
            job.run(store, seq)?;
            Part::resolve_all([&*job.part]);
            Ok::<_, StateError>(())
        })?;
    } else {
        // The shards with the most keys stay here, where what their keys read is in the processor's cache.
        jobs.sort_by_key(|job| Reverse(job.keys));
        let mut sum = 0;
        let is_own = |job: &&Job<'_>| {
            let is_own = sum < keys / 2;
            sum += job.keys;
            is_own
        };
        let own = jobs.iter().take_while(is_own).count();
        let (own, others) = jobs.split_at_mut(own);
        let run = |jobs: &mut [Job<'_>]| jobs.iter_mut().try_for_each(|job| job.run(store, seq));
        if others.iter().map(|job| job.keys).sum::<u64>() < BESIDE_FROM {
            run(own)?;
            run(others)?;
        } else {
            let run_and_hash = |jobs: &mut [Job<'_>]| {
                run(jobs)?;
                Part::resolve_all(jobs.iter().map(|job| &*job.part));
                Ok::<_, StateError>(())
            };
            let mut beside = Ok(());
            let here = rayon::in_place_scope(|scope| {
                scope.spawn(|_| beside = run_and_hash(others));
                run_and_hash(own)
            });
            here.and(beside)?;
        }
    }
    Ok((Version::of(parts, store, seq)?, logs))
}

/// Accounts and slots that are written.
pub(crate) fn key_count(writes: &[ShardWrite]) -> u64 {
    writes.iter().map(|write| 1 + write.slot_count() as u64).sum()
}
