//! Filling an empty store from sorted accounts: every 50,000 accounts and slots become a change and a checkpoint, so
//! that a genesis of any size takes bounded memory.

use crate::{
    ACCOUNT_NODES, LOG, META, SHARD_COUNT, SHARDS, STORAGE_NODES,
    checkpoint::{Saved, checkpoint},
    log::ShardWrite,
    meta::{Meta, write_shard},
    shard::apply,
    touches::Noted,
    version::{Part, Version, empty_part, shard_of},
};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    CODE_TABLE, GenesisAccount, GenesisAccounts, Result, StateError, clear_tables,
    in_order_of_hash, write_code,
};
use polytrie_trie::cow::CowTrie;
use rayon::prelude::*;

/// Number of accounts and slots in a portion.
const PORTION: usize = 50_000;
/// Bytes of code that also fill a portion.
const CODE_BYTES: usize = 16 << 20;

/// Fills the store. An account goes with as many of its slots as the portion has room for. The next portions hold the
/// account again and add to its storage, as blocks would; its leaf follows the root of its storage each time.
pub(crate) fn load(store: &Store, accounts: GenesisAccounts<'_, '_>) -> Result<()> {
    clear_tables(store, &[ACCOUNT_NODES, STORAGE_NODES, SHARDS, LOG, META, CODE_TABLE])?;
    let mut saved: Vec<Saved> =
        (0..SHARD_COUNT).map(|shard| Saved { part: empty_part(shard), seq: 0 }).collect();
    let mut portion = Portion::default();
    for account in in_order_of_hash(accounts) {
        let GenesisAccount { hash, account, code, slots } = account?;
        write_code(&mut portion.codes, &account, code.as_ref());
        let mut slots = slots.peekable();
        loop {
            let room = PORTION - portion.entries - 1;
            let some = slots.by_ref().take(room).collect::<Result<Vec<_>, _>>()?;
            portion.entries += 1 + some.len();
            portion.writes.push(ShardWrite::new(hash, Some(account), false, some.into_iter()));
            if portion.entries >= PORTION || portion.codes.byte_len() >= CODE_BYTES {
                std::mem::take(&mut portion).write(store, &mut saved)?;
            }
            if slots.peek().is_none() {
                break;
            }
        }
    }
    portion.write(store, &mut saved)?;
    // Checkpoints hold all of it, so the changes are counted from zero.
    let mut batch = Batch::new();
    let parts: [Part; SHARD_COUNT] = std::array::from_fn(|shard| saved[shard].part.clone());
    for (shard, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        write_shard(&mut batch, shard, 0, &part.root_reference());
    }
    let root = Version::of(parts, store, 0)?.root;
    Meta { seq: 0, root }.write(&mut batch);
    Ok(store.engine_write(&batch)?)
}

#[derive(Default)]
struct Portion {
    writes: Vec<ShardWrite>,
    codes: Batch,
    entries: usize,
}

impl Portion {
    fn write(self, store: &Store, saved: &mut [Saved]) -> Result<()> {
        let mut batch = self.codes;
        let parts: Vec<&[ShardWrite]> =
            self.writes.chunk_by(|a, b| shard_of(&a.hash) == shard_of(&b.hash)).collect();
        let done: Vec<(usize, Part, Batch)> = parts
            .into_par_iter()
            .map(|writes| {
                let shard = shard_of(&writes[0].hash);
                let before = &saved[shard];
                let seq = before.seq + 1;
                let mut part = before.part.clone();
                let lost = apply(&mut part, writes, &Noted::plain(store), seq)?;
                CowTrie::resolve_all([&part]);
                let rows = checkpoint(shard, &part, (before.seq, seq), &lost, store)?;
                let part = Part::stored_part(shard as u8, &part.root_reference());
                Ok((shard, part.map_err(StateError::Protocol)?, rows))
            })
            .collect::<Result<_>>()?;
        for (shard, part, rows) in done {
            let seq = saved[shard].seq + 1;
            saved[shard] = Saved { part, seq };
            batch.append(&rows);
        }
        Ok(store.engine_write(&batch)?)
    }
}
