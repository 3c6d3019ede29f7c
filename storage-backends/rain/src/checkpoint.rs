//! Checkpoints: the rows of a shard brought up to a version, so that its log can start anew.
//!
//! After every fourth change the checkpoint of one shard, in turn, is computed on a worker thread. Its rows go into the
//! batch of a later block: the more keys it covers, the later. That block also removes the log up to the checkpoint.

use crate::{
    SHARD_COUNT, TRIE,
    gather::gather,
    log,
    meta::{read_shard, write_shard},
    shard::{Lost, apply},
    touches::Noted,
    version::{Part, empty_part},
    workers::Awaited,
};
use alloy_primitives::map::{B256Map, B256Set};
use polytrie_kv::{Batch, Read};
use polytrie_state::{Result, Touched, corrupt};
use polytrie_trie::{Ages, Nibbles, RowSink, cow::CowTrie};

/// Number of changes from one checkpoint to the next, which is of the next shard.
pub(crate) const EVERY: u64 = 4;

/// Largest number of changes between the last change of a checkpoint and the one it is written with.
const MOST_LAG: u64 = EVERY * 12;

/// Number of changes after which each shard has written a checkpoint, however many keys they change.
pub(crate) const CYCLE: u64 = EVERY * SHARD_COUNT as u64 + MOST_LAG;

/// Returns the shard that starts a checkpoint after the change `seq`; `None` if none does.
pub(crate) const fn due_after(seq: u64) -> Option<usize> {
    if seq.is_multiple_of(EVERY) { Some((seq / EVERY % SHARD_COUNT as u64) as usize) } else { None }
}

/// Number of keys for which a checkpoint is given the time of one block. A core of its own was seen to write about a
/// hundred a millisecond, and blocks that change three hundred take two or three. But the shards' cores are rarely
/// their own, and where memory is to be measured a thread visits every node of the shard, too: with 512, blocks among
/// 5,000,000 accounts waited for it.
const KEYS_A_BLOCK: u64 = 128;

/// Returns the number of changes between the last change of a checkpoint and the one it is written with, by the keys it
/// covers. It is at most 48, so that the checkpoint is done before the next one of its shard starts.
pub(crate) fn lag(keys: u64) -> u64 {
    (1 + keys / KEYS_A_BLOCK).min(MOST_LAG)
}

/// A checkpoint that was started and is not written.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(crate) shard: usize,
    /// Number of its last change.
    pub(crate) seq: u64,
    /// Number of the first change that it may be written with.
    pub(crate) due: u64,
    pub(crate) finished: Awaited<Finished>,
}

/// A checkpoint that can be written.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) rows: Batch,
    /// A copy of the rows, because the block that takes the first copy may be void. The worker thread copies them, not
    /// the block's.
    pub(crate) spare: Batch,
    /// What the nodes of the shard take in memory, if they were measured.
    pub(crate) size: Option<Box<Size>>,
}

/// The memory that the nodes of a shard take.
#[derive(Debug)]
pub(crate) struct Size {
    pub(crate) bytes: usize,
    /// The bytes by the number of changes up to `now` since the nodes were touched.
    ages: Ages,
    now: u64,
}

impl Size {
    /// Measures the nodes of a shard. Visits all of them.
    pub(crate) fn of(part: &Part, now: u64) -> Self {
        let mut ages = Ages::default();
        let bytes = part.add_ages(now, &mut ages);
        Self { bytes, ages, now }
    }

    /// Returns the number of the first change of which the nodes, with those of all later ones, take no more than this
    /// many bytes.
    pub(crate) fn used_since(&self, bytes: usize) -> u64 {
        let oldest = self.ages.oldest_within(bytes);
        oldest.map_or(self.now + 1, |age| self.now.saturating_sub(age.into()))
    }
}

/// A checkpoint with its rows in the batch of a finished block.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) shard: usize,
    pub(crate) seq: u64,
    pub(crate) due: u64,
    /// A copy of its rows, for another block if this one is void.
    pub(crate) spare: Batch,
    pub(crate) size: Option<Box<Size>>,
}

