//! A change of the state, shard by shard, on several threads.

use crate::{
    SHARD_COUNT,
    log::ShardWrite,
    shard::{Lost, apply},
    touches::Source,
    version::{Part, Version, empty_part, shard_of},
};
use parking_lot::Mutex;
use polytrie_state::{Beside, Result, WriteSet};
use std::sync::Arc;

/// The shards that a change writes to, with the writes to log in each and the rows that lose their node.
pub(crate) type Logs = Vec<(usize, Vec<ShardWrite>, Lost)>;

/// Number of keys from which a second thread helps: with fewer, the change is done before one has woken up.
const BESIDE_FROM: u64 = 64;
/// Number of keys from which every core helps.
const PARALLEL_FROM: u64 = 1_024;

/// Makes the version after a change, and the writes that each shard is to log. Nodes of `from` that no other version
/// shares are changed in place. Other threads help, if they have time.
pub(crate) fn change(
    source: &Source,
    from: Version,
    writes: &WriteSet,
    seq: u64,
) -> Result<(Version, Logs)> {
    let mut parts = from.parts;
    let mut jobs: Vec<Job> = writes
        .accounts()
        .chunk_by(|a, b| shard_of(&a.hash) == shard_of(&b.hash))
        .map(|writes| {
            let shard = shard_of(&writes[0].hash);
            let part = std::mem::replace(&mut parts[shard], empty_part(shard));
            let writes: Vec<_> = writes.iter().map(ShardWrite::from).collect();
            Job { shard, keys: key_count(&writes), part, writes, lost: Lost::default() }
        })
        .collect();
    let keys = jobs.iter().map(|job| job.keys).sum();
    let threads = match keys {
        0..BESIDE_FROM => 1,
        BESIDE_FROM..PARALLEL_FROM => 2,
        PARALLEL_FROM.. => rayon::current_num_threads(),
    };
    // Nodes of several shards are hashed together, but a thread waits at the end for the last portion of another one.
    let portion = if threads == 1 { SHARD_COUNT } else { 1 };
    // One contract may have most of the keys. Jobs are taken from the end, so the largest are started first.
    jobs.sort_by_key(|job| job.keys);
    let jobs = Arc::new(Mutex::new(jobs));
    let helpers: Vec<_> = (1..threads)
        .map(|_| {
            let (jobs, source) = (jobs.clone(), source.clone());
            Beside::start(move || run(&jobs, portion, &source, seq))
        })
        .collect();
    let mut done = run(&jobs, portion, source, seq);
    for theirs in helpers.into_iter().filter_map(Beside::finish) {
        done = done.and_then(|mut done| {
            done.extend(theirs?);
            Ok(done)
        });
    }
    let mut done = done?;
    done.sort_unstable_by_key(|job| job.shard);
    let mut logs = Logs::with_capacity(done.len());
    for Job { shard, part, writes, lost, .. } in done {
        parts[shard] = part;
        logs.push((shard, writes, lost));
    }
    Ok((Version::of(parts, &source.noted(), seq)?, logs))
}

/// The change of one shard.
#[derive(Debug)]
struct Job {
    shard: usize,
    keys: u64,
    part: Part,
    writes: Vec<ShardWrite>,
    /// Rows of the shard that lose their node.
    lost: Lost,
}

/// Does jobs, `portion` of them at a time, until none is left or one fails. Returns the jobs that this thread has done.
fn run(jobs: &Mutex<Vec<Job>>, portion: usize, source: &Source, seq: u64) -> Result<Vec<Job>> {
    let mut done = Vec::new();
    loop {
        let mut mine = {
            let mut jobs = jobs.lock();
            let left = jobs.len().saturating_sub(portion);
            jobs.split_off(left)
        };
        if mine.is_empty() {
            return Ok(done);
        }
        for job in &mut mine {
            job.lost = apply(&mut job.part, &job.writes, &source.noted(), seq)?;
        }
        Part::resolve_all(mine.iter().map(|job| &job.part));
        done.append(&mut mine);
    }
}

/// Returns the number of accounts and slots that are written.
pub(crate) fn key_count(writes: &[ShardWrite]) -> u64 {
    writes.iter().map(|write| 1 + write.slot_count() as u64).sum()
}
