//! Checkpoints: the rows of a shard brought up to a version, so that its log can begin anew.

use crate::{
    ACCOUNT_NODES, STORAGE_NODES, log,
    meta::{read_shard, write_shard},
    shard::{Awaited, apply},
    version::{Part, Version, account_rows, empty_part, storage_rows},
};
use alloy_primitives::B256;
use polytrie_kv::{Batch, Read};
use polytrie_state::StateError;
use polytrie_trie::{EMPTY_ROOT, RowSink, Rows, cow::CowTrie, state_error};
use std::sync::Arc;

/// A checkpoint is begun every so many changes, of one shard after the other.
pub(crate) const EVERY: u64 = 4;

/// The shard whose checkpoint is written with the change after `seq`, if one is.
pub(crate) const fn due_after(seq: u64) -> Option<usize> {
    if seq.is_multiple_of(EVERY) { Some((seq / EVERY % 16) as usize) } else { None }
}

/// Keys a block for which a checkpoint is given time. One core writes about five times as many in the time in which the
/// other executes a block, so it is done when it is needed.
const KEYS_A_BLOCK: u64 = 512;

/// How many changes after the one up to which it goes a checkpoint is written, by the keys it covers: at most so many
/// that it is done before the next one of its shard begins.
pub(crate) fn lag(keys: u64) -> u64 {
    (1 + keys / KEYS_A_BLOCK).min(EVERY * 12)
}

/// A checkpoint that was begun.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(crate) shard: usize,
    /// What the rows of the shard will hold.
    pub(crate) version: Arc<Version>,
    /// The change that it is written with, or a later one.
    pub(crate) due: u64,
    pub(crate) finished: Awaited<Finished>,
}

/// A checkpoint that can be written.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) rows: Batch,
    /// Bytes of nodes that the shard has in memory.
    pub(crate) bytes: usize,
}

/// What a shard's rows hold.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    pub(crate) part: Part,
    pub(crate) seq: u64,
}

/// What brings the rows of a shard up to a version, and its log and its own row with them.
pub(crate) fn checkpoint(
    shard: usize,
    part: &Part,
    seq: u64,
    saved: &Saved,
    store: &dyn Read,
) -> Result<Batch, StateError> {
    let mut nodes = Rows::new(Batch::new(), ACCOUNT_NODES);
    let leaves = part
        .write_since_and_list(&saved.part, saved.seq, &account_rows(store), &mut nodes)
        .map_err(state_error)?;
    let mut batch = nodes.into_inner();
    for (hash, leaf) in leaves {
        let before = leaf.before.map(|entry| entry.storage);
        let Some(entry) = leaf.after else {
            if before.is_some_and(|storage| !storage.is_empty()) {
                wipe(&mut batch, hash);
            }
            continue;
        };
        let mut sink = Rows::owned(Batch::new(), STORAGE_NODES, hash);
        let before = match before {
            Some(before) if entry.begun <= saved.seq => before,
            before => {
                // Whatever was there is gone, read or not.
                if before.is_some_and(|storage| !storage.is_empty()) {
                    sink.delete_all();
                }
                CowTrie::stored(EMPTY_ROOT)
            }
        };
        if !entry.storage.is_same(&before) {
            entry
                .storage
                .write_since(&before, saved.seq, &storage_rows(store, hash), &mut sink)
                .map_err(state_error)?;
        }
        batch.append(&sink.into_inner());
    }
    write_shard(&mut batch, shard, seq, &part.root_reference());
    log::remove_until(&mut batch, shard, seq);
    Ok(batch)
}

fn wipe(batch: &mut Batch, account: B256) {
    let mut rows = Rows::owned(std::mem::take(batch), STORAGE_NODES, account);
    rows.delete_all();
    *batch = rows.into_inner();
}

/// A shard as the store has it: its checkpoint, that with its log replayed, and the number of the last row of the log (or
/// of the checkpoint).
pub(crate) fn replay(store: &dyn Read, shard: usize) -> Result<(Saved, Part, u64), StateError> {
    let saved = match read_shard(store, shard)? {
        None => Saved { part: empty_part(shard), seq: 0 },
        Some((seq, reference)) => {
            let part = CowTrie::stored_part(shard as u8, &reference).map_err(|reason| {
                StateError::Corrupt(format!("the row of shard {shard} holds {reason}"))
            })?;
            Saved { part, seq }
        }
    };
    let mut part = saved.part.clone();
    let mut last = saved.seq;
    log::scan_shard(store, shard, |seq, row| {
        // The row that the first one follows may have gone with the checkpoint.
        let follows = row.before == last || (last == saved.seq && row.before < last);
        if seq <= last || !follows {
            return Err(StateError::Corrupt(format!(
                "the log of shard {shard} has change {seq}, which follows change {}, after change {last}",
                row.before
            )));
        }
        last = seq;
        part = apply(&part, &row.writes, store, seq)?;
        Ok(())
    })?;
    Ok((saved, part, last))
}