/// A shard as its rows hold it, and the number of its last change.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    pub(crate) part: Part,
    pub(crate) seq: u64,
}

/// Makes the batch that brings the rows of a shard from the change `since` to the change `seq`. The batch also has the
/// row of the shard, and removes its log.
pub(crate) fn checkpoint(
    shard: usize,
    part: &Part,
    (since, seq): (u64, u64),
    lost: &Lost,
    store: &dyn Read,
) -> Result<Batch> {
    let mut nodes = TRIE.account_sink(Batch::new());
    let account_rows = TRIE.account_rows(store);
    let leaves = part.write_since(since, &lost.accounts, &account_rows, &mut nodes)?;
    let mut batch = nodes.into_inner();
    let wiped: B256Set = lost.wiped.iter().copied().collect();
    for owner in &wiped {
        let mut rows = TRIE.storage_sink(batch, *owner);
        rows.delete_all();
        batch = rows.into_inner();
    }
    let mut gone: B256Map<Vec<Nibbles>> = B256Map::default();
    for (owner, paths) in lost.storages.iter().filter(|(owner, _)| !wiped.contains(owner)) {
        gone.entry(*owner).or_default().extend(paths);
    }
    let storages = leaves.into_iter().map(|(owner, entry)| {
        let paths = gone.remove(&owner).unwrap_or_default();
        (owner, &*entry.storage, paths)
    });
    batch = TRIE.write_storages_since(since, storages, store, batch)?;
    // The accounts left here lost slots and were then removed, or have again the content that they had.
    for (owner, paths) in gone {
        let mut rows = TRIE.storage_sink(batch, owner);
        match part.get(&owner, &account_rows, seq)? {
            Some(entry) => {
                let stored = TRIE.storage_rows(store, owner);
                drop(entry.storage.write_since(since, &paths, &stored, &mut rows)?);
            }
            None => paths.iter().for_each(|path| rows.delete(path)),
        }
        batch = rows.into_inner();
    }
    write_shard(&mut batch, shard, seq, &part.root_reference());
    log::remove(&mut batch, shard, (since, seq));
    Ok(batch)
}

/// A shard as the store has it.
pub(crate) struct Replayed {
    /// The shard at its checkpoint.
    pub(crate) saved: Saved,
    /// The shard after its log.
    pub(crate) part: Part,
    /// Rows that lost their node in the changes of the log.
    pub(crate) lost: Lost,
    /// Number of the last row of the log, or of the checkpoint if the log is empty.
    pub(crate) last: u64,
}

/// Reads the checkpoint of a shard and replays its log, after all nodes on the paths to its keys were read together.
/// Fails if a row of the log is damaged, or does not follow the row before it.
pub(crate) fn replay(store: &Noted<'_>, shard: usize) -> Result<Replayed> {
    let saved = match read_shard(store, shard)? {
        None => Saved { part: empty_part(shard), seq: 0 },
        Some((seq, reference)) => {
            let part = CowTrie::stored_part(shard as u8, &reference)
                .map_err(|reason| corrupt!("the row of shard {shard} holds {reason}"))?;
            Saved { part, seq }
        }
    };
    let mut part = saved.part.clone();
    let (mut rows, mut touched, mut last) = (Vec::new(), Touched::new(), saved.seq);
    log::scan_shard(store, shard, saved.seq, |seq, row| {
        // The row before the first one may have been removed with the checkpoint.
        let follows = row.before == last || (last == saved.seq && row.before < last);
        if seq <= last || !follows {
            return Err(corrupt!(
                "the log of shard {shard} has change {seq}, which follows change {}, after change {last}",
                row.before
            ));
        }
        last = seq;
        for write in &row.writes {
            let slots = touched.entry(write.hash).or_default();
            if !write.wipe {
                slots.extend(write.slots().map(|(slot, _)| slot));
            }
        }
        rows.push((seq, row));
        Ok(())
    })?;
    gather(|_| &part, store, &touched, last)?;
    let mut lost = Lost::default();
    for (seq, row) in rows {
        lost.absorb(apply(&mut part, &row.writes, store, seq)?);
    }
    Ok(Replayed { saved, part, lost, last })
}
