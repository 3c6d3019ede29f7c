//! The journal: the writes of each block, from which delta and intermediate are rebuilt after a restart.
//!
//! `number → rlp([[flat key, value]…]) ‖ checksum`, where a value without bytes is a tombstone.

use crate::{
    JOURNAL,
    generation::{Change, Generation},
    keys::Key,
    meta::{Meta, Salted},
    value::Value,
};
use alloy_primitives::{Bytes, map::HashMap};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use polytrie_kv::{Batch, KeyRange, LiveSet, Read, Scratch, append_checksum, strip_checksum};
use polytrie_state::{Result, StateError, corrupt, each_row};
use polytrie_trie::{EMPTY_ROOT, LeafValue};
use std::{mem, ops::Range, sync::Arc};

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct Entry {
    key: Bytes,
    value: Bytes,
}

/// Adds the row of a block to a batch.
pub(crate) fn write(batch: &mut Batch, number: u64, changes: &[Change]) {
    let entries: Vec<Entry> = changes
        .iter()
        .map(|change| Entry {
            key: change.key.to_vec().into(),
            value: change.after.unwrap_or(Value::Tombstone).to_vec().into(),
        })
        .collect();
    let mut row = alloy_rlp::encode(&entries);
    let key = number.to_be_bytes();
    append_checksum(&key, &mut row);
    batch.put(JOURNAL, &key, &row);
}

/// Removes the row of a block.
pub(crate) fn remove(batch: &mut Batch, number: u64) {
    batch.delete(JOURNAL, &number.to_be_bytes());
}

/// Visits the rows of a range of blocks; every block of the range must have one.
pub(crate) fn scan_blocks(
    store: &dyn Read,
    blocks: Range<u64>,
    mut visit: impl FnMut(Vec<(Key, Value)>) -> Result<()>,
) -> Result<()> {
    let mut next = blocks.start;
    let (from, to) = (blocks.start.to_be_bytes(), blocks.end.to_be_bytes());
    if blocks.is_empty() {
        return Ok(());
    }
    each_row(store, JOURNAL, KeyRange::between(&from, &to), |key, row| {
        if key != next.to_be_bytes() {
            return Err(missing(next));
        }
        visit(decode(next, row)?)?;
        next += 1;
        Ok(())
    })?;
    if next == blocks.end { Ok(()) } else { Err(missing(next)) }
}

/// Rebuilds the trie of the writes of a range of blocks, which must have this root. It takes at most `budget` bytes
/// of memory, and applies the blocks in portions, so that not all their writes are in memory at once.
pub(crate) fn rebuild(
    (store, scratch): (&dyn Read, &Scratch),
    blocks: Range<u64>,
    expected: &Salted,
    (live, budget): (&LiveSet, usize),
) -> Result<Arc<Generation>> {
    let last = blocks.end.saturating_sub(1);
    let generation = Generation::new(expected.salt, scratch);
    let mut root = EMPTY_ROOT;
    let mut take = |written: HashMap<Key, Value>| -> Result<()> {
        if written.is_empty() {
            return Ok(());
        }
        let changes: Vec<Change> = written
            .into_iter()
            .map(|(key, value)| Change { key, before: None, after: Some(value) })
            .collect();
        root = generation.update(&changes)?;
        generation.remember(&changes, 0, live);
        if generation.bytes() > budget { generation.spill_all(live) } else { Ok(()) }
    };
    let mut written: HashMap<Key, Value> = HashMap::default();
    scan_blocks(store, blocks, |entries| {
        written.extend(entries);
        // Nodes take several times as much memory as the writes.
        let is_portion = written.len() * size_of::<(Key, Value)>() > budget / 8;
        if is_portion { take(mem::take(&mut written)) } else { Ok(()) }
    })?;
    take(written)?;
    if root != expected.root {
        return Err(corrupt!(
            "the journal up to block {last} makes root {root}, expected {}",
            expected.root
        ));
    }
    Ok(Arc::new(generation))
}

/// Returns the range of blocks whose writes are in the delta, and the range of those in the intermediate.
pub(crate) fn blocks_in_memory(meta: &Meta) -> (Range<u64>, Range<u64>) {
    let Some(number) = meta.number else { return (0..0, 0..0) };
    let boundary = meta.delta_after(number);
    let delta = (boundary + 1).max(meta.first)..number + 1;
    let start = (boundary.saturating_sub(meta.schedule.interval) + 1).max(meta.first);
    (delta, start..(boundary + 1).max(start))
}

/// Rebuilds delta and intermediate from the journal, with at most `budget` bytes of memory.
pub(crate) fn generations(
    (store, scratch): (&dyn Read, &Scratch),
    meta: &Meta,
    live: &LiveSet,
    budget: usize,
) -> Result<(Arc<Generation>, Arc<Generation>)> {
    let (delta, intermediate) = blocks_in_memory(meta);
    let each = (live, budget / 2);
    Ok((
        rebuild((store, scratch), delta, &meta.roots.delta, each)?,
        rebuild((store, scratch), intermediate, &meta.roots.intermediate, each)?,
    ))
}

fn decode(number: u64, row: &[u8]) -> Result<Vec<(Key, Value)>> {
    let damaged = || corrupt!("the row of block {number} in the journal is damaged");
    let body = strip_checksum(&number.to_be_bytes(), row).ok_or_else(damaged)?;
    let entries: Vec<Entry> = alloy_rlp::decode_exact(body).map_err(|_| damaged())?;
    entries
        .iter()
        .map(|entry| {
            let key = Key::parse(&entry.key).ok_or_else(damaged)?;
            Ok((key, Value::decode(&entry.value).map_err(|_| damaged())?))
        })
        .collect()
}

fn missing(number: u64) -> StateError {
    corrupt!("the journal has no row of block {number}")
}
